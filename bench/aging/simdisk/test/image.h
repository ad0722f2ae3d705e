// A sparse file for one test, as a device; it has no name any more.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include "lsmfs/device.h"

namespace lsmfs::simdisk {

inline std::unique_ptr<Device> image(std::uint64_t size) {
  const std::string path = testing::TempDir() + "/simdisk_test." + std::to_string(getpid());
  EXPECT_TRUE(create_image(path, ByteCount{size}));
  auto device = open_device(path, Access::read_write, Sharing::exclusive);
  EXPECT_TRUE(device);
  unlink(path.c_str());
  return std::move(*device);
}

}  // namespace lsmfs::simdisk

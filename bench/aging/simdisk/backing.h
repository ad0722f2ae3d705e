// The file that holds what the disk holds; it takes requests of any alignment.
//
// A loop device asks in sectors of 512 bytes, and the device below wants whole blocks (see lsmfs/device.h). What does
// not fit is read and written as whole blocks, alone: nothing else runs meanwhile.
//
// Threads: all functions from any thread.
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>

#include "lsmfs/device.h"
#include "simdisk/request.h"

namespace lsmfs::simdisk {

class Backing {
 public:
  // `device`: of a regular file, where a discarded range is a hole.
  explicit Backing(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  ByteCount size() const { return device_->size(); }
  // Ranges must lie within size().
  Result<void> read(ByteOffset from, MutableBytes to);
  Result<void> write(ByteOffset to, Bytes data);
  Result<void> flush() { return device_->flush(); }
  // Makes a hole, and zeros of the parts of blocks at its ends: the range reads as zeros, on which a loop device relies.
  // EOPNOTSUPP as Device::discard.
  Result<void> discard(ByteOffset from, ByteCount length);

 private:
  struct Blocks;
  Result<void> change(ByteOffset to, Bytes data);  // parts of blocks

  std::unique_ptr<Device> device_;
  std::shared_mutex mutex_;  // shared: requests of whole blocks; alone: those that read blocks to change parts
};

}  // namespace lsmfs::simdisk

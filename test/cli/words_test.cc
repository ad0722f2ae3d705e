// Sizes and mount options as people write them.

#include <gtest/gtest.h>

#include "cli/mount_options.h"
#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

TEST(Sizes, AreReadWithAndWithoutUnits) {
  EXPECT_EQ(parse_size("0"), ByteCount{0});
  EXPECT_EQ(parse_size("4096"), ByteCount{4096});
  EXPECT_EQ(parse_size("4096B"), ByteCount{4096});
  EXPECT_EQ(parse_size("64K"), ByteCount{64 * KiB});
  EXPECT_EQ(parse_size("512m"), ByteCount{512 * MiB});
  EXPECT_EQ(parse_size("4GiB"), ByteCount{4 * GiB});
  EXPECT_EQ(parse_size("4GB"), ByteCount{4 * GiB});
  EXPECT_EQ(parse_size("1T"), ByteCount{1024 * GiB});
  EXPECT_EQ(parse_size("2P"), ByteCount{2048 * 1024 * GiB});
  EXPECT_EQ(parse_size("9223372036854775808"), ByteCount{std::uint64_t{1} << 63});
  for (const char* bad : {"", "G", "4 G", "-1", "+1", "1.5G", "4X", "4GG", "4iB", "0x10", "4Gi", "9223372036854775809",
                          "9000P", "99999999999999999999999"}) {
    EXPECT_FALSE(parse_size(bad)) << bad;
  }
}

TEST(Sizes, AreWrittenShort) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1536), "1.50 KiB");
  EXPECT_EQ(format_size(128 * MiB), "128 MiB");
  EXPECT_EQ(format_size(6 * GiB), "6.00 GiB");
  EXPECT_EQ(format_size(std::uint64_t{1} << 63), "8192 PiB");
}

TEST(MountOptions, HaveDefaults) {
  const auto parsed = parse_mount_options({});
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->read_only || parsed->writeback);
  EXPECT_EQ(parsed->atime, AtimePolicy::relatime);
  EXPECT_EQ(parsed->cache, ByteCount{256 * MiB});
  EXPECT_EQ(parsed->sync_interval_ms, 5000u);
  EXPECT_TRUE(parsed->kernel.empty());
}

TEST(MountOptions, AreTakenInOrderAndTheLastCounts) {
  const auto parsed = parse_mount_options({"ro,noatime,,cache=64M", "rw,strictatime,sync_interval=0,latency=on,nodev"});
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_FALSE(parsed->read_only);
  EXPECT_EQ(parsed->atime, AtimePolicy::strictatime);
  EXPECT_EQ(parsed->cache, ByteCount{64 * MiB});
  EXPECT_EQ(parsed->sync_interval_ms, 0u);
  EXPECT_EQ(parsed->latency, IdleLatency::on);
  EXPECT_EQ(parsed->kernel, (std::vector<std::string>{"noatime", "atime", "nodev"}));
}

TEST(MountOptions, OfFstabAreIgnored) {
  const auto parsed = parse_mount_options({"defaults,auto,noauto,nofail,_netdev,user,x-a.b=c,comment=x"});
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_TRUE(parsed->kernel.empty());
}

TEST(MountOptions, ThatAreUnknownAreNamed) {
  for (const char* bad :
       {"colour", "cache", "cache=", "sync_interval=x", "latency", "nodiratime=1", "fd=3", "rootmode=0"}) {
    const auto parsed = parse_mount_options({std::string("ro,") + bad});
    ASSERT_FALSE(parsed) << bad;
    EXPECT_NE(parsed.error().context.find(bad), std::string::npos) << parsed.error().context;
  }
}

}  // namespace
}  // namespace lsmfs::cli

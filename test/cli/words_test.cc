// Sizes, mount options and mistyped words as people write them.

#include <gtest/gtest.h>

#include "cli/mount_options.h"
#include "cli/nearest.h"
#include "cli/sizes.h"

namespace lsmfs::cli::words_test {
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

TEST(MountOptions, ThatAreNotGivenAreNotSet) {
  const auto parsed = parse_mount_options({});
  ASSERT_TRUE(parsed);
  EXPECT_FALSE(parsed->remount || parsed->read_only);
  EXPECT_FALSE(parsed->atime || parsed->directory_atime || parsed->sync_interval_ms);
  EXPECT_FALSE(parsed->cache || parsed->latency || parsed->io_uring || parsed->writeback || parsed->acl || parsed->xattr || parsed->user_rm);
  EXPECT_TRUE(parsed->kernel.empty());
}

TEST(MountOptions, AreTakenInOrderAndTheLastCounts) {
  const auto parsed = parse_mount_options({"ro,suid,,cache=64M", "rw,strictatime,sync_interval=0,latency=on,io_uring=off,nodev"});
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_FALSE(parsed->read_only);
  EXPECT_EQ(parsed->atime, AtimePolicy::strictatime);
  EXPECT_EQ(parsed->cache, ByteCount{64 * MiB});
  EXPECT_EQ(parsed->sync_interval_ms, 0u);
  EXPECT_EQ(parsed->latency, Choice::on);
  EXPECT_EQ(parsed->io_uring, Choice::off);
  EXPECT_EQ(parsed->kernel, (std::vector<std::string>{"suid", "nodev"}));
}

TEST(MountOptions, OfAccessTimesTheLastCountsThatIsNotTakenBack) {
  using enum AtimePolicy;
  const std::pair<const char*, AtimePolicy> cases[] = {
      {"noatime", noatime}, {"strictatime", strictatime}, {"relatime", relatime}, {"noatime,relatime", relatime},
      {"relatime,noatime", noatime}, {"noatime,strictatime", strictatime}, {"strictatime,relatime", relatime},
      {"noatime,atime", relatime}, {"strictatime,noatime,atime", strictatime}, {"strictatime,atime", strictatime},
      {"atime", relatime}, {"norelatime", relatime}, {"nostrictatime", relatime}, {"strictatime,nostrictatime,noatime", noatime}};
  for (const auto& [list, policy] : cases) {
    const auto parsed = parse_mount_options({list});
    EXPECT_EQ(parsed->atime, policy) << list;
    EXPECT_FALSE(parsed->directory_atime) << list;
  }
  EXPECT_EQ(parse_mount_options({"nodiratime"})->directory_atime, false);
  EXPECT_EQ(parse_mount_options({"nodiratime,diratime"})->directory_atime, true);
  EXPECT_FALSE(parse_mount_options({"nodiratime"})->atime);
}

// It would take what is not said as not wanted.
TEST(MountOptions, OfAccessTimesTheKernelIsToldAllOrNothing) {
  using enum AtimePolicy;
  using Words = std::vector<std::string>;
  EXPECT_EQ(parse_mount_options({"nodev"})->kernel_options(noatime, false), Words{"nodev"});
  EXPECT_EQ(parse_mount_options({"nodiratime,lazytime,noatime"})->kernel_options(relatime, true), (Words{"lazytime", "noatime", "nodiratime"}));
  EXPECT_EQ(parse_mount_options({"nodiratime"})->kernel_options(strictatime, true), (Words{"strictatime", "nodiratime"}));
  EXPECT_EQ(parse_mount_options({"diratime"})->kernel_options(noatime, false), Words{"noatime"});
  EXPECT_EQ(parse_mount_options({"atime"})->kernel_options(noatime, false), (Words{"relatime", "nodiratime"}));
}

TEST(MountOptions, OfFstabAreIgnored) {
  const auto parsed = parse_mount_options({"defaults,auto,noauto,nofail,_netdev,user,users,owner,group,x-a.b=c,X-mount.mkdir,"
                                           "comment=x,user=somebody,silent"});
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_TRUE(parsed->kernel.empty());
}

TEST(MountOptions, MayHaveCommasBetweenDoubleQuotes) {
  const auto parsed = parse_mount_options({R"(context="system_u:object_r:x_t:s0:c1,c2",nodev,rootcontext=a:b:c:s0)", R"(ro,fscontext="x,ro,y",defcontext=d)"});
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_EQ(parsed->kernel, (std::vector<std::string>{R"(context="system_u:object_r:x_t:s0:c1,c2")", "nodev", "rootcontext=a:b:c:s0",
                                                      R"(fscontext="x,ro,y")", "defcontext=d"}));
  EXPECT_TRUE(parsed->read_only);
  EXPECT_TRUE(parse_mount_options({R"(comment="one, two",noatime)"}));
  EXPECT_FALSE(parse_mount_options({R"(colour="red,ro")"}));
  EXPECT_TRUE(parse_mount_options({R"(context="open)"})) << "is the kernel's matter";
}

TEST(MountOptions, OfOtherFileSystemsAreAnsweredWithAHint) {
  for (const char* word : {"discard", "discard=async", "user_xattr", "nouser_xattr", "data=ordered", "barrier", "nobarrier", "errors=remount-ro", "commit=30", "usrquota", "grpjquota=x",
                           "stripe=64", "journal_ioprio=3", "grpid", "dax", "compress=zstd", "compress-force=zstd", "subvol=@home", "ssd", "space_cache=v2",
                           "nodatacow", "autodefrag", "degraded", "logbufs=8", "inode64", "allocsize=64k", "noquota", "nouuid", "wsync", "uid=1000"}) {
    const auto parsed = parse_mount_options({word});
    ASSERT_FALSE(parsed) << word;
    EXPECT_TRUE(parsed.error().context.starts_with(std::string("option ") + word + ": ")) << parsed.error().context;
    EXPECT_EQ(parsed.error().context.find("unknown"), std::string::npos) << parsed.error().context;
    EXPECT_TRUE(parse_mount_options({word}, true)) << word << ", when sloppy";
  }
}

TEST(MountOptions, OfTheMountTableAreThereForARemountOnly) {
  const char* list = "ro,noatime,user_id=0,group_id=0,default_permissions,allow_other,blksize=4096,remount";
  const auto parsed = parse_mount_options({list});
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_TRUE(parsed->remount && parsed->read_only);
  EXPECT_FALSE(parse_mount_options({"user_id=0"}));
}

TEST(MountOptions, ThatAreUnknownArePassedOverWhenSloppyAndBadOnesAreNot) {
  const auto parsed = parse_mount_options({"colour=red,noatime"}, true);
  ASSERT_TRUE(parsed) << parsed.error().context;
  EXPECT_EQ(parsed->atime, AtimePolicy::noatime);
  EXPECT_FALSE(parse_mount_options({"cache=much"}, true));
}

TEST(MountOptions, ThatAreUnknownAreNamed) {
  for (const char* bad :
       {"colour", "cache", "cache=", "sync_interval=x", "latency", "io_uring", "nodiratime=1", "fd=3", "rootmode=0"}) {
    const auto parsed = parse_mount_options({std::string("ro,") + bad});
    ASSERT_FALSE(parsed) << bad;
    EXPECT_NE(parsed.error().context.find(bad), std::string::npos) << parsed.error().context;
  }
}

TEST(Nearest, IsTheOneWithTheFewestMistakesUnlessTheyAreMany) {
  constexpr std::string_view kWords[] = {"relatime", "noatime", "nodiratime", "ro", "writeback"};
  EXPECT_EQ(nearest("relatme", kWords), "relatime");
  EXPECT_EQ(nearest("raletime", kWords), "relatime");
  EXPECT_EQ(nearest("noattime", kWords), "noatime");
  EXPECT_EQ(nearest("nodirtaime", kWords), "nodiratime");
  EXPECT_EQ(nearest("noatime", kWords), "noatime");
  EXPECT_EQ(nearest("or", kWords), "ro");
  EXPECT_EQ(nearest("wroteback", kWords), "writeback");
  for (const std::string& far : {std::string("colour"), std::string("x"), std::string(), std::string(100'000, 'r')}) EXPECT_EQ(nearest(far, kWords), "") << far.substr(0, 10);
}

}  // namespace
}  // namespace lsmfs::cli::words_test

// lsmfs tune: what it changes, what it refuses, and that a mount goes by the options that a volume keeps.

#include <gtest/gtest.h>

#include "cli/program.h"

namespace lsmfs::test::tune_test {
namespace {

class Tune : public Folder {
 protected:
  // The value of a line that `lsmfs info` prints, "" if there is none.
  std::string fact(const std::string& what, const std::string& name) {
    const std::string text = accepted({"info", what});
    const auto at = text.find(name + ": ");
    if (at == text.npos) return "";
    const auto begin = text.find_first_not_of(' ', at + name.size() + 1);
    return text.substr(begin, text.find('\n', begin) - begin);
  }
};

TEST_F(Tune, ChangesAllThatIsAskedForAndNothingElse) {
  const std::string image = make_image("image", {"-L", "old"});
  const std::string uuid = fact(image, "uuid");
  EXPECT_EQ(accepted({"tune", "-L", "new", image}), image + ": label new\n");
  EXPECT_EQ(fact(image, "label"), "new");
  EXPECT_EQ(fact(image, "uuid"), uuid);
  EXPECT_EQ(fact(image, "options"), "");
  EXPECT_EQ(accepted({"tune", "-o", "noatime,cache=32M", "-L", "", image}), image + ": label (none)\n" + image + ": mount options noatime,cache=32M\n");
  EXPECT_EQ(fact(image, "label"), "(none)");
  EXPECT_EQ(fact(image, "options"), "noatime,cache=32M");
  accepted({"tune", "-o", "", image});
  EXPECT_EQ(fact(image, "options"), "");
  accepted({"fsck", image});
}

TEST_F(Tune, SaysWhoDoesNotFindItByItsUuidAnyMore) {
  const std::string image = make_image("image");
  const std::string old = fact(image, "uuid"), chosen = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
  const Outcome done = run({"tune", "-U", "1B4E28BA-2fa1-41d2-883f-0016d3cca427", image});
  EXPECT_EQ(done.code, 0);
  EXPECT_TRUE(done.is_one_line()) << done.err;
  EXPECT_NE(done.err.find("UUID=" + old), done.err.npos) << done.err;
  EXPECT_EQ(done.out, image + ": UUID " + chosen + "\n");
  EXPECT_EQ(fact(image, "uuid"), chosen);
  EXPECT_EQ(run({"tune", "--uuid", "random", image}).code, 0);
  EXPECT_NE(fact(image, "uuid"), chosen);
  accepted({"fsck", image});
}

TEST_F(Tune, RefusesWhatCannotBeAndChangesNothing) {
  const std::string image = make_image("image");
  const auto before = sum("image");
  refused(1, {"tune", image}, {"nothing to change", "--help"});
  refused(1, {"tune", "-L", std::string(65, 'x'), image}, {"label", "64"});
  for (const char* uuid : {"x", "1b4e28ba2fa141d2883f0016d3cca427", "1b4e28ba-2fa1-41d2-883f-0016d3cca42", "1b4e28ba-2fa1-41d2-883f-0016d3cca4277", "+b4e28ba-2fa1-41d2-883f-0016d3cca427"}) {
    refused(1, {"tune", std::string("--uuid=") + uuid, image}, {"is no UUID"});
  }
  refused(1, {"tune", "-o", "noatime,compress=zstd", image}, {"compress=zstd", "all is compressed"});
  for (const char* option : {"allow_other", "user_rm", "remount", "suid", "dev", "exec", "nofail", "x-systemd.automount", "io_uring=on"}) {
    refused(1, {"tune", "-o", std::string("noatime,") + option, image}, {option, "is not kept"});
  }
  std::string many = "noatime";
  while (many.size() <= 256) many += ",noatime";
  refused(1, {"tune", "-o", many, image}, {"256"});
  refused(1, {"tune", "-L", "x", path("missing")}, {"does not exist"});
  refused(1, {"tune", "-L", "x", folder()}, {"not in an lsmfs"});
  make_file("other", MiB * 200);
  refused(1, {"tune", "-L", "x", path("other")}, {"is not lsmfs"});
  EXPECT_EQ(sum("image"), before);
}

class TuneMounted : public MountFolder {};

TEST_F(TuneMounted, AMountGoesByTheOptionsThatAreKept) {
  const std::string image = make_image("image"), point = make_directory("point");
  accepted({"tune", "-o", "noatime,io_uring=off,cache=32M", image});
  accepted({"mount", image, point});
  EXPECT_NE(accepted({"info", "--json", point}).find("\"cache_bytes\": 33554432"), std::string::npos);
  accepted({"umount", point});
  accepted({"mount", "-o", "cache=48M", image, point});
  EXPECT_NE(accepted({"info", "--json", point}).find("\"cache_bytes\": 50331648"), std::string::npos);
}

TEST_F(TuneMounted, OnlyTheLabelChangesMeanwhile) {
  const std::string image = make_image("image"), point = make_directory("point");
  accepted({"mount", image, point});
  for (const std::string& where : {image, point}) {
    refused(1, {"tune", "-L", "x", "-U", "random", where}, {"is mounted", "unmount it first"});
    refused(1, {"tune", "-o", "ro", where}, {"is mounted", "unmount it first"});
  }
  EXPECT_NE(accepted({"info", point}).find("(none)"), std::string::npos);
  accepted({"tune", "-L", "from image", image});
  EXPECT_NE(accepted({"info", point}).find("from image"), std::string::npos);
  accepted({"tune", "-L", "from point", point});
  EXPECT_NE(accepted({"info", point}).find("from point"), std::string::npos);
}

TEST_F(TuneMounted, WhatAStrangerWroteThereIsToldAndNotTaken) {
  const std::string image = make_image("image"), point = make_directory("point");
  accepted({"tune", "-o", "nosuid,nodev", image});
  // As a program that keeps more would write it, in both copies.
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{127 * MiB}}) {
    std::string block = read("image", at, 4096);
    block.replace(240, 12, "suid,nodev,,");
    for (std::size_t i = 16; i < 24; ++i) block[i] = 0;
    std::string sum;
    put_le64(sum, checksum(block));
    block.replace(16, 8, sum);
    patch("image", at, block);
  }
  const Outcome mounted = run({"mount", image, point});
  EXPECT_EQ(mounted.code, 0) << mounted.err;
  EXPECT_TRUE(mounted.is_one_line()) << mounted.err;
  EXPECT_NE(mounted.err.find("are not taken"), mounted.err.npos) << mounted.err;
}

}  // namespace
}  // namespace lsmfs::test::tune_test

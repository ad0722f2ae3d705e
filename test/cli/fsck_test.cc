// lsmfs fsck, and fsck.lsmfs as fsck(8) calls it: what it says, and its exit codes.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "lsmfs/kv.h"
#include "noise.h"

namespace lsmfs::test::fsck_test {
namespace {

class Fsck : public Folder {
 protected:
  // Changes the rows of the file system in an image, past all that keeps them sound.
  void damage_rows(const std::string& name, const std::function<void(Batch&)>& how) {
    const auto device = open_device(path(name), Access::read_write, Sharing::exclusive);
    ASSERT_TRUE(device);
    const auto volume = Volume::open(**device);
    ASSERT_TRUE(volume);
    const auto store = Store::open(**volume, {});
    ASSERT_TRUE(store);
    Batch batch;
    how(batch);
    ASSERT_TRUE((*store)->commit(batch));
    ASSERT_TRUE((*store)->close());
  }
  // It must find problems, say so on stdout only, and change nothing.
  std::string finds(const std::vector<std::string>& arguments, const Circumstances& circumstances = {.name = "fsck.lsmfs"}) {
    const auto before = sum("image");
    const Outcome outcome = run(arguments, circumstances);
    EXPECT_EQ(outcome.code, 4) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(sum("image"), before);
    return outcome.out;
  }
};
class FsckMounted : public MountFolder {};

TEST_F(Fsck, ASoundImageIsCleanAndStaysAsItIs) {
  make_image("image");
  const auto before = sum("image");
  EXPECT_EQ(accepted({"fsck", path("image")}), path("image") + ": clean: 0 files, 1 directories, 0 symbolic links, 0 others\n");
  EXPECT_EQ(sum("image"), before);
}

TEST_F(Fsck, TakesTheOptionsOfFsck8) {
  make_image("image");
  for (const char* name : {"/sbin/fsck.lsmfs", "fsck.fuse.lsmfs", "fsck.fuseblk.lsmfs"}) {
    for (const std::vector<std::string>& options :
         std::vector<std::vector<std::string>>{{"-a"}, {"-p"}, {"-y"}, {"-n"}, {"-f"}, {"-C"}, {"-C0"}, {"-C", "0"}, {"-v"}, {"-t"}, {"-pf", "-C0"}}) {
      std::vector<std::string> arguments = options;
      arguments.push_back(path("image"));
      EXPECT_NE(accepted(arguments, {.name = name}).find("clean"), std::string::npos);
    }
  }
}

TEST_F(Fsck, ProgressIsWrittenForTheProgramThatAsks) {
  make_image("image");
  const std::string text = accepted({"fsck", "-C1", path("image")});
  EXPECT_TRUE(text.starts_with("1 0 100 " + path("image") + "\n")) << text;
  EXPECT_NE(text.find("\n1 100 100 " + path("image") + "\n"), std::string::npos) << text;
  EXPECT_EQ(accepted({"fsck", "-C", "77", path("image")}).find("100"), std::string::npos) << "which is not open";
}

TEST_F(Fsck, WhatCannotBeCheckedIsRefused) {
  refused(8, {"fsck", path("missing")}, {path("missing"), "does not exist"});
  refused(8, {"fsck", folder()}, {"neither"});
  refused(8, {"fsck", "LABEL=no-such-label"}, {"no block device"});
  make_file("zeros", 150 * MiB);
  refused(8, {"fsck", path("zeros")}, {path("zeros"), "not lsmfs", "is empty"});
  refused(16, {"fsck"}, {"lsmfs fsck --help"});
  refused(16, {"-z", path("zeros")}, {"-z", "fsck.lsmfs --help"}, {.name = "fsck.lsmfs"});
  refused(16, {path("zeros"), path("zeros")}, {path("zeros")}, {.name = "fsck.lsmfs"});
  accepted({"fsck", "--help"});
}

TEST_F(Fsck, ADamagedSuperblockIsAProblemAlsoWhenTheOtherIsSound) {
  make_image("image");
  const std::string first = read("image", 0, 4096), second = read("image", 127 * MiB, 4096);
  patch("image", 100, "damage");
  EXPECT_NE(finds({path("image")}).find("first superblock is damaged"), std::string::npos);
  patch("image", 127 * MiB + 100, "damage");
  EXPECT_NE(finds({path("image")}).find("both superblocks are damaged"), std::string::npos);
  patch("image", 0, first);
  EXPECT_NE(finds({path("image")}).find("second superblock is damaged"), std::string::npos);
  patch("image", 127 * MiB, second);
  accepted({path("image")}, {.name = "fsck.lsmfs"});
}

TEST_F(Fsck, DamageThatKeepsItFromBeingOpenedIsAProblem) {
  make_image("image");
  patch("image", 1 * MiB, std::string(4096, 'x'));
  patch("image", 2 * MiB, std::string(4096, 'x'));
  const std::string text = finds({path("image")});
  EXPECT_NE(text.find("metadata"), std::string::npos) << text;
  EXPECT_NE(text.find("1 problem found, nothing repaired"), std::string::npos) << text;
}

TEST_F(Fsck, RowsThatDoNotAgreeAreNamedLineByLineAndNothingIsRepaired) {
  make_image("image");
  damage_rows("image", [](Batch& batch) {
    batch.erase(Family::names, "/s");
    batch.put(Family::names, "/x", "what is this");
  });
  const std::string text = finds({path("image")});
  EXPECT_NE(text.find(path("image") + ": a row of names has the unknown key 2f78\n"), std::string::npos) << text;
  EXPECT_NE(text.find(path("image") + ": the row of the tree's state is missing\n"), std::string::npos) << text;
  EXPECT_NE(text.find("2 problems found, nothing repaired"), std::string::npos) << text;
  EXPECT_EQ(finds({"-n", path("image")}), text);
  EXPECT_EQ(finds({"fsck", path("image")}, {}), text);
  for (const char* option : {"-a", "-p"}) {
    EXPECT_NE(finds({option, path("image")}).find("nothing repaired, since something is lost: run lsmfs fsck -y"), std::string::npos) << option;
  }
}

TEST_F(Fsck, ProblemsAreRepairedWhenThatIsAskedFor) {
  make_image("image");
  damage_rows("image", [](Batch& batch) {
    batch.erase(Family::names, "/s");
    batch.put(Family::names, "/x", "what is this");
  });
  const Outcome repaired = run({"-y", path("image")}, {.name = "fsck.lsmfs"});
  EXPECT_EQ(repaired.code, 1) << repaired.out << repaired.err;
  EXPECT_EQ(repaired.err, "");
  EXPECT_NE(repaired.out.find(path("image") + ": a row of names has the unknown key 2f78\n"), std::string::npos) << repaired.out;
  EXPECT_NE(repaired.out.find(": erased\n"), std::string::npos) << repaired.out;
  EXPECT_NE(repaired.out.find("repaired: 0 files"), std::string::npos) << repaired.out;
  accepted({"fsck", path("image")});
}

TEST_F(Fsck, WhatLosesNothingIsRepairedWithoutAsking) {
  for (const std::string option : {"-a", "-p"}) {
    const std::string image = "image" + option;
    make_image(image);
    patch(image, 100, "damage");
    damage_rows(image, [](Batch& batch) { batch.erase(Family::names, "/s"); });
    const Outcome repaired = run({option, path(image)}, {.name = "fsck.lsmfs"});
    EXPECT_EQ(repaired.code, 1) << repaired.out << repaired.err;
    EXPECT_NE(repaired.out.find("superblocks was damaged: written again"), std::string::npos) << repaired.out;
    accepted({"fsck", path(image)});
  }
}

TEST_F(Fsck, OnlyOneOfTheWaysToRepairCanBeAskedFor) {
  make_image("image");
  refused(16, {"-n", "-y", path("image")}, {"-y", "fsck.lsmfs --help"}, {.name = "fsck.lsmfs"});
  refused(16, {"-p", "-y", path("image")}, {"-y"}, {.name = "fsck.lsmfs"});
}

TEST_F(Fsck, WhatCannotBeRepairedIsSaid) {
  make_image("image");
  patch("image", 100, "damage");
  patch("image", 127 * MiB + 100, "damage");
  const Outcome outcome = run({"-y", path("image")}, {.name = "fsck.lsmfs"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_NE(outcome.out.find("cannot be repaired: "), std::string::npos) << outcome.out;
}

TEST_F(Fsck, ADeviceThatHasBecomeShorterIsNoDamage) {
  make_image("image");
  std::filesystem::resize_file(path("image"), std::filesystem::file_size(path("image")) - MiB);
  for (const char* how : {"-n", "-p", "-y"}) refused(8, {"fsck", how, path("image")}, {"enlarge it again"});
  std::filesystem::resize_file(path("image"), std::filesystem::file_size(path("image")) + MiB);
}

TEST_F(Fsck, LongListsEndWithTheirNumber) {
  make_image("image");
  damage_rows("image", [](Batch& batch) {
    for (int i = 0; i < 1005; ++i) batch.put(Family::names, "/y" + std::to_string(i), "");
  });
  const std::string text = finds({path("image")});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1002);
  EXPECT_NE(text.find("and 5 more\n"), std::string::npos);
  EXPECT_NE(text.find("1005 problems found"), std::string::npos);
}

TEST_F(FsckMounted, WhatIsMountedIsRefused) {
  make_image("image");
  make_directory("mnt");
  accepted({"mount", path("image"), path("mnt"), "--log", path("log")});
  refused(8, {"fsck", path("image")}, {path("image"), "in use", path("mnt")});
  refused(8, {"-a", "-f", path("image")}, {"in use", path("mnt")}, {.name = "fsck.lsmfs"});
  accepted({"umount", path("mnt")});
  accepted({"fsck", path("image")});
}

TEST_F(FsckMounted, AFlippedBitInAFileIsFound) {
  make_image("image");
  make_directory("mnt");
  std::string data(100'000, 0);
  fill_with_noise(3, data);
  accepted({"mount", path("image"), path("mnt"), "--log", path("log")});
  std::ofstream(path("mnt/file"), std::ios::binary) << data;
  accepted({"umount", path("mnt")});
  EXPECT_NE(accepted({"fsck", path("image")}).find("clean: 1 files"), std::string::npos);
  // It may also lie in a log that is not needed any more.
  const std::string image = read("image", 0, 128 * MiB), part = data.substr(50'000, 64), other(1, static_cast<char>(part[0] ^ 1));
  int found = 0;
  for (auto at = image.find(part); at != std::string::npos; at = image.find(part, at + 1), ++found) patch("image", at, other);
  ASSERT_GT(found, 0);
  const Outcome outcome = run({"fsck", path("image")});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_NE(outcome.out.find(path("image") + ": table "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("file data from the beginning on cannot be read"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace lsmfs::test::fsck_test

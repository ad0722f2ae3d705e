// The directory of snapshots through the kernel: it is found and never listed, and what is in it says of what it is a snapshot.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "fuse/control/requests.h"
#include "fuse/mounted.h"
#include "until.h"

namespace lsmfs::test::snapshot_test {
namespace {

class Snapshots : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    mounted_ = std::make_unique<Mounted>(tree_);
    for (const char* dir : {"d", "d/a"}) ASSERT_EQ(::mkdir(path(dir).c_str(), 0755), 0);
    ASSERT_EQ(write_file(path("d/a/f"), "data"), 0);
  }

  std::string path(const std::string& name) const { return mounted_->path(name); }
  struct stat facts(const std::string& name) const {
    struct stat facts {};
    EXPECT_EQ(::lstat(path(name).c_str(), &facts), 0) << name;
    return facts;
  }
  // 0 or errno.
  int snapshot(const std::string& source, const std::string& name) {
    const auto made = clone_in_mount(path(source), path(".snapshots"), name);
    return made ? 0 : made.error().code;
  }
  int failure_of_info(const std::string& of) {
    const auto info = snapshot_info_of(of);
    return info ? 0 : info.error().code;
  }
  std::set<std::string> names(const std::string& dir) const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path(dir))) names.insert(entry.path().filename());
    return names;
  }

  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;  // goes first
};

TEST_F(Snapshots, TheirDirectoryIsFoundAndNeverListed) {
  for (int walk = 0; walk < 2; ++walk) {
    EXPECT_EQ(names("."), std::set<std::string>{"d"});
    const auto found = facts(".snapshots");
    EXPECT_EQ(found.st_ino, kSnapshotsIno.v);
    EXPECT_EQ(found.st_mode, S_IFDIR | 0755u);
    EXPECT_EQ(found.st_uid, 0u);
    EXPECT_EQ(found.st_dev, facts(".").st_dev);
    EXPECT_EQ(facts(".snapshots/..").st_ino, facts(".").st_ino);
    EXPECT_EQ(names(".snapshots"), std::set<std::string>{});
  }
  EXPECT_EQ(facts(".").st_nlink, 3u);
  EXPECT_EQ(result_of(::mkdir(path(".snapshots").c_str(), 0755)), EEXIST);
  EXPECT_EQ(result_of(::access(path("d/.snapshots").c_str(), F_OK)), ENOENT) << "only the root has it";
}

TEST_F(Snapshots, OneIsFoundWhateverTheKernelHasCached) {
  ASSERT_EQ(result_of(::access(path(".snapshots/s/a/f").c_str(), F_OK)), ENOENT);  // a name that is not there
  EXPECT_EQ(names(".snapshots"), std::set<std::string>{});                         // and a listing
  ASSERT_EQ(snapshot("d", "s"), 0);
  EXPECT_EQ(read_file(path(".snapshots/s/a/f")), "data");
  EXPECT_EQ(names(".snapshots"), std::set<std::string>{"s"});
  EXPECT_EQ(facts(".snapshots").st_nlink, 3u);
  ASSERT_EQ(snapshot(".", "all"), 0) << "the root, too: they are not below it for this";
  EXPECT_EQ(read_file(path(".snapshots/all/d/a/f")), "data");
  EXPECT_EQ(names(".snapshots/all"), std::set<std::string>{"d"});
  EXPECT_EQ(snapshot("d", "s"), EEXIST);
  EXPECT_EQ(snapshot(".snapshots", "of all"), EINVAL);
  EXPECT_EQ(names("."), std::set<std::string>{"d"});
}

TEST_F(Snapshots, OneIsRenamedAndRemovedByItsName) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  ASSERT_EQ(snapshot("d", "other"), 0);
  ASSERT_EQ(::rename(path(".snapshots/s").c_str(), path(".snapshots/t").c_str()), 0);
  EXPECT_EQ(names(".snapshots"), (std::set<std::string>{"other", "t"}));
  EXPECT_EQ(read_file(path(".snapshots/t/a/f")), "data");
  ASSERT_TRUE(remove_tree_of_mount(path(".snapshots/t")));
  EXPECT_EQ(result_of(::access(path(".snapshots/t").c_str(), F_OK)), ENOENT);
  EXPECT_EQ(names(".snapshots"), std::set<std::string>{"other"});
  EXPECT_EQ(facts(".snapshots").st_nlink, 3u);
  ASSERT_EQ(snapshot("d", "t"), 0) << "the name is free again";
  EXPECT_EQ(read_file(path(".snapshots/t/a/f")), "data");
}

TEST_F(Snapshots, AnOrdinaryDirectoryIsNotMadeThere) {
  EXPECT_EQ(result_of(::mkdir(path(".snapshots/c").c_str(), 0755)), EROFS);
  EXPECT_EQ(names(".snapshots"), std::set<std::string>{});
}

// Of the two reasons for EROFS this one is not that the wish was forgotten.
TEST_F(Snapshots, AMountThatIsReadOnlyTakesNone) {
  const std::string shown = path("d/a");
  ASSERT_EQ(::mount(mounted_->root().c_str(), shown.c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, shown.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
  const auto made = clone_in_mount(shown + "/d", shown + "/.snapshots", "s");
  EXPECT_EQ(::umount(shown.c_str()), 0);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, EROFS);
  // Nor is it where the tree takes no changes any more.
  tree_.set_hook([](const std::string& name, Wait) { return name == "clone" ? Result<void>(make_error(EROFS, "")) : Result<void>(); });
  EXPECT_EQ(snapshot("d", "s"), EROFS);
}

TEST_F(Snapshots, OneSaysWhenItWasMadeAndOfWhat) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  const auto made = facts(".snapshots/s").st_ctim;
  for (const std::string& of : {std::string("/"), std::string("/d"), std::string("/with\nbreak \xff"), "/" + std::string(5000, 'x'),
                                "/" + std::string(sizeof SnapshotMessage::of - 1, 'y')}) {
    tree_.set_snapshots_of(of);
    const auto info = snapshot_info_of(path(".snapshots/s"));
    ASSERT_TRUE(info) << info.error().message();
    EXPECT_EQ(info->of, of);
    EXPECT_EQ(info->made, (Time{made.tv_sec, static_cast<std::uint32_t>(made.tv_nsec)}));
  }
  tree_.set_snapshots_of("/" + std::string(sizeof SnapshotMessage::of, 'y'));
  EXPECT_EQ(failure_of_info(path(".snapshots/s")), EMSGSIZE) << "nothing is cut";
}

TEST_F(Snapshots, WhatIsNoSnapshotSaysSo) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  for (const char* name : {".", "d", "d/a/f", ".snapshots", ".snapshots/s/a"}) EXPECT_EQ(failure_of_info(path(name)), EINVAL) << name;
  EXPECT_EQ(failure_of_info(path("missing")), ENOENT);
  EXPECT_EQ(failure_of_info("/proc"), ENOTTY);
}

TEST_F(Snapshots, WhereItHasToBeWaitedForTheFactsItIs) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  tree_.set_hook([](const std::string& name, Wait wait) {
    return name == "snapshot_info" && wait == Wait::no ? Result<void>(make_error(EAGAIN, "")) : Result<void>();
  });
  EXPECT_EQ(failure_of_info(path(".snapshots/s")), 0);
  EXPECT_EQ(tree_.calls("snapshot_info"), 2u);
}

// Through a mapping the kernel takes bytes before it asks.
TEST_F(Snapshots, BytesThatWereRefusedAreNotShown) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  tree_.set_hook([](const std::string& name, Wait) { return name == "write" ? Result<void>(make_error(EROFS, "")) : Result<void>(); });
  const std::string file = path(".snapshots/s/a/f");
  const Fd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  auto* const memory = static_cast<char*>(::mmap(nullptr, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, "DATA", 4);
  EXPECT_EQ(result_of(::msync(memory, 4, MS_SYNC)), EROFS);
  EXPECT_TRUE(until([&] { return read_file(file) == "data"; })) << read_file(file);
  EXPECT_EQ(std::string_view(memory, 4), "data") << "nor in the mapping";
  ::munmap(memory, 4);
}

TEST(SnapshotMessages, WhatMakesNoSenseIsRefused) {
  SnapshotMessage message = to_message({.made = {-5, 999'999'999}, .of = "/d"});
  ASSERT_TRUE(snapshot_of(message));
  EXPECT_EQ(snapshot_of(message)->made, (Time{-5, 999'999'999}));
  message.size = sizeof message.of + 1;
  EXPECT_EQ(snapshot_of(message).error().code, EPROTO);
  message.size = 2;
  message.nanoseconds = 1'000'000'000;
  EXPECT_EQ(snapshot_of(message).error().code, EPROTO);
}

}  // namespace
}  // namespace lsmfs::test::snapshot_test

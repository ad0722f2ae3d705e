// The directory of snapshots through the kernel: it is found and never listed, and what is in it says of what it is a snapshot.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "fuse/control/requests.h"
#include "fuse/mounted.h"
#include "gate.h"
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
  int failure_of_sizes(const std::string& of) {
    const auto sizes = snapshot_sizes_of(of);
    return sizes ? 0 : sizes.error().code;
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

TEST_F(Snapshots, OneSaysHowMuchItHas) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  tree_.set_sizes([](const Stop&) { return SnapshotSizes{.alone = ByteCount{4096}, .refers = ByteCount{UINT64_MAX}}; });
  const auto sizes = snapshot_sizes_of(path(".snapshots/s"));
  ASSERT_TRUE(sizes) << sizes.error().message();
  EXPECT_EQ(sizes->alone.v, 4096u);
  EXPECT_EQ(sizes->refers.v, UINT64_MAX);
  EXPECT_EQ(failure_of_sizes(path("d")), EINVAL);
  EXPECT_EQ(failure_of_sizes(path(".snapshots/s/a")), EINVAL);
  EXPECT_EQ(failure_of_sizes(path("missing")), ENOENT);
  EXPECT_EQ(failure_of_sizes("/proc"), ENOTTY);
  tree_.set_sizes([](const Stop&) -> Result<SnapshotSizes> { return make_error(EUCLEAN, ""); });
  EXPECT_EQ(failure_of_sizes(path(".snapshots/s")), EIO);
}

TEST_F(Snapshots, WhoAsksForSizesWaitsForOthersWhoDo) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  std::atomic<int> asked = 0;
  tree_.set_sizes([&](const Stop&) { return ++asked < 3 ? Result<SnapshotSizes>(make_error(EBUSY, "")) : Result<SnapshotSizes>(SnapshotSizes{}); });
  EXPECT_EQ(failure_of_sizes(path(".snapshots/s")), 0);
  EXPECT_EQ(asked, 3);
}

TEST_F(Snapshots, SizesAreForItsOwnerAndAdministrators) {
  ASSERT_EQ(::mkdir(path("own").c_str(), 0755), 0);
  ASSERT_EQ(::chown(path("own").c_str(), 65534, 65534), 0);
  for (const char* source : {"d", "own"}) ASSERT_EQ(snapshot(source, source), 0);
  for (const auto& [name, expected] : {std::pair("d", EPERM), {"own", 0}}) {
    EXPECT_EQ(failure_of_sizes(path(fmt::format(".snapshots/{}", name))), 0);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setgid(65534) != 0 || ::setuid(65534) != 0 ? 100 : failure_of_sizes(path(fmt::format(".snapshots/{}", name))));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), expected) << name;
  }
  EXPECT_EQ(tree_.calls("snapshot_sizes"), 3u) << "nothing was looked for in vain";
}

// Who asks is killed.
TEST_F(Snapshots, SizesThatNobodyWantsAnyMoreAreNotLookedForFurther) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  std::atomic<bool> begun = false, told = false;
  tree_.set_sizes([&](const Stop& stop) -> Result<SnapshotSizes> {
    begun = true;
    told = until([&] { return stop(); });
    return make_error(EINTR, "");
  });
  const pid_t child = ::fork();
  if (child == 0) ::_exit(failure_of_sizes(path(".snapshots/s")));
  EXPECT_TRUE(until([&] { return begun.load(); }));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(told);
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

// ---- rollbacks

TEST_F(Snapshots, ARollbackIsSeenWhateverTheKernelHasCached) {
  for (const char* dir : {"d/b", "d/b/c"}) ASSERT_EQ(::mkdir(path(dir).c_str(), 0755), 0);
  ASSERT_EQ(write_file(path("d/b/c/g"), "deep"), 0);
  ASSERT_EQ(snapshot("d", "s"), 0);
  ASSERT_EQ(write_file(path("d/a/f"), "changed"), 0);
  ASSERT_EQ(write_file(path("d/new"), "new"), 0);
  ASSERT_TRUE(remove_tree_of_mount(path("d/b")));
  ASSERT_EQ(result_of(::access(path("d/b").c_str(), F_OK)), ENOENT);  // a name that is not there
  EXPECT_EQ(names("d"), (std::set<std::string>{"a", "new"}));          // and a listing
  const auto before = facts("d"), old = facts("d/a");
  const Fd dir(::open(path("d").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), file(::open(path("d/a/f").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(dir && file);
  ASSERT_TRUE(roll_back_in_mount(path("d"), path(".snapshots/s")));
  EXPECT_EQ(read_file(path("d/a/f")), "data");
  EXPECT_EQ(read_file(path("d/b/c/g")), "deep");
  EXPECT_EQ(result_of(::faccessat(dir.get(), "new", F_OK, 0)), ENOENT);
  EXPECT_EQ(names("d"), (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(facts("d").st_ino, before.st_ino);
  EXPECT_EQ(facts("d").st_nlink, 4u);
  EXPECT_NE(facts("d/a").st_ino, old.st_ino);
  EXPECT_EQ(::pwrite(file.get(), "more", 4, 0), 4) << "who has it open goes on";
}

TEST_F(Snapshots, AfterARollbackTheKernelLetsGoOfWhatWasThere) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  for (const char* name : {"d/x", "d/a/y"}) ASSERT_EQ(write_file(path(name), "more"), 0);
  const std::uint64_t inodes = tree_.inodes();
  ASSERT_TRUE(roll_back_in_mount(path("d"), path(".snapshots/s")));
  EXPECT_TRUE(until([&] { return tree_.inodes() == inodes - 2; })) << tree_.inodes() << ": what was there is not forgotten";
}

// Who works in it by then stays there, though the kernel is to let go of what had the name before.
TEST_F(Snapshots, ADirectoryThatIsFoundAgainAfterARollbackIsLeftAlone) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  Gate found;
  tree_.set_hook([&found](const std::string& name, Wait) {
    if (name == "in_use") found.pass();
    return Result<void>();
  });
  ASSERT_TRUE(roll_back_in_mount(path("d"), path(".snapshots/s")));
  const Fd dir(::open(path("d/a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(dir);
  EXPECT_TRUE(found.await(1));
  found.open();
  mounted_->mount().kernel_cache().drain();
  EXPECT_EQ(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(dir.get())), path("d/a"));
}

TEST_F(Snapshots, ARollbackOfTheRoot) {
  ASSERT_EQ(snapshot(".", "s"), 0);
  ASSERT_EQ(write_file(path("d/a/f"), "changed"), 0);
  ASSERT_EQ(write_file(path("new"), ""), 0);
  ASSERT_TRUE(roll_back_in_mount(mounted_->root(), path(".snapshots/s")));
  EXPECT_EQ(names("."), std::set<std::string>{"d"});
  EXPECT_EQ(read_file(path("d/a/f")), "data");
  EXPECT_EQ(names(".snapshots"), std::set<std::string>{"s"});
}

TEST_F(Snapshots, ARollbackFailsAsTheTreeSays) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  const std::string kept = path(".snapshots/s");
  const auto code = [&](const std::string& directory, const std::string& snapshot, RollBack what = RollBack::now) {
    const auto done = roll_back_in_mount(directory, snapshot, what);
    return done ? 0 : done.error().code;
  };
  for (const auto what : {RollBack::only_asks, RollBack::now}) {
    EXPECT_EQ(code(path("d"), path("d/a"), what), EINVAL);
    EXPECT_EQ(code(path("d/a/f"), kept, what), ENOTDIR);
    EXPECT_EQ(code(path("missing"), kept, what), ENOENT);
    EXPECT_EQ(code(path("d"), path("missing"), what), ENOENT);
    EXPECT_EQ(code("/proc", kept, what), EXDEV);
  }
  EXPECT_EQ(code("/proc", "/proc"), ENOTTY);
  EXPECT_EQ(code(path("d"), kept, RollBack::only_asks), 0);
  EXPECT_EQ(tree_.calls("roll_back"), 0u);
  for (const int expected : {EPERM, EROFS, EIO, EAGAIN}) {
    tree_.set_hook([expected](const std::string& name, Wait) { return name == "roll_back" ? Result<void>(make_error(expected, "")) : Result<void>(); });
    EXPECT_EQ(code(path("d"), kept), expected);
  }
  tree_.set_hook([](const std::string&, Wait wait) { return wait == Wait::no ? Result<void>(make_error(EAGAIN, "")) : Result<void>(); });
  EXPECT_EQ(code(path("d"), kept), 0);
}

// Who names no snapshot first, or another directory, has not shown that he may open it.
TEST_F(Snapshots, ARollbackIsAskedForInTwoSteps) {
  ASSERT_EQ(snapshot("d", "s"), 0);
  const Fd dir(::open(path("d").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), other(::open(path("d/a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd kept(::open(path(".snapshots/s").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(dir && other && kept);
  RollBackMessage message;
  RollBackRequest request{.directory = facts("d").st_ino};
  EXPECT_EQ(result_of(::ioctl(dir.get(), kRollBackIoctl, &message)), EAGAIN);
  EXPECT_EQ(result_of(::ioctl(dir.get(), kRollBackToIoctl, &request)), EINVAL) << "it is no snapshot";
  ASSERT_EQ(::ioctl(kept.get(), kRollBackToIoctl, &request), 0);
  EXPECT_EQ(result_of(::ioctl(other.get(), kRollBackIoctl, &message)), EAGAIN);
  EXPECT_EQ(result_of(::ioctl(dir.get(), kRollBackIoctl, &message)), 0);
  EXPECT_EQ(result_of(::ioctl(dir.get(), kRollBackIoctl, &message)), EAGAIN) << "it was good for once";
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

// Clones of directories through the kernel: what is asked by an ioctl and made by mkdir(2).
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "fuse/control/requests.h"
#include "fuse/mounted.h"
#include "until.h"

namespace lsmfs::test::clone_test {
namespace {

// A clock that goes an hour further each time somebody looks, once it is told to.
class Leaping final : public Clock {
 public:
  using Clock::wait;
  Time now() override { return real_.now() + std::chrono::hours(leaps ? ++hours_ : hours_.load()); }
  std::chrono::system_clock::time_point wall() override { return real_.wall(); }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time due) override { real_.wait(lock, changed, due); }
  void sleep_until(Time due) override { real_.sleep_until(due); }

  std::atomic<bool> leaps{false};

 private:
  Clock& real_ = system_clock();
  std::atomic<int> hours_{0};
};

class Clones : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    mounted_ = std::make_unique<Mounted>(tree_);
    fill();
  }
  void fill() {
    for (const char* dir : {"d", "d/a", "place"}) ASSERT_EQ(::mkdir(path(dir).c_str(), 0755), 0);
    ASSERT_EQ(write_file(path("d/f"), "data"), 0);
    ASSERT_EQ(write_file(path("d/a/g"), "more"), 0);
    ASSERT_EQ(::link(path("d/f").c_str(), path("d/a/h").c_str()), 0);
  }

  std::string path(const std::string& name) const { return mounted_->path(name); }
  struct stat facts(const std::string& name) const {
    struct stat facts {};
    EXPECT_EQ(::lstat(path(name).c_str(), &facts), 0) << name;
    return facts;
  }
  // 0 or errno.
  int clone(const std::string& source, const std::string& parent, const std::string& name) {
    const auto cloned = clone_in_mount(path(source), path(parent), name);
    return cloned ? 0 : cloned.error().code;
  }
  int ask(int source, std::uint64_t parent, std::string_view name) {
    CloneRequest request{.parent = parent};
    name.copy(request.name, sizeof request.name);
    return result_of(::ioctl(source, kCloneIoctl, &request));
  }
  // What has come of what this thread has asked for.
  std::uint32_t outcome(int source) {
    ClonedMessage message{.outcome = 99};
    EXPECT_EQ(::ioctl(source, kClonedIoctl, &message), 0);
    return message.outcome;
  }
  Fd open_dir(const std::string& name) { return Fd(::open(path(name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }
  bool is_clone(const std::string& name) { return ::access((path(name) + "/f").c_str(), F_OK) == 0; }
  // As nobody: `does` gives an exit code.
  template <class Work>
  int as_nobody(Work does) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setgid(65534) != 0 || ::setuid(65534) != 0 ? 100 : does());
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 200;
  }

  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;  // goes first
};

TEST_F(Clones, ACloneIsFoundWhateverTheKernelHasCached) {
  ASSERT_EQ(::access(path("place/c/a/g").c_str(), F_OK), -1);  // a name that is not there
  EXPECT_TRUE(std::filesystem::is_empty(path("place")));       // and a listing
  const auto before = facts("place");
  ASSERT_EQ(clone("d", "place", "c"), 0);
  const auto after = facts("place");
  EXPECT_EQ(after.st_nlink, before.st_nlink + 1);
  EXPECT_NE(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  EXPECT_EQ(read_file(path("place/c/a/g")), "more");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("place")), {}), 1);
  EXPECT_EQ(facts("place/c/f").st_ino, facts("place/c/a/h").st_ino);
  EXPECT_EQ(facts("place/c/f").st_nlink, 2u);
  EXPECT_NE(facts("place/c/f").st_ino, facts("d/f").st_ino);
  // Each side changes by itself.
  ASSERT_EQ(write_file(path("d/f"), "DA"), 0);
  ASSERT_EQ(::unlink(path("place/c/a/g").c_str()), 0);
  EXPECT_EQ(read_file(path("place/c/f")), "data");
  EXPECT_EQ(read_file(path("d/a/g")), "more");
  EXPECT_EQ(facts("d").st_mode, facts("place/c").st_mode);
}

TEST_F(Clones, TheKernelForgetsACloneAsAnyDirectory) {
  ASSERT_EQ(clone("d", "place", "c"), 0);
  const auto inodes = tree_.inodes();
  ASSERT_GT(std::filesystem::remove_all(path("place/c")), 0u);
  EXPECT_TRUE(until([&] { return tree_.inodes() == inodes - 4; })) << tree_.inodes() << " of " << inodes;
}

TEST_F(Clones, WhoWatchesThePlaceHearsOfIt) {
  const Fd watch(::inotify_init1(IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(watch.get(), path("place").c_str(), IN_CREATE), 0);
  ASSERT_EQ(clone("d", "place", "c"), 0);
  alignas(inotify_event) char bytes[512];
  ASSERT_GT(::read(watch.get(), bytes, sizeof bytes), 0);
  const auto& event = *reinterpret_cast<const inotify_event*>(bytes);
  EXPECT_EQ(event.mask, IN_CREATE | IN_ISDIR);
  EXPECT_STREQ(event.name, "c");
}

TEST_F(Clones, ACloneFailsAsTheTreeAndTheKernelSay) {
  ASSERT_EQ(::symlink("d", path("l").c_str()), 0);
  EXPECT_EQ(clone("missing", "place", "c"), ENOENT);
  EXPECT_EQ(clone("d/f", "place", "c"), ENOTDIR);
  EXPECT_EQ(clone("l", "place", "c"), ENOTDIR);
  EXPECT_EQ(clone("d", "missing", "c"), ENOENT);
  EXPECT_EQ(clone("d", "d/f", "c"), ENOTDIR);
  EXPECT_EQ(clone("d", ".", "place"), EEXIST);
  EXPECT_EQ(clone("d", ".", "l"), EEXIST);
  EXPECT_EQ(clone("d", "d", "c"), EINVAL);
  EXPECT_EQ(clone("d", "d/a", "c"), EINVAL);
  EXPECT_EQ(clone(".", "place", "c"), EINVAL);
  EXPECT_EQ(clone("d", "place", std::string(kNameMax + 1, 'x')), ENAMETOOLONG);
  EXPECT_EQ(clone("d", "place", std::string(kNameMax, 'x')), 0);
  EXPECT_EQ(clone_in_mount(path("d"), "/proc", "c").error().code, EXDEV);
  EXPECT_EQ(clone_in_mount("/proc/sys", "/proc", "c").error().code, ENOTTY);
  for (const int expected : {EPERM, EROFS, ENOSPC, EIO}) {
    tree_.set_hook([expected](const std::string& name, Wait) { return name == "clone" ? Result<void>(make_error(expected, "")) : Result<void>(); });
    const auto cloned = clone_in_mount(path("d"), path("place"), "c");
    EXPECT_EQ(cloned.error().code, expected);
    EXPECT_EQ(cloned.error().context, path("place/c"));
  }
  tree_.set_hook({});
  EXPECT_EQ(::mkdir(path("place/c").c_str(), 0755), 0);
  EXPECT_FALSE(is_clone("place/c")) << "what failed is over";
}

TEST_F(Clones, WhereItHasToBeWaitedItIsMadeOnce) {
  tree_.set_hook([](const std::string& name, Wait wait) -> Result<void> {
    if ((name == "clone" || name == "getattr") && wait == Wait::no) return make_error(EAGAIN, "");
    return {};
  });
  ASSERT_EQ(clone("d", "place", "c"), 0);
  EXPECT_TRUE(is_clone("place/c"));
  std::atomic<bool> once{false};
  tree_.set_hook([&once](const std::string& name, Wait wait) -> Result<void> {
    if (name == "clone") once = true;
    if (name == "lookup" && once && wait == Wait::no) return make_error(EAGAIN, "");
    return {};
  });
  const auto calls = tree_.calls("clone");
  ASSERT_EQ(clone("d", "place", "e"), 0);
  EXPECT_EQ(tree_.calls("clone"), calls + 1);
  tree_.set_hook({});
  EXPECT_TRUE(is_clone("place/e"));
}

TEST_F(Clones, OnlyTheDirectoryThatWasMeantIsOne) {
  const Fd source = open_dir("d");
  const auto place = facts("place").st_ino;
  ASSERT_EQ(ask(source.get(), place, "c"), 0);
  std::thread([&] { EXPECT_EQ(::mkdir(path("place/c").c_str(), 0755), 0); }).join();
  EXPECT_FALSE(is_clone("place/c")) << "another thread's";
  ASSERT_EQ(::rmdir(path("place/c").c_str()), 0);
  ASSERT_EQ(::mkdir(path("c").c_str(), 0755), 0);
  EXPECT_FALSE(is_clone("c")) << "elsewhere";
  ASSERT_EQ(::mkdir(path("place/b").c_str(), 0755), 0);
  EXPECT_FALSE(is_clone("place/b")) << "of another name";
  ASSERT_EQ(::mkdir(path("place/c").c_str(), 0755), 0);
  EXPECT_TRUE(is_clone("place/c"));
  EXPECT_EQ(outcome(source.get()), ClonedMessage::kCopy);
  EXPECT_EQ(outcome(source.get()), ClonedMessage::kOrdinary);
  // One that is taken back.
  ASSERT_EQ(ask(source.get(), place, "e"), 0);
  EXPECT_EQ(outcome(source.get()), ClonedMessage::kOrdinary);
  ASSERT_EQ(::mkdir(path("place/e").c_str(), 0755), 0);
  EXPECT_FALSE(is_clone("place/e"));
}

TEST_F(Clones, RequestsThatMakeNoSenseAreRefused) {
  const Fd source = open_dir("d"), file(::open(path("d/f").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ask(source.get(), 1, ""), EINVAL);
  EXPECT_EQ(ask(source.get(), 1, std::string(kNameMax + 1, 'x')), EINVAL);
  EXPECT_EQ(ask(file.get(), 1, "c"), ENOTDIR);
  EXPECT_EQ(result_of(::ioctl(source.get(), kCloneIoctl, nullptr)), EFAULT);
  EXPECT_EQ(::mkdir(path("c").c_str(), 0755), 0);
  EXPECT_FALSE(is_clone("c"));
}

// An ordinary directory in place of a clone would be taken for one.
TEST_F(Clones, WhereTheOrderHasGoneNothingIsMade) {
  Leaping clock;
  MemoryTree tree;
  MountOptions options;
  options.clock = &clock;
  Mounted mounted(tree, options);
  ASSERT_EQ(::mkdir(mounted.path("d").c_str(), 0755), 0);
  clock.leaps = true;
  const auto cloned = clone_in_mount(mounted.path("d"), mounted.root(), "c");
  clock.leaps = false;
  ASSERT_FALSE(cloned);
  EXPECT_EQ(cloned.error().code, EAGAIN);
  EXPECT_EQ(::access(mounted.path("c").c_str(), F_OK), -1);
  clock.leaps = true;
  const auto snapshot = clone_in_mount(mounted.path("d"), mounted.path(".snapshots"), "c");
  clock.leaps = false;
  ASSERT_FALSE(snapshot);
  EXPECT_EQ(snapshot.error().code, EAGAIN) << "and not EROFS, as of a directory that is made there";
  EXPECT_EQ(::access(mounted.path(".snapshots/c").c_str(), F_OK), -1);
  EXPECT_EQ(tree.calls("clone"), 0u);
}

// ---- who may

TEST_F(Clones, OnlyOwnersMayWhereTheyMayMakeDirectories) {
  ASSERT_EQ(::mkdir(path("own").c_str(), 0700), 0);
  ASSERT_EQ(write_file(path("own/f"), "of root"), 0);
  ASSERT_EQ(::chown(path("own").c_str(), 65534, 65534), 0);
  EXPECT_EQ(as_nobody([&] { return clone("own", "place", "c"); }), EACCES);
  ASSERT_EQ(::chmod(path("place").c_str(), 0773), 0);  // not to be read
  EXPECT_EQ(as_nobody([&] {
    const auto cloned = clone_in_mount(path("d"), path("place"), "c");
    return cloned ? 0 : cloned.error().code == EPERM && cloned.error().context == path("d") ? 1 : 2;
  }), 1);
  EXPECT_EQ(tree_.calls("clone"), 0u);
  EXPECT_EQ(::access(path("place/c").c_str(), F_OK), -1);
  EXPECT_EQ(as_nobody([&] { return clone("own", "place", "c"); }), 0);
  EXPECT_EQ(facts("place/c").st_uid, 65534u);
  EXPECT_EQ(facts("place/c").st_mode, S_IFDIR | 0700u);
  EXPECT_EQ(facts("place/c/f").st_uid, 0u);
  // What they cannot open is not theirs to clone.
  ASSERT_EQ(::chmod(path("own").c_str(), 0300), 0);
  EXPECT_EQ(as_nobody([&] { return clone("own", "place", "e"); }), EACCES);
  ASSERT_EQ(::mkdir(path("hidden").c_str(), 0700), 0);
  ASSERT_EQ(::rename(path("own").c_str(), path("hidden/own").c_str()), 0);
  EXPECT_EQ(as_nobody([&] { return clone("hidden/own", "place", "e"); }), EACCES);
  EXPECT_EQ(clone("hidden/own", "place", "e"), 0);  // root
}

// The kernel lets anybody send an ioctl on what such a mount shows.
TEST_F(Clones, AMountThatIsReadOnlyTakesNone) {
  const std::string shown = path("shown");
  ASSERT_EQ(::mkdir(shown.c_str(), 0755), 0);
  ASSERT_EQ(::mount(path("place").c_str(), shown.c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, shown.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr), 0);
  EXPECT_EQ(clone("d", "shown", "c"), EROFS);
  ASSERT_EQ(::mount(nullptr, shown.c_str(), nullptr, MS_BIND | MS_REMOUNT, nullptr), 0);
  EXPECT_EQ(clone("d", "shown", "c"), 0);  // one file system, in two mounts
  EXPECT_EQ(::umount(shown.c_str()), 0);
  EXPECT_TRUE(is_clone("place/c"));
}

}  // namespace
}  // namespace lsmfs::test::clone_test

// Starting, stopping and refusing to start.

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "fuse/mounted.h"
#include "fuse/mounting/kernel_mount.h"
#include "fuse/mounting/mounter.h"
#include "gate.h"
#include "until.h"

namespace lsmfs::test::lifecycle_test {
namespace {

using Lifecycle = MountTest;

std::optional<MountEntry> entry_of(const std::string& path) {
  auto entry = mounted_at(path);
  return entry ? std::move(*entry) : std::nullopt;
}

// A mount as the kernel has it, in its file system fusectl: also when it has left the mount table.
class Connection {
 public:
  explicit Connection(const std::string& mount_point) {
    char name[] = "/tmp/lsmfs-fusectl-XXXXXX";
    control_ = mkdtemp(name);
    EXPECT_EQ(::mount("fusectl", control_.c_str(), "fusectl", 0, nullptr), 0);
    const auto entry = entry_of(mount_point);
    unsigned major = 0, minor = 0;
    EXPECT_EQ(std::sscanf(entry ? entry->device.c_str() : "", "%u:%u", &major, &minor), 2);
    folder_ = control_ + "/" + std::to_string(major << 20 | minor);
  }
  ~Connection() {
    EXPECT_EQ(::umount2(control_.c_str(), MNT_DETACH), 0);
    EXPECT_EQ(::rmdir(control_.c_str()), 0);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Requests that have not been answered; 0 also when it is gone.
  int waiting() const {
    int count = 0;
    std::ifstream(folder_ + "/waiting") >> count;
    return count;
  }
  void abort() { EXPECT_TRUE(std::ofstream(folder_ + "/abort") << "1" << std::flush); }

 private:
  std::string control_, folder_;
};

TEST_F(Lifecycle, TheMountTableNamesSourceAndType) {
  MemoryTree tree;
  Mounted mounted(tree);
  const auto entry = entry_of(mounted.root());
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->source, "memory");
  EXPECT_EQ(entry->type, "fuse.lsmfs");
  EXPECT_TRUE(entry->is_lsmfs());
}

TEST_F(Lifecycle, UnmountingEndsTheServerAfterItsLastWords) {
  MemoryTree tree;
  Mounted mounted(tree);
  ASSERT_EQ(write_file(mounted.path("f"), "x"), 0);
  mounted.stop();
  EXPECT_EQ(mounted.destroyed(), 1);
  EXPECT_FALSE(entry_of(mounted.root()));
}

TEST_F(Lifecycle, WhatSomebodyElseMountsThereMeanwhileStays) {
  MemoryTree tree;
  Gate unmounted;
  std::string place, number;
  std::uint64_t last = 0;
  unsigned mounts = 0;
  Mounted mounted(tree, {}, {}, [&] {
    unmounted.pass();
    // One on the other until one has the number that ours had, unless somebody was faster.
    const auto minor = [](const std::string& device) { return std::stoul(device.substr(device.find(':') + 1)); };
    for (bool reached = false; !reached && ::mount("none", place.c_str(), "tmpfs", 0, nullptr) == 0; ++mounts) {
      const auto entry = entry_of(place);
      reached = minor(entry->device) >= minor(number);
      last = entry->id;
    }
  });
  place = mounted.root();
  number = entry_of(place)->device;
  EXPECT_TRUE(unmount_when_free(place));
  unmounted.open();
  mounted.server().join();
  const auto entry = entry_of(place);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->id, last);
  while (mounts-- > 0) EXPECT_EQ(::umount2(place.c_str(), 0), 0);
}

TEST_F(Lifecycle, ASignalUnmountsAndEndsTheServer) {
  for (const int signal : {SIGTERM, SIGINT, SIGXCPU, SIGHUP}) {
    MemoryTree tree;
    Mounted mounted(tree);
    ASSERT_EQ(write_file(mounted.path("f"), "x"), 0);
    ::kill(::getpid(), signal);
    mounted.server().join();
    EXPECT_EQ(mounted.destroyed(), 1);
    EXPECT_FALSE(entry_of(mounted.root()));
    EXPECT_NE(mounted.notices().find("signal"), std::string::npos);
  }
}

TEST_F(Lifecycle, ASignalEndsTheServerAlsoWhileFilesAreOpen) {
  MemoryTree tree;
  Mounted mounted(tree);
  const int fd = ::open(mounted.path("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_GE(fd, 0);
  ::kill(::getpid(), SIGTERM);
  mounted.server().join();
  EXPECT_EQ(mounted.destroyed(), 1);
  EXPECT_FALSE(entry_of(mounted.root()));
  EXPECT_LT(::write(fd, "x", 1), 0);
  ::close(fd);
  EXPECT_NE(mounted.notices().find("was in use"), std::string::npos) << mounted.notices();
}

TEST_F(Lifecycle, ASecondSignalEndsAServerWhoseFileSystemIsMountedElsewhereToo) {
  MemoryTree tree;
  Mounted mounted(tree);
  ASSERT_EQ(write_file(mounted.path("f"), "x"), 0);
  char name[] = "/tmp/lsmfs-fuse-test-XXXXXX";
  const std::string elsewhere = mkdtemp(name);
  ASSERT_EQ(::mount(mounted.root().c_str(), elsewhere.c_str(), nullptr, MS_BIND, nullptr), 0);
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE(until([&] { return !entry_of(mounted.root()); }));
  EXPECT_EQ(read_file(elsewhere + "/f"), "x");
  EXPECT_EQ(mounted.destroyed(), 0);
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE(until([&] { return mounted.destroyed() == 1; }));
  EXPECT_EQ(::umount2(elsewhere.c_str(), MNT_DETACH), 0);
  mounted.server().join();
  EXPECT_EQ(::rmdir(elsewhere.c_str()), 0);
}

TEST_F(Lifecycle, BusyMountsAreNotUnmounted) {
  MemoryTree tree;
  Mounted mounted(tree);
  const int fd = ::open(mounted.path("f").c_str(), O_RDWR | O_CREAT, 0644);
  EXPECT_EQ(unmount(mounted.root(), false).error().code, EBUSY);
  ::close(fd);
  EXPECT_EQ(unmount("/tmp", false).error().code == 0, false);
}

TEST_F(Lifecycle, RefusesAMountPointThatIsMissingOrNoDirectory) {
  MemoryTree tree;
  MountOptions options;
  options.source = "memory";
  options.mount_point = "/no/such/directory";
  EXPECT_EQ(Mount::start(tree, options, {}).error().code, ENOENT);
  options.mount_point = "/etc/passwd";
  EXPECT_EQ(Mount::start(tree, options, {}).error().code, ENOTDIR);
}

TEST_F(Lifecycle, AStartThatIsNeverServedLeavesNoMount) {
  char name[] = "/tmp/lsmfs-fuse-test-XXXXXX";
  const std::string root = mkdtemp(name);
  MemoryTree tree;
  MountOptions options;
  options.source = "memory";
  options.mount_point = root;
  {
    auto mount = Mount::start(tree, options, {});
    ASSERT_TRUE(mount);
    EXPECT_TRUE(entry_of(root));
  }
  EXPECT_FALSE(entry_of(root));
  EXPECT_EQ(::rmdir(root.c_str()), 0);
}

TEST_F(Lifecycle, AReadOnlyMountRefusesWrites) {
  MemoryTree tree;
  MountOptions options;
  options.read_only = true;
  Mounted mounted(tree, options);
  EXPECT_EQ(write_file(mounted.path("f"), "x"), EROFS);
}

TEST_F(Lifecycle, KernelOptionsArePassedOn) {
  MemoryTree tree;
  MountOptions options;
  options.kernel_options = {"nosuid", "nodev", "noexec"};
  Mounted mounted(tree, options);
  ASSERT_EQ(write_file(mounted.path("script"), "#!/bin/sh\n"), 0);
  ASSERT_EQ(::chmod(mounted.path("script").c_str(), 0755), 0);
  EXPECT_EQ(::access(mounted.path("script").c_str(), X_OK), -1);
}

// The kernel takes the quotes away, so that a comma may be in a label. One without SELinux knows no such option.
TEST_F(Lifecycle, LabelsOfSelinuxArePassedOnWhereTheKernelKnowsThem) {
  MountOptions options;
  options.kernel_options = {"nosuid", R"(context="system_u:object_r:x_t:s0:c1,c2")", "rootcontext=a:b:c:s0", "max_read=4096"};
  const std::string labels = R"(,context="system_u:object_r:x_t:s0:c1,c2",rootcontext=a:b:c:s0)";
  EXPECT_EQ(label_options(options.kernel_options, true), labels);
  EXPECT_EQ(label_options(options.kernel_options, false), "");
  const std::string data = mount_data(options, 7, S_IFDIR, false);
  EXPECT_TRUE(data.starts_with("fd=7,rootmode=40000,")) << data;
  EXPECT_TRUE(data.ends_with(",default_permissions,allow_other,max_read=4096")) << data;
  EXPECT_EQ(mount_data(options, 7, S_IFDIR, true), data + labels);
  if (kernel_has_selinux()) GTEST_SKIP() << "whose policy would have to know these labels";
  MemoryTree tree;
  options.kernel_options.pop_back();
  Mounted mounted(tree, options);
  EXPECT_EQ(write_file(mounted.path("f"), "x"), 0);
}

TEST_F(Lifecycle, OthersAreLetInOnlyWhereTheKernelChecksPermissions) {
  const std::vector<std::vector<std::string>> lists{{}, {"allow_other"}, {"nosuid", "nodev", "allow_other"}};
  for (const auto& kernel_options : lists) {
    MemoryTree tree;
    MountOptions options;
    options.kernel_options = kernel_options;
    Mounted mounted(tree, options);
    std::ifstream table("/proc/self/mountinfo");
    std::string line;
    while (std::getline(table, line) && line.find(" " + mounted.root() + " ") == line.npos) {
    }
    EXPECT_NE(line.find("allow_other"), line.npos) << line;
    EXPECT_NE(line.find("default_permissions"), line.npos) << line;
  }
}

// A directory of /tmp with a mount at it that a process apart has made.
class MountedApart : public Lifecycle {
 protected:
  MountedApart() {
    char name[] = "/tmp/lsmfs-fuse-test-XXXXXX";
    options_.source = "memory";
    options_.mount_point = mkdtemp(name);
    options_.latency = Choice::off;
  }
  ~MountedApart() override { ::rmdir(options_.mount_point.c_str()); }
  // Whether this process has children that it has not waited for.
  static bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) == 0; }

  MemoryTree tree_;
  MountOptions options_;
};

TEST_F(MountedApart, TheProcessThatMountsAlsoUnmountsAndIsGoneThen) {
  ASSERT_TRUE(prepare_mount(options_));
  EXPECT_TRUE(has_children());
  EXPECT_FALSE(entry_of(options_.mount_point));
  auto mount = Mount::start(tree_, options_, {});
  options_.prepared.reset();
  ASSERT_TRUE(mount) << mount.error().message();
  std::thread server([&] { EXPECT_TRUE((*mount)->serve([] {}, [] {})); });
  const Deadline deadline([&] {
    ::umount2(options_.mount_point.c_str(), MNT_FORCE | MNT_DETACH);
    return options_.mount_point + " is still mounted";
  });
  EXPECT_TRUE(entry_of(options_.mount_point));
  EXPECT_EQ(write_file(options_.mount_point + "/f", "x"), 0);
  ::kill(::getpid(), SIGTERM);
  server.join();
  EXPECT_FALSE(entry_of(options_.mount_point));
  EXPECT_FALSE(has_children());
}

TEST_F(MountedApart, AStartThatIsNeverServedLeavesNeitherMountNorProcess) {
  ASSERT_TRUE(prepare_mount(options_));
  ASSERT_TRUE(Mount::start(tree_, options_, {}));
  EXPECT_FALSE(entry_of(options_.mount_point));
  options_.prepared.reset();
  EXPECT_FALSE(has_children());
}

TEST_F(MountedApart, WhyItCannotMountIsHeard) {
  options_.mount_point += "/missing";
  ASSERT_TRUE(prepare_mount(options_));
  const auto mount = Mount::start(tree_, options_, {});
  ASSERT_FALSE(mount);
  EXPECT_EQ(mount.error().code, ENOENT);
  EXPECT_EQ(mount.error().context, options_.mount_point);
  options_.mount_point.resize(options_.mount_point.rfind('/'));
}

TEST_F(MountedApart, AProcessThatDiedIsAnErrorAndNoMount) {
  ASSERT_TRUE(prepare_mount(options_));
  std::ifstream children("/proc/thread-self/children");
  pid_t child = 0;
  children >> child;
  ASSERT_GT(child, 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(Mount::start(tree_, options_, {}).error().code, ESRCH);
  EXPECT_FALSE(entry_of(options_.mount_point));
}

// Lets a test come between.
class Disturbed : public Mounter {
 public:
  explicit Disturbed(std::unique_ptr<Mounter> mounter) : mounter_(std::move(mounter)) {}
  std::function<void()> before_show = [] {};
  Result<void> found_fails;

  Result<Fd> mount() override { return mounter_->mount(); }
  Result<Fd> found() override { return found_fails ? mounter_->found() : Result<Fd>(found_fails.error()); }
  Result<void> show() override {
    before_show();
    return mounter_->show();
  }
  void tune() override { mounter_->tune(); }
  Result<void> unmount(bool lazy) override { return mounter_->unmount(lazy); }
  Result<Fd> open_log() override { return mounter_->open_log(); }
  Result<void> set_deferring(pid_t thread, bool defers) override { return mounter_->set_deferring(thread, defers); }
  bool may_set_deferring() override { return mounter_->may_set_deferring(); }
  Result<void> keep_off(int processor, pid_t server) override { return mounter_->keep_off(processor, server); }

 private:
  const std::unique_ptr<Mounter> mounter_;
};

// One directory of what is mounted is to appear.
class ShownAlone : public MountedApart {
 protected:
  ShownAlone() {
    options_.shows = "d";
    NewInode inode;
    inode.mode = S_IFDIR | 0755;
    EXPECT_TRUE(tree_.make(kRootIno, "d", inode, Wait::yes));
  }
  Disturbed& disturbed() {
    auto& mounter = options_.prepared->mounter;
    auto between = std::make_unique<Disturbed>(std::move(mounter));
    Disturbed& it = *between;
    mounter = std::move(between);
    return it;
  }
  static int failure_of_part(const std::string& whole, const std::string& part) {
    const auto found = open_part(whole, part);
    return found ? 0 : found.error().code;
  }
  // Once it appears, it is unmounted.
  Result<void> serve() {
    const Deadline deadline([&] {
      ::umount2(options_.mount_point.c_str(), MNT_FORCE | MNT_DETACH);
      return options_.mount_point + " is still served";
    });
    auto mount = Mount::start(tree_, options_, {});
    options_.prepared.reset();
    if (!mount) return mount.error();
    return (*mount)->serve(
        [&] {
          ++shown_;
          if (const auto entry = entry_of(options_.mount_point)) root_shown_ = entry->root;
          EXPECT_EQ(::mkdir((options_.mount_point + "/new").c_str(), 0700), -1);
          EXPECT_EQ(errno, EROFS);
          ::umount2(options_.mount_point.c_str(), MNT_DETACH);
        },
        [&] { ++destroyed_; });
  }

  int shown_ = 0, destroyed_ = 0;
  std::string root_shown_;
};

TEST_F(ShownAlone, ADirectoryAppearsAndNothingInItCanBeChanged) {
  ASSERT_TRUE(prepare_mount(options_));
  const auto served = serve();
  EXPECT_TRUE(served) << served.error().message();
  EXPECT_EQ(shown_, 1);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_EQ(root_shown_, "/d");
  EXPECT_FALSE(has_children());
}

TEST_F(ShownAlone, WhatIsMissingIsSaid) {
  options_.shows = "missing";
  ASSERT_TRUE(prepare_mount(options_));
  const auto served = serve();
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, ENOENT);
  EXPECT_EQ(served.error().context, options_.mount_point + "/missing");
  EXPECT_EQ(shown_, 0);
  EXPECT_FALSE(has_children());
}

TEST_F(ShownAlone, LinksLeadToNothingOfTheMachine) {
  char name[] = "/tmp/lsmfs-fuse-beside-XXXXXX";
  const std::string beside = mkdtemp(name);
  ASSERT_EQ(::mkdir((beside + "/s").c_str(), 0755), 0);
  NewInode inode;
  inode.mode = S_IFLNK | 0777;
  inode.symlink = beside;
  ASSERT_TRUE(tree_.make(kRootIno, "astray", inode, Wait::yes));
  {
    Mounted mounted(tree_);
    EXPECT_EQ(::access(mounted.path("astray/s").c_str(), F_OK), 0);
    EXPECT_EQ(failure_of_part(mounted.root(), "astray/s"), ELOOP);
    EXPECT_EQ(failure_of_part(mounted.root(), "astray"), ELOOP);
  }
  options_.shows = "astray/s";
  ASSERT_TRUE(prepare_mount(options_));
  const auto served = serve();
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, ELOOP);
  EXPECT_EQ(shown_, 0);
  EXPECT_EQ(::rmdir((beside + "/s").c_str()), 0);
  EXPECT_EQ(::rmdir(beside.c_str()), 0);
}

TEST_F(ShownAlone, WhatIsMountedInTheWayIsNotTaken) {
  Mounted mounted(tree_);
  EXPECT_EQ(failure_of_part(mounted.root(), "d"), 0);
  EXPECT_EQ(failure_of_part(mounted.root(), "../tmp"), EXDEV);
  ASSERT_EQ(::mount("/tmp", mounted.path("d").c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(failure_of_part(mounted.root(), "d"), EXDEV);
  ASSERT_EQ(::umount2(mounted.path("d").c_str(), 0), 0);
}

TEST_F(ShownAlone, AnErrorBeforeItIsServedLeavesNothing) {
  ASSERT_TRUE(prepare_mount(options_));
  disturbed().found_fails = make_error(EMFILE, "found");
  const auto served = serve();
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, EMFILE);
  EXPECT_EQ(destroyed_, 0) << "by whom it was handed over is gone";
  EXPECT_FALSE(has_children());
}

TEST_F(Lifecycle, ARemountChangesTheKernelsFlags) {
  MemoryTree tree;
  MountOptions options;
  options.kernel_options = {"nosuid"};
  Mounted mounted(tree, options);
  const auto flags = [&] {
    struct statvfs facts {};
    EXPECT_EQ(::statvfs(mounted.root().c_str(), &facts), 0);
    return facts.f_flag & (ST_RDONLY | ST_NOSUID | ST_NOEXEC | ST_NOATIME | ST_NODIRATIME | ST_RELATIME);
  };
  EXPECT_EQ(flags(), unsigned{ST_NOSUID | ST_RELATIME});
  const int fd = ::open(mounted.path("f").c_str(), O_RDWR | O_CREAT, 0644);
  EXPECT_EQ(remount(mounted.root(), true, {}).error().code, EBUSY);
  EXPECT_EQ(flags(), unsigned{ST_NOSUID | ST_RELATIME});
  ::close(fd);
  ASSERT_TRUE(remount(mounted.root(), true, {"noexec", "noatime", "nodiratime"}));
  EXPECT_EQ(flags(), unsigned{ST_RDONLY | ST_NOEXEC | ST_NOATIME | ST_NODIRATIME});
  EXPECT_EQ(write_file(mounted.path("g"), "x"), EROFS);
  ASSERT_TRUE(remount(mounted.root(), false, {"strictatime"}));
  EXPECT_EQ(flags(), 0u);
  EXPECT_EQ(write_file(mounted.path("g"), "x"), 0);
  EXPECT_EQ(tree.calls("reconfigure"), 0u);
  EXPECT_EQ(remount("/no/such/directory", true, {}).error().code, ENOENT);
}

TEST_F(Lifecycle, TheWritebackCacheCanBeAskedFor) {
  MemoryTree tree;
  MountOptions options;
  options.writeback = true;
  Mounted mounted(tree, options);
  const int fd = ::open(mounted.path("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_GE(fd, 0);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(::write(fd, "0123456789", 10), 10);
  ASSERT_EQ(::fsync(fd), 0);
  ::close(fd);
  EXPECT_LE(tree.calls("write"), 10u);
  EXPECT_EQ(read_file(mounted.path("f")).size(), 10'000u);
}

// It may tell them before it sends the pages.
TEST_F(Lifecycle, WithTheWritebackCacheOnlyTheKernelTellsTimes) {
  MemoryTree tree;
  MountOptions options;
  options.writeback = true;
  Mounted mounted(tree, options);
  const std::string path = mounted.path("f");
  ASSERT_EQ(write_file(path, "x"), 0);
  tree.set_hook([](const std::string& call, Wait) -> Result<void> {
    if (call == "setattr") return make_error(EIO, "times are not taken");
    return {};
  });
  struct stat of {};
  ASSERT_EQ(::stat(path.c_str(), &of), 0);
  const Ino ino{of.st_ino};
  const Time before = tree.getattr(ino, Wait::yes)->mtime;
  write_file(path, "more");
  EXPECT_EQ(tree.getattr(ino, Wait::yes)->size, 4u);
  EXPECT_EQ(tree.getattr(ino, Wait::yes)->mtime, before);
}

TEST_F(Lifecycle, AnAbortedConnectionEndsTheServerAndItsMount) {
  MemoryTree tree;
  Mounted mounted(tree);
  Connection(mounted.root()).abort();
  mounted.server().join();
  EXPECT_EQ(mounted.destroyed(), 1);
  EXPECT_FALSE(entry_of(mounted.root()));
}

TEST_F(Lifecycle, NoRequestReachesATreeThatIsBeingClosed) {
  MemoryTree tree;
  std::atomic<bool> closing{false};
  std::atomic<unsigned> late{0};
  Gate closed;
  Mounted mounted(tree, {}, {}, [&] {
    closing = true;
    closed.pass();
  });
  const Connection connection(mounted.root());
  constexpr int kClients = 4;  // each has a file of its own, which the kernel locks while it is written
  const auto file = [&](int client) { return mounted.path("f" + std::to_string(client)); };
  for (int i = 0; i < kClients; ++i) ASSERT_EQ(write_file(file(i), std::string(4096, 'a')), 0);
  tree.set_hook([&](const std::string&, Wait) -> Result<void> {
    late += closing;
    return {};
  });
  std::vector<std::thread> clients;
  std::atomic<int> refused{0};
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&refused, path = file(i)] {
      const int fd = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
      char block[512]{};
      while (::pwrite(fd, block, sizeof block, 0) > 0 && ::pread(fd, block, sizeof block, 0) > 0) {
      }
      ++refused;
      ::close(fd);
    });
  }
  EXPECT_TRUE(until([&] { return tree.calls("read") > 0; }));
  ::kill(::getpid(), SIGTERM);
  closed.await(1);
  // Each has asked once more, and is refused or waits for the end.
  EXPECT_TRUE(until([&] { return refused + connection.waiting() >= kClients; })) << refused << " " << connection.waiting();
  closed.open();
  mounted.server().join();
  for (auto& client : clients) client.join();
  EXPECT_EQ(mounted.destroyed(), 1);
  EXPECT_EQ(late, 0u);
}

// A loop device over an unlinked file; both go when it does.
class LoopDevice {
 public:
  LoopDevice() {
    char name[] = "/var/tmp/lsmfs-fuse-loop-XXXXXX";
    file_ = mkstemp(name);
    ::unlink(name);
    EXPECT_EQ(::ftruncate(file_, 16 << 20), 0);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    // Another process may take the number first.
    for (int attempt = 0; attempt < 20 && loop_ < 0 && control >= 0; ++attempt) {
      path_ = "/dev/loop" + std::to_string(::ioctl(control, LOOP_CTL_GET_FREE));
      loop_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
      loop_config config{};
      config.fd = static_cast<__u32>(file_);
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
      if (loop_ >= 0 && ::ioctl(loop_, LOOP_CONFIGURE, &config) != 0) {
        ::close(loop_);
        loop_ = -1;
      }
    }
    ::close(control);
  }
  ~LoopDevice() {
    ::close(loop_);
    ::close(file_);
  }
  bool works() const { return loop_ >= 0; }
  const std::string& path() const { return path_; }
  // To mount it.
  MountOptions options() const {
    MountOptions options;
    options.source = path_;
    options.block_device = true;
    return options;
  }

 private:
  int file_ = -1, loop_ = -1;
  std::string path_;
};

TEST_F(ShownAlone, OfABlockDeviceAnErrorDoesNotKeepTheServerWaitingForTheMounter) {
  LoopDevice device;
  if (!device.works()) GTEST_SKIP() << "no loop devices here";
  options_.source = device.path();
  options_.block_device = true;
  ASSERT_TRUE(prepare_mount(options_));
  // Nothing can be attached to what is gone. The mounter then has the last mount.
  disturbed().before_show = [&] { EXPECT_TRUE(until([&] { return ::rmdir(options_.mount_point.c_str()) == 0; })); };
  const auto served = serve();
  ASSERT_FALSE(served);
  EXPECT_EQ(served.error().code, ENOENT);
  EXPECT_EQ(shown_, 0);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_FALSE(has_children());
}

TEST_F(Lifecycle, OfABlockDeviceUnmountingWaitsForTheServersLastWords) {
  LoopDevice device;
  if (!device.works()) GTEST_SKIP() << "no loop devices here";
  MemoryTree tree;
  Gate closed;
  std::atomic<bool> destroyed{false};
  Mounted mounted(tree, device.options(), {}, [&] {
    closed.pass();
    destroyed = true;
  });
  ASSERT_EQ(write_file(mounted.path("f"), "x"), 0);
  EXPECT_EQ(entry_of(mounted.root())->type, "fuseblk.lsmfs");
  EXPECT_EQ(entry_of(mounted.root())->source, device.path());
  const Connection connection(mounted.root());
  std::thread unmounting([&] {
    EXPECT_TRUE(unmount_when_free(mounted.root()));
    EXPECT_TRUE(destroyed);
  });
  closed.await(1);
  EXPECT_EQ(connection.waiting(), 1) << "for the answer to DESTROY";
  closed.open();
  unmounting.join();
  mounted.server().join();
}

class Gone : public MemoryTree {
 public:
  std::vector<Ino> surplus() override {
    if (gone) ++asked_late;
    return MemoryTree::surplus();
  }
  std::atomic<bool> gone{false};
  std::atomic<int> asked_late{0};
};

TEST_F(Lifecycle, OfABlockDeviceTheTreeIsLeftAloneAfterTheServersLastWords) {
  LoopDevice device;
  if (!device.works()) GTEST_SKIP() << "no loop devices here";
  Gone tree;
  Mounted mounted(tree, device.options(), {}, [&] { tree.gone = true; });
  ASSERT_EQ(write_file(mounted.path("f"), "x"), 0);
  ASSERT_TRUE(unmount_when_free(mounted.root()));
  mounted.server().join();
  EXPECT_TRUE(tree.gone);
  EXPECT_EQ(tree.asked_late, 0);
}

// Once it is slow, its next forget() waits at the gate.
class SlowToForget : public MemoryTree {
 public:
  void forget(Ino ino, std::uint64_t lookups) override {
    late += closing;
    if (slow.exchange(false)) gate.pass();
    MemoryTree::forget(ino, lookups);
    late += closing;
  }
  Gate gate;
  std::atomic<bool> slow{false}, closing{false};
  std::atomic<int> late{0};
};

TEST_F(Lifecycle, OfABlockDeviceNothingIsForgottenWhileTheServerSaysItsLastWords) {
  LoopDevice device;
  if (!device.works()) GTEST_SKIP() << "no loop devices here";
  KernelCaches caches;
  SlowToForget tree;
  Mounted mounted(tree, device.options(), {}, [&] { tree.closing = true; });
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(write_file(mounted.path("f" + std::to_string(i)), ""), 0);
  tree.slow = true;
  caches.drop();
  tree.gate.await(1);
  std::thread unmounting([&] { EXPECT_TRUE(unmount_when_free(mounted.root())); });
  // With rings, what ends the mount comes through another thread than what is forgotten; else it waits for that.
  if (transport() == Choice::on) {
    EXPECT_TRUE(until([&] { return mounted.requests(FUSE_DESTROY) == 1; }));
  }
  tree.gate.open();
  unmounting.join();
  mounted.server().join();
  EXPECT_GT(tree.calls("forget"), 0u);
  EXPECT_EQ(tree.late, 0);
}

TEST_F(Lifecycle, OfABlockDeviceSyncOfTheFileSystemReachesTheTree) {
  LoopDevice device;
  if (!device.works()) GTEST_SKIP() << "no loop devices here";
  MemoryTree tree;
  Mounted mounted(tree, device.options());
  ASSERT_EQ(write_file(mounted.path("f"), "x"), 0);
  const int fd = ::open(mounted.path("f").c_str(), O_RDONLY);
  EXPECT_EQ(::syncfs(fd), 0);
  EXPECT_EQ(::syncfs(fd), 0);
  ::close(fd);
  // Older kernels do not ask.
  EXPECT_EQ(tree.calls("sync"), mounted.requests(FUSE_SYNCFS));
  EXPECT_TRUE(mounted.requests(FUSE_SYNCFS) == 0 || mounted.requests(FUSE_SYNCFS) == 2);
}

}  // namespace
}  // namespace lsmfs::test::lifecycle_test

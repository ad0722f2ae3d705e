// Starting, stopping and refusing to start.

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <thread>

#include "fuse/kernel_mount.h"
#include "fuse/mounted.h"

namespace lsmfs::test {
namespace {

using Lifecycle = MountTest;

std::optional<MountEntry> entry_of(const std::string& path) { return mounted_at(path); }

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

TEST_F(Lifecycle, ASignalUnmountsAndEndsTheServer) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
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
  EXPECT_EQ(Mount::start(tree, options, [] { return ""; }).error().code, ENOENT);
  options.mount_point = "/etc/passwd";
  EXPECT_EQ(Mount::start(tree, options, [] { return ""; }).error().code, ENOTDIR);
}

TEST_F(Lifecycle, AStartThatIsNeverServedLeavesNoMount) {
  char name[] = "/tmp/lsmfs-fuse-test-XXXXXX";
  const std::string root = mkdtemp(name);
  MemoryTree tree;
  MountOptions options;
  options.source = "memory";
  options.mount_point = root;
  {
    auto mount = Mount::start(tree, options, [] { return ""; });
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

TEST_F(Lifecycle, AnAbortedConnectionEndsTheServerAndItsMount) {
  MemoryTree tree;
  Mounted mounted(tree);
  const auto entry = entry_of(mounted.root());
  ASSERT_TRUE(entry);
  const std::string minor = entry->device.substr(entry->device.find(':') + 1);
  char name[] = "/tmp/lsmfs-fusectl-XXXXXX";
  const std::string control = mkdtemp(name);
  ASSERT_EQ(::mount("fusectl", control.c_str(), "fusectl", 0, nullptr), 0);
  const int fd = ::open((control + "/" + minor + "/abort").c_str(), O_WRONLY);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(::write(fd, "1", 1), 1);
  ::close(fd);
  EXPECT_EQ(::umount2(control.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(::rmdir(control.c_str()), 0);
  mounted.server().join();
  EXPECT_EQ(mounted.destroyed(), 1);
  EXPECT_FALSE(entry_of(mounted.root()));
}

}  // namespace
}  // namespace lsmfs::test

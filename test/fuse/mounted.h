// A mount of a tree on a directory of its own, for one test; nothing is left behind when it goes.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "fuse/deadline.h"
#include "fuse/memory_tree.h"
#include "fuse/mounting/fuse_mount.h"

namespace lsmfs::test {

// How requests are to come: by the environment's LSMFS_TEST_IO_URING ("on"), so that all tests can be run both ways.
Choice transport();

// With a clock of its own it serves as if no thread could step back behind its callers: nobody would look after those as long
// as that clock stands still.
class Mounted {
 public:
  // Throws where it cannot be mounted, which ends the test: it would wait for requests that never come.
  explicit Mounted(Tree& tree, MountOptions options = {}, Administration administration = {},
                   std::function<void()> on_destroy = [] {});
  ~Mounted();

  // Unmounts and waits for the server's end. Who still uses it gets errors.
  void stop();

  const std::string& root() const { return root_; }
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  FuseMount& mount() { return *mount_; }
  std::thread& server() { return server_; }
  int destroyed() const { return destroyed_; }
  std::string notices() const {
    std::lock_guard lock(mutex_);
    return notices_;
  }
  std::uint64_t requests(unsigned opcode) const { return mount_->requests(opcode); }
  // Of all kinds but FORGET, INTERRUPT and such as nobody waits for.
  std::uint64_t requests() const;

 private:
  Result<void> begin(Tree& tree, MountOptions options, Administration administration);
  void abort();  // the connection: all that wait for it get errors

  std::string root_;
  std::unique_ptr<FuseMount> mount_;
  Result<void> served_;
  std::atomic<int> destroyed_{0};
  mutable std::mutex mutex_;
  std::string notices_;
  std::thread server_;
  Deadline deadline_{[this] {
    abort();
    return root_ + " is still mounted; its log: " + notices();
  }};
};

// Tests that mount need root and /dev/fuse.
class MountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can mount without fusermount3";
  }
};

// The kernel's caches, which all tests that run at the same time share: who counts requests keeps
// others from dropping them meanwhile. The lock is on the kernel's own file, so that the Python tests
// take it as well.
class KernelCaches {
 public:
  KernelCaches();  // waits until nobody else has them
  ~KernelCaches();
  KernelCaches(const KernelCaches&) = delete;
  KernelCaches& operator=(const KernelCaches&) = delete;
  void drop();

 private:
  int fd_;
};

// Unmounts. Programs that open files of every mount for a moment, as stress-ng does, are waited for.
Result<void> unmount_when_free(const std::string& mount_point);

// ---- small helpers over system calls; errors are errno values, 0 is success

std::string read_file(const std::string& path);
int write_file(const std::string& path, std::string_view data, int flags = 0);  // creates
int result_of(int returned);  // 0 or errno

}  // namespace lsmfs::test

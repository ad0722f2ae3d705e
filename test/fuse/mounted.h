// A mount of a tree on a directory of its own, for one test; nothing is left behind when it goes.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "fuse/fuse_mount.h"
#include "fuse/memory_tree.h"

namespace lsmfs::test {

// How requests are to come: by the environment's LSMFS_TEST_IO_URING ("on"), so that all tests can be run both ways.
Choice transport();

class Mounted {
 public:
  explicit Mounted(Tree& tree, MountOptions options = {}, Administration administration = {},
                   std::function<void()> on_destroy = [] {}) {
    char name[] = "/tmp/lsmfs-fuse-test-XXXXXX";
    root_ = mkdtemp(name);
    if (options.source.empty()) options.source = "memory";
    options.mount_point = root_;
    options.latency = Choice::off;
    options.io_uring = transport();
    options.notice = [this](std::string_view line) {
      std::lock_guard lock(mutex_);
      notices_ += std::string(line) + "\n";
    };
    mount_ = std::make_unique<FuseMount>(tree, options, std::move(administration));
    // In the thread that serves: the kernel takes a ring apart in the thread that made it, which therefore must not wait for a
    // request of its own mount when that is over.
    std::promise<Result<void>> beginning;
    auto begun = beginning.get_future();
    server_ = std::thread([this, on_destroy, beginning = std::move(beginning)]() mutable {
      auto outcome = mount_->begin();
      const bool usable = outcome.has_value();
      beginning.set_value(std::move(outcome));
      if (!usable) return;
      served_ = mount_->serve([] {}, [&] {
        on_destroy();
        ++destroyed_;
      });
    });
    if (const auto outcome = begun.get(); !outcome) ADD_FAILURE() << outcome.error().message();
  }

  ~Mounted() {
    stop();
    mount_.reset();
    ::rmdir(root_.c_str());
  }

  // Unmounts and waits for the server's end.
  void stop() {
    if (!server_.joinable()) return;
    if (!unmount(root_, false)) (void)unmount(root_, true);
    server_.join();
    EXPECT_TRUE(served_.has_value());
  }

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
  std::string root_;
  std::unique_ptr<FuseMount> mount_;
  Result<void> served_;
  std::atomic<int> destroyed_{0};
  mutable std::mutex mutex_;
  std::string notices_;
  std::thread server_;
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

// ---- small helpers over system calls; errors are errno values, 0 is success

std::string read_file(const std::string& path);
int write_file(const std::string& path, std::string_view data, int flags = 0);  // creates
int result_of(int returned);  // 0 or errno

}  // namespace lsmfs::test

// Requests that cannot be answered from memory go to workers; the others do not wait for them.

#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include <cstring>
#include <thread>
#include <vector>

#include "fuse/mounted.h"
#include "gate.h"

namespace lsmfs::test::waiting_test {
namespace {

class Waiting : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (!IsSkipped()) mounted_ = std::make_unique<Mounted>(tree_);
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }

  MemoryTree tree_;
  // Outlives the server's threads: that a worker has left it is known to the test through the kernel only, which the
  // thread sanitizer does not see.
  Gate gate_;
  std::unique_ptr<Mounted> mounted_;
};

Result<void> never_at_once(const std::string&, Wait wait) {
  if (wait == Wait::no) return make_error(EAGAIN, "");
  return {};
}

TEST_F(Waiting, EveryKindOfRequestIsMadeAgainByAWorker) {
  tree_.set_hook(never_at_once);
  // Names longer than what a short string holds in itself, so that a missing copy shows.
  const std::string name = "a-name-that-is-longer-than-any-small-string-buffer";
  std::string data(2 * MiB, 0);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i >> 8 ^ i);
  ASSERT_EQ(write_file(path(name), data), 0);
  KernelCaches().drop();
  EXPECT_EQ(read_file(path(name)), data);
  ASSERT_EQ(::mkdir(path(name + "-dir").c_str(), 0755), 0);
  ASSERT_EQ(::symlink(name.c_str(), path(name + "-link").c_str()), 0);
  ASSERT_EQ(::link(path(name).c_str(), path(name + "-hard").c_str()), 0);
  ASSERT_EQ(::rename(path(name + "-hard").c_str(), path(name + "-dir/" + name).c_str()), 0);
  ASSERT_EQ(::truncate(path(name).c_str(), 5), 0);
  EXPECT_EQ(read_file(path(name + "-dir/" + name)), data.substr(0, 5));
  const int from = ::open(path(name).c_str(), O_RDONLY | O_CLOEXEC), to = ::open(path(name + "-copy").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  EXPECT_EQ(::copy_file_range(from, nullptr, to, nullptr, 5, 0), 5);
  EXPECT_EQ(read_file(path(name + "-copy")), data.substr(0, 5));
  ::close(from);
  ::close(to);
  ASSERT_EQ(::unlink(path(name + "-copy").c_str()), 0);
  char target[256]{};
  EXPECT_EQ(::readlink(path(name + "-link").c_str(), target, sizeof target), static_cast<ssize_t>(name.size()));
  EXPECT_EQ(target, name);
  unsigned listed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(mounted_->root())) listed += !entry.path().empty();
  EXPECT_EQ(listed, 3u);
  const std::string xattr = "user." + name;
  ASSERT_EQ(::setxattr(path(name).c_str(), xattr.c_str(), name.data(), name.size(), 0), 0);
  char value[256]{};
  EXPECT_EQ(::getxattr(path(name).c_str(), xattr.c_str(), value, sizeof value), static_cast<ssize_t>(name.size()));
  EXPECT_EQ(value, name);
  EXPECT_EQ(::listxattr(path(name).c_str(), value, sizeof value), static_cast<ssize_t>(xattr.size() + 1));
  ASSERT_EQ(::removexattr(path(name).c_str(), xattr.c_str()), 0);
  ASSERT_EQ(::unlink(path(name + "-dir/" + name).c_str()), 0);
  ASSERT_EQ(::rmdir(path(name + "-dir").c_str()), 0);
  for (const char* call : {"lookup", "make", "write", "read", "link", "rename", "setattr", "readlink", "readdir",
                           "unlink", "rmdir", "setxattr", "getxattr", "listxattr", "removexattr"}) {
    EXPECT_GE(tree_.calls(call), 2u) << call;
  }
}

TEST_F(Waiting, RequestsThatNeedNotWaitOvertakeThoseThatDo) {
  KernelCaches caches;  // had before: who has them now may take a while
  // In another directory: the kernel keeps that of an unlink locked, and "fast" would wait for it if its name had to be looked up.
  ASSERT_EQ(::mkdir(path("d").c_str(), 0755), 0);
  ASSERT_EQ(write_file(path("d/slow"), "slow"), 0);
  ASSERT_EQ(write_file(path("fast"), "fast"), 0);
  tree_.set_hook([&](const std::string& call, Wait wait) -> Result<void> {
    if (call != "unlink") return {};
    if (wait == Wait::no) return make_error(EAGAIN, "");
    gate_.pass();
    return {};
  });
  int code = -1;
  std::thread slow([&] { code = result_of(::unlink(path("d/slow").c_str())); });
  gate_.await(1);
  caches.drop();
  struct stat out {};
  EXPECT_EQ(::stat(path("fast").c_str(), &out), 0);
  EXPECT_EQ(read_file(path("fast")), "fast");
  gate_.open();
  slow.join();
  EXPECT_EQ(code, 0);
}

TEST_F(Waiting, AWriteKeepsItsDataWhileOthersFollow) {
  constexpr std::size_t kWriters = 4;
  const auto name = [](std::size_t i) { return "held-" + std::to_string(i); };
  const auto data = [](std::size_t i) { return std::string(MiB, static_cast<char>('a' + i)); };
  tree_.set_hook([&](const std::string& call, Wait wait) -> Result<void> {
    if (call != "write") return {};
    if (wait == Wait::no) return make_error(EAGAIN, "");
    gate_.pass();
    return {};
  });
  std::vector<int> codes(kWriters, -1);
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < kWriters; ++i) writers.emplace_back([&, i] { codes[i] = write_file(path(name(i)), data(i)); });
  gate_.await(kWriters);
  EXPECT_EQ(write_file(path("none"), ""), 0);
  gate_.open();
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(codes, std::vector<int>(kWriters, 0));
  tree_.set_hook([](const std::string&, Wait) { return Result<void>(); });
  KernelCaches().drop();
  for (std::size_t i = 0; i < kWriters; ++i) EXPECT_EQ(read_file(path(name(i))), data(i));
}

TEST_F(Waiting, SyncWaitsOnAWorker) {
  tree_.set_hook([&](const std::string& call, Wait) -> Result<void> {
    if (call == "sync") gate_.pass();
    return {};
  });
  ASSERT_EQ(write_file(path("f"), "x"), 0);
  const int fd = ::open(path("f").c_str(), O_RDWR);
  int code = -1;
  std::thread syncing([&] { code = result_of(::fsync(fd)); });
  gate_.await(1);
  EXPECT_EQ(write_file(path("g"), "meanwhile"), 0);
  gate_.open();
  syncing.join();
  EXPECT_EQ(code, 0);
  ::close(fd);
}

// A write of a block with io_submit(2), of which libc knows nothing.
class AsynchronousWrite {
 public:
  AsynchronousWrite(int fd, char fill) {
    std::memset(block_, fill, sizeof block_);
    request_.aio_lio_opcode = IOCB_CMD_PWRITE;
    request_.aio_fildes = static_cast<std::uint32_t>(fd);
    request_.aio_buf = reinterpret_cast<std::uintptr_t>(block_);
    request_.aio_nbytes = sizeof block_;
    iocb* requests[] = {&request_};
    EXPECT_EQ(::syscall(SYS_io_setup, 1, &context_), 0);
    EXPECT_EQ(::syscall(SYS_io_submit, context_, 1, requests), 1);
  }
  ~AsynchronousWrite() { ::syscall(SYS_io_destroy, context_); }
  // Waits for its end: bytes written, or a negative errno.
  std::int64_t finish() {
    io_event event{};
    EXPECT_EQ(::syscall(SYS_io_getevents, context_, 1, 1, &event, nullptr), 1);
    return event.res;
  }

 private:
  alignas(4096) char block_[4096];
  iocb request_{};
  aio_context_t context_ = 0;
};

TEST_F(Waiting, AReadThatOvertakesAnAsynchronousDirectWriteLeavesNoOldPagesBehind) {
  ASSERT_EQ(write_file(path("f"), std::string(8192, 'a')), 0);
  const int direct = ::open(path("f").c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  ASSERT_GE(direct, 0);
  for (const char fill : {'b', 'c'}) {
    Gate gate;
    tree_.set_hook([&](const std::string& call, Wait wait) -> Result<void> {
      if (call != "write") return {};
      if (wait == Wait::no) return make_error(EAGAIN, "");
      gate.pass();
      return {};
    });
    AsynchronousWrite write(direct, fill);
    gate.await(1);
    const std::string before = read_file(path("f"));
    gate.open();
    EXPECT_EQ(write.finish(), 4096);
    EXPECT_EQ(before.substr(0, 1), fill == 'b' ? "a" : "b");
    const std::string after = read_file(path("f"));
    EXPECT_TRUE(after == std::string(4096, fill) + std::string(4096, 'a')) << "begins with " << after.substr(0, 8);
    tree_.set_hook({});
  }
  ::close(direct);
}

// Gives half of a directory and then fails.
class HalfListed : public MemoryTree {
 public:
  Result<void> readdir(Ino dir, std::uint64_t cookie, AttrsOf attrs, const DirVisitor& visit, Wait wait,
                       AccessTime atime) override {
    int given = 0;
    LSMFS_TRY(MemoryTree::readdir(dir, cookie, attrs, [&](const DirEntry& entry) {
      return given < 5 && visit(entry) && ++given > 0;
    }, wait, atime));
    if (given == 5) return make_error(wait == Wait::no ? EAGAIN : EIO, "the rest");
    return {};
  }
};

TEST_F(Waiting, WhatAListingGaveBeforeItHadToWaitIsNotLostNorGivenTwice) {
  HalfListed tree;
  Mounted mounted(tree);
  std::vector<std::string> expected, listed;
  for (int i = 0; i < 40; ++i) {
    expected.push_back("f" + std::to_string(100 + i));
    ASSERT_EQ(write_file(mounted.path(expected.back()), ""), 0);
  }
  for (const auto& entry : std::filesystem::directory_iterator(mounted.root())) {
    listed.push_back(entry.path().filename());
  }
  EXPECT_EQ(listed, expected);
  mounted.stop();
}

TEST_F(Waiting, ManyThreadsGetTheirOwnAnswers) {
  tree_.set_hook([n = std::make_shared<std::atomic<unsigned>>(0)](const std::string&, Wait wait) -> Result<void> {
    if (wait == Wait::no && n->fetch_add(1) % 3 != 0) return make_error(EAGAIN, "");
    return {};
  });
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = path("t" + std::to_string(t) + "-" + std::to_string(i));
        const std::string data = name + std::string(static_cast<std::size_t>(i) * 100, 'z');
        wrong += write_file(name, data) != 0;
        wrong += read_file(name) != data;
        wrong += i % 2 == 0 && ::unlink(name.c_str()) != 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tree_.calls("unlink") >= 200, true);
}

}  // namespace
}  // namespace lsmfs::test::waiting_test

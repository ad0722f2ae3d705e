// Requests that wait for very long are told of. What is told is waited for, however long that takes; how soon it comes
// is for no test to say.

#include "fuse/watchdog.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

#include "fuse/gate.h"
#include "fuse/mounted.h"

namespace lsmfs::test {
namespace {

constexpr auto kLimit = std::chrono::milliseconds(45);

class Told : public MountTest {
 protected:
  void mount(unsigned workers = 8) {
    MountOptions options;
    options.patience = kLimit;
    options.workers = workers;
    mounted_ = std::make_unique<Mounted>(tree_, options);
  }
  void hold(const std::string& held) {
    tree_.set_hook([this, held](const std::string& call, lsmfs::Wait) -> Result<void> {
      if (call == held) gate_.pass();
      return {};
    });
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  // The first line with all of these words, waited for.
  std::string told(const std::vector<std::string>& words) const {
    for (;;) {
      std::string all = mounted_->notices();
      for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != all.npos; begin = end + 1) {
        const std::string line = all.substr(begin, end - begin);
        if (std::all_of(words.begin(), words.end(), [&](const auto& word) { return line.find(word) != line.npos; })) return line;
      }
      ::usleep(5'000);
    }
  }
  std::size_t lines(const std::string& word) const {
    const std::string all = mounted_->notices();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = all.find(word, at)) != all.npos; ++at) ++count;
    return count;
  }

  MemoryTree tree_;
  Gate gate_;
  std::unique_ptr<Mounted> mounted_;
};

int sync_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  const int code = fd < 0 ? errno : result_of(::fsync(fd));
  ::close(fd);
  return code;
}

TEST_F(Told, IsWhatARequestWaitsForAndWhenItIsOver) {
  tree_.set_hook([this](const std::string& call, lsmfs::Wait) -> Result<void> {
    if (call != "sync") return {};
    const lsmfs::Waiting commit("a commit");
    const lsmfs::Waiting device("write", ByteOffset{8192}, ByteCount{4096});
    gate_.pass();
    return {};
  });
  mount();
  ASSERT_EQ(write_file(path("f"), "x"), 0);
  struct stat facts {};
  ASSERT_EQ(::stat(path("f").c_str(), &facts), 0);
  int code = -1;
  std::thread syncing([&] { code = sync_file(path("f")); });
  const std::string name = "FSYNC of inode " + std::to_string(facts.st_ino) + " (request ";
  const std::string line = told({name, "has waited"});
  EXPECT_NE(line.find("a commit, write of 4096 bytes at 8192 of the device"), line.npos) << line;
  EXPECT_EQ(lines("is over"), 0u);
  gate_.open();
  syncing.join();
  EXPECT_EQ(code, 0);
  told({name, "is over after"});
  EXPECT_EQ(lines("is over"), 1u) << mounted_->notices();
}

TEST_F(Told, AreRequestsThatWaitForAWorkerAndWhatHasWaitedLongest) {
  hold("sync");
  mount(1);
  std::thread first([&] { EXPECT_EQ(sync_file(path("first")), 0); });
  gate_.await(1);
  std::thread second([&] { EXPECT_EQ(sync_file(path("second")), 0); });
  told({"FSYNC", "has waited", "a worker, since all have work"});
  told({"FSYNC", "has waited", "at work"});
  gate_.open();
  first.join();
  second.join();
}

TEST_F(Told, IsWhatOtherThreadsWaitForWhenARequestDoesNotSay) {
  hold("sync");
  mount();
  Gate slow;
  std::thread background([&] {
    const lsmfs::Waiting waiting("flush", {}, {});
    slow.pass();
  });
  slow.await(1);
  std::thread syncing([&] { EXPECT_EQ(sync_file(path("f")), 0); });
  told({"FSYNC", "at work", "what has waited longest: flush of the device ("});
  gate_.open();
  syncing.join();
  slow.open();
  background.join();
}

TEST_F(Told, AreRequestsInWhichTheReadingThreadIsHeld) {
  hold("lookup");
  mount();
  std::thread looking([&] {
    struct stat facts {};
    EXPECT_EQ(::stat(path("f").c_str(), &facts), -1);
  });
  told({"LOOKUP of inode 1 ", "has waited", "a thread that reads requests"});
  gate_.open();
  looking.join();
  told({"LOOKUP of inode 1 ", "is over"});
}

TEST(Workers, HandOnWhichRequestTheyWorkOn) {
  Workers outer(1, "outer"), inner(1, "inner");
  Gate gate;
  current_request = {7, 12, FUSE_WRITE};
  outer.submit([&] { inner.submit([&] { gate.pass(); }); });
  current_request = {};
  gate.await(1);
  outer.drain();
  ASSERT_EQ(inner.under_way().size(), 1u);
  EXPECT_EQ(inner.under_way()[0].request.text(), "WRITE of inode 12 (request 7)");
  EXPECT_EQ(outer.under_way().size(), 0u);
  gate.open();
  inner.drain();
  EXPECT_EQ(inner.under_way().size(), 0u);
}

TEST_F(Told, AgainOnlyWhenItHasDoubled) {
  hold("sync");
  mount();
  const auto begin = std::chrono::steady_clock::now();
  std::thread syncing([&] { EXPECT_EQ(sync_file(path("f")), 0); });
  while (lines("has waited") < 4) ::usleep(5'000);
  gate_.open();
  syncing.join();
  told({"is over"});
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(taken, 8 * kLimit);
  EXPECT_LE(static_cast<double>(lines("has waited")), std::log2(taken / std::chrono::duration<double>(kLimit)) + 1);
}

TEST_F(Told, IsNothingOfRequestsThatDoNotWait) {
  mounted_ = std::make_unique<Mounted>(tree_);  // as patient as others
  for (int i = 0; i < 100; ++i) ASSERT_EQ(sync_file(path("f" + std::to_string(i))), 0);
  struct statvfs facts {};
  EXPECT_EQ(::statvfs(mounted_->root().c_str(), &facts), 0);
  mounted_->stop();
  EXPECT_EQ(mounted_->notices(), "");
}

TEST(RequestNames, AreThoseOfTheKernel) {
  const auto name = [](std::uint32_t opcode) { return Request{1, 2, opcode}.text(); };
  EXPECT_EQ(name(FUSE_LOOKUP), "LOOKUP of inode 2 (request 1)");
  EXPECT_EQ(name(FUSE_READ), "READ of inode 2 (request 1)");
  EXPECT_EQ(name(FUSE_FSYNCDIR), "FSYNCDIR of inode 2 (request 1)");
  EXPECT_EQ(name(FUSE_DESTROY), "DESTROY of inode 2 (request 1)");
  EXPECT_EQ(name(FUSE_COPY_FILE_RANGE), "COPY_FILE_RANGE of inode 2 (request 1)");
  EXPECT_EQ(name(FUSE_SYNCFS), "SYNCFS of inode 2 (request 1)");
  EXPECT_EQ(name(19), "opcode 19 of inode 2 (request 1)");
  EXPECT_EQ(name(4711), "opcode 4711 of inode 2 (request 1)");
}

}  // namespace
}  // namespace lsmfs::test

// Requests that wait for very long are told of, by a clock that goes on when the test says so.

#include "fuse/serving/watchdog.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "clock.h"
#include "fuse/mounted.h"
#include "gate.h"
#include "until.h"

namespace lsmfs::test::watchdog_test {
namespace {

constexpr auto kLimit = std::chrono::seconds(30), kLook = kLimit / 15;

class Told : public MountTest {
 protected:
  void mount(unsigned workers = 8) {
    MountOptions options;
    options.patience = kLimit;
    options.workers = workers;
    options.clock = &clock_;
    mounted_ = std::make_unique<Mounted>(tree_, options);
    EXPECT_TRUE(clock_.await_waiting(1));
  }
  void hold(const std::string& held) {
    tree_.set_hook([this, held](const std::string& call, lsmfs::Wait) -> Result<void> {
      if (call == held) gate_.pass();
      return {};
    });
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  // The first line with all of these words; time goes on until there is one.
  std::string told(const std::vector<std::string>& words) {
    std::vector<std::string> lines;
    EXPECT_TRUE(until([&] {
      lines = lines_with(words);
      return !lines.empty() || !clock_.step(kLook);
    }));
    EXPECT_FALSE(lines.empty()) << "nothing with " << words.back() << " is told, but " << mounted_->notices();
    return lines.empty() ? "" : lines.front();
  }
  std::vector<std::string> lines_with(const std::vector<std::string>& words) const {
    std::vector<std::string> found;
    const std::string all = mounted_->notices();
    for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != all.npos; begin = end + 1) {
      const std::string line = all.substr(begin, end - begin);
      if (std::all_of(words.begin(), words.end(), [&](const auto& word) { return line.find(word) != line.npos; })) found.push_back(line);
    }
    return found;
  }

  SteppedClock clock_;
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
  EXPECT_TRUE(lines_with({name, "is over"}).empty());
  gate_.open();
  syncing.join();
  EXPECT_EQ(code, 0);
  told({name, "is over after"});
  EXPECT_EQ(lines_with({name, "is over"}).size(), 1u) << mounted_->notices();
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
  Workers outer(1, "outer", system_clock()), inner(1, "inner", system_clock());
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

TEST_F(Told, FirstAtTheLimitAndAgainOnlyWhenItHasDoubled) {
  hold("sync");
  mount();
  std::thread syncing([&] { EXPECT_EQ(sync_file(path("f")), 0); });
  gate_.await(1);
  std::vector<std::string> times;
  for (int seconds = 2; seconds <= 300 && clock_.step(kLook); seconds += 2) {
    const auto lines = lines_with({"FSYNC", "has waited"});
    if (lines.size() == times.size()) continue;
    times.push_back(std::to_string(seconds));
    EXPECT_NE(lines.back().find(" has waited " + times.back() + " s"), std::string::npos) << lines.back();
  }
  EXPECT_EQ(times, (std::vector<std::string>{"30", "60", "120", "240"})) << mounted_->notices();
  gate_.open();
  syncing.join();
  told({"FSYNC", "is over"});
}

TEST_F(Told, IsNothingOfRequestsThatDoNotWait) {
  mounted_ = std::make_unique<Mounted>(tree_);  // as patient as others
  for (int i = 0; i < 100; ++i) ASSERT_EQ(sync_file(path("f" + std::to_string(i))), 0);
  struct statvfs facts {};
  EXPECT_EQ(::statvfs(mounted_->root().c_str(), &facts), 0);
  mounted_->stop();
  EXPECT_EQ(mounted_->notices(), "");
}

// Without a mount.
class Watched : public testing::Test {
 protected:
  void work_until_opened() {
    current_request = {7, 12, FUSE_WRITE};
    workers_.submit([this] { gate_.pass(); });
    current_request = {};
    gate_.await(1);
  }
  void go_on(Clock::Duration time) { EXPECT_TRUE(clock_.step(time)); }
  std::vector<std::string> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }

  SteppedClock clock_;
  std::mutex mutex_;
  std::vector<std::string> told_;  // guarded by mutex_
  Gate gate_;
  Workers workers_{1, "test", clock_};
  std::optional<Watchdog> watchdog_{std::in_place, clock_, kLimit, std::vector<const Workers*>{&workers_}, [this](std::string_view line) {
                                      const std::lock_guard lock(mutex_);
                                      told_.emplace_back(line);
                                    }};
};

TEST_F(Watched, WorkThatIsOverInTimeIsNotToldOf) {
  ASSERT_TRUE(clock_.await_waiting(1));
  work_until_opened();
  go_on(kLimit - kLook);
  gate_.open();
  workers_.drain();
  go_on(kLimit);
  watchdog_.reset();
  EXPECT_EQ(told(), std::vector<std::string>{});
}

TEST_F(Watched, WorkThatIsOverAtTheEndIsToldOf) {
  ASSERT_TRUE(clock_.await_waiting(1));
  work_until_opened();
  go_on(kLimit);
  EXPECT_EQ(told(), std::vector<std::string>{"WRITE of inode 12 (request 7) has waited 30 s: at work"});
  gate_.open();
  workers_.drain();
  watchdog_.reset();
  ASSERT_EQ(told().size(), 2u);
  EXPECT_EQ(told()[1], "WRITE of inode 12 (request 7) is over after 30 s");
}

TEST_F(Watched, AReaderIsLookedAtFromTheFirstLookOn) {
  ASSERT_TRUE(clock_.await_waiting(1));
  Watchdog::Reader reader(*watchdog_);
  for (const std::uint64_t request : {1, 2}) {
    reader.begin({request, 12, FUSE_READ});
    go_on(kLook);
    go_on(kLimit - kLook);
    reader.end();
  }
  reader.begin({3, 12, FUSE_READ});
  go_on(kLook);
  EXPECT_EQ(told(), std::vector<std::string>{});
  go_on(kLimit);
  EXPECT_EQ(told(), std::vector<std::string>{"READ of inode 12 (request 3) has waited 30 s: at work in a thread that reads requests"});
  reader.end();
  go_on(kLook);
  ASSERT_EQ(told().size(), 2u);
  EXPECT_EQ(told()[1], "READ of inode 12 (request 3) is over after 32 s");
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
}  // namespace lsmfs::test::watchdog_test

// The prefetcher changes no answer; what can be tested is that it brings rows into memory ahead of a
// walk, and that it leaves random readers alone.
//
// Time stands still but where a test moves it on, so that no walk ends because the machine is slow.
#include "tree/prefetcher.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "tree/cursor_watch.h"
#include "tree/pass.h"
#include "until.h"

namespace lsmfs::test::prefetcher_test {
namespace {

using namespace std::chrono_literals;

// Numbered rows, and what cursors have read of them.
class CountedRows final : public RowReader {
 public:
  static constexpr std::uint64_t kRows = 20'000;
  static constexpr std::uint64_t kMark = 16;  // so many are 64 KiB, the step in which a walk tells how far it has come
  static std::string key(std::uint64_t i) { return fmt::format("{:08}", i); }

  std::atomic<std::uint64_t> end = kRows;
  std::atomic<std::uint64_t> furthest{0}, walked{0};  // by walks ahead: the last row; how many
  std::atomic<std::uint64_t> steps{0};                // by all
  std::vector<std::atomic<bool>> is_walked = std::vector<std::atomic<bool>>(kRows);
  CursorWatch walks;  // the cursors of walks ahead, which read far; others look at a few rows

  // Walks ahead read this row, and wait for the device at the next one.
  void hold_walks_after(std::uint64_t row) {
    const std::lock_guard lock(mutex_);
    last_ = row;
    changed_.notify_all();
  }
  void let_walks_go() { hold_walks_after(UINT64_MAX); }

  std::unique_ptr<Cursor> cursor(Family, const CursorOptions& options) override {
    return std::make_unique<RowCursor>(*this, options.readahead.v > 0 ? walks.token() : nullptr);
  }

 private:
  class RowCursor final : public Cursor {
   public:
    // `token`: that of a walk ahead, or null.
    RowCursor(CountedRows& rows, std::shared_ptr<void> token) : rows_(rows), token_(std::move(token)) {}
    void seek(std::string_view k) override {
      at_ = std::strtoull(std::string(k).c_str(), nullptr, 10);
      load();
    }
    void next() override { ++at_; load(); }
    bool valid() const override { return at_ < rows_.end; }
    std::string_view key() const override { return key_; }
    std::string_view value() const override { return value_; }
    Result<void> status() const override { return {}; }

   private:
    void load() {
      if (token_) rows_.wait_for_device(at_);
      key_ = CountedRows::key(at_);
      ++rows_.steps;
      if (!token_ || at_ >= kRows) return;
      ++rows_.walked;
      rows_.is_walked[at_] = true;
      std::uint64_t seen = rows_.furthest;
      while (seen < at_ && !rows_.furthest.compare_exchange_weak(seen, at_)) {}
    }
    CountedRows& rows_;
    const std::shared_ptr<void> token_;
    std::uint64_t at_ = 0;
    std::string key_;
    std::string value_ = std::string(4096, 'v');
  };

  void wait_for_device(std::uint64_t row) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return row <= last_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_ = UINT64_MAX;
};

class Prefetching : public testing::Test {
 protected:
  static constexpr std::uint64_t kRows = CountedRows::kRows, kMark = CountedRows::kMark;

  void TearDown() override { rows_.let_walks_go(); }  // also after a failure nobody waits for the device

  Prefetcher& begin(PrefetcherOptions options = {}) {
    options.clock = &clock_;
    return ahead_.emplace(rows_, options);
  }
  Prefetcher& ahead() { return *ahead_; }

  void note(std::uint64_t row, std::uint64_t rows = 1, Wait wait = Wait::yes, std::optional<std::uint64_t> bytes = {}) {
    ahead().note(rows_.key(row), rows_.key(row + rows), wait, bytes);
  }
  void wait_for(std::uint64_t row, std::uint64_t rows = 1) { ahead().wait_for(rows_.key(row), rows_.key(row + rows)); }
  // Two accesses, one after the other, and what comes of them: a walk.
  void begin_walk_at(std::uint64_t row, std::uint64_t rows = 1) {
    note(row, rows);
    note(row + rows, rows);
    settle();
  }
  // As the tree reads a row: one in memory begins no walk, and nobody waits for it. False: it was not brought.
  bool read(std::uint64_t row) {
    const auto wait = rows_.is_walked[row] ? Wait::no : Wait::yes;
    note(row, 1, wait, 4096);
    if (wait == Wait::yes) wait_for(row);
    return rows_.is_walked[row];
  }

  // Time passes, and all threads have done what there was to do: the prefetcher's own, and then those of the walks that it began.
  void pass(Clock::Duration time) {
    clock_.advance(time);
    for (int round = 0; round < 2; ++round) ASSERT_NO_FATAL_FAILURE(test::pass(clock_, 0s, ahead().threads()));
  }
  void settle() { pass(0s); }

  CountedRows rows_;
  SteppedClock clock_;

 private:
  std::optional<Prefetcher> ahead_;
};

TEST_F(Prefetching, RunsAheadOfAWalkByABoundedAmount) {
  begin({.first_window = 256 * KiB, .last_window = 1 * MiB});
  begin_walk_at(0);
  EXPECT_EQ(rows_.furthest, 2u + 256 * KiB / 4096) << "the first window, no more, while the reader stands still";
  for (std::uint64_t row = 2; row < 2000; ++row) {
    note(row);
    wait_for(row);
  }
  settle();
  EXPECT_GE(rows_.furthest, 2000u + 512 * KiB / 4096 - kMark) << "half of the last window at least";
  EXPECT_LE(rows_.furthest, 2000u + 1 * MiB / 4096 + kMark);
}

// To be woken for each step costs a switch to its thread and back, in the request that reports the step.
TEST_F(Prefetching, RestsUntilHalfOfWhatIsAheadIsUsed) {
  constexpr std::uint64_t kWindow = 4 * MiB / 4096;
  begin({.first_window = 4 * MiB, .last_window = 4 * MiB});
  begin_walk_at(0);
  EXPECT_EQ(rows_.furthest, 2 + kWindow);
  const std::uint64_t more_than_half = 2 + kWindow / 2 + kMark;
  for (std::uint64_t row = 2; row < more_than_half - 1; ++row) note(row);
  settle();
  EXPECT_EQ(rows_.furthest, 2 + kWindow);
  note(more_than_half - 1);
  settle();
  EXPECT_EQ(rows_.furthest, more_than_half + kWindow);
}

TEST_F(Prefetching, AWalkEndsWhenItsReaderHasStopped) {
  begin();
  begin_walk_at(0);
  pass(499ms);
  EXPECT_EQ(rows_.walks.there(), 1u);
  pass(1ms);
  EXPECT_EQ(rows_.walks.there(), 0u);
}

// The kernel sends the next request of a file before it has the answer to the last one, so that such a reader is ahead of the
// walk whenever it asks.
TEST_F(Prefetching, AReaderFasterThanTheDeviceStaysInOneWalk) {
  constexpr std::uint64_t kRequest = 64;
  begin();
  const auto note_twice = [&](std::uint64_t request) {
    for (int twice = 0; twice < 2; ++twice) note(request * kRequest, kRequest);
  };
  rows_.hold_walks_after(2 * kRequest);
  note_twice(0);
  note_twice(1);
  ASSERT_TRUE(until([&] { return rows_.walks.made() == 1; }));
  for (std::uint64_t request = 1; request < 100; ++request) {
    note_twice(request + 1);
    rows_.hold_walks_after((request + 1) * kRequest);
    wait_for(request * kRequest, kRequest);
  }
  EXPECT_EQ(rows_.furthest, 100 * kRequest);
  EXPECT_EQ(rows_.walks.made(), 1u);
}

TEST_F(Prefetching, AnAccessThatIsReportedAgainAfterItHasBegunAWalkBeginsNoOther) {
  begin();
  begin_walk_at(0, 64);
  EXPECT_EQ(rows_.walks.made(), 1u);
  note(64, 64);
  settle();
  EXPECT_EQ(rows_.walks.made(), 1u);
}

// Waits for what the prefetcher is to bring, in a thread of its own.
class Reader {
 public:
  Reader(Prefetcher& ahead, std::uint64_t row)
      : thread_([&ahead, row, this] {
          ahead.wait_for(CountedRows::key(row), CountedRows::key(row + 1));
          served_ = true;
        }) {}
  ~Reader() { thread_.join(); }
  bool served() const { return served_; }

 private:
  std::atomic<bool> served_ = false;
  std::thread thread_;
};

TEST_F(Prefetching, AReaderElsewhereDoesNotWaitUntilAWalkComesThere) {
  begin({.first_window = 128 * MiB, .last_window = 128 * MiB});  // it never rests
  rows_.hold_walks_after(100);
  note(0, 16);
  note(16, 16);
  ASSERT_TRUE(until([&] { return rows_.furthest == 100; }));
  note(32, 16);  // the walk's reader goes on
  note(kRows - 2);
  const Reader elsewhere(ahead(), kRows - 2);
  rows_.hold_walks_after(kRows / 2);
  EXPECT_TRUE(until([&] { return elsewhere.served(); }));
  rows_.let_walks_go();
}

TEST_F(Prefetching, AReaderDoesNotWaitForAWalkThatComesToNothing) {
  begin();
  rows_.hold_walks_after(5);
  note(0);
  note(1);
  ASSERT_TRUE(until([&] { return rows_.furthest == 5; }));
  note(10);
  const Reader reader(ahead(), 10);
  ASSERT_TRUE(clock_.await_waiting(2));  // he, and the prefetcher's own thread
  test::pass(clock_, 199ms, 2);
  EXPECT_FALSE(reader.served());
  clock_.advance(1ms);
  EXPECT_TRUE(until([&] { return reader.served(); }));
  rows_.let_walks_go();
}

// Who reads before a walk, or far ahead of it, is not its reader: with nobody else in it, it ends.
TEST_F(Prefetching, ReadersOnBothSidesOfAWalkDoNotKeepItGoing) {
  constexpr std::uint64_t kWindow = 4 * MiB / 4096;
  begin({.first_window = 4 * MiB});
  begin_walk_at(1000);
  for (std::uint64_t i = 0; i < 10; ++i) {
    note(19'000 - 2 * i);  // nobody walks
    note(10);
    wait_for(10);
    settle();
  }
  EXPECT_EQ(rows_.furthest, 1002 + 3 * kWindow) << "twice it went to meet the one who is ahead";
  EXPECT_EQ(rows_.walks.there(), 1u);
  for (int i = 0; i < 5; ++i) {
    note(18'000 - 2 * i);
    note(10);
    pass(100ms);
  }
  EXPECT_EQ(rows_.walks.there(), 0u);
}

// Readers that take turns, each in a part of its own.
class SeveralReaders : public Prefetching {
 protected:
  void begin_with(std::size_t readers, const PrefetcherOptions& options = {}) {
    begin(options);
    part_ = kRows / readers;
    readers_ = readers;
    // Each reads two rows.
    for (; at_ < 2; ++at_) {
      for (std::size_t reader = 0; reader < readers_; ++reader) {
        (void)read(reader * part_ + at_);
        settle();
      }
    }
  }
  // Up to that row of each part; the result is how many had not been brought.
  std::uint64_t read_until(std::uint64_t end) {
    std::uint64_t missing = 0;
    for (; at_ < end; ++at_) {
      for (std::size_t reader = 0; reader < readers_; ++reader) missing += !read(reader * part_ + at_);
    }
    return missing;
  }

  std::uint64_t part_ = 0, at_ = 0;
  std::size_t readers_ = 0;
};

TEST_F(SeveralReaders, AreRunAheadOfAtOnce) {
  begin_with(8);
  EXPECT_EQ(rows_.walks.there(), 8u);
  EXPECT_EQ(read_until(part_ - 100), 0u);
  EXPECT_EQ(rows_.walks.made(), 8u);
  settle();
  EXPECT_LT(rows_.walked, kRows + 8 * 2 * MiB / 4096) << "no row twice, but what was ahead of the end of a part";
}

// Where readers are many, some go without: none takes the place of another.
TEST_F(SeveralReaders, MoreThanWalksDoNotEndEachOthers) {
  begin_with(10, {.walks = 4});
  EXPECT_EQ(rows_.walks.there(), 4u);
  EXPECT_EQ(read_until(600), 6 * 598u);  // so far no walk has come to the next part
  EXPECT_EQ(rows_.walks.made(), 4u);
  EXPECT_EQ(rows_.walks.there(), 4u);
}

TEST_F(SeveralReaders, TogetherAreRunAheadOfByNoMoreThanOne) {
  begin_with(4, {.first_window = 64 * KiB, .last_window = 8 * MiB});
  EXPECT_EQ(rows_.walks.there(), 4u);
  EXPECT_EQ(read_until(4000), 0u);
  settle();
  EXPECT_GT(rows_.walked, 4 * 4000u + 8 * MiB / 4096 / 2 - 4 * kMark) << "half of that at least";
  EXPECT_LE(rows_.walked, 4 * 4000u + 8 * MiB / 4096 + 4 * kMark);
}

TEST_F(Prefetching, RowsThatAreInMemoryBeginNoWalk) {
  begin();
  for (std::uint64_t row = 0; row < 1000; ++row) note(row, 1, Wait::no, 4096);
  settle();
  EXPECT_EQ(rows_.steps, 0u);
  note(1000, 1, Wait::yes, 4096);  // the first that is not
  settle();
  EXPECT_EQ(rows_.walks.made(), 1u);
}

TEST_F(Prefetching, AWalkEndsWhereAnotherHasBeen) {
  begin({.first_window = 4 * MiB, .last_window = 16 * MiB});
  begin_walk_at(2000);
  const std::uint64_t first = rows_.walked;
  EXPECT_EQ(rows_.furthest, 2002u + 4 * MiB / 4096);
  begin_walk_at(1500);
  EXPECT_EQ(rows_.walks.made(), 2u);
  EXPECT_EQ(rows_.walks.there(), 1u);
  EXPECT_TRUE(rows_.is_walked[1999]);
  EXPECT_LE(rows_.walked - first, 2002u - 1502 + kMark) << "no row twice, but what it takes to see that";
}

// As when the kernel has most of a tree in its cache: what is missing there is asked for in the order of a walk.
TEST_F(Prefetching, EndsAWalkWhoseReaderSkipsMostOfIt) {
  begin();
  begin_walk_at(0);
  std::uint64_t row = 1;
  while (rows_.walks.there() == 1 && row < kRows / 2) {
    note(row += 300, 1, Wait::yes, 4096);
    wait_for(row);
    settle();
  }
  EXPECT_EQ(rows_.walks.there(), 0u);
  EXPECT_LT(row, 1000u);
}

TEST_F(Prefetching, AWalkMayPassOverSomeOfIt) {
  begin();
  begin_walk_at(0);
  std::uint64_t missing = 0;
  // The walk does not come to the last row: there it ends, and a reader right behind it begins another one.
  for (std::uint64_t row = 5; row < kRows / 2; row += 4) missing += !read(row);
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(rows_.walks.made(), 1u);
}

// A walk may end at any time: what was read ahead in vain is at most a multiple of what was read.
TEST_F(Prefetching, AShortWalkWastesLittle) {
  begin();
  begin_walk_at(0);
  for (std::uint64_t row = 2; row < 200; ++row) {  // 800 KiB
    note(row, 1, Wait::yes, 4096);
    wait_for(row);
  }
  settle();
  EXPECT_LE(rows_.furthest, 200u * 5 + kMark);
}

TEST_F(Prefetching, LeavesRandomReadersAlone) {
  begin();
  // No two within 64 rows of each other, as chance would have it among so few: these would be taken for a walk, and rightly.
  std::vector<std::uint64_t> places(200);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i * (kRows / places.size());
  std::ranges::shuffle(places, std::mt19937_64(5));
  for (const std::uint64_t at : places) {
    note(at);
    settle();
  }
  // A pair of ascending reads may be looked at, 64 rows of it; of pairs that were nothing, 1, 3, 7, 15 and then 31 are passed over.
  EXPECT_LE(rows_.steps, 11 * 65u);
  EXPECT_EQ(rows_.walks.made(), 0u);
}

// There the end of an access takes the place of the oldest, which may be the one that lies before it.
TEST_F(Prefetching, LeavesAReaderAloneWhoIsFarFromTheOldestOfThoseThatItRemembers) {
  begin();
  note(100, 1, Wait::no);
  for (std::uint64_t i = 0; i < 31; ++i) note(10'000 + 100 * i, 1, Wait::no);
  note(5'000);
  settle();
  EXPECT_EQ(rows_.walks.made(), 0u);
}

// It holds on to tables that have been merged since it was made, and to their space.
TEST_F(Prefetching, ItsCursorIsASecondOldAtMostHoweverLongTheWalk) {
  begin({.first_window = 64 * KiB, .last_window = 64 * KiB});
  begin_walk_at(0);
  ASSERT_EQ(rows_.walks.made(), 1u);
  // A reader who never stops, and whom the walk stays just ahead of.
  std::uint64_t row = 2;
  const auto read_after = [&](Clock::Duration time) {
    pass(time);
    for (std::uint64_t i = 0; i < kMark; ++i) note(row++);
    settle();
  };
  for (int i = 0; i < 10; ++i) read_after(100ms);
  EXPECT_TRUE(rows_.walks.is_there(0));
  read_after(1ms);
  EXPECT_FALSE(rows_.walks.is_there(0));
  EXPECT_EQ(rows_.walks.made(), 2u);
  EXPECT_EQ(rows_.walks.there(), 1u) << "the walk goes on";
}

TEST_F(Prefetching, StopsWhenDestroyedAtAnyTime) {
  for (int i = 0; i < 20; ++i) {
    begin();
    note(0);
    note(1);
  }
  begin();
  begin_walk_at(0);  // it rests
}

TEST_F(Prefetching, StopsWhenDestroyedInTheMiddleOfAWalk) {
  rows_.end = UINT64_MAX;
  begin({.first_window = SIZE_MAX, .last_window = SIZE_MAX});
  note(0);
  note(1);
  ASSERT_TRUE(until([&] { return rows_.furthest > 100; }));
}

}  // namespace
}  // namespace lsmfs::test::prefetcher_test

// The prefetcher changes no answer; what can be tested is that it brings rows into memory ahead of a
// walk, and that it leaves random readers alone.
#include "tree/prefetcher.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tree/cursor_watch.h"

namespace lsmfs::test {
namespace {

// A store of numbered rows that records what cursors have read.
class CountingStore final : public Store {
 public:
  static constexpr std::uint64_t kRows = 20'000;
  static std::string key(std::uint64_t i) { return fmt::format("{:08}", i); }

  std::atomic<std::uint64_t> furthest{0}, walked{0};  // by walks ahead: the last row; how many
  std::atomic<std::uint64_t> steps{0};                // by all
  std::vector<std::atomic<bool>> is_walked = std::vector<std::atomic<bool>>(kRows);
  CursorWatch walks;  // the cursors of walks ahead, which read far; others look at a few rows
  std::chrono::microseconds device_time{0};  // what a walk ahead waits for every 64 rows

  class RowCursor final : public Cursor {
   public:
    // `token`: that of a walk ahead, or null.
    RowCursor(CountingStore& store, std::shared_ptr<void> token) : store_(store), token_(std::move(token)) {}
    void seek(std::string_view k) override {
      at_ = std::strtoull(std::string(k).c_str(), nullptr, 10);
      load();
    }
    void next() override { ++at_; load(); }
    bool valid() const override { return at_ < kRows; }
    std::string_view key() const override { return key_; }
    std::string_view value() const override { return value_; }
    Result<void> status() const override { return {}; }

   private:
    void load() {
      if (token_ && at_ % 64 == 0) std::this_thread::sleep_for(store_.device_time);
      key_ = CountingStore::key(at_);
      ++store_.steps;
      if (!token_ || at_ >= kRows) return;
      ++store_.walked;
      store_.is_walked[at_] = true;
      std::uint64_t seen = store_.furthest;
      while (seen < at_ && !store_.furthest.compare_exchange_weak(seen, at_)) {}
    }
    CountingStore& store_;
    const std::shared_ptr<void> token_;
    std::uint64_t at_ = 0;
    std::string key_;
    std::string value_ = std::string(4096, 'v');
  };

  std::unique_ptr<Cursor> cursor(Family, const CursorOptions& options) override {
    return std::make_unique<RowCursor>(*this, options.readahead.v > 0 ? walks.token() : nullptr);
  }
  Result<std::optional<std::string>> get(Family, std::string_view, Wait) override { return std::optional<std::string>(); }
  Result<void> commit(Batch&) override { return {}; }
  void keep_in_memory(const Batch&) override {}
  void share_cache(ByteCount) override {}
  ByteCount cache_share() const override { return ByteCount{64 * MiB}; }
  Result<void> sync() override { return {}; }
  Result<void> note_synced() override { return {}; }
  Result<void> drop_caches() override { return {}; }
  Result<void> flush() override { return {}; }
  Result<std::vector<std::string>> verify(Family, const std::function<void(ByteCount)>&) override {
    return std::vector<std::string>();
  }
  Result<StoreScrubStep> scrub(ScrubPosition&, const Stop&) override { return StoreScrubStep{}; }
  Result<void> compact(Family, std::string_view, std::string_view) override { return {}; }
  Result<ByteCount> trim(const TrimRange&, const Stop&) override { return ByteCount{}; }
  Result<void> set_read_only(bool) override { return {}; }
  Result<void> close() override { return {}; }
  ByteCount room() const override { return {}; }
  Space space() const override { return {}; }
  StoreStats stats() const override { return {}; }
};

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Prefetcher, RunsAheadOfAWalkByABoundedAmount) {
  CountingStore store;
  Prefetcher ahead(store, {.first_window = 256 * KiB, .last_window = 1 * MiB});
  ahead.note(store.key(0), store.key(1), Wait::yes);
  ahead.note(store.key(1), store.key(2), Wait::yes);
  EXPECT_TRUE(soon([&] { return store.furthest >= 40; })) << store.furthest;
  EXPECT_LT(store.furthest, 200u);  // the first window, no more, while the reader stands still
  for (std::uint64_t i = 2; i < 2000; ++i) {
    ahead.note(store.key(i), store.key(i + 1), Wait::yes);
    ahead.wait_for(store.key(i), store.key(i + 1));
  }
  EXPECT_TRUE(soon([&] { return store.furthest >= 2100; })) << store.furthest;
  EXPECT_LT(store.furthest, 2000u + 1 * MiB / 4096 + 100);
}

// To be woken for each step costs a switch to its thread and back, in the request that reports the step.
TEST(Prefetcher, RestsUntilHalfOfWhatIsAheadIsUsed) {
  CountingStore store;
  Prefetcher ahead(store, {.first_window = 4 * MiB, .last_window = 4 * MiB});  // 1008 rows
  std::uint64_t row = 0;
  const auto read = [&](std::uint64_t rows) {
    for (const std::uint64_t end = row + rows; row < end; ++row) ahead.note(store.key(row), store.key(row + 1), Wait::yes);
  };
  const auto stands_still = [&] {
    const std::uint64_t seen = store.furthest;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return store.furthest == seen;
  };
  read(2);
  EXPECT_TRUE(soon([&] { return store.furthest >= 1000 && stands_still(); })) << store.furthest;
  // When the machine is so slow that a rest has ended for want of steps, what was used has been made up for: then once more.
  EXPECT_TRUE(soon([&] {
    const std::uint64_t before = store.furthest;
    read(100);
    return stands_still() && store.furthest == before;
  }));
  const std::uint64_t before = store.furthest;
  read(600);
  EXPECT_TRUE(soon([&] { return store.furthest >= before + 500; })) << store.furthest;
}

// The kernel sends the next request of a file before it has the answer to the last one, so that such a reader is ahead of the
// walk whenever it asks.
TEST(Prefetcher, AReaderFasterThanTheDeviceStaysInOneWalk) {
  constexpr std::uint64_t kRequest = 64;
  CountingStore store;
  store.device_time = std::chrono::milliseconds(1);
  Prefetcher ahead(store, {});
  const auto note = [&](std::uint64_t request) {
    for (int twice = 0; twice < 2; ++twice) ahead.note(store.key(request * kRequest), store.key((request + 1) * kRequest), Wait::yes);
  };
  note(0);
  note(1);
  EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
  for (std::uint64_t request = 1; request < 100; ++request) {
    note(request + 1);
    ahead.wait_for(store.key(request * kRequest), store.key((request + 1) * kRequest));
  }
  EXPECT_GE(store.furthest, 100 * kRequest);
  EXPECT_EQ(store.walks.made(), 1u);
}

TEST(Prefetcher, AnAccessThatIsReportedAgainAfterItHasBegunAWalkBeginsNoOther) {
  CountingStore store;
  Prefetcher ahead(store, {});
  ahead.note(store.key(0), store.key(64), Wait::yes);
  ahead.note(store.key(64), store.key(128), Wait::yes);
  EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
  ahead.note(store.key(64), store.key(128), Wait::yes);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(store.walks.made(), 1u);
}

TEST(Prefetcher, AReaderElsewhereDoesNotWaitUntilAWalkComesThere) {
  CountingStore store;
  store.device_time = std::chrono::milliseconds(1);
  Prefetcher ahead(store, {.first_window = 128 * MiB, .last_window = 128 * MiB});  // it never rests
  ahead.note(store.key(0), store.key(16), Wait::yes);
  ahead.note(store.key(16), store.key(32), Wait::yes);
  EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
  std::atomic<bool> stop = false;
  std::thread walker([&] {
    for (std::uint64_t row = 32; !stop && row + 1 < CountingStore::kRows; row += 16) {
      ahead.note(store.key(row), store.key(row + 16), Wait::yes);
      ahead.wait_for(store.key(row), store.key(row + 16));
    }
  });
  const std::string begin = store.key(CountingStore::kRows - 2), end = store.key(CountingStore::kRows - 1);
  ahead.note(begin, end, Wait::yes);
  ahead.wait_for(begin, end);
  EXPECT_LT(store.furthest, CountingStore::kRows / 2);
  stop = true;
  walker.join();
}

// Who reads before a walk, or far ahead of it, is not its reader: with nobody else in it, it ends.
TEST(Prefetcher, ReadersOnBothSidesOfAWalkDoNotKeepItGoing) {
  CountingStore store;
  store.device_time = std::chrono::milliseconds(1);
  Prefetcher ahead(store, {.first_window = 4 * MiB});
  ahead.note(store.key(1000), store.key(1001), Wait::yes);
  ahead.note(store.key(1001), store.key(1002), Wait::yes);
  EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
  for (std::uint64_t i = 0; i < 1000 && store.walks.there() > 0; ++i) {
    const std::uint64_t far = 19'000 - 2 * i;  // nobody walks
    ahead.note(store.key(far), store.key(far + 1), Wait::yes);
    ahead.note(store.key(10), store.key(11), Wait::yes);
    ahead.wait_for(store.key(10), store.key(11));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(store.furthest, CountingStore::kRows / 2);
}

// As the tree reads a row: one in memory begins no walk, and nobody waits for it.
void read_row(CountingStore& store, Prefetcher& ahead, std::uint64_t row) {
  const std::string begin = store.key(row), end = store.key(row + 1);
  const auto wait = store.is_walked[row] ? Wait::no : Wait::yes;
  ahead.note(begin, end, wait, 4096);
  if (wait == Wait::yes) ahead.wait_for(begin, end);
}

// Readers that take turns, each in a part of its own.
class SeveralReaders {
 public:
  SeveralReaders(CountingStore& store, Prefetcher& ahead, std::size_t readers)
      : store_(store), ahead_(ahead), next_(readers), rows_(CountingStore::kRows / readers) {
    for (std::size_t i = 0; i < readers; ++i) next_[i] = i * rows_;
  }
  // Until there are so many walks.
  void begin(std::size_t walks) {
    EXPECT_TRUE(soon([&] {
      for (std::size_t reader = 0; reader < next_.size(); ++reader) step(reader);
      return store_.walks.there() == walks;
    }));
  }
  // Reads on, up to the last rows of each part; the result is how many rows had not been brought.
  std::uint64_t read() {
    std::uint64_t missing = 0;
    while (next_[0] + 100 < rows_) {
      for (std::size_t reader = 0; reader < next_.size(); ++reader) missing += !step(reader);
    }
    return missing;
  }
  std::uint64_t count() const { return next_.size() * (rows_ - 100); }

 private:
  // Whether the row had been brought.
  bool step(std::size_t reader) {
    const std::uint64_t row = next_[reader]++;
    read_row(store_, ahead_, row);
    return store_.is_walked[row];
  }

  CountingStore& store_;
  Prefetcher& ahead_;
  std::vector<std::uint64_t> next_;
  const std::uint64_t rows_;
};

TEST(Prefetcher, RunsAheadOfSeveralReadersAtOnce) {
  CountingStore store;
  Prefetcher ahead(store, {});
  SeveralReaders readers(store, ahead, 8);
  readers.begin(8);
  EXPECT_LT(readers.read(), readers.count() / 20);
  EXPECT_LT(store.walked, CountingStore::kRows + 8 * 2 * MiB / 4096) << "no row twice, but what was ahead of the end of a part";
  EXPECT_LT(store.walks.made(), 24u) << "but one for each time that the machine has stood still";
}

// Where readers are many, some go without: none takes the place of another.
TEST(Prefetcher, MoreReadersThanWalksDoNotEndEachOthers) {
  CountingStore store;
  Prefetcher ahead(store, {.walks = 4});
  SeveralReaders readers(store, ahead, 10);
  readers.begin(4);
  (void)readers.read();
  EXPECT_LT(store.walks.made(), 40u) << "but one when a reader comes to the part of the next, or the machine has stood still";
}

TEST(Prefetcher, WalksTogetherAreAheadByNoMoreThanOne) {
  CountingStore store;
  Prefetcher ahead(store, {.first_window = 64 * KiB, .last_window = 8 * MiB});
  SeveralReaders readers(store, ahead, 4);
  readers.begin(4);
  (void)readers.read();
  for (std::uint64_t before = 0; before != store.walked;) {
    before = store.walked;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Each of the four parts, and what is ahead of its end, which may be in the part after it.
  EXPECT_LT(store.walked, readers.count() + (8 * MiB + 4 * 64 * KiB) / 4096 + 4 * 100);
}

TEST(Prefetcher, RowsThatAreInMemoryBeginNoWalk) {
  CountingStore store;
  Prefetcher ahead(store, {});
  for (std::uint64_t row = 0; row < 1000; ++row) ahead.note(store.key(row), store.key(row + 1), Wait::no, 4096);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(store.steps, 0u);
  ahead.note(store.key(1000), store.key(1001), Wait::yes, 4096);  // the first that is not
  EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
}

TEST(Prefetcher, AWalkEndsWhereAnotherHasBeen) {
  CountingStore store;
  store.device_time = std::chrono::microseconds(100);
  Prefetcher ahead(store, {.first_window = 4 * MiB, .last_window = 16 * MiB});
  const auto begin_at = [&](std::uint64_t row, std::size_t walks) {
    EXPECT_TRUE(soon([&] {
      if (store.walks.made() == walks) return true;  // and may have ended: the next access would begin another
      ahead.note(store.key(row), store.key(row + 1), Wait::yes);
      ++row;
      return false;
    }));
  };
  begin_at(2000, 1);
  begin_at(1500, 2);
  EXPECT_TRUE(soon([&] { return store.walks.there() < 2; }));
  EXPECT_TRUE(store.is_walked[1999]);
  EXPECT_LT(store.walked, store.furthest - 1500 + 100) << "no row twice";
}

// As when the kernel has most of a tree in its cache: what is missing there is asked for in the order of a walk.
TEST(Prefetcher, EndsAWalkWhoseReaderSkipsMostOfIt) {
  CountingStore store;
  Prefetcher ahead(store, {});
  for (std::uint64_t row = 0; row < CountingStore::kRows && (row < 300 || store.walks.there() == 1); row += row == 0 ? 1 : 300) {
    ahead.note(store.key(row), store.key(row + 1), Wait::yes, 4096);
    if (row == 1) {
      EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
    }
    ahead.wait_for(store.key(row), store.key(row + 1));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_LT(store.furthest, CountingStore::kRows / 2);
}

TEST(Prefetcher, AWalkMayPassOverSomeOfIt) {
  CountingStore store;
  Prefetcher ahead(store, {});
  for (std::uint64_t row = 0; row < CountingStore::kRows - 1; row += row == 0 ? 1 : 4) {
    read_row(store, ahead, row);
    if (row == 1) {
      EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
    }
  }
  EXPECT_LT(store.walks.made(), 10u) << "but one for each time that the machine has stood still";
}

// A walk may end at any time: what was read ahead in vain is at most a multiple of what was read.
TEST(Prefetcher, AShortWalkWastesLittle) {
  CountingStore store;
  Prefetcher ahead(store, {});
  for (std::uint64_t row = 0; row < 200; ++row) {  // 800 KiB
    ahead.note(store.key(row), store.key(row + 1), Wait::yes, 4096);
    if (row == 1) {
      EXPECT_TRUE(soon([&] { return store.walks.made() == 1; }));
    }
    ahead.wait_for(store.key(row), store.key(row + 1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(store.furthest, 200u * 5 + 64);
}

TEST(Prefetcher, LeavesRandomReadersAlone) {
  CountingStore store;
  Prefetcher ahead(store, {});
  // No two within 64 rows of each other, as chance would have it among so few: these would be taken for a walk, and rightly.
  std::vector<std::uint64_t> places(200);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i * (CountingStore::kRows / places.size());
  std::ranges::shuffle(places, std::mt19937_64(5));
  for (const std::uint64_t at : places) {
    ahead.note(store.key(at), store.key(at + 1), Wait::yes);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  // Each pair of ascending reads may be probed: 64 rows at most, far from a window of a walk.
  EXPECT_LT(store.steps, 200u * 70);
  EXPECT_EQ(store.walks.made(), 0u);
}

// There the end of an access takes the place of the oldest, which may be the one that lies before it.
TEST(Prefetcher, LeavesAReaderAloneWhoIsFarFromTheOldestOfThoseThatItRemembers) {
  CountingStore store;
  Prefetcher ahead(store, {});
  ahead.note(store.key(100), store.key(101), Wait::no);
  for (int i = 0; i < 31; ++i) ahead.note(store.key(10'000 + 100 * i), store.key(10'001 + 100 * i), Wait::no);
  ahead.note(store.key(5'000), store.key(5'001), Wait::yes);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(store.walks.made(), 0u);
}

// It holds on to tables that have been merged since it was made, and to their space.
TEST(Prefetcher, ItsCursorIsASecondOldAtMostHoweverLongTheWalk) {
  CountingStore store;
  Prefetcher ahead(store, {.first_window = 64 * KiB, .last_window = 64 * KiB});
  std::uint64_t row = 0;
  const auto step = [&] {
    ahead.note(store.key(row), store.key(row + 1), Wait::yes);
    ++row;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  // A reader who never stops, and whom the walk stays just ahead of.
  EXPECT_TRUE(soon([&] {
    step();
    return store.walks.made() > 0;
  }));
  const auto made = std::chrono::steady_clock::now();  // or earlier
  while (std::chrono::steady_clock::now() - made < std::chrono::seconds(1)) step();
  EXPECT_TRUE(soon([&] {
    step();
    return !store.walks.is_there(0);
  })) << "after " << row << " rows";
  EXPECT_TRUE(soon([&] {
    step();
    return store.walks.there() == 1;
  })) << "the walk goes on";
  EXPECT_LT(row, CountingStore::kRows);
}

TEST(Prefetcher, StopsWhenDestroyedInTheMiddleOfAWalk) {
  CountingStore store;
  for (int i = 0; i < 20; ++i) {
    Prefetcher ahead(store, {});
    ahead.note(store.key(0), store.key(1), Wait::yes);
    ahead.note(store.key(1), store.key(2), Wait::yes);
    if (i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace lsmfs::test

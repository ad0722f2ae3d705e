// A full store is written over: what does not grow never meets the end of the space, however it is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/planted.h"
#include "clock.h"
#include "kv/sizing.h"
#include "kv/store.h"
#include "kv/passing_time.h"
#include "kv/support.h"
#include "seed.h"

namespace lsmfs::full_store_test {
namespace {

using kv_test::assert_ok;
using kv_test::Machine;
using kv_test::number_key;

// What becomes of a row.
enum class What { new_bytes, zeros, patch, erase_and_put };

// Faults that the tests have to complain of.
enum class Planted { none, obsolete_rows_count, small_reserve };

// A store whose rows of blocks are counted, as the tree does it: those from 0 on.
class Counted {
 public:
  explicit Counted(Store& store, bool says_so = true) : store_(store), says_so_(says_so) {
    if (says_so) store.note_rows(0);
  }

  // Adds rows until there is room for no more, or for so much.
  void fill(std::uint64_t left = 16 * 4096) {
    while (store_.room().v >= left) {
      for (int i = 0; i < 16; ++i) put(rows_++);
      commit();
    }
  }
  void put(std::uint64_t row, What what = What::new_bytes) {
    const std::string key = number_key(row);
    if (what == What::patch) return batch_.patch(Family::blocks, key, static_cast<std::uint32_t>(random_() % 4000), kv_test::random_bytes(random_, 64));
    if (what == What::erase_and_put) batch_.erase(Family::blocks, key);
    batch_.put(Family::blocks, key, what == What::zeros ? std::string(4096, '\0') : kv_test::random_bytes(random_, 4096));
  }
  void commit() {
    if (says_so_) batch_.note_rows(rows_ - erased_);
    ASSERT_NO_FATAL_FAILURE(assert_ok(store_.commit(batch_)));
    batch_.clear();
  }
  // Writes over so many rows there are, 16 at a time; `next` says which. Gives the least room that there was.
  std::uint64_t overwrite(std::uint64_t rows, const std::function<std::uint64_t()>& next) {
    std::uint64_t least = store_.room().v;
    for (std::uint64_t n = 0; n < rows && !test::complained(); n += 16) {
      for (int i = 0; i < 16; ++i) put(next() % rows_);
      commit();
      least = std::min(least, store_.room().v);
    }
    return least;
  }
  void erase(std::uint64_t from, std::uint64_t to) {
    batch_.erase_range(Family::blocks, number_key(from), number_key(to), to - from);
    erased_ += to - from;
    commit();
  }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t bytes() const { return (rows_ - erased_) * 4096; }
  std::mt19937_64& random() { return random_; }

 private:
  Store& store_;
  const bool says_so_;
  std::mt19937_64 random_{test::drawn_seed()};
  Batch batch_;
  std::uint64_t rows_ = 0, erased_ = 0;
};

Machine machine_with(Planted planted, std::uint64_t size, const StoreOptions& options) {
  if (planted != Planted::small_reserve) return Machine::fresh(size, options);
  Machine m;
  m.disk = std::make_unique<kv_test::Disk>(size);
  EXPECT_TRUE(m.disk->format().has_value());
  m.volume = std::move(*Volume::open(m.disk->device()));
  kv::Sizing sizing = kv::Sizing::plan(m.volume->usage(), options.cache);
  // Few compactions take in as much more than RocksDB is told as the reserve is made for.
  sizing.reserve /= 2 * kv::kInputsOverLimit;
  sizing.working /= 2 * kv::kInputsOverLimit;
  auto store = std::make_unique<RocksStore>(*m.volume, options, sizing);
  EXPECT_TRUE(store->open().has_value());
  m.store = std::move(store);
  return m;
}

// A store is filled but for a sixteenth, and written over twice. What is free stays, at all times.
void write_over(const std::function<std::uint64_t(Counted&)>& next, Planted planted = Planted::none) {
  auto m = machine_with(planted, 256 * MiB, kv_test::quiet_options());
  Counted rows(*m.store, planted != Planted::obsolete_rows_count);
  const std::uint64_t all = m.store->room().v;
  rows.fill(all / 16);
  const auto before = static_cast<double>(m.store->room().v);
  const auto least = static_cast<double>(rows.overwrite(2 * rows.rows(), [&] { return next(rows); }));
  EXPECT_GE(least, before - 0.03 * static_cast<double>(all));
  EXPECT_NEAR(static_cast<double>(m.store->room().v), before, 0.04 * static_cast<double>(all));
  EXPECT_FALSE(m.volume->failure().has_value());
  m.stop();
}

TEST(FullStores, ComplainWhenWhatIsObsoleteCounts) {
  EXPECT_NE(test::complaints_of([] { write_over([](Counted& rows) { return rows.random()(); }, Planted::obsolete_rows_count); }), "");
}

class FullStore : public testing::TestWithParam<const char*> {};

// Room goes by what is wanted, whatever is written over, and how.
TEST_P(FullStore, CanBeWrittenOverForEver) {
  const std::string_view how = GetParam();
  write_over([how, place = std::uint64_t{0}](Counted& rows) mutable -> std::uint64_t {
    ++place;
    auto& random = rows.random();
    if (how == "at_random") return random();
    if (how == "in_order") return place;
    if (how == "backwards") return rows.rows() - place % rows.rows();
    if (how == "from_both_ends") return place % 2 ? place / 2 : rows.rows() - 1 - place / 2 % rows.rows();
    if (how == "in_runs") return place % 16 == 1 ? place = random() / 16 * 16 + 1 : place;
    return random() % 64;  // in one place
  });
}
INSTANTIATE_TEST_SUITE_P(Patterns, FullStore, testing::Values("at_random", "in_order", "backwards", "from_both_ends", "in_runs", "in_one_place"),
                         [](const auto& of) { return std::string(of.param); });

// Which rows are obsolete is found out from the tables, also of those that were written before the store was opened.
TEST(FullStores, CountAfterTheyAreOpenedAgainAsBefore) {
  auto m = Machine::fresh(256 * MiB);
  const auto all = static_cast<double>(m.store->room().v);
  Counted rows(*m.store);
  rows.fill();
  rows.overwrite(rows.rows(), [&] { return rows.random()(); });
  rows.erase(0, rows.rows() / 2);
  const auto before = static_cast<double>(m.store->room().v);
  EXPECT_NEAR(before, all / 2, 0.06 * all);
  m.stop();
  m.start();
  m.store->note_rows(rows.bytes() / 4096);
  EXPECT_NEAR(static_cast<double>(m.store->room().v), before, 0.06 * all);
  m.stop();
}

// Whoever fills it again waits until it has been brought back.
TEST(FullStores, HaveRoomForWhatIsErasedAtOnce) {
  auto m = Machine::fresh(256 * MiB);
  const auto empty = static_cast<double>(m.store->space().free.v);
  Counted rows(*m.store);
  rows.fill();
  EXPECT_NEAR(static_cast<double>(rows.bytes()), empty, 0.06 * empty);
  const std::uint64_t quarter = rows.rows() / 4;
  for (int round = 0; round < 4; ++round) {
    rows.erase(static_cast<std::uint64_t>(round) * quarter, static_cast<std::uint64_t>(round + 1) * quarter);
    EXPECT_NEAR(static_cast<double>(m.store->space().free.v), static_cast<double>(quarter * 4096), 0.06 * static_cast<double>(quarter * 4096));
    rows.fill();
  }
  m.stop();
}

// What a writer has on its way may be more than what the reserve allows for rows that compress worse than those they replace.
TEST(FullStores, TakeWhatReplacesRowsThatDoNotCompress) {
  auto m = Machine::fresh(kDeviceMin);
  Counted rows(*m.store);
  rows.fill();
  ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->flush()));
  EXPECT_GE(m.store->room_to_replace().v, 16 * MiB);
  m.stop();
}

// ---- the search for the worst way to write

// One of several writers: it goes through a part of the rows in its own way, and says what becomes of each.
struct Writer {
  enum class How { at_random, in_order, backwards, in_runs } how = How::at_random;
  What what = What::new_bytes;
  double from = 0, to = 1;  // of the rows
  std::uint64_t run = 1;    // rows in a row, in_runs
  std::uint64_t at = 0;

  static Writer drawn(std::mt19937_64& random) {
    Writer w;
    w.how = static_cast<How>(random() % 4);
    w.what = random() % 2 ? What::new_bytes : static_cast<What>(random() % 4);
    std::uniform_real_distribution<double> part;
    w.from = random() % 2 ? 0 : part(random);
    w.to = random() % 2 ? 1 : w.from + (1 - w.from) * part(random) * part(random);
    w.run = std::uint64_t{1} << random() % 12;
    return w;
  }
  std::uint64_t next(std::uint64_t rows, std::mt19937_64& random) {
    const auto first = static_cast<std::uint64_t>(from * static_cast<double>(rows - 1));
    const std::uint64_t n = std::max<std::uint64_t>(static_cast<std::uint64_t>(to * static_cast<double>(rows)), first + 1) - first;
    switch (how) {
      case How::at_random: at = random() % n; break;
      case How::in_order: at = (at + 1) % n; break;
      case How::backwards: at = (at + n - 1) % n; break;
      case How::in_runs: at = at % run == run - 1 ? random() % n / run * run : at + 1; break;
    }
    return first + at % n;
  }
};
using Pattern = std::vector<Writer>;

Pattern drawn_pattern(std::mt19937_64& random) {
  Pattern pattern(1 + random() % 3);
  for (Writer& writer : pattern) writer = Writer::drawn(random);
  return pattern;
}
Pattern changed(Pattern pattern, std::mt19937_64& random) {
  pattern[random() % pattern.size()] = Writer::drawn(random);
  return pattern;
}

// Fills a volume and writes over it once by the pattern. The most that its tables took over what is wanted, as a part of that.
double excess_of(const Pattern& pattern, std::uint64_t size, std::mt19937_64& random, Planted planted = Planted::none) {
  std::mutex mutex;
  std::string notices;
  std::atomic<bool> noticed = false;
  StoreOptions options = kv_test::quiet_options();
  options.cache = ByteCount{(random() % 2 ? 16 : 64) * MiB};
  options.notice = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    notices.append(line) += '\n';
    noticed = true;
  };
  test::SteppedClock clock;
  std::optional<kv_test::PassingTime> passing;
  if (planted != Planted::none) {  // nobody waits for what never comes
    options.clock = &clock;
    passing.emplace(clock);
  }
  auto m = machine_with(planted, size, options);
  Counted rows(*m.store);
  rows.fill();
  double most = 0;
  Pattern writers = pattern;
  for (std::uint64_t n = 0; n < rows.rows() && !noticed && !test::complained(); n += 16) {
    for (int i = 0; i < 16; ++i) {
      Writer& writer = writers[random() % writers.size()];
      rows.put(writer.next(rows.rows(), random), writer.what);
    }
    rows.commit();
    if (n % 1024 == 0) most = std::max(most, static_cast<double>(m.store->stats().table_bytes) / static_cast<double>(rows.bytes()));
  }
  EXPECT_FALSE(m.volume->failure().has_value());
  if (noticed) m.drop();
  else m.stop();
  EXPECT_EQ(notices, "");
  return most;
}

// Climbs from pattern to pattern towards those that leave most behind. LSMFS_LONG: for an hour.
TEST(FullStoreSearch, NoWayToWriteOverRowsFindsTheEnd) {
  std::mt19937_64 random(test::drawn_seed());
  const bool is_long = std::getenv("LSMFS_LONG") != nullptr;
  const Clock::Time end = system_clock().now() + std::chrono::hours(1);
  Pattern worst;
  double most = 0;
  for (int round = 0; (is_long ? system_clock().now() < end : round < 3) && !HasFailure(); ++round) {
    const Pattern pattern = worst.empty() || random() % 3 == 0 ? drawn_pattern(random) : changed(worst, random);
    const double excess = excess_of(pattern, (128 + random() % (is_long ? 512 : 64)) * MiB, random);
    if (excess > most) {
      most = excess;
      worst = pattern;
    }
  }
  RecordProperty("most_times_what_is_wanted", std::to_string(most));
  if (is_long) std::printf("tables took at most %.3f times what the rows hold\n", most);
}

TEST(FullStoreSearch, ComplainsOfATooSmallReserve) {
  std::mt19937_64 random(test::drawn_seed());
  std::string complaints;
  for (int round = 0; round < 20 && complaints.empty(); ++round) {
    complaints = test::complaints_of([&] { excess_of(drawn_pattern(random), 128 * MiB, random, Planted::small_reserve); });
  }
  EXPECT_NE(complaints, "");
}

}  // namespace
}  // namespace lsmfs::full_store_test

// A device whose Nth request fails, for each N of a run that does a bit of everything: whoever waits hears of it, nothing
// wrong is ever read, nothing is acknowledged afterwards, and the next mount finds a tree that is sound. Only a discard
// that fails is no loss: all else goes on.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>

#include "base/planted.h"
#include "crash/workloads.h"
#include "device/decorator.h"
#include "kv/store_decorator.h"

namespace lsmfs::test::fault_test {
namespace {

using Kind = DeviceEvent::Kind;

const char* name(Kind kind) { return kind == Kind::read ? "read" : kind == Kind::write ? "write" : kind == Kind::flush ? "flush" : "discard"; }

// Fails the Nth request of a kind, alone or with all later ones of that kind.
struct Fault {
  Kind kind = Kind::write;
  std::size_t at = 0;  // from 1; 0: none
  bool for_ever = false;

  std::atomic<std::size_t> seen{0};
  std::atomic<bool> struck{false};

  DeviceHook hook() {
    return [this](const DeviceEvent& event, Bytes) -> Result<void> {
      if (event.kind != kind) return {};
      const std::size_t number = ++seen;
      if (at == 0 || number < at || (number > at && !for_ever)) return {};
      struck = true;
      return make_error(EIO, "a planted fault");
    };
  }
};

// What a run does, and where it begins. Of the states that a power cut after the failure may leave one of so many is judged.
struct Story {
  const Start& start;
  void (*work)(Trial&);
  std::size_t every;
};

void a_bit_of_everything(Trial& trial) {
  const auto& all = operations();
  for (std::size_t i = 0; i < all.size(); i += 7) {
    all[i].run(trial);
    if (i % 3 == 0) trial.sync();
  }
  trial.flush();
  trial.unlink("foo");
  trial.make("again", S_IFREG | 0644);
  trial.write("again", 0, 200'000);
  trial.flush();
  trial.trim();
  trial.compact();
  trial.trim();
  trial.make("at the end", S_IFREG | 0644);
  trial.sync();
}

Story everything_there_is() { return {start_in_log(), a_bit_of_everything, everything() ? 2u : 10u}; }

// Merges go on, and find little space.
void write_over_all(Trial& trial) {
  std::mt19937_64 random(1);
  write_over(trial, random, 12 * MiB);
  trial.flush();
  trial.trim();
  trial.settle();  // no request fails after that, of which a sync knows nothing
  trial.sync();
}

Story nearly_full() { return {start_nearly_full(), write_over_all, everything() ? 10u : 50u}; }

// Blobs come, are changed, and go.
void all_that_streams_do(Trial& trial) {
  const auto& all = operations_on_streams();
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].run(trial);
    if (i % 3 == 0) trial.sync();
  }
  trial.make("new", S_IFREG | 0644);
  for (std::uint64_t at = 0; at < 900'000; at += 30'000) {
    trial.write("new", at, 30'000);
    if (at % 90'000 == 0) trial.sync();
  }
  trial.flush();
  trial.unlink("new");
  trial.sync();
}

// Clones are made, changed, and go.
void all_that_clones_do(Trial& trial) {
  const auto& all = operations_on_clones();
  for (std::size_t i = 0; i < all.size(); i += 3) {
    all[i].run(trial);
    if (i % 2 == 0) trial.sync();
  }
  trial.flush();
  for (const char* top : {"A", "E", "bar", "B"}) trial.remove_tree(top);
  trial.sync();
  trial.sweep();
  trial.relocate();
  trial.sync();
}

// Snapshots are made, what they are of changes, and they go.
void all_that_snapshots_do(Trial& trial) {
  const auto& all = operations_with_snapshots();
  for (std::size_t i = 0; i < all.size(); i += 4) {
    all[i].run(trial);
    if (i % 3 == 0) trial.sync();
  }
  trial.flush();
  for (const char* name : {"all", "of A", "again", "new", "newer"}) trial.remove_tree(std::string(".snapshots/") + name);
  trial.sync();
  trial.sweep();
  trial.relocate();
  trial.sync();
}

Story snapshots() { return {start_with_snapshots(), all_that_snapshots_do, everything() ? 2u : 10u}; }

Story clones() { return {start_with_clones(), all_that_clones_do, everything() ? 2u : 10u}; }

Story streams() { return {start_with_streams(), all_that_streams_do, everything() ? 2u : 10u}; }

// Whether the request was made that was to fail: how many discards there are depends on the background work.
bool run(const Story& story, Kind kind, std::size_t at, bool for_ever, const Between& planted = {}) {
  SCOPED_TRACE(fmt::format("{} {} fails{}", name(kind), at, for_ever ? ", and all later ones" : ""));
  Fault fault{.kind = kind, .at = at, .for_ever = for_ever};
  Trial trial(story.start, fault.hook(), planted);
  if (trial.unmountable()) {
    EXPECT_TRUE(fault.struck) << trial.unmountable()->message();
    EXPECT_EQ(trial.unmountable()->code, EIO) << trial.unmountable()->message();
  } else {
    story.work(trial);
    if (fault.struck && kind != Kind::read) {
      EXPECT_TRUE(trial.failed()) << "nobody heard of it";
    }
    if (fault.struck && (kind == Kind::write || kind == Kind::flush)) {
      EXPECT_FALSE(trial.sync()) << "a sync succeeded after a failure" << (trial.failed() ? ": " + trial.failed()->message() : "");
    }
    if (kind == Kind::discard && fault.struck) {
      EXPECT_EQ(trial.make("after it", S_IFREG | 0644), 0);
      EXPECT_EQ(trial.write("after it", 0, 300'000), 0);
      EXPECT_TRUE(trial.sync()) << "nothing was lost, and yet nothing is written any more";
      EXPECT_EQ(trial.trim(), !for_ever);
    }
    // Reads go on, and what was read wrongly would stay in a cache.
    EXPECT_EQ(kind == Kind::read && for_ever ? trial.read_what_can_be() : trial.read_all(), "");
  }
  EXPECT_EQ(trial.judge_end().problem, "");
  if (kind == Kind::write || kind == Kind::flush) {
    // What came since the last flush that succeeded need not be there.
    const TrialLimits limits{.states = {.random_subsets = 4, .last_epoch_alone = true, .seed = at}, .every = story.every, .cut_recovery = 0, .later_life = 0};
    EXPECT_EQ(trial.judge(limits).problem, "");
  }
  return fault.struck;
}

std::size_t requests(const Story& story, Kind kind) {
  Fault fault{.kind = kind};
  Trial trial(story.start, fault.hook());
  story.work(trial);
  trial.stop();
  EXPECT_EQ(trial.judge_end().problem, "");
  return fault.seen;
}

void each(Kind kind, std::size_t sample, const Story& story = everything_there_is()) {
  const std::size_t n = requests(story, kind);
  const std::size_t stride = everything() ? 1 : std::max<std::size_t>(1, n / sample);
  std::size_t tried = 0, struck = 0;
  for (std::size_t at = 1; at <= n && !testing::Test::HasFailure(); at += stride) {
    for (const bool for_ever : {false, true}) {
      struck += run(story, kind, at, for_ever);
      ++tried;
    }
  }
  EXPECT_GE(2 * struck, tried) << "most requests that were to fail were not made";
  std::printf("%zu runs with a failing %s, of %zu\n", tried, name(kind), 2 * n);
}

TEST(DeviceFaults, AFailedReadGivesNothingWrong) { each(Kind::read, 12); }
TEST(DeviceFaults, AFailedWriteIsReportedAndTheLastThatIsAcknowledged) { each(Kind::write, 8); }
TEST(DeviceFaults, AFailedFlushIsReportedAndTheLastThatIsAcknowledged) { each(Kind::flush, 8); }
TEST(DeviceFaults, OfStreamsAFailedReadGivesNothingWrong) { each(Kind::read, 8, streams()); }
TEST(DeviceFaults, OfStreamsAFailedWriteIsReportedAndTheLastThatIsAcknowledged) { each(Kind::write, 6, streams()); }
TEST(DeviceFaults, OfStreamsAFailedFlushIsReportedAndTheLastThatIsAcknowledged) { each(Kind::flush, 6, streams()); }
TEST(DeviceFaults, OfClonesAFailedReadGivesNothingWrong) { each(Kind::read, 6, clones()); }
TEST(DeviceFaults, OfClonesAFailedWriteIsReportedAndTheLastThatIsAcknowledged) { each(Kind::write, 4, clones()); }
TEST(DeviceFaults, OfClonesAFailedFlushIsReportedAndTheLastThatIsAcknowledged) { each(Kind::flush, 4, clones()); }
TEST(DeviceFaults, OfSnapshotsAFailedReadGivesNothingWrong) { each(Kind::read, 6, snapshots()); }
TEST(DeviceFaults, OfSnapshotsAFailedWriteIsReportedAndTheLastThatIsAcknowledged) { each(Kind::write, 4, snapshots()); }
TEST(DeviceFaults, OfSnapshotsAFailedFlushIsReportedAndTheLastThatIsAcknowledged) { each(Kind::flush, 4, snapshots()); }
TEST(DeviceFaults, AFailedDiscardIsReportedAndStopsNothing) { each(Kind::discard, 1000); }

TEST(DeviceFaultsOfAFullVolume, AFailedReadGivesNothingWrong) { each(Kind::read, 3, nearly_full()); }
TEST(DeviceFaultsOfAFullVolume, AFailedWriteIsReportedAndTheLastThatIsAcknowledged) { each(Kind::write, 3, nearly_full()); }
TEST(DeviceFaultsOfAFullVolume, AFailedFlushIsReportedAndTheLastThatIsAcknowledged) { each(Kind::flush, 3, nearly_full()); }

// ---- faults that the runs above must find

class TakesFailedWritesForDone : public DeviceDecorator {
 public:
  using DeviceDecorator::DeviceDecorator;
  Result<void> write(ByteOffset to, Bytes data) override {
    (void)inner_.write(to, data);
    return {};
  }
};

// As if the second success said that the writes before the first attempt are there.
class TriesFailedFlushesAgain : public DeviceDecorator {
 public:
  using DeviceDecorator::DeviceDecorator;
  Result<void> flush() override {
    const auto flushed = inner_.flush();
    return flushed ? flushed : inner_.flush();
  }
};

class StopsForFailedDiscards : public DeviceDecorator {
 public:
  using DeviceDecorator::DeviceDecorator;
  Result<void> flush() override { return failed_ ? make_error(EIO, "a discard has failed") : inner_.flush(); }
  Result<void> discard(ByteOffset from, ByteCount length) override {
    auto done = inner_.discard(from, length);
    if (!done) failed_ = true;
    return done;
  }

 private:
  std::atomic<bool> failed_ = false;
};

// A row that cannot be read is taken for one that is not there.
class TakesFailedReadsForNothing : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    auto found = inner().get(family, key, wait);
    if (!found && found.error().code != EAGAIN) return std::optional<std::string>();
    return found;
  }
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    return std::make_unique<Blind>(inner().cursor(family, options));
  }

 private:
  struct Blind : Cursor {
    explicit Blind(std::unique_ptr<Cursor> cursor) : rows(std::move(cursor)) {}
    void seek(std::string_view key) override { rows->seek(key); }
    void next() override { rows->next(); }
    bool valid() const override { return rows->valid(); }
    std::string_view key() const override { return rows->key(); }
    std::string_view value() const override { return rows->value(); }
    Result<void> status() const override {
      auto status = rows->status();
      if (!status && status.error().code != EAGAIN) return {};
      return status;
    }
    std::unique_ptr<Cursor> rows;
  };
};

template <class Decorator>
Between device_that() {
  return {.device = [](Device& inner) -> std::unique_ptr<Device> { return std::make_unique<Decorator>(inner); }};
}

// What the first run that complains says, of a sample of those with a failing request of a kind; "": none does.
std::string complaints(Kind kind, bool for_ever, const Between& planted, std::size_t sample) {
  Story story = everything_there_is();
  story.every = 1;
  const std::size_t n = requests(story, kind), stride = std::max<std::size_t>(1, n / sample);
  for (std::size_t at = n; at >= 1; at -= std::min(at, stride)) {
    if (std::string said = complaints_of([&] { run(story, kind, at, for_ever, planted); }); !said.empty()) return said;
  }
  return "";
}

TEST(DeviceFaultsPlanted, AWriteWhoseFailureIsIgnoredIsFound) {
  // Nobody has heard of it, or the run meets what is missing then first: which request fails depends on the background work.
  EXPECT_NE(complaints(Kind::write, false, device_that<TakesFailedWritesForDone>(), 8), "");
}

TEST(DeviceFaultsPlanted, AFlushThatIsTriedAgainIsFound) {
  const std::string said = complaints(Kind::flush, false, device_that<TriesFailedFlushesAgain>(), 8);
  EXPECT_NE(said.find("nobody heard of it"), said.npos) << said;
  EXPECT_NE(said.find("a sync succeeded after a failure"), said.npos) << said;
  // What a power cut leaves without that flush is older, or mixed up, or cannot be read: which one depends on the background work.
  EXPECT_NE(said.find("power cut after"), said.npos) << said;
}

TEST(DeviceFaultsPlanted, ADiscardThatStopsEverythingIsFound) {
  const std::string said = complaints(Kind::discard, false, device_that<StopsForFailedDiscards>(), 8);
  EXPECT_NE(said.find("nothing was lost, and yet nothing is written any more"), said.npos) << said;
}

TEST(DeviceFaultsPlanted, AReadWhoseFailureIsTakenForAnEndIsFound) {
  const Between planted{.store = [](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> {
    return std::make_unique<TakesFailedReadsForNothing>(std::move(inner));
  }};
  const std::string said = complaints(Kind::read, true, planted, 1000);
  EXPECT_TRUE(said.find("silently missing") != said.npos || said.find("a wrong line") != said.npos) << said;
}

}  // namespace
}  // namespace lsmfs::test::fault_test

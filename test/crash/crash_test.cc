// The promise of docs/reliability.md, by enumeration: after a power cut at any moment the tree is what it was between two
// operations, none older than the last sync.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "crash/workloads.h"
#include "kv/store_decorator.h"
#include "seed.h"
#include "tree/file_blobs.h"
#include "tree/hides_users.h"
#include "tree/keys.h"
#include "until.h"
#include "volume/volume_decorator.h"

namespace lsmfs::test::crash_test {
namespace {

// The whole is divided among so many runs, of which this is one: LSMFS_CRASH_SHARD=3/4 is the last of four.
struct Shard {
  std::size_t index = 0, count = 1;
  static Shard of_this_run() {
    Shard shard;
    if (const char* const text = std::getenv("LSMFS_CRASH_SHARD"); text && std::sscanf(text, "%zu/%zu", &shard.index, &shard.count) != 2) std::abort();
    return shard;
  }
  bool has(std::size_t number) const { return number % count == index; }
  bool is_first() const { return index == 0; }
};

// From LSMFS_SEED or drawn. Each shard goes on from another one.
std::uint64_t first_seed() {
  constexpr std::uint64_t kFarApart = 1'000'000'007;
  return drawn_seed() + Shard::of_this_run().index * kFarApart;
}

class Count {
 public:
  void add(const Findings& findings) {
    ++trials_;
    states_ += findings.states;
    recovery_states_ += findings.recovery_states;
    later_states_ += findings.later_states;
    total_ += findings.states;
    if (findings.problem.empty()) {
      EXPECT_GT(findings.possible, 10u) << "nothing was recorded";
    }
  }
  std::size_t states() const { return states_; }
  static std::size_t total() { return total_; }  // of all tests so far
  ~Count() {
    std::printf("%zu workloads, %zu states of a device, %zu of mounts cut off, %zu of later lives\n", trials_, states_, recovery_states_, later_states_);
  }

 private:
  std::size_t trials_ = 0, states_ = 0, recovery_states_ = 0, later_states_ = 0;
  static inline std::size_t total_ = 0;
};

// What else happens beside the operations.
enum class Background { nothing, flushes, compactions };

void intrude(Trial& trial, Background background) {
  if (background == Background::flushes) trial.flush();
  if (background == Background::compactions) {
    trial.flush();
    trial.compact();
  }
}

Result<void> compact(Store& store) {
  LSMFS_TRY(store.compact(Family::names, "", ""));
  return store.compact(Family::blocks, "", "");
}

void begin_beside(Trial& trial, Background background) {
  if (background == Background::nothing) return;
  trial.begin_beside([=](Tree&, Store& store) -> Result<void> {
    LSMFS_TRY(store.flush());
    return background == Background::compactions ? compact(store) : Result<void>();
  });
}

TEST(CrashStates, OfAnEpochAreAllPrefixesAllSubsetsAndTornRequests) {
  std::vector<TraceEvent> trace;
  const auto block = std::make_shared<std::vector<std::byte>>(kDeviceBlock, std::byte{7});
  for (std::uint64_t i = 0; i < 3; ++i) trace.push_back({false, i * kDeviceBlock, block});
  trace.push_back({true, 0, nullptr});
  trace.push_back({false, 3 * kDeviceBlock, block});
  std::size_t states = 0, whole = 0;
  each_crash_state(SparseImage(MiB), trace, {.torn = 1}, [&](const CrashState& state) {
    ++states;
    bool complete = true;
    for (std::uint64_t i = 0; i < 3; ++i) {
      std::array<std::byte, kDeviceBlock> found;
      state.image.read(i * kDeviceBlock, found);
      complete = complete && std::ranges::all_of(found, [](std::byte byte) { return byte == std::byte{7}; });
    }
    whole += complete;
    EXPECT_TRUE(complete || state.events <= 3) << state.what;  // else they had been flushed
    return true;
  });
  EXPECT_EQ(states, (8 + 3 + 1) + (2 + 1));  // subsets, of which prefixes are some, torn requests after prefixes and in a subset
  EXPECT_EQ(whole, 1 + 3);

  std::set<std::uint64_t> cuts;
  each_crash_state(SparseImage(MiB), trace, {.torn = 0, .all_cuts_up_to = 8, .last_epoch_alone = true}, [&](const CrashState& state) {
    std::array<std::byte, kDeviceBlock> found;
    state.image.read(3 * kDeviceBlock, found);
    cuts.insert(static_cast<std::uint64_t>(std::ranges::count(found, std::byte{7})) / kSector);
    return true;
  });
  EXPECT_EQ(cuts.size(), 1 + 8);
}

constexpr std::uint64_t kCuts = 16;  // sectors: of a record of the metadata log, of most frames

TEST(Crash, OfEachOperationLeavesTheTreeBeforeOrAfterIt) {
  Count count;
  const Shard shard = Shard::of_this_run();
  const std::uint64_t seed = first_seed();
  for (const Start* start : {&start_in_log(), &start_in_tables()}) {
    for (const Background background : {Background::nothing, Background::flushes, Background::compactions}) {
      for (std::size_t i = 0; i < operations().size(); ++i) {
        // Each from one of the starts, which is drawn. Beside a flush or a compaction there are ten times as many states, which are
        // those of the store.
        const std::size_t drawn = seed + i + (start == &start_in_tables());
        if (!everything() && drawn % (background == Background::nothing ? 2 : 48) != 0) continue;
        if (!shard.has(i)) continue;
        const Operation& operation = operations()[i];
        Trial trial(*start);
        begin_beside(trial, background);
        operation.run(trial);
        trial.sync();
        trial.end_beside();
        intrude(trial, background);
        trial.sync();
        const bool cuts = everything() && background == Background::nothing;
        const Findings findings = trial.judge({.states = {.all_cuts_up_to = cuts ? kCuts : 0, .seed = seed + i}, .cut_recovery = everything() ? 5u : 100u});
        count.add(findings);
        EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << operation.text << (start == &start_in_log() ? ", all in the log" : ", all in tables")
                                        << ", background " << static_cast<int>(background);
      }
    }
  }
}

// Operations of which one in so many is tried in the short form, from a drawn one on.
void try_each(const Start& start, const std::vector<Operation>& all, std::size_t one_in, const TrialLimits& limits) {
  Count count;
  const Shard shard = Shard::of_this_run();
  const std::uint64_t seed = first_seed();
  for (std::size_t i = everything() ? 0 : seed % one_in; i < all.size(); i += everything() ? 1 : one_in) {
    if (!shard.has(i)) continue;
    Trial trial(start);
    all[i].run(trial);
    trial.sync();
    TrialLimits these = limits;
    these.states.seed = seed + i;
    const Findings findings = trial.judge(these);
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << all[i].text;
  }
}

// A rename leaves their blocks where they are.
TEST(Crash, OfAnOperationOnABigFileLeavesTheTreeBeforeOrAfterIt) { try_each(start_with_big_files(), operations_on_big_files(), 3, {}); }

// Were something that belongs together in two commits, a sync could come between them.
class SyncsEachCommit : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> commit(Batch& batch) override {
    LSMFS_TRY(inner().commit(batch));
    return inner().sync();
  }
};

TEST(Crash, OfARelocationLeavesTheSameTree) {
  Count count;
  const Shard shard = Shard::of_this_run();
  const std::uint64_t seed = first_seed();
  std::size_t relocated = 0;
  for (const auto& [start, all] : {std::pair(&start_in_tables(), &operations()), std::pair(&start_with_big_files(), &operations_on_big_files())}) {
    for (std::size_t i = everything() ? 0 : seed % 3; i < all->size(); i += everything() ? 1 : 3) {
      const Operation& operation = (*all)[i];
      if (!operation.text.starts_with("rename ") || !shard.has(i)) continue;
      Trial trial(*start, {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<SyncsEachCommit>(std::move(inner)); }});
      operation.run(trial);
      trial.sync();
      relocated += trial.relocate();
      trial.sync();
      const Findings findings = trial.judge({.states = {.all_cuts_up_to = everything() ? kCuts : 0, .seed = seed + i}, .cut_recovery = 20u});
      count.add(findings);
      EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << operation.text << ", and a relocation";
    }
  }
  EXPECT_GT(relocated, 0u);
}

// At each request of a removal of a tree, and of the sweep after it: it is there as a whole or not to be found, and goes on to be swept.
TEST(Crash, OfASweepLeavesTheSameTree) {
  Count count;
  const Shard shard = Shard::of_this_run();
  const std::uint64_t seed = first_seed();
  std::size_t tried = 0, swept = 0, i = 0;
  for (const Start* start : {&start_in_tables(), &start_in_log(), &start_with_big_files(), &start_with_streams()}) {
    for (const bool synced : {true, false}) {
      for (const bool syncs_each : {true, false}) {
        if (++i; !shard.has(i) || (!everything() && (seed + i / 4) % 2 != 0)) continue;
        const Between syncing{.store = [](std::unique_ptr<Store> inner) { return std::make_unique<SyncsEachCommit>(std::move(inner)); }};
        Trial trial(*start, {}, syncs_each ? syncing : Between());
        trial.make("A/D", S_IFDIR | 0755);
        trial.make("A/D/deep", S_IFREG | 0644);
        trial.write("A/D/deep", 0, 9'000);
        if (i % 3 == 0) trial.hold("A/foo");
        trial.remove_tree("A");
        if (synced) trial.sync();
        ++tried;
        swept += trial.sweep();
        trial.make("bar", S_IFREG | 0644);
        trial.sync();
        const Findings findings = trial.judge({.states = {.all_cuts_up_to = everything() ? kCuts : 0, .seed = seed + i}, .cut_recovery = 20u});
        count.add(findings);
        EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << i;
      }
    }
  }
  EXPECT_EQ(swept, tried);
}

// What is appended goes to a blob first, and then a commit says so.
TEST(Crash, OfAnOperationOnAStreamLeavesTheTreeBeforeOrAfterIt) { try_each(start_with_streams(), operations_on_streams(), 3, {}); }

// What is changed is left to others first.
TEST(Crash, OfAnOperationOnACopyLeavesTheTreeBeforeOrAfterIt) { try_each(start_with_copies(), operations_on_copies(), 5, {}); }

// What it changes gets rows of its own first.
TEST(Crash, OfAnOperationOnACloneLeavesTheTreeBeforeOrAfterIt) { try_each(start_with_clones(), operations_on_clones(), 12, {}); }

TEST(Crash, OfAnOperationAfterAClone) {
  try_each(start_in_tables(), operations_after_clones(), 40, {});
  try_each(start_in_log(), operations_after_clones(), 40, {});
}

// All others are as before it, and so is what they were made of.
TEST(Crash, OfAnOperationWithSnapshotsLeavesTheTreeBeforeOrAfterIt) { try_each(start_with_snapshots(), operations_with_snapshots(), 8, {}); }

TEST(Crash, OfAnOperationAfterASnapshot) {
  try_each(start_in_tables(), operations_after_snapshots(), 40, {});
  try_each(start_in_log(), operations_after_snapshots(), 40, {});
}

// At each request of what takes away clones that nobody sees any more.
TEST(Crash, OfADropOfClonesLeavesTheSameTree) {
  Count count;
  const Shard shard = Shard::of_this_run();
  const std::uint64_t seed = first_seed();
  std::size_t i = 0;
  for (const char* kept : {"A", "E", "B"}) {
    for (const bool removed_by_entries : {false, true}) {
      if (++i; !shard.has(i) || (!everything() && i % 3 != seed % 3)) continue;
      Trial trial(start_with_clones(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<SyncsEachCommit>(std::move(inner)); }});
      trial.hold("A/big");
      for (const std::string top : {"A", "E", "B"}) {
        if (top == kept) continue;
        const std::string dir = top == "B" ? "B/clone" : top;
        if (removed_by_entries) {
          for (const char* name : {"/C/x", "/L/one", "/L/two", "/foo", "/big"}) trial.unlink(dir + name);
          for (const char* name : {"/C", "/L"}) trial.rmdir(dir + name);
          trial.rmdir(dir);
        } else {
          trial.remove_tree(dir);
        }
      }
      trial.sync();
      trial.sweep();
      EXPECT_TRUE(trial.relocate());
      trial.make("bar", S_IFREG | 0644);
      trial.sync();
      const Findings findings = trial.judge({.states = {.all_cuts_up_to = everything() ? kCuts : 0, .seed = seed + i}, .cut_recovery = 20u});
      count.add(findings);
      EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": all but " << kept << (removed_by_entries ? ", by entries" : "");
    }
  }
}

// Its blocks are erased as one range.
TEST(Crash, OfAnOperationOnAHugeFileLeavesTheTreeBeforeOrAfterIt) {
  try_each(start_with_a_huge_file(), operations_on_a_huge_file(), 3, {});
}

TEST(Crash, OfAMountThatErasesOrphansLeavesTheSameTree) {
  if (!Shard::of_this_run().is_first()) GTEST_SKIP() << "another one does it";
  const std::uint64_t seed = first_seed();
  Trial trial(start_with_orphans());
  trial.sync();
  const Findings findings = trial.judge({.states = {.all_cuts_up_to = everything() ? kCuts : 0, .seed = seed}, .while_mounting = 1});
  Count().add(findings);
  EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed;
}

TEST(Crash, OfTwoOperationsLeavesTheTreeBetweenThem) {
  Count count;
  const std::uint64_t seed = drawn_seed();
  const std::size_t n = operations().size();
  const std::size_t one = number_from("LSMFS_CRASH_PAIR", n * n);
  const std::size_t tried = one < n * n ? 1 : everything() ? n * n : 50;
  const Shard shard = Shard::of_this_run();
  std::mt19937_64 pairs(seed);
  for (std::size_t i = 0; i < tried; ++i) {
    const std::size_t drawn = pairs() % (n * n), pair = one < n * n ? one : everything() ? i : drawn;
    if (!shard.has(i)) continue;
    std::mt19937_64 random(seed + pair);
    const Operation &first = operations()[pair / n], &second = operations()[pair % n];
    const bool in_tables = random() % 2, synced = random() % 2, flushed = random() % 4 == 0;
    Trial trial(in_tables ? start_in_tables() : start_in_log());
    first.run(trial);
    if (flushed) trial.flush();
    if (synced) trial.sync();
    second.run(trial);
    trial.sync();
    const Findings findings = trial.judge({.states = {.seed = random()}});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << " LSMFS_CRASH_PAIR=" << pair << ": " << first.text << "; " << (synced ? "sync; " : "")
                                    << (flushed ? "flush; " : "") << second.text << (in_tables ? ", all in tables" : ", all in the log");
  }
}

// A directory's place on the device stays when it is renamed: what is then made in it lies there, too.
TEST(Crash, OfWorkInARenamedDirectoryLosesNothing) {
  if (!Shard::of_this_run().is_first()) GTEST_SKIP() << "another one does it";
  const std::uint64_t seed = first_seed();
  Trial trial(empty_start());
  trial.make("A", S_IFDIR | 0755);
  trial.sync();
  trial.rename("A", "B");
  trial.make("B/foo", S_IFREG | 0644);
  trial.write("B/foo", 0, 100);
  trial.sync();
  trial.make("A", S_IFDIR | 0755);
  trial.make("A/foo", S_IFREG | 0644);
  trial.rename("B", "A/B");
  trial.flush();
  trial.unlink("A/B/foo");
  trial.sync();
  const Findings findings = trial.judge({.states = {.all_cuts_up_to = everything() ? kCuts : 0, .seed = seed}, .cut_recovery = 20, .unmounted = 10, .later_life = 20});
  Count().add(findings);
  EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed;
}

// More than a log's frames and a memtable hold, some times over, before anything is synced: what is in the log goes there in
// pieces, and a log and a memtable give way to the next ones while operations go on.
std::string write_megabytes(Trial& trial, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string story;
  for (std::size_t written = 0; written < 7 * MiB;) {
    const std::string path = fmt::format("large{}", random() % 5);
    trial.make(path, S_IFREG | 0644);
    const std::size_t size = 30'000 + random() % 250'000;
    if (trial.write(path, random() % 300'000, size) == 0) written += size;
    // Names have memtables of their own.
    trial.setxattr(path, fmt::format("user.{}", random() % 3), 20'000 + random() % 40'000);
    story += fmt::format("{} bytes of {}; ", size, path);
    const Operation& operation = operations()[random() % operations().size()];
    if (random() % 3 == 0) {
      operation.run(trial);
      story += operation.text + "; ";
    }
  }
  return story;
}

// Operations, each synced, while another thread syncs and flushes, too.
std::string sync_beside_syncs(Trial& trial, std::uint64_t seed, int steps) {
  std::mt19937_64 random(seed);
  std::string story;
  int turn = 0;
  trial.begin_beside([&](Tree& tree, Store& store) { return ++turn % 3 == 0 ? store.flush() : tree.sync(); });
  for (int step = 0; step < steps; ++step) {
    const Operation& operation = operations()[random() % operations().size()];
    operation.run(trial);
    story += operation.text + "; ";
    // The other one's sync may be in the middle of its flush, or not.
    if (random() % 2 == 0) trial.await_flush_beside();
    trial.make(fmt::format("synced{}", step), S_IFREG | 0644);
    trial.sync();
  }
  trial.end_beside();
  return story;
}

TEST(Crash, OfMegabytesWithoutASyncLeavesTheTreeBetweenTwoOperations) {
  Count count;
  std::uint64_t seed = first_seed();
  for (int round = 0; round < (everything() ? 10 : 2) && !HasFailure(); ++round, ++seed) {
    Trial trial(seed % 2 ? start_in_log() : start_in_tables());
    const std::string table = trial.last_table();
    // Tables come by themselves, or come and go all the time.
    const bool beside = seed / 2 % 2;
    if (beside) {
      trial.begin_beside([](Tree&, Store& store) -> Result<void> {
        LSMFS_TRY(store.flush());
        return compact(store);
      }, 8);
    }
    const std::string story = write_megabytes(trial, seed);
    EXPECT_TRUE(beside || until([&] { return trial.last_table() > table; })) << "nothing of it was flushed";
    trial.sync();
    const Findings findings = trial.judge({.states = {.random_subsets = 4, .seed = seed}, .every = everything() ? 1u : 6u});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << (beside ? ", beside flushes and compactions" : "") << ": " << story;
  }
}

// Two threads sync: what one of them has written since the other one's flush began is not durable by that.
TEST(Crash, BesideTheSyncsOfAnotherLosesNothingThatWasSynced) {
  Count count;
  std::uint64_t seed = first_seed();
  for (int round = 0; round < (everything() ? 40 : 3) && !HasFailure(); ++round, ++seed) {
    Trial trial(seed % 2 ? start_in_log() : start_in_tables());
    const std::string story = sync_beside_syncs(trial, seed, 12);
    const Findings findings = trial.judge({.states = {.seed = seed}, .every = everything() ? 1u : 4u});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << story;
  }
}

TEST(Crash, WhileTheMetadataLogGoesOnInItsOtherArea) {
  if (!Shard::of_this_run().is_first()) GTEST_SKIP() << "another one does it";
  const std::uint64_t seed = first_seed();
  Trial trial(start_before_switch());
  trial.rename("A/C", "B/C");
  trial.flush();
  trial.make("bar", S_IFREG | 0644);
  trial.flush();
  trial.compact();
  trial.sync();
  const Findings findings = trial.judge({.states = {.all_cuts_up_to = everything() ? kCuts : 0, .seed = seed}, .cut_recovery = 50, .unmounted = 10, .later_life = 20});
  Count().add(findings);
  EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed;
}

// As many requests as a long life has between two syncs: a sample of their states. One life after the other, until all tests here
// have judged as many states as are wanted. The first life is drawn from LSMFS_SEED, the next one from the number after it.
TEST(Crash, OfManyOperationsLeavesTheTreeBetweenTwoOfThem) {
  Count count;
  const std::size_t wanted = number_from("LSMFS_CRASH_STATES", everything() ? 1'000'000 / Shard::of_this_run().count : 0), before = Count::total();
  std::uint64_t seed = first_seed();
  for (; (count.states() < 1'000 || before + count.states() < wanted) && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const bool big = seed % 3 == 0;
    const bool streams = seed % 5 == 4, copies = !streams && big && seed % 2 == 0;
    Trial trial(streams ? start_with_streams() : copies ? start_with_copies() : big ? start_with_big_files() : seed % 3 == 1 ? start_before_switch() : start_in_tables());
    std::string story;
    for (int step = 0; step < 40; ++step) {
      const bool some = random() % 2 != 0;
      const std::vector<Operation>& all = streams && some ? operations_on_streams() : copies && some ? operations_on_copies() : !streams && big && some ? operations_on_big_files() : operations();
      const Operation& operation = all[random() % all.size()];
      operation.run(trial);
      story += operation.text + "; ";
      const std::uint64_t dice = random() % 20;
      if (dice < 3) trial.sync();
      if (dice == 3) trial.flush();
      if (dice == 4 && step > 20) intrude(trial, Background::compactions);
      if (dice == 5) trial.trim();
      if (dice == 6 || dice == 7) trial.relocate();
      if (dice == 8) trial.sweep();
      story += dice < 3 ? "sync; " : dice == 3 ? "flush; " : dice == 4 && step > 20 ? "compaction; " : dice == 5 ? "trim; " : dice < 8 ? "relocation; " : dice == 8 ? "sweep; " : "";
    }
    const Findings findings = trial.judge({.states = {.random_subsets = 4, .seed = seed}, .every = everything() ? 1u : 2u});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << story;
  }
}

// Merges go on at all times, and a log that is replayed finds no more space than there was.
TEST(Crash, OfAVolumeThatIsNearlyFullLeavesTheTreeBetweenTwoOperations) {
  Count count;
  std::uint64_t seed = first_seed();
  for (int round = 0; round < (everything() ? 10 : 1) && !HasFailure(); ++round, ++seed) {
    std::mt19937_64 random(seed);
    Trial trial(start_nearly_full());
    const std::string story = write_over(trial, random, everything() ? 64 * MiB : 12 * MiB);
    trial.sync();
    const Findings findings = trial.judge({.states = {.random_subsets = 4, .seed = seed},
                                           .every = everything() ? 20u : 100u,
                                           .unmounted = 10,
                                           .later_life = everything() ? 20u : 0u,
                                           .written_over = 2});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "LSMFS_SEED=" << seed << ": " << story;
  }
}

TEST(CrashEngine, FindsFlushesThatDoNothing) {
  Trial trial(start_in_tables());
  trial.plant(Trial::Fault::flushes_do_nothing);
  trial.make("bar", S_IFREG | 0644);
  trial.sync();
  trial.write("bar", 0, 100);
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

TEST(CrashEngine, FindsASkippedFlush) {
  Trial trial(start_in_tables());
  trial.plant(Trial::Fault::the_last_flush_does_nothing);
  trial.make("bar", S_IFREG | 0644);
  trial.sync();
  trial.rename("foo", "B/bar");
  trial.sync();
  const std::string problem = trial.judge({}).problem;
  EXPECT_NE(problem.find("lost what was synced"), problem.npos) << problem;
}

// Each second batch goes to the log before the one that came first.
class SwapsBatches : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> commit(Batch& batch) override {
    if (!first_) {
      first_.emplace(std::move(batch));
      batch = Batch();
      return {};
    }
    LSMFS_TRY(inner().commit(batch));
    LSMFS_TRY(inner().sync());
    Batch first = std::move(*first_);
    first_.reset();
    return inner().commit(first);
  }

 private:
  std::optional<Batch> first_;
};

TEST(CrashEngine, FindsBatchesThatChangePlaces) {
  Trial trial(start_in_tables(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<SwapsBatches>(std::move(inner)); }});
  trial.write("foo", 0, 400'000);  // more than a batch takes
  trial.make("bar", S_IFREG | 0644);
  trial.rename("foo", "B/bar");
  trial.sync();
  const std::string problem = trial.judge({}).problem;
  EXPECT_NE(problem.find("was never like this"), problem.npos) << problem;
}

TEST(CrashEngine, FindsSyncsThatDoNothing) {
  Trial trial(start_in_tables(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<ForgetsSyncs>(std::move(inner)); }});
  trial.make("bar", S_IFREG | 0644);
  trial.sync();
  const std::string problem = trial.judge({}).problem;
  EXPECT_NE(problem.find("lost what was synced"), problem.npos) << problem;
}

// Whoever comes while somebody syncs is content with that.
class JoinsTheSyncUnderWay : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> sync() override {
    std::unique_lock lock(mutex_);
    if (under_way_) {
      const Waiting waiting("the sync of another thread");
      ended_.wait(lock, [this] { return !under_way_; });
      return {};
    }
    under_way_ = true;
    lock.unlock();
    auto synced = inner().sync();
    lock.lock();
    under_way_ = false;
    ended_.notify_all();
    return synced;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool under_way_ = false;
};

// By one seed of four, and less often while others have the processors.
TEST(CrashEngine, FindsASyncThatJoinsTheOneUnderWay) {
  std::string problem;
  for (std::uint64_t seed = 1; seed <= 150 && problem.empty(); ++seed) {
    Trial trial(start_in_tables(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<JoinsTheSyncUnderWay>(std::move(inner)); }});
    sync_beside_syncs(trial, seed, 12);
    problem = trial.judge({.states = {.torn = 0, .seed = seed}, .cut_recovery = 0, .unmounted = 0, .later_life = 0}).problem;
  }
  EXPECT_NE(problem.find("lost what was synced"), problem.npos) << problem;
}

// Who writes to a log does not sync it before the next one begins, so its end may be lost and what comes after it be there,
// until a table has all of it: tables come late here.
class LeavesGapsBetweenLogs : public VolumeDecorator {
 public:
  struct Shared {
    std::atomic<std::thread::id> writing;
    std::atomic<bool> asked = true;  // by somebody who syncs
    std::atomic<std::uint64_t> logged = 0;  // bytes in the newest log
  };
  LeavesGapsBetweenLogs(std::unique_ptr<Volume> inner, Shared& shared) : VolumeDecorator(std::move(inner)), shared_(shared) {}
  Result<std::unique_ptr<FileWriter>> create(std::string_view name, FileKind kind) override {
    auto writer = inner().create(name, kind);
    if (!writer) return writer;
    if (name.ends_with(".sst")) return std::unique_ptr<FileWriter>(std::make_unique<Table>(std::move(*writer), shared_));
    if (!name.ends_with(".log")) return writer;
    shared_.logged = 0;
    return std::unique_ptr<FileWriter>(std::make_unique<Log>(std::move(*writer), shared_));
  }

 private:
  struct Passing : WriterDecorator {
    Passing(std::unique_ptr<FileWriter> writer, Shared& with) : WriterDecorator(std::move(writer)), shared(with) {}
    Shared& shared;
  };
  struct Log final : Passing {
    using Passing::Passing;
    Result<void> append(Bytes data) override {
      shared.writing = std::this_thread::get_id();
      shared.logged += data.size();
      return inner().append(data);
    }
    Result<void> sync() override { return shared.writing.load() == std::this_thread::get_id() && !shared.asked ? Result<void>() : inner().sync(); }
  };
  struct Table final : Passing {
    using Passing::Passing;
    Result<void> sync() override {
      const auto waited_for = [] { return longest_waits().find("space, which flushes") != std::string::npos; };
      EXPECT_TRUE(until([&] { return shared.logged >= 3 * MiB / 2 || shared.asked || waited_for(); }));
      return inner().sync();
    }
  };
  Shared& shared_;
};

TEST(CrashEngine, FindsAGapBetweenTwoLogs) {
  LeavesGapsBetweenLogs::Shared shared;
  std::string problem;
  for (std::uint64_t seed = 1; seed <= 300 && problem.empty(); ++seed) {
    Trial trial(start_in_tables(), {}, {.volume = [&](std::unique_ptr<Volume> inner) {
      return std::make_unique<LeavesGapsBetweenLogs>(std::move(inner), shared);
    }});
    shared.asked = false;
    write_megabytes(trial, seed);
    shared.asked = true;
    trial.sync();
    // Where there is a gap many states show it: a few of each seed are enough, for a seed without one takes all of them.
    problem = trial.judge({.states = {.random_subsets = 32, .torn = 0, .seed = seed}, .every = 10, .cut_recovery = 0, .unmounted = 0, .later_life = 0}).problem;
  }
  EXPECT_NE(problem.find("was never like this"), problem.npos) << problem;
}

// The space of a blob is free as soon as no row names it any more, and not when that is durable.
class FreesBlobsTooEarly : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> commit(Batch& batch) override {
    LSMFS_TRY(inner().commit(batch));
    std::set<std::uint64_t> now;
    const auto rows = inner().cursor(Family::names, {.lower = std::string(keys::kBlobPrefix), .upper = keys::prefix_end(keys::kBlobPrefix)});
    for (rows->seek(keys::kBlobPrefix); rows->valid(); rows->next()) now.insert(FileBlobs::decode(0, rows->value())->blob);
    std::vector<std::uint64_t> gone;
    std::ranges::set_difference(named_, now, std::back_inserter(gone));
    named_ = std::move(now);
    return gone.empty() ? Result<void>() : inner().remove_blobs(gone);
  }

 private:
  std::set<std::uint64_t> named_;
};

TEST(CrashEngine, FindsABlobThatIsFreedTooEarly) {
  Trial trial(start_with_streams(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<FreesBlobsTooEarly>(std::move(inner)); }});
  trial.setattr("A/stream", {.mode = 0600});
  trial.sync();
  trial.unlink("A/stream");
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

// What a commit says of a blob may be durable before what was appended to it.
class PrecedesNothing : public VolumeDecorator {
 public:
  using VolumeDecorator::VolumeDecorator;
  Result<std::unique_ptr<FileWriter>> create(std::string_view name, FileKind kind) override {
    LSMFS_ASSIGN(auto writer, inner().create(name, kind));
    if (!name.starts_with("blob-")) return writer;
    struct Writer final : WriterDecorator {
      using WriterDecorator::WriterDecorator;
      Result<void> precede_logs() override { return {}; }
    };
    return std::unique_ptr<FileWriter>(std::make_unique<Writer>(std::move(writer)));
  }
};

TEST(CrashEngine, FindsAStreamThatIsAcknowledgedBeforeItIsThere) {
  Trial trial(start_with_streams(), {}, {.volume = [](std::unique_ptr<Volume> inner) { return std::make_unique<PrecedesNothing>(std::move(inner)); }});
  constexpr std::uint64_t end = 400'000;
  for (std::uint64_t i = 0; i < 4; ++i) {
    trial.write("A/stream", end + i * 50'000, 50'000);
    trial.sync();
  }
  EXPECT_NE(trial.judge({}).problem, "");
}

TEST(CrashEngine, FindsABaseThatIsErasedTooEarly) {
  Trial trial(start_with_copies(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<HidesUsers>(std::move(inner)); }});
  trial.unlink("big");
  trial.sync();
  trial.relocate();
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

TEST(CrashEngine, FindsABaseOfADirectoryThatIsErasedTooEarly) {
  Trial trial(start_with_clones(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<HidesUsers>(std::move(inner)); }});
  trial.clone("A/C", "bar");
  trial.sync();
  trial.remove_tree("A/C");
  trial.sync();
  trial.sweep();
  trial.relocate();
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

TEST(CrashEngine, FindsABaseThatIsErasedWhileASnapshotShowsIt) {
  Trial trial(start_in_tables(), {}, {.store = [](std::unique_ptr<Store> inner) { return std::make_unique<HidesUsers>(std::move(inner)); }});
  trial.clone("A", ".snapshots/of A");
  trial.sync();
  trial.remove_tree("A");
  trial.sync();
  trial.sweep();
  trial.relocate();
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

TEST(CrashEngine, FindsRenamesThatAreNotAtomic) {
  Trial trial(start_in_tables());
  trial.plant(Trial::Fault::renames_are_links_and_unlinks);
  trial.rename("foo", "B/bar");
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

}  // namespace
}  // namespace lsmfs::test::crash_test

// The promise of docs/reliability.md, by enumeration: after a power cut at any moment the tree is what it was between two
// operations, none older than the last sync.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <random>

#include "crash/workloads.h"

namespace lsmfs::test {
namespace {

class Count {
 public:
  void add(const Findings& findings) {
    ++trials_;
    states_ += findings.states;
    recovery_states_ += findings.recovery_states;
  }
  ~Count() {
    std::printf("%zu workloads, %zu states of a device, %zu of mounts cut off\n", trials_, states_, recovery_states_);
  }

 private:
  std::size_t trials_ = 0, states_ = 0, recovery_states_ = 0;
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
      complete = complete && found[0] == std::byte{7} && found[kDeviceBlock - 1] == std::byte{7};
    }
    whole += complete;
    EXPECT_TRUE(complete || state.events <= 3) << state.what;  // else they had been flushed
    return true;
  });
  EXPECT_EQ(states, (8 + 3) + (2 + 1));  // subsets, of which prefixes are some, and torn requests
  EXPECT_EQ(whole, 1 + 3);
}

TEST(Crash, OfEachOperationLeavesTheTreeBeforeOrAfterIt) {
  Count count;
  for (const Start* start : {&start_in_log(), &start_in_tables()}) {
    for (const Background background : {Background::nothing, Background::flushes, Background::compactions}) {
      for (std::size_t i = 0; i < operations().size(); ++i) {
        // Beside a flush or a compaction there are ten times as many states, which are those of the store.
        if (!everything() && background != Background::nothing && i % 24 != 0) continue;
        const Operation& operation = operations()[i];
        Trial trial(*start);
        operation.run(trial);
        intrude(trial, background);
        trial.sync();
        const Findings findings = trial.judge({.cut_recovery = everything() ? 1u : 100u});
        count.add(findings);
        EXPECT_EQ(findings.problem, "") << operation.text << (start == &start_in_log() ? ", all in the log" : ", all in tables") << ", background "
                                        << static_cast<int>(background);
      }
    }
  }
}

TEST(Crash, OfTwoOperationsLeavesTheTreeBetweenThem) {
  Count count;
  std::mt19937_64 random(everything() ? 1 : std::random_device{}());
  const std::size_t n = operations().size();
  const std::size_t tried = everything() ? n * n : 40;
  for (std::size_t i = 0; i < tried; ++i) {
    const std::size_t pair = everything() ? i : random() % (n * n);
    const Operation &first = operations()[pair / n], &second = operations()[pair % n];
    const bool in_tables = random() % 2, synced = random() % 2, flushed = random() % 4 == 0;
    Trial trial(in_tables ? start_in_tables() : start_in_log());
    first.run(trial);
    if (flushed) trial.flush();
    if (synced) trial.sync();
    second.run(trial);
    trial.sync();
    const Findings findings = trial.judge({.states = {.seed = random()}, .cut_recovery = 25});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << first.text << "; " << (synced ? "sync; " : "") << (flushed ? "flush; " : "") << second.text
                                    << (in_tables ? ", all in tables" : ", all in the log");
  }
}

// A directory's place on the device stays when it is renamed: what is then made in it lies there, too.
TEST(Crash, OfWorkInARenamedDirectoryLosesNothing) {
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
  const Findings findings = trial.judge({.cut_recovery = 5});
  Count().add(findings);
  EXPECT_EQ(findings.problem, "");
}

// As many requests as a long life has between two syncs: a sample of their states.
TEST(Crash, OfManyOperationsLeavesTheTreeBetweenTwoOfThem) {
  Count count;
  for (int round = 0; round < (everything() ? 200 : 8); ++round) {
    const char* const again = std::getenv("LSMFS_SEED");
    const std::uint64_t seed = again ? std::strtoull(again, nullptr, 10) : std::random_device{}();
    std::mt19937_64 random(seed);
    Trial trial(round % 2 ? start_before_switch() : start_in_tables());
    std::string story;
    for (int step = 0; step < 40; ++step) {
      const Operation& operation = operations()[random() % operations().size()];
      operation.run(trial);
      story += operation.text + "; ";
      const std::uint64_t dice = random() % 20;
      if (dice < 3) trial.sync();
      if (dice == 3) trial.flush();
      if (dice == 4 && step > 20) intrude(trial, Background::compactions);
      story += dice < 3 ? "sync; " : dice == 3 ? "flush; " : dice == 4 && step > 20 ? "compaction; " : "";
    }
    const Findings findings = trial.judge({.states = {.random_subsets = 4, .seed = seed}, .every = everything() ? 1u : 2u, .cut_recovery = 50});
    count.add(findings);
    EXPECT_EQ(findings.problem, "") << "seed " << seed << ": " << story;
  }
}

TEST(Crash, WhileTheMetadataLogGoesOnInItsOtherArea) {
  Trial trial(start_before_switch());
  trial.rename("A/C", "B/C");
  trial.flush();
  trial.make("bar", S_IFREG | 0644);
  trial.flush();
  trial.compact();
  trial.sync();
  const Findings findings = trial.judge({.cut_recovery = 10});
  Count().add(findings);
  EXPECT_EQ(findings.problem, "");
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

TEST(CrashEngine, FindsRenamesThatAreNotAtomic) {
  Trial trial(start_in_tables());
  trial.plant(Trial::Fault::renames_are_links_and_unlinks);
  trial.rename("foo", "B/bar");
  trial.sync();
  EXPECT_NE(trial.judge({}).problem, "");
}

}  // namespace
}  // namespace lsmfs::test

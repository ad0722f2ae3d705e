// Runs each target on random changes of its examples, and of what came of them and could be decoded. A failure is a test
// that fails; what ends the process, or takes too long, says on which input it did.
//
// LSMFS_SEED repeats a run, LSMFS_FUZZ_EXECUTIONS sets its length, LSMFS_LONG=1 makes it long. LSMFS_FUZZ_INPUT is one
// input, as a run has told it, to be run alone: name its target by --gtest_filter. LSMFS_FUZZ_ROCKSDB=1 puts RocksDB's
// own checksums right, too, in whole images: see rocksdb_seals.h.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "fuzz/mutator.h"
#include "fuzz/target.h"
#include "seed.h"

// A report of a sanitizer ends the process, by a signal that is caught below; sizes that nobody has are refused.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:allocator_may_return_null=1:quarantine_size_mb=8"
         ":malloc_context_size=5:clear_shadow_mmap_threshold=16777216";  // for speed: an image takes a hundred threads, one after the other
}
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:abort_on_error=1:print_stacktrace=1"; }

namespace lsmfs::fuzz::fuzz_test {
namespace {

constexpr unsigned kSecondsMax = 120;  // for one image, or a thousand inputs of a decoder

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) out.append({kDigits[static_cast<std::uint8_t>(c) >> 4], kDigits[c & 15]});
  return out;
}

std::string bytes_of(std::string_view digits) {
  std::string out;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2) out.push_back(static_cast<char>(std::stoi(std::string(digits.substr(at, 2)), nullptr, 16)));
  return out;
}

// What is being run, for a process that ends.
std::string_view running_target, running_input;

void tell_and_end(int signal) {
  const auto say = [](std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); };
  say(signal == SIGALRM ? "fuzz: takes too long: " : "fuzz: ends the process: ");
  say(running_target);
  say(" on input ");
  for (const char c : running_input.substr(0, 64 * KiB)) {
    const char digits[] = {"0123456789abcdef"[static_cast<std::uint8_t>(c) >> 4], "0123456789abcdef"[c & 15]};
    say({digits, 2});
  }
  say("\n");
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

struct Outcome {
  std::size_t executions = 0, decoded = 0;
  std::string failure;  // empty: none
};

Outcome fuzz(const Target& target, std::uint64_t seed, std::size_t executions) {
  Outcome outcome;
  Mutator mutator(seed);
  std::vector<std::string> pool = target.examples();
  const std::size_t examples = pool.size();
  const std::size_t at_a_time = &target == &kImage ? 1 : 1000;
  const auto run = [&](const std::string& input) {
    running_target = target.name;
    running_input = input;
    try {
      return execute(target, input);
    } catch (const Failure& failure) {
      outcome.failure = failure.what + ", seed " + std::to_string(seed) + ", execution " + std::to_string(outcome.executions) + ", input " + hex(input);
      return false;
    }
  };
  for (; outcome.executions < executions && outcome.failure.empty(); ++outcome.executions) {
    if (outcome.executions % at_a_time == 0) ::alarm(kSecondsMax);
    const std::size_t i = outcome.executions;
    const std::string input = i < examples ? pool[i] : mutator.mutate(pool[mutator.below(pool.size())], pool[mutator.below(pool.size())], target.size_max);
    if (!run(input)) continue;
    ++outcome.decoded;
    // Go on from some of those that were decoded.
    if (i < examples || mutator.below(8) != 0) continue;
    if (pool.size() < 2 * examples + 200) {
      pool.push_back(input);
    } else {
      pool[examples + mutator.below(pool.size() - examples)] = input;
    }
  }
  ::alarm(0);
  return outcome;
}

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::size_t executions_of(const Target& target) {
  const bool everything = std::getenv("LSMFS_LONG") != nullptr, image = &target == &kImage;
  const std::size_t wanted = everything ? target.executions * (image ? 1000 : 10) : target.executions / (image ? 1 : 2);
  return number_from("LSMFS_FUZZ_EXECUTIONS", wanted);
}

class Fuzz : public testing::TestWithParam<const Target*> {
 protected:
  static void SetUpTestSuite() {
    for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, tell_and_end);
#ifndef __SANITIZE_ADDRESS__  // which tells of these itself, and aborts
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, tell_and_end);
#endif
  }
  void TearDown() override { planted = Planted::nothing; }
};

TEST_P(Fuzz, FindsNothingWrong) {
  const Target& target = *GetParam();
  if (const char* const input = std::getenv("LSMFS_FUZZ_INPUT")) {
    running_target = target.name;
    running_input = input;
    (void)execute(target, bytes_of(input));
    return;
  }
  const std::uint64_t seed = test::drawn_seed();
  const std::size_t wanted = executions_of(target);
  const Outcome outcome = fuzz(target, seed, wanted);
  std::printf("%s: seed %llu, %zu executions, %zu decoded\n", target.name, static_cast<unsigned long long>(seed), outcome.executions, outcome.decoded);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.executions, wanted);
  EXPECT_GT(outcome.decoded, wanted / 50) << "too little gets past the first checks";
  if (&target != &kImage) return;
  const ImageCounts& c = image_counts;
  std::printf("of %zu images, %zu of them repaired, %zu have a volume that opens, %zu a store, %zu a tree, and %zu are sound\n", c.images, c.repaired,
              c.volumes, c.stores, c.trees, c.clean);
  EXPECT_GT(c.volumes, c.stores);
  EXPECT_GT(c.stores, c.trees);
  EXPECT_GT(c.trees, c.clean);
  EXPECT_GT(c.clean, c.repaired) << "not only what was repaired is sound";
  EXPECT_GT(c.repaired, 0u);
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(targets().begin(), targets().end()), [](const auto& some) { return std::string(some.param->name); });

struct Plant {
  Planted fault;
  const Target& target;
  std::size_t executions;
};

TEST(FuzzPlanted, FaultsAreFound) {
  for (const Plant& plant : {Plant{Planted::range_not_checked, kSuperblock, 100'000}, Plant{Planted::length_believed, kPatch, 100'000},
                             Plant{Planted::field_cut_off, kRecord, 100'000}, Plant{Planted::damage_not_reported, kImage, 500},
                             Plant{Planted::damage_not_repaired, kImage, 500}}) {
    planted = plant.fault;
    const Outcome outcome = fuzz(plant.target, 1, plant.executions);
    EXPECT_NE(outcome.failure, "") << plant.target.name;
    std::printf("%s: found after %zu executions\n", plant.target.name, outcome.executions);
    planted = Planted::nothing;
    EXPECT_EQ(fuzz(plant.target, 1, outcome.executions).failure, "") << "without the fault";
  }
}

TEST(FuzzMutator, TheSameSeedGivesTheSameChangesWithinTheSize) {
  Mutator one(5), same(5), other(6);
  bool differs = false;
  for (int i = 0; i < 10'000; ++i) {
    const std::string changed = one.mutate("what there is", "and what there could be", 20);
    EXPECT_LE(changed.size(), 20u);
    EXPECT_EQ(same.mutate("what there is", "and what there could be", 20), changed);
    differs = differs || other.mutate("what there is", "and what there could be", 20) != changed;
  }
  EXPECT_TRUE(differs);
}

}  // namespace
}  // namespace lsmfs::fuzz::fuzz_test

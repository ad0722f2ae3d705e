#include "volume/allocator.h"

#include <gtest/gtest.h>

#include <random>

#include "seed.h"

namespace lsmfs::allocator_test {
namespace {

using End = Allocator::End;
constexpr std::uint64_t kStart = 64 * MiB;

TEST(Allocator, TakesTheSmallestRunThatHoldsAll) {
  Allocator a(kStart, 100 * MiB, MiB);
  ASSERT_TRUE(a.take({kStart + 10 * MiB, MiB}));  // runs of 10, 9 and 79
  ASSERT_TRUE(a.take({kStart + 20 * MiB, MiB}));
  EXPECT_EQ(a.allocate_run(9 * MiB, End::low), (Extent{kStart + 11 * MiB, 9 * MiB}));
  EXPECT_EQ(a.allocate_run(10 * MiB, End::high), (Extent{kStart, 10 * MiB}));
  EXPECT_EQ(a.largest(), 79 * MiB);
}

TEST(Allocator, ServesBriefFromTheLowEndAndLastingFromTheHighEnd) {
  Allocator a(kStart, 100 * MiB, MiB);
  EXPECT_EQ(a.allocate_run(5 * MiB, End::low)->start, kStart);
  EXPECT_EQ(a.allocate_run(5 * MiB, End::high)->start, kStart + 95 * MiB);
  Allocator b(kStart, 9 * MiB, MiB);
  ASSERT_TRUE(b.take({kStart + 2 * MiB, MiB}));
  ASSERT_TRUE(b.take({kStart + 5 * MiB, 2 * MiB}));  // three runs of two granules
  EXPECT_EQ(b.allocate_run(2 * MiB, End::high)->start, kStart + 7 * MiB);
  EXPECT_EQ(b.allocate_run(2 * MiB, End::low)->start, kStart);
}

TEST(Allocator, RoundsUpToGranulesAndRefusesWhatIsNotFree) {
  Allocator a(kStart, 4 * MiB, MiB);
  EXPECT_EQ(a.allocate_run(1, End::low)->length, MiB);
  EXPECT_EQ(a.allocate_run(0, End::low), std::nullopt);
  EXPECT_EQ(a.allocate_run(UINT64_MAX, End::low), std::nullopt);
  EXPECT_EQ(a.allocate_run(3 * MiB + 1, End::low), std::nullopt);
  EXPECT_EQ(a.allocate(3 * MiB + 1, End::low, MiB), std::nullopt);
  EXPECT_EQ(a.free(), 3 * MiB);
}

TEST(Allocator, SplitsIntoDecentPiecesWhenNoRunIsLongEnough) {
  Allocator a(kStart, 42 * MiB, MiB);
  ASSERT_TRUE(a.take({kStart + 20 * MiB, MiB}));
  ASSERT_TRUE(a.take({kStart + 41 * MiB, MiB}));  // two runs of 20
  auto pieces = a.allocate(22 * MiB, End::low, 8 * MiB);
  ASSERT_TRUE(pieces);
  ASSERT_EQ(pieces->size(), 2u);
  EXPECT_EQ((*pieces)[0].length, 14 * MiB);
  EXPECT_EQ((*pieces)[1].length, 8 * MiB);
}

TEST(Allocator, UsesCrumbsOnlyWhenNothingElseIsLeft) {
  Allocator a(kStart, 10 * MiB, MiB);
  for (std::uint64_t i = 1; i < 10; i += 2) ASSERT_TRUE(a.take({kStart + i * MiB, MiB}));
  auto pieces = a.allocate(5 * MiB, End::low, 8 * MiB);
  ASSERT_TRUE(pieces);
  EXPECT_EQ(pieces->size(), 5u);
  EXPECT_EQ(a.free(), 0u);
  EXPECT_EQ(a.largest(), 0u);
}

TEST(Allocator, RefusesToTakeOrReleaseWhatIsNotItsOwn) {
  Allocator a(kStart, 10 * MiB, MiB);
  EXPECT_FALSE(a.take({kStart - MiB, MiB}));
  EXPECT_FALSE(a.take({kStart + 10 * MiB, MiB}));
  EXPECT_FALSE(a.take({kStart + 9 * MiB, 2 * MiB}));
  EXPECT_FALSE(a.take({kStart + 1, MiB}));
  EXPECT_FALSE(a.take({kStart, MiB / 2}));
  EXPECT_FALSE(a.take({kStart, 0}));
  EXPECT_FALSE(a.take({kStart, UINT64_MAX - kStart + 1}));
  EXPECT_FALSE(a.release({kStart, MiB}));
  ASSERT_TRUE(a.take({kStart, 2 * MiB}));
  EXPECT_FALSE(a.take({kStart + MiB, 2 * MiB}));
  EXPECT_FALSE(a.release({kStart + MiB, 2 * MiB}));
  EXPECT_TRUE(a.release({kStart + MiB, MiB}));
  EXPECT_EQ(a.free(), 9 * MiB);
}

// A bitmap says the same in a simpler way.
TEST(Allocator, AgreesWithABitmapThroughRandomOperations) {
  std::mt19937_64 random(test::drawn_seed());
  constexpr std::uint64_t kGranules = 200;
  Allocator a(kStart, kGranules * MiB, MiB);
  std::vector<bool> used(kGranules);
  std::vector<Extent> held;

  const auto mark = [&](const Extent& e, bool to) {
    for (std::uint64_t g = (e.start - kStart) / MiB; g < (e.end() - kStart) / MiB; ++g) {
      ASSERT_NE(used[g], to);
      used[g] = to;
    }
  };
  for (int step = 0; step < 20000; ++step) {
    std::uint64_t free = 0, largest = 0, run = 0;
    for (bool u : used) {
      run = u ? 0 : run + 1;
      free += !u;
      largest = std::max(largest, run);
    }
    ASSERT_EQ(a.free(), free * MiB);
    ASSERT_EQ(a.largest(), largest * MiB);

    const std::uint64_t want = 1 + random() % 40;
    const End end = random() % 2 ? End::low : End::high;
    switch (random() % 4) {
      case 0: {
        auto got = a.allocate_run(want * MiB, end);
        ASSERT_EQ(got.has_value(), want <= largest);
        if (got) {
          ASSERT_EQ(got->length, want * MiB);
          mark(*got, true);
          held.push_back(*got);
        }
        break;
      }
      case 1: {
        auto got = a.allocate(want * MiB, end, 8 * MiB);
        ASSERT_EQ(got.has_value(), want <= free);
        std::uint64_t total = 0;
        for (const Extent& e : got.value_or(std::vector<Extent>{})) {
          total += e.length;
          mark(e, true);
          held.push_back(e);
        }
        ASSERT_EQ(total, got ? want * MiB : 0);
        break;
      }
      default: {
        if (held.empty()) break;
        const std::size_t i = random() % held.size();
        Extent e = held[i];
        held[i] = held.back();
        held.pop_back();
        if (random() % 3 == 0 && e.length > MiB) {  // give back a part
          held.push_back({e.start + MiB, e.length - MiB});
          e.length = MiB;
        }
        ASSERT_TRUE(a.release(e));
        ASSERT_FALSE(a.release(e));
        mark(e, false);
      }
    }
  }
}

TEST(Allocator, TellsTheFreeRunAtOrAfterAPlace) {
  Allocator a(kStart, 20 * MiB, MiB);
  ASSERT_TRUE(a.take({kStart, 2 * MiB}));
  ASSERT_TRUE(a.take({kStart + 10 * MiB, MiB}));  // runs of 8 and 9
  const Extent first{kStart + 2 * MiB, 8 * MiB}, second{kStart + 11 * MiB, 9 * MiB};
  EXPECT_EQ(a.free_run(0), first);
  EXPECT_EQ(a.free_run(first.start), first);
  EXPECT_EQ(a.free_run(first.start + 5), first);
  EXPECT_EQ(a.free_run(first.end() - 1), first);
  EXPECT_EQ(a.free_run(first.end()), second);
  EXPECT_EQ(a.free_run(second.end() - 1), second);
  EXPECT_EQ(a.free_run(second.end()), std::nullopt);
  ASSERT_TRUE(a.take(second));
  EXPECT_EQ(a.free_run(first.end()), std::nullopt);
  ASSERT_TRUE(a.take(first));
  EXPECT_EQ(a.free_run(0), std::nullopt);
}

}  // namespace
}  // namespace lsmfs::allocator_test

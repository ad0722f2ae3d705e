#include "kv/erased.h"

#include <gtest/gtest.h>

namespace lsmfs::erased_test {
namespace {

using kv::Erased;
using kv::ErasedRange;
using kv::kRangesToFlush;
using namespace std::chrono_literals;

constexpr std::uint64_t kWorth = 1000 * 4096;  // a thousand rows of blocks

// Notes on a clock of its own.
class Notes {
 public:
  void ranges(std::size_t count) {
    std::vector<ErasedRange> some;
    for (std::size_t i = 0; i < count; ++i) some.push_back({Family::blocks, std::to_string(i), std::to_string(i + 1)});
    erased.note(some, {}, now);
  }
  void blocks(std::uint64_t count) { erased.note({}, {{}, {"a", "b", count}}, now); }
  void names(std::uint64_t count) { erased.note({}, {{"c", "d", count}, {}}, now); }
  bool is_due() const { return now >= erased.due(); }
  bool nothing() { return erased.take(now).empty(); }
  // What is taken after so much time.
  Erased::Work take_after(Clock::Duration time) {
    now += time;
    return erased.take(now);
  }

  Clock::Time now = Clock::Time(1h);
  Erased erased{kWorth};
};

TEST(Erased, NothingIsNeverDue) {
  Notes notes;
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
  notes.erased.note({}, {}, notes.now);
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
  EXPECT_TRUE(notes.nothing());
}

TEST(Erased, ARangeRestsForAWhile) {
  Notes notes;
  notes.ranges(1);
  EXPECT_EQ(notes.erased.due(), notes.now + Erased::kRest);
  EXPECT_TRUE(notes.take_after(Erased::kRest - 1ns).empty());
  notes.ranges(1);  // which changes nothing of that
  EXPECT_EQ(notes.take_after(1ns).ranges.size(), 2u);
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
  notes.ranges(1);
  EXPECT_EQ(notes.erased.due(), notes.now + Erased::kRest);
}

TEST(Erased, ManyRangesDoNotRest) {
  Notes notes;
  notes.ranges(kRangesToFlush - 1);
  EXPECT_FALSE(notes.is_due());
  EXPECT_TRUE(notes.nothing());
  notes.ranges(1);
  EXPECT_TRUE(notes.is_due());
  EXPECT_EQ(notes.erased.take(notes.now).ranges.size(), kRangesToFlush);
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
}

TEST(Erased, RangesThatHoldAllThatIsWorthItDoNotRest) {
  Notes notes;
  const auto range = [](Family family, std::uint64_t rows) { return std::vector<ErasedRange>{{family, "a", "b", rows}}; };
  notes.erased.note(range(Family::blocks, 600), {}, notes.now);
  EXPECT_FALSE(notes.is_due());
  notes.erased.note(range(Family::names, 1000), {}, notes.now);  // of 150 bytes each
  EXPECT_FALSE(notes.is_due());
  notes.erased.note(range(Family::blocks, 400), {}, notes.now);
  EXPECT_TRUE(notes.is_due());
  EXPECT_EQ(notes.erased.take(notes.now).ranges.size(), 3u);
  notes.erased.note(range(Family::blocks, 999), {}, notes.now);
  EXPECT_FALSE(notes.is_due()) << "what was taken does not count";
}

TEST(Erased, RowsRestWhenTheyMayHoldHalfOfWhatIsWorthIt) {
  Notes notes;
  notes.blocks(499);
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
  EXPECT_TRUE(notes.take_after(24h).empty());
  notes.blocks(1);
  EXPECT_EQ(notes.erased.due(), notes.now + Erased::kRest);
  const Erased::Work taken = notes.take_after(Erased::kRest);
  EXPECT_EQ(taken.rows[1].rows, 500u);
  EXPECT_EQ(taken.rows[1].first, "a");
  EXPECT_EQ(taken.rows[1].last, "b");
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
}

TEST(Erased, RowsThatMayHoldAllOfThatDoNotRest) {
  Notes notes;
  notes.blocks(999);
  EXPECT_FALSE(notes.is_due());
  notes.names(100);  // of 150 bytes each
  EXPECT_TRUE(notes.is_due());
  const Erased::Work taken = notes.erased.take(notes.now);
  EXPECT_EQ(taken.rows[0].rows, 100u);
  EXPECT_EQ(taken.rows[1].rows, 999u);
  EXPECT_TRUE(taken.ranges.empty());
}

TEST(Erased, FewRowsWaitForMoreWhenRangesAreDue) {
  Notes notes;
  notes.blocks(100);
  notes.ranges(1);
  const Erased::Work taken = notes.take_after(Erased::kRest);
  EXPECT_EQ(taken.ranges.size(), 1u);
  EXPECT_EQ(taken.rows[1].rows, 0u);
  notes.blocks(900);
  EXPECT_EQ(notes.erased.take(notes.now).rows[1].rows, 1000u);
}

TEST(Erased, WhatRestsGoesOnRestingWhenMuchOfAnotherKindIsTaken) {
  Notes notes;
  notes.blocks(500);
  const Clock::Time due = notes.erased.due();
  notes.now += 1s;
  notes.ranges(kRangesToFlush);
  EXPECT_EQ(notes.erased.take(notes.now).rows[1].rows, 0u);
  EXPECT_EQ(notes.erased.due(), due);
}

TEST(Erased, AllIsTakenWhenItIsAskedFor) {
  Notes notes;
  notes.ranges(1);
  notes.names(1);
  const Erased::Work taken = notes.erased.take_all();
  EXPECT_EQ(taken.ranges.size(), 1u);
  EXPECT_EQ(taken.rows[0].rows, 1u);
  EXPECT_EQ(notes.erased.due(), Clock::kNever);
  EXPECT_TRUE(notes.take_after(24h).empty());
}

TEST(Erased, WhereReadersPassOverManyRowsIsDueAtOnce) {
  Notes notes;
  const auto passed = [&](const char* from, const char* to, std::uint64_t rows) { notes.erased.passed(Family::names, from, to, rows); };
  passed("c", "d", kv::kPassedToCompact / 2);
  passed("x", "y", kv::kPassedToCompact - 1);
  EXPECT_FALSE(notes.is_due());
  notes.erased.passed(Family::blocks, "c", "d", kv::kPassedToCompact / 2);  // of another family
  EXPECT_FALSE(notes.is_due());
  passed("cc", "e", kv::kPassedToCompact / 2);
  EXPECT_TRUE(notes.is_due());
  const auto work = notes.erased.take(notes.now);
  ASSERT_EQ(work.ranges.size(), 1u);
  EXPECT_EQ(work.ranges[0].family, Family::names);
  EXPECT_EQ(work.ranges[0].from + work.ranges[0].to, "ce");
  EXPECT_FALSE(notes.is_due());
  passed("y", "z", 1);
  EXPECT_TRUE(notes.is_due());
}

TEST(Erased, WhereReadersPassOverFewRowsIsForgottenFirst) {
  Notes notes;
  notes.erased.passed(Family::names, "a", "b", kv::kPassedToCompact - 1);
  for (int i = 0; i < 1000; ++i) notes.erased.passed(Family::names, "c" + std::to_string(10000 + 2 * i), "c" + std::to_string(10001 + 2 * i), 1);
  EXPECT_FALSE(notes.is_due());
  notes.erased.passed(Family::names, "aa", "ab", 1);
  EXPECT_TRUE(notes.is_due());
}

}  // namespace
}  // namespace lsmfs::erased_test

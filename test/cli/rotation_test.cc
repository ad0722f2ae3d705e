// Rules of rotation: how they are written, and which moments they keep by the calendar.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/rotation.h"

namespace lsmfs::cli::rotation_test {
namespace {

// The process is in a time zone for as long as this lives. As POSIX writes them, so that no list of zones is needed.
class InTimeZone {
 public:
  explicit InTimeZone(const char* zone) {
    if (const char* const before = getenv("TZ")) before_ = before;
    setenv("TZ", zone, 1);
    tzset();
  }
  ~InTimeZone() {
    if (before_) {
      setenv("TZ", before_->c_str(), 1);
    } else {
      unsetenv("TZ");
    }
    tzset();
  }
  InTimeZone(const InTimeZone&) = delete;
  InTimeZone& operator=(const InTimeZone&) = delete;

 private:
  std::optional<std::string> before_;
};
constexpr const char* kBerlin = "CET-1CEST,M3.5.0,M10.5.0/3";
constexpr const char* kLordHowe = "LHST-10:30LHDT-11,M10.1.0,M4.1.0";  // of which summer time is half an hour

// "2026-11-29 14:05:03" in UTC.
std::int64_t at(const std::string& text) {
  std::tm parts{};
  EXPECT_NE(strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &parts), nullptr) << text;
  return timegm(&parts);
}

// Of moments in UTC, in any order, those that are kept, the oldest first.
std::vector<std::string> kept(const std::vector<std::string>& rules, std::vector<std::string> moments) {
  std::ranges::sort(moments, std::greater());
  std::vector<Time> times;
  for (const std::string& moment : moments) times.push_back({.seconds = at(moment)});
  const auto parsed = parse_rotation(rules);
  EXPECT_TRUE(parsed) << parsed.error().context;
  const auto answer = kept_by(*parsed, times);
  EXPECT_EQ(answer.size(), times.size());
  std::vector<std::string> left;
  for (std::size_t i = moments.size(); i-- > 0;) {
    if (answer[i]) left.push_back(moments[i]);
  }
  return left;
}

using Moments = std::vector<std::string>;

TEST(RotationRules, AreWordsWithNumbers) {
  const auto rules = parse_rotation({"hourly=24", "yearly=0", "latest=3", "daily=1000000", "weekly=5", "monthly=12"});
  ASSERT_TRUE(rules) << rules.error().context;
  EXPECT_EQ(*rules, (RotationRules{{Period::each, 3}, {Period::hour, 24}, {Period::day, 1000000}, {Period::week, 5}, {Period::month, 12}, {Period::year, 0}}));
}

TEST(RotationRules, ThatCannotBeMeantAreRefused) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "keep nothing"}, {{"daily=0"}, "keep nothing"}, {{"daily=0", "hourly=0", "latest=0"}, "keep nothing"},
      {{"daily=7", "houry=24"}, "houry=24: is no rule; did you mean hourly=?"}, {{"daly=7"}, "did you mean daily=?"}, {{"fortnightly=2"}, "as in daily=7"},
      {{""}, "is no rule"}, {{"7"}, "is no rule"}, {{"=7"}, "is no rule"}, {{"daily"}, "daily: give a number"}, {{"daily="}, "as in daily=7"},
      {{"daily=-1"}, "give a number"}, {{"daily=7x"}, "give a number"}, {{"daily=7,weekly=5"}, "give a number"}, {{"daily=1.5"}, "give a number"},
      {{"daily=1000001"}, "1000000"}, {{"daily=99999999999999999999"}, "give a number"}, {{"DAILY=7"}, "is no rule"}, {{"daily =7"}, "is no rule"},
      {{"daily=7", "weekly=5", "daily=7"}, "daily=7: there is such a rule before it"}};
  for (const auto& [words, says] : cases) {
    const auto rules = parse_rotation(words);
    ASSERT_FALSE(rules) << says;
    EXPECT_EQ(rules.error().code, EINVAL);
    EXPECT_NE(rules.error().context.find(says), std::string::npos) << rules.error().context;
  }
}

TEST(Rotation, KeepsTheNewestOfEachOfTheLatestPeriods) {
  const InTimeZone zone("UTC");
  const Moments hours{"2026-11-29 11:10:00", "2026-11-29 11:50:00", "2026-11-29 12:00:00", "2026-11-29 12:59:59", "2026-11-29 13:00:00"};
  EXPECT_EQ(kept({"hourly=1"}, hours), Moments{hours[4]});
  EXPECT_EQ(kept({"hourly=2"}, hours), (Moments{hours[3], hours[4]}));
  EXPECT_EQ(kept({"hourly=3"}, hours), (Moments{hours[1], hours[3], hours[4]}));
  EXPECT_EQ(kept({"hourly=100"}, hours), (Moments{hours[1], hours[3], hours[4]}));
  EXPECT_EQ(kept({"latest=2"}, hours), (Moments{hours[3], hours[4]}));
  EXPECT_EQ(kept({"latest=9"}, hours), hours);
  EXPECT_EQ(kept({"daily=3"}, hours), Moments{hours[4]});
}

TEST(Rotation, PassesOverPeriodsWithoutAny) {
  const InTimeZone zone("UTC");
  const Moments days{"2025-01-01 00:00:00", "2026-03-05 23:59:59", "2026-03-09 12:00:00", "2026-11-29 12:00:00"};
  EXPECT_EQ(kept({"daily=3"}, days), (Moments{days[1], days[2], days[3]}));
  EXPECT_EQ(kept({"monthly=2"}, days), (Moments{days[2], days[3]}));
  EXPECT_EQ(kept({"yearly=2"}, days), (Moments{days[0], days[3]}));
}

TEST(Rotation, CountsEachRuleForItself) {
  const InTimeZone zone("UTC");
  const Moments moments{"2026-11-27 10:00:00", "2026-11-28 10:00:00", "2026-11-28 20:00:00", "2026-11-29 09:00:00", "2026-11-29 10:00:00"};
  EXPECT_EQ(kept({"hourly=2", "daily=2"}, moments), (Moments{moments[2], moments[3], moments[4]}));
  EXPECT_EQ(kept({"daily=2", "hourly=2"}, moments), (Moments{moments[2], moments[3], moments[4]}));
  EXPECT_EQ(kept({"hourly=2", "daily=0"}, moments), (Moments{moments[3], moments[4]}));
  EXPECT_EQ(kept({"latest=1", "daily=3"}, moments), (Moments{moments[0], moments[2], moments[4]}));
}

TEST(Rotation, KeepsTheNewerOfTwoInAMinute) {
  const InTimeZone zone("UTC");
  const auto rules = parse_rotation({"hourly=5"});
  const std::int64_t second = at("2026-11-29 12:00:00");
  EXPECT_EQ(kept_by(*rules, {{second + 40, 0}, {second + 20, 0}}), (std::vector<bool>{true, false}));
  EXPECT_EQ(kept_by(*rules, {{second, 2}, {second, 1}}), (std::vector<bool>{true, false}));
  EXPECT_EQ(kept_by(*rules, {{second, 1}, {second, 1}}), (std::vector<bool>{true, false}));
  // As snapshots they are two.
  EXPECT_EQ(kept_by(*parse_rotation({"latest=2"}), {{second, 1}, {second, 1}, {second, 1}}), (std::vector<bool>{true, true, false}));
}

TEST(Rotation, OfNothingKeepsNothing) { EXPECT_TRUE(kept_by(*parse_rotation({"daily=7"}), {}).empty()); }

TEST(Rotation, GoesByLocalTime) {
  const Moments evening{"2026-11-28 22:30:00", "2026-11-28 23:30:00", "2026-11-29 00:30:00"};
  {
    const InTimeZone zone(kBerlin);
    EXPECT_EQ(kept({"daily=9"}, evening), (Moments{evening[0], evening[2]}));
  }
  {
    const InTimeZone zone("UTC");
    EXPECT_EQ(kept({"daily=9"}, evening), (Moments{evening[1], evening[2]}));
  }
  {
    const InTimeZone zone("NST3:30");  // the hours of which begin at half past
    EXPECT_EQ(kept({"hourly=9"}, {"2026-11-29 12:29:00", "2026-11-29 12:31:00", "2026-11-29 13:29:00"}), (Moments{"2026-11-29 12:29:00", "2026-11-29 13:29:00"}));
  }
}

TEST(Rotation, HasWeeksFromMondayAlsoAtNewYear) {
  const InTimeZone zone("UTC");
  // Week 53 of 2026 goes from Monday, December 28 to Sunday, January 3. Week 1 of 2025 began on December 30, 2024.
  const Moments weeks{"2026-12-27 23:59:59", "2026-12-28 00:00:00", "2026-12-31 23:59:59", "2027-01-01 00:00:00", "2027-01-03 23:59:59", "2027-01-04 00:00:00"};
  EXPECT_EQ(kept({"weekly=9"}, weeks), (Moments{weeks[0], weeks[4], weeks[5]}));
  EXPECT_EQ(kept({"yearly=9"}, weeks), (Moments{weeks[2], weeks[5]}));
  EXPECT_EQ(kept({"weekly=9"}, {"2024-12-29 12:00:00", "2024-12-30 12:00:00", "2025-01-05 12:00:00", "2025-01-06 12:00:00"}),
            (Moments{"2024-12-29 12:00:00", "2025-01-05 12:00:00", "2025-01-06 12:00:00"}));
  EXPECT_EQ(kept({"weekly=9"}, {"1969-12-28 12:00:00", "1969-12-29 12:00:00", "1970-01-04 12:00:00"}), (Moments{"1969-12-28 12:00:00", "1970-01-04 12:00:00"}));
}

TEST(Rotation, HasMonthsAndYearsOfAnyLength) {
  const InTimeZone zone("UTC");
  EXPECT_EQ(kept({"monthly=9"}, {"2028-01-31 12:00:00", "2028-02-01 00:00:00", "2028-02-29 23:59:59", "2028-03-01 00:00:00"}),
            (Moments{"2028-01-31 12:00:00", "2028-02-29 23:59:59", "2028-03-01 00:00:00"}));
  EXPECT_EQ(kept({"monthly=9"}, {"2025-11-15 12:00:00", "2026-11-15 12:00:00"}), (Moments{"2025-11-15 12:00:00", "2026-11-15 12:00:00"}));
}

TEST(Rotation, HasTheHoursThatAChangeOfSummerTimeLeavesOutAndRepeats) {
  {
    const InTimeZone zone(kBerlin);
    // On 2026-03-29 the hour after 01 is 03.
    const Moments forward{"2026-03-29 00:10:00", "2026-03-29 00:50:00", "2026-03-29 01:10:00", "2026-03-29 01:50:00"};
    EXPECT_EQ(kept({"hourly=9"}, forward), (Moments{forward[1], forward[3]}));
    // On 2026-10-25 the hour 02 comes twice, at 00 and at 01 of UTC.
    const Moments back{"2026-10-24 23:30:00", "2026-10-25 00:10:00", "2026-10-25 00:50:00", "2026-10-25 01:10:00", "2026-10-25 01:50:00", "2026-10-25 02:30:00"};
    EXPECT_EQ(kept({"hourly=9"}, back), (Moments{back[0], back[2], back[4], back[5]}));
    // That day has 25 hours, and is one.
    const Moments day{"2026-10-24 21:59:59", "2026-10-24 22:00:00", "2026-10-25 22:59:59", "2026-10-25 23:00:00"};
    EXPECT_EQ(kept({"daily=9"}, day), (Moments{day[0], day[2], day[3]}));
  }
  {
    const InTimeZone zone(kLordHowe);
    // On 2026-04-05, at 02:00 of summer time, which is 15:00 of UTC, clocks go back to 01:30.
    const Moments half{"2026-04-04 14:10:00", "2026-04-04 14:50:00", "2026-04-04 15:10:00", "2026-04-04 15:40:00"};
    EXPECT_EQ(kept({"hourly=9"}, half), (Moments{half[1], half[2], half[3]}));
    EXPECT_EQ(kept({"daily=9"}, half), Moments{half[3]});
  }
}

// What the recipe of the documents does in a year and a half, an hour at a time.
TEST(Rotation, HourByHourKeepsWhatItPromises) {
  const InTimeZone zone(kBerlin);
  const auto rules = parse_rotation({"hourly=24", "daily=7", "weekly=5", "monthly=12", "yearly=2"});
  std::vector<Time> there;  // the newest first
  for (std::int64_t now = at("2026-01-01 00:00:00"); now < at("2027-07-01 00:00:00"); now += 3600) {
    there.insert(there.begin(), Time{.seconds = now});
    const auto answer = kept_by(*rules, there);
    std::vector<Time> left;
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (answer[i]) left.push_back(there[i]);
    }
    there = std::move(left);
  }
  // Beside the hours 5 days, 3 Sundays and 10 months, for each has its newest snapshot among those of the rules before it otherwise.
  ASSERT_EQ(there.size(), 24u + 5 + 3 + 10);
  for (std::size_t i = 0; i + 1 < 24; ++i) EXPECT_EQ(there[i].seconds - there[i + 1].seconds, 3600);
  // The last of the twelfth month, and that of the year before.
  EXPECT_EQ(there.back().seconds, at("2026-08-31 21:00:00"));
  EXPECT_TRUE(std::ranges::any_of(there, [](const Time& each) { return each.seconds == at("2026-12-31 22:00:00"); }));
}

}  // namespace
}  // namespace lsmfs::cli::rotation_test

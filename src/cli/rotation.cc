#include "cli/rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/nearest.h"
#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

struct RotationWord {
  std::string_view word;
  Period period;
};
constexpr RotationWord kRotationWords[] = {{"latest", Period::each}, {"hourly", Period::hour}, {"daily", Period::day},
                                           {"weekly", Period::week}, {"monthly", Period::month}, {"yearly", Period::year}};
constexpr std::uint64_t kPeriodsMax = 1'000'000;

Result<std::pair<Period, std::uint64_t>> parse_rule(std::string_view text) {
  const auto wrong = [&](std::string_view why) { return make_error(EINVAL, fmt::format("{}: {}", text, why)); };
  const std::string_view word = text.substr(0, text.find('='));
  const auto known = std::ranges::find(kRotationWords, word, &RotationWord::word);
  if (known == std::end(kRotationWords)) {
    std::vector<std::string_view> words;
    for (const RotationWord& each : kRotationWords) words.push_back(each.word);
    const std::string_view meant = nearest(word, words);
    return wrong(meant.empty() ? "is no rule; give some of latest=, hourly=, daily=, weekly=, monthly= and yearly=, as in daily=7"
                               : fmt::format("is no rule; did you mean {}=?", meant));
  }
  const auto count = parse_number(text.substr(std::min(word.size() + 1, text.size())), kPeriodsMax);
  if (!count) return wrong(fmt::format("give a number of at most {}, as in {}=7", kPeriodsMax, word));
  return std::pair(known->period, *count);
}

// Another one for each period of the kind; it never grows from a moment to an older one, but for repeated hours.
using PeriodNumber = std::pair<std::int64_t, std::int64_t>;

PeriodNumber period_of(Period period, const Time& moment) {
  using namespace std::chrono;
  const std::time_t time = moment.seconds;
  std::tm local{};
  localtime_r(&time, &local);
  const sys_seconds shown{seconds(moment.seconds + local.tm_gmtoff)};  // what a clock on the wall shows, as if that were UTC
  const auto day = floor<days>(shown);
  const year_month_day date(day);
  switch (period) {
    case Period::hour:
      return {floor<hours>(shown).time_since_epoch().count(), local.tm_gmtoff};
    case Period::day:
      return {day.time_since_epoch().count(), 0};
    case Period::week: {
      const sys_days monday = day - (weekday(day) - Monday);
      return {monday.time_since_epoch().count(), 0};
    }
    case Period::month:
      return {static_cast<int>(date.year()), static_cast<unsigned>(date.month())};
    case Period::year:
      return {static_cast<int>(date.year()), 0};
    case Period::each:
      break;
  }
  return {moment.seconds, moment.nanoseconds};
}

}  // namespace

Result<RotationRules> parse_rotation(const std::vector<std::string>& words) {
  RotationRules rules;
  bool keeps = false;
  for (const std::string& word : words) {
    LSMFS_ASSIGN(const auto rule, parse_rule(word));
    if (!rules.insert(rule).second) return make_error(EINVAL, word + ": there is such a rule before it; give each once");
    keeps |= rule.second > 0;
  }
  if (!keeps) return make_error(EINVAL, "the rules keep nothing; give one with a number above 0, as in daily=7");
  return rules;
}

std::vector<bool> kept_by(const RotationRules& rules, const std::vector<Time>& moments) {
  std::vector<bool> kept(moments.size());
  for (const auto& [period, count] : rules) {
    std::uint64_t found = 0;
    std::optional<PeriodNumber> last;
    for (std::size_t i = 0; i < moments.size() && found < count; ++i) {
      const PeriodNumber number = period_of(period, moments[i]);
      // Two moments may be the same, and are two.
      if (period != Period::each && last == number) continue;
      kept[i] = true;
      last = number;
      ++found;
    }
  }
  return kept;
}

}  // namespace lsmfs::cli

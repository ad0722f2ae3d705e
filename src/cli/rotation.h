// Which of many moments are kept by rules such as "hourly=24 daily=7": the newest one of each of the latest hours, days, and so on.
//
// Calendar arithmetic alone, by the time zone of the process. What it is not: it knows no snapshots, and removes nothing (prune.cc).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/tree.h"

namespace lsmfs::cli {

enum class Period { each, hour, day, week, month, year };  // `each`: every moment is one of its own; weeks begin on Mondays

// How many periods of each kind have their newest moment kept.
using RotationRules = std::map<Period, std::uint64_t>;

// Of words such as "daily=7", each kind once. Errors: EINVAL (not such a word, or nothing would be kept), with a whole message as context.
Result<RotationRules> parse_rotation(const std::vector<std::string>& words);

// For each of `moments`, which must be in order, the newest first: whether a rule keeps it. Each rule counts for itself, and only periods
// that have a moment. An hour that a change of summer time repeats is two hours.
std::vector<bool> kept_by(const RotationRules& rules, const std::vector<Time>& moments);

}  // namespace lsmfs::cli

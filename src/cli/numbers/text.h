// The numbers of a mount for people, as lines that fit into 80 columns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lsmfs/control.h"

namespace lsmfs::cli {

inline constexpr std::size_t kNumbersWidth = 80;  // no line is longer, however large its numbers are

// "1.28 us", "12.3 ms", "2.05 s"
std::string short_time(std::uint64_t ns);
std::string clock_time(std::uint64_t ns);  // "26:03:04": hours, minutes, seconds
// What device writes took for each byte that was committed, or went to a blob. nullopt: nothing did.
std::optional<double> write_amplification(const MountStats& stats);

std::vector<std::string> request_lines(const MountStats& stats);
std::vector<std::string> device_lines(const MountStats& stats);
std::vector<std::string> store_lines(const MountStats& stats);
// By name, the busiest first, `most` of them.
std::vector<std::string> program_lines(const std::map<std::string, std::uint64_t>& programs, std::uint64_t others, std::size_t most);

// All but the programs.
std::string stats_text(const MountStats& stats);

}  // namespace lsmfs::cli

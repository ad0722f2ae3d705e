#include "cli/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lsmfs::cli {

std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::optional<ByteCount> parse_size(std::string_view text) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  constexpr std::string_view kUnits = "KMGTP";
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view unit = text.substr(digits);
  unsigned shift = 0;
  if (!unit.empty()) {
    const auto power = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
    if (power != std::string_view::npos) {
      shift = static_cast<unsigned>(10 * (power + 1));
      unit.remove_prefix(1);
    }
    if (unit != "" && unit != "B" && !(unit == "iB" && shift > 0)) return std::nullopt;
  }
  const auto number = parse_number(text.substr(0, digits), kMost >> shift);
  if (!number) return std::nullopt;
  return ByteCount{*number << shift};
}

std::string format_size(std::uint64_t bytes) {
  if (bytes < KiB) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
}

}  // namespace lsmfs::cli

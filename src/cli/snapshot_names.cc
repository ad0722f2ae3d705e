#include "cli/snapshot_names.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

// What comes before the time.
std::string name_start(std::string_view inside) {
  const std::string_view directory = inside.substr(inside.rfind('/') + 1);
  return fmt::format("{}{}", directory, directory.empty() ? "" : "-");
}

}  // namespace

std::string wrong_snapshot_name(std::string_view name) {
  if (name.empty()) return "the snapshot has no name; give it one, or leave that out to name it after the time";
  if (name.size() > kNameMax) return fmt::format("{}: the name is too long; give one of at most {} bytes", name, kNameMax);
  if (name == "." || name == "..") return fmt::format("{}: cannot be the name of a snapshot; give another one", name);
  if (name.find('/') != name.npos) return fmt::format("{}: is a path; give the name of the snapshot alone, without a /", name);
  return "";
}

std::string snapshot_path(std::string_view name) { return fmt::format("{}/{}", kSnapshotsName, name); }

std::string name_after_time(std::string_view inside, const Time& time) {
  const std::time_t seconds = time.seconds;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{}{:%Y-%m-%d_%H-%M-%S}", name_start(inside), utc);
}

bool is_named_after_time(std::string_view inside, std::string_view name) {
  constexpr std::string_view kForm = "dddd-dd-dd_dd-dd-dd";
  const std::string start = name_start(inside);
  if (!name.starts_with(start)) return false;
  name.remove_prefix(start.size());
  const auto fits = [](char form, char c) { return form == 'd' ? c >= '0' && c <= '9' : c == form; };
  if (name.size() < kForm.size() || !std::equal(kForm.begin(), kForm.end(), name.begin(), fits)) return false;
  name.remove_prefix(kForm.size());
  if (name.empty()) return true;
  const auto number = name.starts_with('-') ? parse_number(name.substr(1), UINT64_MAX) : std::nullopt;
  return number && *number >= 2 && name[1] != '0';
}

}  // namespace lsmfs::cli

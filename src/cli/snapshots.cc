// lsmfs snapshots: lists the snapshots of a directory, or of a whole file system.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

using SnapshotJson = nlohmann::ordered_json;

struct ListedSnapshot {
  std::string name, path;
  SnapshotInfo info;
};

std::string local_time(const Time& time) {
  const std::time_t seconds = time.seconds;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::string utc_time(const Time& time) {  // RFC 3339
  const std::time_t seconds = time.seconds;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", utc, time.nanoseconds);
}

std::string explain_listing(const std::string& path, const Error& error) {
  if (error.code == EACCES) return path + ": no permission to read it, so when it was made and of what is not known";
  if (error.code == EINVAL) return path + ": is not a snapshot";
  if (error.code == EMSGSIZE) return path + ": the path of its source is too long to be told";
  return explain(path, error);
}

// All in the directory; false: some cannot be told of, which has been said.
bool list(const std::string& directory, std::vector<ListedSnapshot>& found) {
  std::error_code failed;
  bool all = true;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    ListedSnapshot snapshot{.name = at->path().filename(), .path = at->path(), .info = {}};
    auto info = snapshot_info_of(snapshot.path);
    if (!info && info.error().code == ENOENT) continue;  // it has been removed meanwhile
    if (!info) {
      tell(explain_listing(snapshot.path, info.error()));
      all = false;
      continue;
    }
    snapshot.info = *std::move(info);
    found.push_back(std::move(snapshot));
  }
  if (failed) tell(failed.value() == EACCES ? directory + ": no permission to read it" : explain(directory, make_error(failed.value(), directory)));
  return all && !failed;
}

void print_json(const std::vector<ListedSnapshot>& snapshots) {
  SnapshotJson json = SnapshotJson::array();
  for (const auto& [name, path, info] : snapshots) json.push_back({{"name", name}, {"made", utc_time(info.made)}, {"of", info.of}, {"path", path}});
  fmt::print("{}\n", json.dump(2, ' ', false, SnapshotJson::error_handler_t::replace));
}

// As a terminal shows it, but for characters that take two columns or none.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void print_table(const std::vector<ListedSnapshot>& snapshots) {
  std::vector<std::array<std::string, 3>> lines{{"NAME", "MADE", "OF"}};
  for (const auto& [name, path, info] : snapshots) lines.push_back({printable(name), local_time(info.made), printable(info.of)});
  std::array<std::size_t, 2> widths{};
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], columns(line[i]));
  }
  if (snapshots.empty()) return;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) fmt::print("{}{:{}}", line[i], "", widths[i] - columns(line[i]) + 2);
    fmt::print("{}\n", line.back());
  }
}

}  // namespace

int snapshots(const SnapshotsArguments& arguments) {
  const std::string directory = without_trailing_slashes(arguments.directory);
  if (const auto why = wrong_source(directory, "name a directory", "only that has snapshots"); !why.empty()) return report({kFailure, why});
  const auto place = snapshots_of(directory);
  if (!place) return report({kFailure, place.error().context});
  std::vector<ListedSnapshot> found;
  const bool all = list(place->directory, found);
  const bool of_all = place->inside == "/" || is_directory_of_snapshots(directory);
  if (!of_all) std::erase_if(found, [&](const ListedSnapshot& each) { return each.info.of != place->inside; });
  std::ranges::sort(found, {}, [](const ListedSnapshot& each) { return std::tie(each.info.made, each.name); });
  if (arguments.json) {
    print_json(found);
  } else {
    print_table(found);
  }
  return all ? kOk : kFailure;
}

}  // namespace lsmfs::cli

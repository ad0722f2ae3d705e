#include "cli/snapshot_list.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/messages.h"

namespace lsmfs::cli {
namespace {

using SnapshotJson = nlohmann::ordered_json;

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

}  // namespace

bool list_snapshots(const std::string& directory, std::vector<ListedSnapshot>& found) {
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
  std::ranges::sort(found, {}, [](const ListedSnapshot& each) { return std::tie(each.info.made, each.name); });
  return all && !failed;
}

void print_snapshots_json(const std::vector<ListedSnapshot>& snapshots, bool with_sizes) {
  SnapshotJson json = SnapshotJson::array();
  for (const auto& [name, path, info, sizes] : snapshots) {
    SnapshotJson& each = json.emplace_back(SnapshotJson{{"name", name}, {"made", utc_time(info.made)}, {"of", info.of}, {"path", path}});
    if (!with_sizes) continue;
    each["alone"] = sizes ? SnapshotJson(sizes->alone.v) : SnapshotJson();
    each["refers"] = sizes ? SnapshotJson(sizes->refers.v) : SnapshotJson();
  }
  fmt::print("{}\n", json.dump(2, ' ', false, SnapshotJson::error_handler_t::replace));
}

}  // namespace lsmfs::cli

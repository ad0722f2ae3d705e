// lsmfs snapshots: lists the snapshots of a directory, or of a whole file system.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "cli/sizes.h"
#include "cli/snapshot_list.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

std::string local_time(const Time& time) {
  const std::time_t seconds = time.seconds;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

std::string explain_sizing(const std::string& path, const Error& error) {
  if (error.code == EPERM || error.code == EACCES) return path + ": only root, who mounted it and the owner of the snapshot may ask for its sizes";
  if (error.code == ENOTTY) return path + ": is mounted by a version that does not know sizes of snapshots; unmount it, and mount it again";
  if (error.code == EIO) return path + ": something in it is damaged or cannot be read, so its sizes are not known; see the log, and lsmfs scrub";
  return explain(path, error);
}

// Of each; false: some are not known, which has been said. One that has been removed meanwhile is listed no more.
bool find_sizes(std::vector<ListedSnapshot>& snapshots) {
  bool all = true;
  std::erase_if(snapshots, [&](ListedSnapshot& each) {
    auto sizes = snapshot_sizes_of(each.path);
    if (sizes) each.sizes = *sizes;
    if (sizes || sizes.error().code == ENOENT) return !sizes;
    tell(explain_sizing(each.path, sizes.error()));
    all = false;
    return false;
  });
  return all;
}

// As a terminal shows it, but for characters that take two columns or none.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Columns of a table with sizes that stand at the right. Without sizes there are none: the last one ends its line.
constexpr bool is_size(std::size_t column) { return column == 2 || column == 3; }

void print_table(const std::vector<ListedSnapshot>& snapshots, bool with_sizes) {
  if (snapshots.empty()) return;
  std::vector<std::vector<std::string>> lines{{"NAME", "MADE"}};
  if (with_sizes) lines.front().insert(lines.front().end(), {"ALONE", "REFERS"});
  lines.front().emplace_back("OF");
  for (const auto& [name, path, info, sizes] : snapshots) {
    std::vector<std::string>& line = lines.emplace_back(std::vector<std::string>{printable(name), local_time(info.made)});
    if (with_sizes) line.push_back(sizes ? format_size(sizes->alone.v) : "-");
    if (with_sizes) line.push_back(sizes ? format_size(sizes->refers.v) : "-");
    line.push_back(printable(info.of));
  }
  std::vector<std::size_t> widths(lines.front().size() - 1);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], columns(line[i]));
  }
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string room(widths[i] - columns(line[i]), ' ');
      fmt::print("{}{}  ", is_size(i) ? room : line[i], is_size(i) ? line[i] : room);
    }
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
  bool all = list_snapshots(place->directory, found);
  const bool of_all = place->inside == "/" || is_directory_of_snapshots(directory);
  if (!of_all) std::erase_if(found, [&](const ListedSnapshot& each) { return each.info.of != place->inside; });
  if (arguments.sizes) all = find_sizes(found) && all;
  if (arguments.json) {
    print_snapshots_json(found, arguments.sizes);
  } else {
    print_table(found, arguments.sizes);
  }
  return all ? kOk : kFailure;
}

}  // namespace lsmfs::cli

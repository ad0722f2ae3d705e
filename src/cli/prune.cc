// lsmfs prune: removes the snapshots of a directory that no rule keeps.

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "cli/removal.h"
#include "cli/rotation.h"
#include "cli/snapshot_list.h"
#include "cli/snapshot_names.h"

namespace lsmfs::cli {
namespace {

// Leaves those that the rules do not keep, the oldest first. `snapshots`: in the order of their times.
void leave_unkept(const RotationRules& rules, std::vector<ListedSnapshot>& snapshots) {
  std::ranges::reverse(snapshots);
  std::vector<Time> moments;
  for (const ListedSnapshot& each : snapshots) moments.push_back(each.info.made);
  const std::vector<bool> kept = kept_by(rules, moments);
  std::vector<ListedSnapshot> unkept;
  for (std::size_t i = snapshots.size(); i-- > 0;) {
    if (!kept[i]) unkept.push_back(std::move(snapshots[i]));
  }
  snapshots = std::move(unkept);
}

bool is_read_only(const std::string& directory) {
  struct statvfs facts {};
  return statvfs(directory.c_str(), &facts) == 0 && (facts.f_flag & ST_RDONLY) != 0;
}

}  // namespace

int prune(const PruneArguments& arguments) {
  const auto rules = parse_rotation(arguments.rules);
  if (!rules) return report({kFailure, rules.error().context});
  const std::string directory = without_trailing_slashes(arguments.directory);
  if (const auto why = wrong_source(directory, "name a directory", "only that has snapshots"); !why.empty()) return report({kFailure, why});
  if (is_directory_of_snapshots(directory)) return report({kFailure, directory + ": holds the snapshots; name the directory of which they are"});
  const auto place = snapshots_of(directory);
  if (!place) return report({kFailure, place.error().context});
  if (!arguments.dry_run && is_read_only(place->directory)) return report({kFailure, directory + ": is mounted read-only"});

  std::vector<ListedSnapshot> found;
  int code = list_snapshots(place->directory, found) ? kOk : kFailure;
  std::erase_if(found, [&](const ListedSnapshot& each) {
    return each.info.of != place->inside || (!arguments.all && !is_named_after_time(place->inside, each.name));
  });
  leave_unkept(*rules, found);

  const bool for_people = isatty(STDOUT_FILENO) != 0;
  std::erase_if(found, [&](const ListedSnapshot& each) {
    if (const auto problem = arguments.dry_run ? std::nullopt : remove_directory(each.path)) {
      code = report(*problem);
      return true;
    }
    if (!arguments.json) fmt::print("{}\n", for_people ? visible(each.name) : each.name);
    return false;
  });
  if (arguments.json) print_snapshots_json(found);
  return code;
}

}  // namespace lsmfs::cli

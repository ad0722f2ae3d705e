// The snapshots of a file system that is mounted, as commands about them list them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lsmfs/control.h"

namespace lsmfs::cli {

struct ListedSnapshot {
  std::string name, path;
  SnapshotInfo info;
  std::optional<SnapshotSizes> sizes{};  // if they were asked for and are known
};

// Appends all in the directory of snapshots, and sorts by when they were made. False: some cannot be told of, which has been said.
bool list_snapshots(const std::string& directory, std::vector<ListedSnapshot>& found);

// On stdout, as a list of objects. `with_sizes`: null where they are not known.
void print_snapshots_json(const std::vector<ListedSnapshot>& snapshots, bool with_sizes = false);

}  // namespace lsmfs::cli

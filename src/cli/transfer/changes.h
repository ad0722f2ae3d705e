// What a stream has to say, so that a copy of one snapshot becomes another one.
//
// First all goes that is not where it was: it is removed, or taken to be placed elsewhere. Then comes what is new or has changed, in the order of a
// walk, then further names of files, and then attributes of directories, which all of that has changed. So none of it is in the way of
// another, and each part can be done again after it was done.
//
// What it is not: it reads no files, and finds no differences (lsmfs/differences.h).
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lsmfs/control.h"
#include "lsmfs/differences.h"

namespace lsmfs::cli {

struct ChangePlan {
  struct Gone {
    std::string path;                     // in the base
    std::optional<std::uint64_t> number;  // it is taken under this one; nullopt: it is removed, with all below it
    friend bool operator==(const Gone&, const Gone&) = default;
  };
  struct Item {
    enum class What : std::uint8_t { place, fresh, contents, attributes };
    std::string path;  // in the snapshot
    What what = What::fresh;
    std::uint64_t number = 0;  // place: of what was taken
    std::string old_path;      // contents: in the base
    friend bool operator==(const Item&, const Item&) = default;
  };
  std::vector<Gone> gone;                    // the deepest first
  std::vector<Item> items;                   // as a walk goes
  std::map<std::string, std::string> links;  // names of files that have another one, and that
  std::set<std::string> directories;         // that need their attributes again
};

struct BothSides {
  // What is at a path below the base, and below the snapshot; nullopt: nothing. Errors: of lstat(2).
  using Look = std::function<Result<std::optional<struct stat>>(const std::string& path)>;
  Look base, snapshot;
  std::vector<LinkedName> base_links, snapshot_links;  // all there are
};

// Of differences from the base to the snapshot, exact, with directories that only one has as one. Errors: those of looking.
Result<ChangePlan> plan_changes(const std::vector<Difference>& differences, const BothSides& sides);

}  // namespace lsmfs::cli

// What may be read where some of it cannot be read any more: the right thing or an error. And after a repair: the right thing, or
// something else of which it has been said.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lsmfs/tree.h"

namespace lsmfs::test {

// What reads of a whole tree give.
struct Reads {
  bool failed = false;  // one of them, at least
  std::string lie;      // the first thing that never was, or is missing though nothing said so; "": none
};

// `expected`: the dump (tree/model.h) of what should be there. An error hides what that call would have told, and nothing else.
Reads read_everything(Tree& tree, const std::string& expected);

// What a tree was, as dumps: at first, and after each operation. The last is what it is.
struct Past {
  std::vector<std::string> moments;
  std::map<std::string, std::string> renamed;  // where directories are, and where they were: what is below lies there
};

// What a repair has said.
struct Said {
  std::vector<std::string> lines;
  std::vector<StoreRepair::Lost> lost;
};

// What of a repaired tree is not as it was, though nothing was said of it, by its path or by a range of keys; "": nothing. A tree
// that has lost the end of its log is another moment, and one that has lost the end of its lists of files may be older here and there.
std::string unsaid(const std::string& found, const Past& past, const Said& said);

}  // namespace lsmfs::test

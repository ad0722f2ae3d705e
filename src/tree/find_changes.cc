// Puts the steps together in which a tree tells changes.
#include <algorithm>
#include <utility>

#include "lsmfs/changes.h"

namespace lsmfs {
namespace {

// Whoever changes more in the meantime than is told in a step has it asked again, so often at most.
constexpr int kRoundsMost = 8;

// Each path once, and none below one that stands for all below it.
void put_in_order(std::vector<std::string>& paths) {
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::vector<std::string> whole;  // that end in a slash, in order, none of them below another one
  for (const std::string& path : paths) {
    if (path.ends_with('/') && (whole.empty() || !path.starts_with(whole.back()))) whole.push_back(path);
  }
  if (whole.empty()) return;
  std::erase_if(paths, [&](const std::string& path) {
    // A name and the same with a slash: the latter says more.
    if (!path.ends_with('/') && std::ranges::binary_search(whole, path + '/')) return true;
    const auto after = std::ranges::upper_bound(whole, path);
    return after != whole.begin() && path.starts_with(*std::prev(after)) && path != *std::prev(after);
  });
}

}  // namespace

Result<Changes> find_changes(const AskChanges& ask, const std::optional<ChangesToken>& since) {
  Changes changes;
  std::optional<ChangesToken> from = since;
  for (int round = 0;; ++round) {
    ChangesAsked asked{.since = from};
    std::size_t steps = 0;
    for (bool ended = false; !ended; ++steps) {
      LSMFS_ASSIGN(ChangesStep step, ask(asked));
      if (steps == 0) changes.now = step.now;
      if (step.everything) return Changes{.now = step.now, .everything = true, .paths = {}};
      changes.paths.insert(changes.paths.end(), std::make_move_iterator(step.paths.begin()), std::make_move_iterator(step.paths.end()));
      if (!step.ended && step.before == asked.before && step.skip == asked.skip) return make_error(EPROTO, "what it says of changes leads to nothing");
      ended = step.ended;
      asked.before = step.before;
      asked.skip = step.skip;
    }
    put_in_order(changes.paths);
    if (steps == 1) return changes;
    if (round + 1 == kRoundsMost) return Changes{.now = changes.now, .everything = true, .paths = {}};
    from = changes.now;
  }
}

}  // namespace lsmfs

#include "tree/unseen.h"

#include <algorithm>

namespace lsmfs {

void add_seen(const FileBlobs& of_user, const std::string& base, BlockRuns& seen) {
  if (of_user.empty()) return;
  for (const FileBlobs::Run& run : of_user.runs(0, of_user.parts().back().past())) {
    if (!run.part || run.part->base != base) continue;
    const std::uint64_t from = run.from - run.part->first + run.part->from;
    seen.emplace_back(from, from + (run.to - run.from));
  }
}

Unseen unseen_of(BlockRuns seen, std::uint64_t end) {
  Unseen found;
  std::ranges::sort(seen);
  for (const auto& [from, to] : seen) {
    if (from > found.past) found.hidden.emplace_back(found.past, from);
    found.blocks += std::max(to, found.past) - std::max(from, found.past);
    found.past = std::max(found.past, to);
  }
  if (found.past < end) found.hidden.emplace_back(found.past, end);
  return found;
}

BlockRuns parts_to_go(const FileBlobs& parts, const BlockRuns& hidden) {
  BlockRuns gone;
  for (const FileBlobs::Part& part : parts.parts()) {
    for (auto run = std::ranges::upper_bound(hidden, part.first, {}, [](const auto& one) { return one.second; }); run != hidden.end() && run->first < part.past(); ++run) {
      if (part.shared()) gone.emplace_back(std::max(run->first, part.first), std::min(run->second, part.past()));
      else if (run->first <= part.first && run->second >= part.past()) gone.emplace_back(part.first, part.past());
    }
  }
  return gone;
}

}  // namespace lsmfs

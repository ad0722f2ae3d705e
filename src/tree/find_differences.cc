// What steps tell, put together: renames are found, and all is in the order of paths.
#include <algorithm>
#include <compare>
#include <set>
#include <unordered_map>
#include <utility>

#include "tree/record.h"

namespace lsmfs {
namespace {

std::string joined(const std::string& directory, const std::string& path) {
  if (directory.empty() || path.empty()) return directory + path;
  return directory + "/" + path;
}

// As a walk: a slash comes before all that can be in a name.
bool is_before(std::string_view a, std::string_view b) {
  const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c); };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return rank(x) < rank(y); });
}

class Finder {
 public:
  Finder(const AskDifferences& ask, OneSided one_sided) : ask_(ask), one_sided_(one_sided) {}

  Result<std::vector<Difference>> all() {
    LSMFS_TRY(compare("", ""));
    while (!removed_.empty() && !added_.empty()) {
      const auto pairs = take_renames();
      if (pairs.empty()) break;
      for (const auto& [from, to] : pairs) {
        told_.push_back({.kind = Difference::Kind::renamed, .is_directory = to.is_directory, .path = to.path, .old = from.path});
        const auto compared = compare(from.path, to.path);  // which may tell of more that has other names
        if (!compared && compared.error().code != ENOENT) return compared.error();  // it has changed again meanwhile
      }
    }
    for (auto* const side : {&removed_, &added_}) {
      for (const FoundDifference& each : *side) {
        const bool removed = side == &removed_;
        tell(each, removed ? Difference::Kind::removed : Difference::Kind::added, each.path);
        if (removed ? each.was_directory : each.is_directory) LSMFS_TRY(list(each.path, removed));
      }
    }
    for (const auto& [path, removed] : changed_type_) LSMFS_TRY(list(path, removed));
    std::ranges::stable_sort(told_, [](const Difference& a, const Difference& b) { return is_before(a.path, b.path); });
    return std::move(told_);
  }

 private:
  using Kind = FoundDifference::Kind;

  // Asks step by step; `take` gets what is told.
  template <class Take>
  Result<void> ask(DifferencesAsked asked, const Take& take) {
    for (;;) {
      LSMFS_ASSIGN(DifferencesStep step, ask_(asked));
      for (FoundDifference& each : step.found) take(std::move(each));
      if (shifts_.size() < kShiftsMost) shifts_.insert(step.shifts.begin(), step.shifts.end());
      if (step.ended) return {};
      asked.from = std::move(step.next);
    }
  }

  Result<void> compare(const std::string& a, const std::string& b) {
    return ask({.a = a, .b = b, .from = {}}, [&](FoundDifference each) {
      const std::string path = joined(each.kind == Kind::removed ? a : b, each.path);
      if (each.kind == Kind::removed || each.kind == Kind::added) {
        auto& side = each.kind == Kind::removed ? removed_ : added_;
        side.push_back(std::move(each));
        side.back().path = path;
        return;
      }
      tell(each, each.kind == Kind::contents ? Difference::Kind::contents : Difference::Kind::attributes, path);
      if (each.was_directory == each.is_directory) return;
      changed_type_.emplace_back(each.was_directory ? joined(a, each.path) : path, each.was_directory);
    });
  }

  // What lies below a directory that only one side has.
  Result<void> list(const std::string& directory, bool removed) {
    if (one_sided_ == OneSided::as_one) return {};
    DifferencesAsked asked;
    (removed ? asked.a : asked.b) = directory;
    const auto listed = ask(asked, [&](const FoundDifference& each) {
      tell(each, removed ? Difference::Kind::removed : Difference::Kind::added, joined(directory, each.path));
    });
    return listed || listed.error().code != ENOENT ? listed : Result<void>();
  }

  void tell(const FoundDifference& each, Difference::Kind kind, const std::string& path) {
    told_.push_back({.kind = kind, .is_directory = kind == Difference::Kind::removed ? each.was_directory : each.is_directory, .path = path, .old = {}});
  }

  // Takes out of what only one side has what is the same inode under two names: by its number first, which tells most, else by what it has.
  std::vector<std::pair<FoundDifference, FoundDifference>> take_renames() {
    std::vector<std::pair<FoundDifference, FoundDifference>> pairs;
    std::unordered_map<std::uint64_t, std::size_t> by_number, by_data;
    for (std::size_t i = added_.size(); i-- > 0;) {  // of several the first counts
      by_number[shifts::place(added_[i].number)] = i;
      if (added_[i].data.v != 0) by_data[added_[i].data.v] = i;
    }
    std::vector<bool> is_taken(added_.size()), is_gone(removed_.size());
    const auto pair = [&](std::size_t from, const std::unordered_map<std::uint64_t, std::size_t>& known, std::uint64_t key) {
      const auto found = known.find(key);
      if (is_gone[from] || found == known.end() || is_taken[found->second]) return;
      if (removed_[from].was_directory != added_[found->second].is_directory) return;
      is_gone[from] = is_taken[found->second] = true;
      pairs.emplace_back(removed_[from], added_[found->second]);
    };
    for (std::size_t i = 0; i < removed_.size(); ++i) {
      for (const std::uint64_t shift : shifts_) pair(i, by_number, (shifts::place(removed_[i].number) + shift) % shifts::kRange);
    }
    for (std::size_t i = 0; i < removed_.size(); ++i) {
      if (removed_[i].data.v != 0) pair(i, by_data, removed_[i].data.v);
    }
    std::size_t at = 0;
    std::erase_if(removed_, [&](const FoundDifference&) { return is_gone[at++]; });
    at = 0;
    std::erase_if(added_, [&](const FoundDifference&) { return is_taken[at++]; });
    return pairs;
  }

  static constexpr std::size_t kShiftsMost = 256;

  const AskDifferences& ask_;
  const OneSided one_sided_;
  std::vector<Difference> told_;
  std::vector<FoundDifference> removed_, added_;             // and no rename, as far as is known
  std::vector<std::pair<std::string, bool>> changed_type_;   // directories of which the other side has something else; whether the first has it
  std::set<std::uint64_t> shifts_;
};

}  // namespace

Result<std::vector<Difference>> find_differences(const AskDifferences& ask, OneSided one_sided) { return Finder(ask, one_sided).all(); }

}  // namespace lsmfs

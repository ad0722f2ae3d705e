// What check_tree() says of clones: whether what they show is there and nobody changes it, and whether each inode is there once.
#include <algorithm>
#include <map>

#include "tree/check.h"

namespace lsmfs {

// The root, an orphan, or a base that no directory has any more, which leads to a record. Must hold: one does.
Ino Checker::leads_to(Ino number) {
  for (const Found* at = facts_.of_number(number); at && at->place == Found::Place::named; at = facts_.of_number(number)) number = at->parent;
  return number;
}

// A base is older than who shows it, and than the base below which that one lies. So following them ends.
void Checker::find_circles() {
  // By what leads to records: what leads to their bases, and the records.
  std::map<Ino, std::vector<std::pair<Ino, Ino>>> shown;
  for (const auto& [number, base] : facts_.bases) {
    const Found& found = facts_.inodes.at(number);
    if (!found.is_directory() || found.reach == Found::Reach::no || !facts_.is_frozen_directory(base.number)) continue;
    shown[leads_to(number)].emplace_back(leads_to(base.number), number);
  }
  struct Step {
    Ino at;
    std::size_t next;
  };
  std::map<Ino, bool> ended;
  for (const auto& [start, all] : shown) {
    if (!ended.try_emplace(start, false).second) continue;
    for (std::vector<Step> way{{start, 0}}; !way.empty();) {
      auto& [at, next] = way.back();
      const auto& bases = shown.at(at);
      if (next == bases.size()) {
        ended[at] = true;
        way.pop_back();
        continue;
      }
      const auto [to, number] = bases[next++];
      if (!shown.contains(to)) continue;
      const auto [known, is_new] = ended.try_emplace(to, false);
      if (is_new) way.push_back({to, 0});
      else if (!known->second) facts_.circles.insert(number);
    }
  }
}

void Checker::join_shown() {
  std::map<std::pair<Ino, std::uint64_t>, Ino> views;
  for (const auto& [number, base] : facts_.bases) {
    Found& found = facts_.inodes.at(number);
    if (!found.is_directory()) {
      show_file(number, base, found);
      continue;
    }
    show_directory(number, base, found);
    if (facts_.is_frozen(found) || views.try_emplace({base.number, base.shift}, number).second) continue;
    problem("{}: shows base {} with the inode numbers of another directory", inode_of(number, found), base.number.v);
    facts_.same_views.insert(number);
  }
  check_unshifted();
}

void Checker::show_directory(Ino number, const TreeFacts::Base& base, Found& found) {
  const Found* const record = facts_.directory_at(base.number, base.home);
  const TreeFacts::Node* const node = facts_.directory_node_at(base.number, base.home);
  const std::string who = inode_of(number, found);
  // Of one without a base that could be shown its counts say nothing.
  found.entries = found.size;
  found.subdirectories = std::max(found.nlink, 2u) - 2;
  if (!record && !node) return problem("{}: shows base {}, which does not exist", who, base.number.v);
  if (!node && record->has_base) return problem("{}: shows base {}, which has no entries of its own", who, base.number.v);
  if (facts_.circles.contains(number)) return problem("{}: shows base {}, in which it lies itself", who, base.number.v);
  if (!node && !facts_.is_frozen(*record)) problem("{}: shows base {}, which is a directory in use", who, base.number.v);
  found.entries = node ? node->entries : record->entries;
  found.subdirectories = node ? node->subdirectories : record->subdirectories;
}

void Checker::show_file(Ino number, const TreeFacts::Base& base, const Found& found) {
  const Found* const file = facts_.file_at(base.number, base.home);
  const TreeFacts::Node* const node = facts_.file_node_at(base.number, base.home);
  const std::string who = inode_of(number, found);
  if (!file && !node) return problem("{}: shows base {}, which does not exist", who, base.number.v);
  if (!node && file->has_base) return problem("{}: shows base {}, which has no data of its own", who, base.number.v);
  if (!node && !file->is_base && !facts_.is_frozen(*file)) problem("{}: shows {}, which does not know it", who, inode_of(base.number, *file));
  if (found.size > (node ? node->row.size : file->size)) problem("{}: reaches past the end of base {}", who, base.number.v);
  const std::uint64_t blocks = node ? node->row.blocks : file->blocks, in_blobs = node ? node->row.blob_blocks : file->blob_blocks;
  if (found.blocks == blocks && found.blob_blocks == in_blobs) return;
  problem("{}: has {} rows and {} other blocks of data, and base {} has {} and {}", who, found.blocks, found.blob_blocks, base.number.v, blocks, in_blobs);
}

// A shift of 0 leaves the numbers of inodes below as they are. So what a directory shows in this way, nobody else may show so, nor have.
void Checker::check_unshifted() {
  std::multimap<Ino, Ino> below;  // directories in those that do not change any more
  for (const auto& [number, found] : facts_.inodes) {
    if (found.is_directory() && found.place == Found::Place::named && facts_.is_frozen(found)) below.emplace(found.parent, number);
  }
  std::map<Ino, Ino> shown;  // such directories, and who shows them unshifted
  for (const auto& [number, base] : facts_.bases) {
    const Found& found = facts_.inodes.at(number);
    const bool counts = found.is_directory() && found.reach != Found::Reach::no && !facts_.is_frozen(found) && !facts_.circles.contains(number) && !facts_.same_views.contains(number);
    if (!counts || base.shift != 0) continue;
    std::vector<Ino> mine, left{base.number};
    bool twice = false;
    while (!left.empty() && !twice) {
      const Ino at = left.back();
      left.pop_back();
      if (!facts_.is_frozen_directory(at)) continue;
      const auto [known, is_new] = shown.try_emplace(at, number);
      twice = known->second != number;
      if (!is_new) continue;
      mine.push_back(at);
      for (auto [one, end] = below.equal_range(at); one != end; ++one) {
        const auto of = facts_.bases.find(one->second);
        if (of == facts_.bases.end()) left.push_back(one->second);
        else if (of->second.shift == 0) left.push_back(of->second.number);
      }
    }
    if (!twice) continue;
    for (const Ino one : mine) shown.erase(one);
    has_numbers_of_others(number, found, base);
  }
  const auto is_used = [&](Ino number, Ino ino) {
    const Found* const found = facts_.of_number(number);
    return found && found->ino == ino && !facts_.is_frozen(*found);
  };
  for (const auto& [number, found] : facts_.inodes) {
    const auto by = found.place == Found::Place::named && found.ino < kCountedMax ? shown.find(found.parent) : shown.end();
    if (by == shown.end() || facts_.same_views.contains(by->second)) continue;
    bool used = is_used(found.ino, found.ino);
    for (auto [one, end] = facts_.moved.equal_range(found.ino); one != end; ++one) used |= is_used(one->second, found.ino);
    if (used) has_numbers_of_others(by->second, facts_.inodes.at(by->second), facts_.bases.at(by->second));
  }
}

void Checker::has_numbers_of_others(Ino number, const Found& found, const TreeFacts::Base& base) {
  problem("{}: shows base {} with inode numbers that others have", inode_of(number, found), base.number.v);
  facts_.same_views.insert(number);
}

// Of records that can be used each has an inode of its own, but of those that clones have shown first. One of two with the same has another
// number in its home.
void Checker::check_twins() {
  for (auto at = facts_.moved.begin(); at != facts_.moved.end();) {
    const Ino ino = at->first;
    std::vector<Ino> numbers{ino};
    for (; at != facts_.moved.end() && at->first == ino; ++at) numbers.push_back(at->second);
    if (ino >= kCountedMax) continue;
    std::erase_if(numbers, [&](Ino number) {
      const Found* const found = facts_.of_number(number);
      return !found || found->ino != ino || facts_.is_frozen(*found);
    });
    // Names say which inode one of several names is, so it keeps its number.
    std::stable_partition(numbers.begin(), numbers.end(), [&](Ino number) { return facts_.of_number(number)->place == Found::Place::linked; });
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      problem("{}: another one has that number", inode_of(numbers[i], *facts_.of_number(numbers[i])));
      facts_.twins.insert(numbers[i]);
    }
  }
}

}  // namespace lsmfs

#include "tree/seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tree/keys.h"

namespace lsmfs {
namespace {

// Blocks of a file from `first` on, and where they lie: as those of the home of that number, from its block `at` on.
struct Lying {
  std::uint64_t first, count;
  Ino number;
  std::uint64_t at;
  bool any_hole;  // some of them may be holes
  std::uint64_t past() const { return first + count; }
};

using KnownParts = std::map<Ino, FileBlobs>;  // of homes

// Adds where blocks [from, to) of a home lie in the end. They are those of the file from block `first` on.
Result<void> add_lying(NamesView& view, KnownParts& known, Ino number, std::uint64_t from, std::uint64_t to, std::uint64_t first, int depth, std::vector<Lying>& out) {
  if (depth > 2 * FileBlobs::kDepthMost) return make_error(EUCLEAN, fmt::format("the bases of home {} lie in each other", number.v));
  auto parts = known.find(number);
  if (parts == known.end()) {
    LSMFS_ASSIGN(FileBlobs read, view.parts(number));
    parts = known.emplace(number, std::move(read)).first;
  }
  for (const FileBlobs::Run& run : parts->second.runs(from, to)) {
    const std::uint64_t begins = first + (run.from - from);
    if (!run.part || !run.part->shared()) {
      out.push_back({.first = begins, .count = run.to - run.from, .number = number, .at = run.from, .any_hole = depth == 0 && !run.part});
      continue;
    }
    const std::uint64_t at = run.part->from + (run.from - run.part->first);
    LSMFS_TRY(add_lying(view, known, *keys::number_of(run.part->base), at, at + (run.to - run.from), begins, depth + 1, out));
  }
  return {};
}

Result<std::vector<Lying>> lying(NamesView& view, KnownParts& known, const Seen& file) {
  std::vector<Lying> out;
  LSMFS_TRY(add_lying(view, known, *keys::number_of(file.home), 0, block_count(file.record.size), 0, 0, out));
  return out;
}

// How many blocks are the same and no holes. Those that lie in the same place are the same, and no holes if one of the two knows that.
std::uint64_t blocks_in_common(const std::vector<Lying>& a, const std::vector<Lying>& b) {
  std::uint64_t count = 0;
  for (auto left = a.begin(), right = b.begin(); left != a.end() && right != b.end();) {
    const std::uint64_t from = std::max(left->first, right->first), to = std::min(left->past(), right->past());
    const bool same = left->number == right->number && left->at + (from - left->first) == right->at + (from - right->first);
    if (from < to && same && !(left->any_hole && right->any_hole)) count += to - from;
    if (left->past() == to) ++left;
    if (right->past() == to) ++right;
  }
  return count;
}

Result<std::string> xattr_value_of(NamesView& view, const Seen& seen, const Xattr& xattr) {
  return xattr.row_size > 0 ? view.xattr(seen.xattr_home, xattr.name) : Result<std::string>(xattr.value);
}

}  // namespace

Result<Seen> seen_in(NamesView& view, const Seen& directory, const std::string& name, const EntryRow& row) {
  Seen seen;
  if (const auto* const link = std::get_if<Link>(&row)) {
    LSMFS_ASSIGN(seen.record, view.linked(link->ino));
    seen.home = seen.xattr_home = seen.record.home;
  } else if (directory.shows_base()) {
    seen.home = std::get<Record>(row).home_in(directory.home, name);
    seen.record = record_shown(directory.home, directory.record.shift, name, std::get<Record>(row), seen.xattr_home);
  } else {
    seen.record = std::get<Record>(row);
    seen.home = seen.xattr_home = seen.record.home_in(directory.home, name);
  }
  if (seen.record.has_base()) seen.home = *seen.record.base;
  if (!keys::number_of(seen.home)) return make_error(EUCLEAN, fmt::format("the record of inode {} is damaged", seen.record.ino.v));
  return seen;
}

Result<std::optional<Seen>> seen_at(NamesView& view, Seen directory, std::string_view path) {
  const std::optional<Seen> none;
  while (!path.empty()) {
    if (!directory.record.is_directory()) return none;
    const std::string name(path.substr(0, path.find('/')));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    LSMFS_ASSIGN(const auto row, view.entry(directory.home, name));
    if (!row) return none;
    LSMFS_ASSIGN(directory, seen_in(view, directory, name, *row));
  }
  return std::optional(std::move(directory));
}

Result<bool> have_same_data(NamesView& view, const Seen& a, const Seen& b) {
  const std::uint64_t blocks = a.record.all_blocks();
  if (blocks != b.record.all_blocks()) return false;
  if (blocks == 0 || a.home == b.home) return true;
  if (a.record.blob_blocks == 0 && b.record.blob_blocks == 0) return false;  // neither has parts, so neither shares anything
  KnownParts known;
  LSMFS_ASSIGN(const std::vector<Lying> of_a, lying(view, known, a));
  LSMFS_ASSIGN(const std::vector<Lying> of_b, lying(view, known, b));
  return blocks_in_common(of_a, of_b) == blocks;
}

Result<std::vector<SameBlocks>> same_blocks(NamesView& view, const Seen& a, const Seen& b) {
  std::vector<SameBlocks> same;
  const auto add = [&same](std::uint64_t from, std::uint64_t to) {
    if (!same.empty() && same.back().first.v + same.back().count == from) same.back().count += to - from;
    else same.push_back({.first = BlockIndex{from}, .count = to - from});
  };
  if (a.home == b.home) {
    if (const std::uint64_t both = std::min(block_count(a.record.size), block_count(b.record.size)); both > 0) add(0, both);
    return same;
  }
  KnownParts known;
  LSMFS_ASSIGN(const std::vector<Lying> of_a, lying(view, known, a));
  LSMFS_ASSIGN(const std::vector<Lying> of_b, lying(view, known, b));
  for (auto left = of_a.begin(), right = of_b.begin(); left != of_a.end() && right != of_b.end();) {
    const std::uint64_t from = std::max(left->first, right->first), to = std::min(left->past(), right->past());
    if (from < to && left->number == right->number && left->at + (from - left->first) == right->at + (from - right->first)) add(from, to);
    if (left->past() == to) ++left;
    if (right->past() == to) ++right;
  }
  return same;
}

// Which values are in rows depends on the order in which they were set.
Result<bool> have_same_xattrs(NamesView& view, const Seen& a, const Seen& b) {
  const std::vector<Xattr> &left = a.record.xattrs, &right = b.record.xattrs;
  const auto size = [](const Xattr& xattr) { return xattr.row_size > 0 ? xattr.row_size : xattr.value.size(); };
  const auto alike = [&](const Xattr& x, const Xattr& y) { return x.name == y.name && size(x) == size(y); };
  if (!std::ranges::equal(left, right, alike)) return false;
  if (a.xattr_home == b.xattr_home && left == right) return true;
  for (std::size_t i = 0; i < left.size(); ++i) {
    LSMFS_ASSIGN(const std::string of_a, xattr_value_of(view, a, left[i]));
    LSMFS_ASSIGN(const std::string of_b, xattr_value_of(view, b, right[i]));
    if (of_a != of_b) return false;
  }
  return true;
}

}  // namespace lsmfs

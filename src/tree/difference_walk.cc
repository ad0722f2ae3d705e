#include "tree/difference_walk.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "tree/keys.h"

namespace lsmfs {
namespace {

using FoundKind = FoundDifference::Kind;

constexpr std::size_t kToldBytes = 32;  // beside a path, generously

std::string below(const std::string& directory, std::string_view name) { return directory.empty() ? std::string(name) : directory + "/" + std::string(name); }

bool is_path(std::string_view path) {
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    if (!keys::is_name(name)) return false;
    path.remove_prefix(name.size());
    if (path.size() == 1) return false;
    path.remove_prefix(std::min<std::size_t>(1, path.size()));
  }
  return true;
}

std::uint32_t type_of(const Record& record) { return record.mode & S_IFMT; }

}  // namespace

Result<const NamesView::Entries::value_type*> DifferenceWalk::Listing::current() {
  if (at_ == some_.size() && !ended_) {
    if (directory_.record.size > 0) {
      LSMFS_ASSIGN(some_, view_.entries(directory_.home, after_, kEntriesAtOnce));
    }
    at_ = 0;
    ended_ = some_.empty();
    if (!ended_) after_ = some_.back().first;
  }
  return ended_ ? nullptr : &some_[at_];
}

Result<DifferencesStep> DifferenceWalk::step(const Seen& a, const Seen& b, const DifferencesAsked& asked) {
  std::string_view from = asked.from;
  if (from.ends_with('/')) from.remove_suffix(1);
  if (!is_path(asked.a.value_or("")) || !is_path(asked.b.value_or("")) || !is_path(from)) return make_error(EINVAL, "");
  if (asked.only_linked && asked.a && asked.b) return make_error(EINVAL, "");
  exact_ = asked.exact;
  only_linked_ = asked.only_linked;
  std::optional<Seen> at_a, at_b;
  if (asked.a) {
    LSMFS_ASSIGN(at_a, seen_at(view_, a, *asked.a));
  }
  if (asked.b) {
    LSMFS_ASSIGN(at_b, seen_at(view_, b, *asked.b));
  }
  if (at_a.has_value() != asked.a.has_value() || at_b.has_value() != asked.b.has_value()) return make_error(ENOENT, "");
  if (asked.only_data) return at_a && at_b && at_a->record.is_regular() && at_b->record.is_regular() ? tell_same_blocks(*at_a, *at_b, asked.from) : Result<DifferencesStep>(make_error(EINVAL, ""));
  if (!(at_a && at_b) && !(at_a ? at_a : at_b)->record.is_directory()) return make_error(ENOTDIR, "");
  LSMFS_TRY(begin(at_a, at_b, asked.from));
  LSMFS_TRY(go_on());
  step_.ended = levels_.empty();
  if (!step_.ended) step_.next = position();
  step_.shifts.assign(shifts_.begin(), shifts_.end());
  return std::move(step_);
}

// Where the step before ended: "x/y/" is in the directory x/y, before its first entry, and "x/y" behind that entry.
Result<void> DifferenceWalk::begin(const std::optional<Seen>& a, const std::optional<Seen>& b, const std::string& from) {
  if (from.empty() && only_linked_ && (a ? a : b)->shows_base()) return {};
  if (from.empty()) return a && b ? compare("", *a, *b) : enter("", a, b);
  LSMFS_TRY(enter("", a, b));
  std::string_view left = from == "/" ? "" : std::string_view(from);
  while (!left.empty() && !levels_.empty()) {
    Level& level = levels_.back();
    const std::string name(left.substr(0, left.find('/')));
    left.remove_prefix(name.size());
    LSMFS_ASSIGN(const auto in_a, entered(view_, level.a, name));
    LSMFS_ASSIGN(const auto in_b, entered(view_, level.b, name));
    const std::string path = below(level.path, name);
    level.after = name;
    if (level.a) level.a.emplace(view_, Seen(level.a->directory()), name);
    if (level.b) level.b.emplace(view_, Seen(level.b->directory()), name);
    // One that both had, and one has not any more, has been told of as far as it goes.
    if (left.empty() || in_a.has_value() != level.a.has_value() || in_b.has_value() != level.b.has_value()) return {};
    left.remove_prefix(1);
    LSMFS_TRY(enter(path, in_a, in_b));
  }
  return {};
}

// The directory of that name.
Result<std::optional<Seen>> DifferenceWalk::entered(NamesView& view, const std::optional<Listing>& in, std::string_view name) {
  if (!in) return std::optional<Seen>();
  LSMFS_ASSIGN(auto seen, seen_at(view, in->directory(), name));
  if (seen && !seen->record.is_directory()) seen.reset();
  return seen;
}

Result<void> DifferenceWalk::go_on() {
  while (!levels_.empty()) {
    Level& level = levels_.back();
    const NamesView::Entries::value_type* a = nullptr;
    const NamesView::Entries::value_type* b = nullptr;
    if (level.a) {
      LSMFS_ASSIGN(a, level.a->current());
    }
    if (level.b) {
      LSMFS_ASSIGN(b, level.b->current());
    }
    if (!a && !b) {
      levels_.pop_back();
      continue;
    }
    const bool in_a = a && (!b || a->first <= b->first), in_b = b && (!a || b->first <= a->first);
    const std::string name = in_a ? a->first : b->first;
    const std::string path = below(level.path, name);
    if (has_moved_ && view_.read() >= most_.rows) return {};
    if (!has_room_for(path)) return told_bytes_ > 0 ? Result<void>() : make_error(ENAMETOOLONG, path);
    std::optional<Seen> of_a, of_b;
    if (in_a) {
      LSMFS_ASSIGN(of_a, seen_in(view_, level.a->directory(), name, a->second));
    }
    if (in_b) {
      LSMFS_ASSIGN(of_b, seen_in(view_, level.b->directory(), name, b->second));
    }
    if (in_a) level.a->next();
    if (in_b) level.b->next();
    level.after = name;
    has_moved_ = true;
    if (of_a && of_b) {
      LSMFS_TRY(compare(path, *of_a, *of_b));
      continue;
    }
    const bool lists_all = !level.a || !level.b;
    const Seen& seen = of_a ? *of_a : *of_b;
    if (!only_linked_ || (!seen.record.is_directory() && seen.record.nlink > 1)) tell_one_sided(path, seen, of_a.has_value());
    // No base has a file of several names.
    if (lists_all && seen.record.is_directory() && !(only_linked_ && seen.shows_base())) LSMFS_TRY(enter(path, of_a, of_b));
  }
  return {};
}

// Tells whether they differ. If both are directories, what lies in them comes next, unless that is the same.
Result<void> DifferenceWalk::compare(const std::string& path, const Seen& a, const Seen& b) {
  learn_shifts(a, b);
  FoundDifference found{.kind = FoundKind::contents, .was_directory = a.record.is_directory(), .is_directory = b.record.is_directory(), .path = path, .number = {}, .data = {}};
  LSMFS_ASSIGN(bool same, same_contents(a, b));
  if (same) {
    found.kind = FoundKind::attributes;
    LSMFS_ASSIGN(same, same_attributes(a, b));
  }
  if (!same) {
    step_.found.push_back(std::move(found));
    told_bytes_ += path.size() + kToldBytes;
  }
  return a.record.is_directory() && b.record.is_directory() && a.home != b.home ? enter(path, a, b) : Result<void>();
}

// The place where to go on is a number of blocks.
Result<DifferencesStep> DifferenceWalk::tell_same_blocks(const Seen& a, const Seen& b, const std::string& from) {
  constexpr std::size_t kBlocksBytes = 20;  // of two numbers, at most
  std::uint64_t begin = 0;
  if (!from.empty() && std::from_chars(from.data(), from.data() + from.size(), begin).ptr != from.data() + from.size()) return make_error(EINVAL, "");
  LSMFS_ASSIGN(const std::vector<SameBlocks> all, same_blocks(view_, a, b));
  DifferencesStep told;
  const std::size_t most = std::max<std::size_t>(most_.room / kBlocksBytes, 3) - 2;
  for (const SameBlocks& each : all) {
    if (each.first.v + each.count <= begin) continue;
    if (told.same.size() == most) {
      told.next = std::to_string(each.first.v);
      return told;
    }
    told.same.push_back(each);
  }
  told.ended = true;
  return told;
}

Result<bool> DifferenceWalk::same_contents(const Seen& a, const Seen& b) {
  const Record &left = a.record, &right = b.record;
  if (type_of(left) != type_of(right)) return false;
  if (left.is_directory()) return true;
  if (left.size != right.size || left.rdev != right.rdev || left.symlink != right.symlink) return false;
  return left.is_regular() ? have_same_data(view_, a, b) : Result<bool>(true);
}

// Of two of one type.
Result<bool> DifferenceWalk::same_attributes(const Seen& a, const Seen& b) {
  const Record &left = a.record, &right = b.record;
  if (left.mode != right.mode || left.uid != right.uid || left.gid != right.gid || left.flags != right.flags) return false;
  if ((exact_ || !left.is_directory()) && left.mtime != right.mtime) return false;  // that of a directory changes with each name in it
  if (exact_ && (left.atime != right.atime || (!left.is_directory() && left.nlink != right.nlink))) return false;
  return have_same_xattrs(view_, a, b);
}

void DifferenceWalk::tell_one_sided(const std::string& path, const Seen& seen, bool removed) {
  const bool directory = seen.record.is_directory();
  step_.found.push_back({.kind = removed ? FoundKind::removed : FoundKind::added,
                         .was_directory = removed && directory,
                         .is_directory = !removed && directory,
                         .path = path,
                         .number = seen.record.ino,
                         .data = seen.record.shows_something() ? *keys::number_of(seen.home) : Ino{}});
  told_bytes_ += path.size() + kToldBytes;
}

// What both have from one source has a number of its own in each, by a shift that is the same for all of it. Such a pair was made at one time, or
// shows one base. Numbers that were both counted up tell nothing: the one is not that of the other by a shift.
void DifferenceWalk::learn_shifts(const Seen& a, const Seen& b) {
  const bool show_same = a.home == b.home && a.record.shows_something() && b.record.shows_something();
  if (!show_same && (type_of(a.record) != type_of(b.record) || a.record.btime != b.record.btime)) return;
  const auto learn = [&](std::uint64_t shift) {
    if (shifts_.size() < kShiftsMost) shifts_.insert(shift);
  };
  if (a.record.ino >= kCountedMax || b.record.ino >= kCountedMax) learn(shifts::between(a.record.ino, b.record.ino));
  if (show_same && a.record.is_directory()) learn((b.record.shift + shifts::kRange - a.record.shift % shifts::kRange) % shifts::kRange);
}

Result<void> DifferenceWalk::enter(const std::string& path, const std::optional<Seen>& a, const std::optional<Seen>& b) {
  // Those of a damaged tree may lie in each other.
  for (const Level& level : levels_) {
    if ((a && level.a && level.a->directory().home == a->home) || (b && level.b && level.b->directory().home == b->home)) return make_error(EUCLEAN, "a directory lies in itself");
  }
  Level& level = levels_.emplace_back(Level{.path = path, .after = {}, .a = std::nullopt, .b = std::nullopt});
  if (a) level.a.emplace(view_, *a, "");
  if (b) level.b.emplace(view_, *b, "");
  return {};
}

// For what is told, and for the place where to go on, which may be in that directory.
bool DifferenceWalk::has_room_for(const std::string& path) const {
  constexpr std::size_t kBeside = 10 * kShiftsMost + 2 * kToldBytes;
  return told_bytes_ + 2 * path.size() + kBeside <= most_.room;
}

std::string DifferenceWalk::position() const {
  const Level& level = levels_.back();
  return level.after.empty() ? level.path + "/" : below(level.path, level.after);
}

}  // namespace lsmfs

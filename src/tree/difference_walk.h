// DifferenceWalk: one step of telling what two directories have below them that is not the same (lsmfs/differences.h has the rules). It walks over
// the entries of both in order, and into those pairs of directories that do not show the same.
//
// What it is not: it finds no renames, and keeps nothing for the next step, which goes on from a path. Not thread-safe; for one step.
//
// Memory: some entries of each directory on the way, and what is told.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lsmfs/differences.h"
#include "tree/seen.h"

namespace lsmfs {

class DifferenceWalk {
 public:
  DifferenceWalk(NamesView& view, const DifferencesMost& most) : view_(view), most_(most) {}
  // Of what lies at the paths that are asked, below the directories `a` and `b`. Errors: those of the view, EINVAL (what is asked are no
  // paths), ENOENT (nothing lies at one of them), ENOTDIR (only one is asked of, and it is no directory), ENAMETOOLONG (a path is too long to be
  // told).
  Result<DifferencesStep> step(const Seen& a, const Seen& b, const DifferencesAsked& asked);

 private:
  static constexpr std::size_t kEntriesAtOnce = 128;  // some of them are read in vain at the end of a step
  static constexpr std::size_t kShiftsMost = 64;

  // The entries of a directory, in order.
  class Listing {
   public:
    Listing(NamesView& view, Seen directory, std::string after) : view_(view), directory_(std::move(directory)), after_(std::move(after)) {}
    // The entry at which it is; nullptr: there are no more.
    Result<const NamesView::Entries::value_type*> current();
    void next() { ++at_; }
    const Seen& directory() const { return directory_; }

   private:
    NamesView& view_;
    Seen directory_;
    std::string after_;
    NamesView::Entries some_;
    std::size_t at_ = 0;
    bool ended_ = false;
  };
  // A directory on the way, as one side or both have it.
  struct Level {
    std::string path;
    std::string after;  // the name up to which it has been walked over; "": the beginning
    std::optional<Listing> a, b;
  };

  Result<void> begin(const std::optional<Seen>& a, const std::optional<Seen>& b, const std::string& from);
  Result<void> go_on();
  Result<void> compare(const std::string& path, const Seen& a, const Seen& b);
  Result<DifferencesStep> tell_same_blocks(const Seen& a, const Seen& b, const std::string& from);
  Result<bool> same_contents(const Seen& a, const Seen& b);
  Result<bool> same_attributes(const Seen& a, const Seen& b);
  void tell_one_sided(const std::string& path, const Seen& seen, bool removed);
  void learn_shifts(const Seen& a, const Seen& b);
  // What is in a directory comes next.
  Result<void> enter(const std::string& path, const std::optional<Seen>& a, const std::optional<Seen>& b);
  static Result<std::optional<Seen>> entered(NamesView& view, const std::optional<Listing>& in, std::string_view name);
  bool has_room_for(const std::string& path) const;
  std::string position() const;  // from where to go on, before the entry that comes next

  NamesView& view_;
  const DifferencesMost most_;
  DifferencesStep step_;
  std::vector<Level> levels_;    // each in the one before
  std::size_t told_bytes_ = 0;
  bool has_moved_ = false;       // past an entry
  bool exact_ = false, only_linked_ = false;  // as of DifferencesAsked
  std::set<std::uint64_t> shifts_;
};

}  // namespace lsmfs

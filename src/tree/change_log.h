// ChangeLog: which paths have changed, in rows, one for each group that changes any, as long as somebody asks for them. Questions are
// answered in changes.cc.
//
// It is kept from the first question on, until nobody has asked for kAskedWithin. It takes a share of the volume at most: the oldest rows go.
// Where there is little room it has no rows at all, and its head alone says that something has changed.
//
// Promises: the row of a group is in that group's batch, so the log is as old as the tree, also after a crash. A position that a token names
// means the same rows to whoever knows the token's log, or nobody knows that log.
//
// What it is not: it knows no inodes. Not thread-safe: the tree's mutex guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "lsmfs/changes.h"
#include "lsmfs/kv.h"
#include "tree/change_rows.h"

namespace lsmfs {

// What the open group has changed so far.
class ChangeNotes {
 public:
  static constexpr std::size_t kBytesMost = 512 * KiB;  // more is noted as: everything
  // The moment: another one after each group, and when paths have changed. What was noted in it need not be again.
  std::uint64_t moment() const { return moment_; }
  bool empty() const { return paths_.empty(); }
  std::size_t bytes() const { return bytes_; }

  // The path of the directory `dir`, if it was asked for in this moment.
  ChangedNames* known(Ino dir) {
    const auto found = known_.find(dir);
    return found == known_.end() ? nullptr : found->second;
  }
  ChangedNames& at(Ino dir, std::string_view path);   // which is that directory's
  void add(ChangedNames& changed, std::string_view name);
  void add_below(std::string_view path);              // that, and all below it
  void add_everything() { add_below(""); }
  void paths_changed();                               // of some directories
  ChangedPaths take();                                // and begins anew

 private:
  ChangedPaths paths_;
  std::unordered_map<Ino, ChangedNames*> known_;
  std::uint64_t moment_ = 1;
  std::size_t bytes_ = 0;
};

class ChangeLog {
 public:
  static constexpr std::int64_t kAskedWithin = 30 * 24 * 3600;  // seconds
  static constexpr std::int64_t kAskedNoted = 24 * 3600;        // a question is noted when the last one that is was so long ago
  static constexpr std::uint64_t kBytesMost = 64 * MiB;         // of rows
  static constexpr std::uint64_t kShare = 64;                   // of the volume likewise

  // Finds the log of a store. What is damaged is none, and it says so. Errors: EIO.
  Result<void> load(Store& store, const std::function<void(std::string_view)>& notice);

  bool is_kept() const { return head_.has_value() && !damaged_; }
  bool is_damaged() const { return damaged_; }
  ChangeNotes& notes() { return notes_; }
  const ChangeNotes& notes() const { return notes_; }

  // ---- what goes into the batch of a group
  struct Conditions {
    std::int64_t now = 0;          // seconds
    std::uint64_t volume = 0;      // bytes
    bool little_room = false;
  };
  void put(Batch& batch, const Conditions& conditions);  // what was noted. Must hold: it is kept
  void begin(Batch& batch, std::int64_t now);            // from here on. Must hold: it is not kept
  void forget(Batch& batch);                             // what is damaged: a later mount may read it, and would miss what changes in this one
  bool asked(Batch& batch, std::int64_t now);            // somebody has; whether that is noted

  // ---- questions. Must hold: it is kept, and all that was noted has been put
  ChangesToken now() const;
  bool knows(const ChangesToken& token) const;

 private:
  void find_marks(Cursor& rows);
  void keep_nothing(Batch& batch);  // no token is known any more
  void forget_old_logs();
  void stop(Batch& batch);
  void put_head(Batch& batch) const;
  void drop_oldest(Batch& batch, std::uint64_t most);

  ChangeNotes notes_;
  std::optional<ChangeHead> head_;
  bool damaged_ = false;            // there is something of a log, which is none
  std::uint64_t last_ = 0;          // row
  std::uint64_t bytes_ = 0;         // ChangeRow::bytes of that
  bool new_log_ = true;             // nothing was put in this mount yet
  struct Mark {
    std::uint64_t row, bytes;
  };
  std::deque<Mark> marks_;          // rows with their ChangeRow::bytes: the last one that was dropped, and some after it
};

}  // namespace lsmfs

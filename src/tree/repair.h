// The parts of repair_tree(): one round over all rows that makes each of them agree with what check_tree() found.
//
// A round mends what it can see at once. What that brings to light (the children of a row that had to go, say) is the
// next round's work, and a crash between two commits leaves a tree that another repair goes on with. Not thread-safe.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tree/keys.h"
#include "tree/tree_facts.h"

namespace lsmfs {

class Mender {
 public:
  Mender(Store& store, TreeFacts& facts, RepairReport& report);
  Result<void> run();

 private:
  static constexpr std::size_t kBatch = MiB;

  template <class... Arguments>
  void did(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    ++report_.mended;
    if (report_.lines.size() < CheckReport::kLinesMax) {
      report_.lines.push_back(fmt::format(format, std::forward<Arguments>(arguments)...));
    }
  }

  // Gives each row of a family to `take`.
  template <class Take>
  Result<void> scan(Family family, Take take);
  Result<void> commit_some(std::size_t least);  // what is to be written, if it has so many bytes

  void find_cycles();

  bool has_owner(Ino number) const;
  bool is_taken(Ino number) const;
  // Whether rows at that home have no owner yet, and get one in lost+found.
  bool is_stray(Ino number, std::string_view home) const;
  Ino new_number();

  // ---- a row of names
  void mend_name(std::string_view key, std::string_view value);
  void mend_numbered(std::string_view key, std::string_view value);
  void mend_entry(std::string_view key, const keys::NamesKey& parsed, std::string_view value);
  void mend_link(std::string_view key, const keys::NamesKey& parsed, const Link& link);
  void mend_xattr_row(std::string_view key, const keys::NamesKey& parsed, std::string_view value);
  // A record that stays, at `key`; `path` for the report.
  void mend_record(std::string_view key, const Record& record, const std::string& path);
  void mend_xattrs(Record& record, const std::string& path);
  // A second one of its number, which gets another and nothing of what lies at its home.
  void mend_second_record(std::string_view key, Record record, const std::string& path);
  // Its home becomes another one; all but its large extended attributes stays where it is. Gives the old one.
  std::string move_away(std::string_view key, Record& record, Ino number);

  // ---- blobs: what can be read of them stays
  void mend_blobs();
  void mend_blob_row(std::string_view key);
  void mend_blob_patch(std::string_view key);

  // ---- what is shared
  void mend_shared();
  void mend_parts_of_incomplete();
  std::set<std::uint64_t> rows_at(const std::string& home) const;
  std::uint64_t size_of_base(Ino base, const std::string& home);
  void mend_depths();
  void mend_bases();
  bool settle_base(Ino number, TreeFacts::Base& base, bool directory);
  bool has_directory(const TreeFacts::Base& base);
  void join_shown();
  void mend_base(Record& record, const std::string& path);
  void mend_users();
  void mend_node_row(std::string_view key, std::string_view value);
  void mend_user_row(std::string_view key);

  // ---- a row of data
  void mend_block(std::string_view key, std::string_view value);
  void erase_block(std::string_view key);

  // ---- what has no place in the tree gets one
  std::string root_home() const;
  Result<bool> expand_root();
  Result<void> find_lost_and_found();
  Ino unused_number() const;
  std::string put_in_lost_and_found(Ino number, const std::string& row);  // gives its path
  Record blank(Ino ino, std::uint32_t mode) const;
  Record blank_at(Ino number, std::uint32_t mode);  // in its home
  void mend_root();
  void show_old_root(const TreeFacts::Directory& directory);
  void mend_snapshots_row(std::string_view key, std::string_view value);
  void mend_snapshots();
  void take_in_strays();
  void add_blobs(Record& record) const;
  void mend_state();

  Store& store_;
  TreeFacts& facts_;
  RepairReport& report_;
  Batch batch_;
  Ino next_ino_;
  const Time now_ = Time::now();
  Ino new_root_;                // the number in its home, if it is made anew and has not its first one
  std::string lost_and_found_;  // its name
  Ino lost_and_found_ino_;
  std::string lost_and_found_home_;
  bool make_lost_and_found_ = false;
  std::unordered_set<Ino> cut_off_;  // directories that move to lost+found to end a cycle
  std::unordered_map<Ino, std::string> stray_homes_;
  std::unordered_set<std::string> sound_blobs_;  // keys of their rows
  std::map<std::pair<Ino, Ino>, bool> used_;     // bases with those who share them; whether these show them
  std::set<Ino> made_again_;                     // bases whose rows are
  std::set<Ino> incomplete_;                     // homes of files that have lost blocks
  std::set<Ino> left_;                           // directories in use that leave what they have to those who show it
  std::map<Ino, Ino> moves_away_;                // records that leave their homes, and the numbers of their new ones
  std::set<Ino> given_;                          // numbers
  std::uint64_t data_rows_;     // that are there when all this is done
  std::string dropped_home_;  // whose rows of data are being dropped
};

}  // namespace lsmfs

// The parts of check_tree(): the tables' checksums; one pass over family names, which finds all inodes; a look at whether what was found agrees;
// one pass over family blocks, whose rows must be those that the files say they have. Not thread-safe.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "tree/change_rows.h"
#include "tree/keys.h"
#include "tree/tree_facts.h"

namespace lsmfs {

inline constexpr ByteCount kWholeReadahead{2 * MiB};  // of who reads all rows in order

class Checker {
 public:
  // `verify`: the tables' checksums, too.
  Checker(Store& store, const std::function<void(std::uint64_t)>& progress, bool verify = true)
      : store_(store), progress_(progress), verify_(verify) {}
  Result<CheckReport> run();
  // What it judged by. Whole unless rows could not be read.
  TreeFacts& facts() { return facts_; }
  bool read_all() const { return read_all_; }

 private:
  using Found = TreeFacts::Inode;
  // A file's data, as far as it has been seen.
  struct FileSoFar : TreeFacts::File {
    Found* found = nullptr;
    TreeFacts::Node* node = nullptr;
    std::uint64_t outside = 0, doubled = 0;
    const FileBlobs* blobs = nullptr;
  };

  // A number that is wrong, and that what it counts tells: mended without losing anything.
  template <class... Arguments>
  void miscount(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    ++report_.miscounts;
    problem(format, std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void problem(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (report_.problems.size() == CheckReport::kLinesMax) {
      ++report_.more_problems;
    } else {
      report_.problems.push_back(fmt::format(format, std::forward<Arguments>(arguments)...));
    }
  }

  // ---- reading (check.cc)
  Result<void> verify(Family family);
  // Gives each row of a family to `take`; false when damage kept it from reading all.
  template <class Take>
  Result<bool> scan(Family family, Take take);

  // ---- what one row says (check_rows.cc)
  void take_name(std::string_view key, std::string_view value);
  void take_numbered(std::string_view key, std::string_view value);  // of no directory
  void take_root(std::string_view key, std::string_view value);
  void take_snapshots(std::string_view key, std::string_view value);
  void take_change(std::string_view key, std::string_view value);
  void take_entry(std::string_view key, const keys::NamesKey& parsed, std::string_view value);
  // nullptr: there is one of that number, whose own it is.
  Found* add(std::string_view key, const Record& record, Found::Place place, std::string_view home);
  void check_acl(Ino ino, std::string_view name, std::string_view value);  // if the attribute is one
  void end_directory();  // its entries lie side by side; its record may come later
  void take_block(std::string_view key, std::string_view value);
  void end_file();       // the same of a file's data
  // Whether all its names lie below directories without one, with which it goes. Of its data some may be missing: what comes in bulk is there last.
  bool goes(const Found& found);
  void lacks_rows(const std::string& who, const Found& found);

  void take_node(std::string_view key, std::string_view value);  // check_blobs.cc
  void take_user(std::string_view key, std::string_view value);
  void take_blob(std::string_view key, std::string_view value);
  void check_blob(Ino ino, const FileBlobs::Part& part);
  void take_blob_patch(std::string_view key, std::string_view value);

  // ---- what all rows say together (check.cc)
  void check_agreement();  // of family names
  void join_directories();
  void join_links();
  void check_directory(Ino number, const Found& found);
  void check_numbers();
  void check_xattrs();
  void join_blobs();
  void check_bases();
  void check_part(Ino number, const FileBlobs::Part& part);
  void find_reach(Found& found);
  void check_counts();
  void compare_count(std::uint64_t said, std::uint64_t found, const char* what);
  void check_all_files_have_their_blocks();

  // ---- what clones show (check_clones.cc)
  void find_circles();
  Ino leads_to(Ino number);
  void join_shown();
  void check_unshifted();
  void has_numbers_of_others(Ino number, const Found& found, const TreeFacts::Base& base);
  void show_directory(Ino number, const TreeFacts::Base& base, Found& found);
  void show_file(Ino number, const TreeFacts::Base& base, const Found& found);
  void check_twins();

  Store& store_;
  const std::function<void(std::uint64_t)>& progress_;
  const bool verify_;
  CheckReport report_;
  std::uint64_t bytes_ = 0;
  std::uint64_t missing_rows_ = 0;  // of files that go
  std::optional<std::unordered_set<std::uint64_t>> stay_;  // files of several names that have one which does not go
  bool read_all_ = false;

  TreeFacts facts_;
  std::optional<TreeFacts::Directory> directory_;  // as far as it has been seen
  std::optional<FileSoFar> file_;
  std::optional<ChangeHead> change_head_;
  std::optional<std::uint64_t> last_change_;
  std::unordered_set<std::uint64_t> blob_numbers_;
};

// An inode, and the number of its home if that is another one.
std::string inode_of(Ino number, const TreeFacts::Inode& found);
// For a terminal and one line, whatever bytes a name has.
std::string path_in(std::string_view home, std::string_view name = {});
// Whether a home ends in that number, as each must, whatever else is in it.
bool ends_in(std::string_view home, Ino ino);
std::string hex(std::string_view bytes);

}  // namespace lsmfs

// The parts of check_tree(): the tables' checksums; one pass over family names, which finds all inodes; a look at whether what was found agrees;
// one pass over family blocks, whose rows must be those that the files say they have.
//
// A home ends in its inode's number, so each row names the inode it belongs to, and what is kept of an inode is a few
// numbers and a checksum of its home. Not thread-safe.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs {

class Checker {
 public:
  Checker(Store& store, const std::function<void(std::uint64_t)>& progress) : store_(store), progress_(progress) {}
  Result<CheckReport> run();

 private:
  // An inode: what its record says, and what other rows have said of it.
  struct Found {
    enum class Place : std::uint8_t { root, named, linked, orphan } place = Place::named;
    enum class Reach : std::uint8_t { unknown, asked, yes, no } reach = Reach::unknown;
    bool blocks_seen = false;
    std::uint32_t mode = 0, nlink = 0;
    std::uint64_t size = 0, blocks = 0;
    std::uint64_t home = 0;   // its checksum
    Ino parent;               // named: the directory whose entry has the record
    std::uint64_t names = 0;  // linked: rows that link to it
    std::uint64_t entries = 0, subdirectories = 0;

    bool is_directory() const { return S_ISDIR(mode); }
  };

  // Large extended attributes: (name, size of the value).
  using XattrRows = std::vector<std::pair<std::string, std::uint64_t>>;
  // The entries of a directory, as far as they have been seen.
  struct Directory {
    std::string home;
    Ino ino;
    std::uint64_t entries = 0, subdirectories = 0;
  };
  // The same of a file's data.
  struct File {
    std::string home;
    Ino ino;
    Found* found = nullptr;
    std::uint64_t rows = 0, outside = 0;
  };

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
  void take_root(std::string_view value);
  void take_entry(const keys::NamesKey& key, std::string_view value);
  Found* add(const Record& record, Found::Place place, std::string_view home);  // nullptr: there is one of that number
  void check_acl(Ino ino, std::string_view name, std::string_view value);  // if the attribute is one
  void end_directory();  // its entries lie side by side; its record may come later
  void take_block(std::string_view key, std::string_view value);
  void end_file();       // the same of a file's data

  // ---- what all rows say together (check.cc)
  void check_agreement();  // of family names
  void join_directories();
  void join_links();
  void check_directory(Ino ino, const Found& found);
  void check_xattrs();
  bool reached(Found& found);
  void check_counts();
  void check_all_files_have_their_blocks();

  Store& store_;
  const std::function<void(std::uint64_t)>& progress_;
  CheckReport report_;
  std::uint64_t bytes_ = 0;

  bool state_seen_ = false;
  std::optional<State> state_;
  std::unordered_map<Ino, Found> inodes_;
  std::optional<Directory> directory_;
  std::vector<Directory> directories_;
  std::unordered_map<Ino, std::uint64_t> links_;       // names that are links, by what they link to
  std::unordered_map<Ino, std::uint32_t> link_types_;
  std::unordered_map<Ino, XattrRows> xattrs_, xattr_rows_;  // what records name; what there is
  std::unordered_map<Ino, std::uint64_t> xattr_homes_;
  std::optional<File> file_;
};

// For a terminal and one line, whatever bytes a name has.
std::string path_in(std::string_view home, std::string_view name = {});
std::string hex(std::string_view bytes);

}  // namespace lsmfs

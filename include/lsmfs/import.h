// import: a whole tree that comes as a stream of records, as an archive has it, is made in a directory by calls of a Tree, without a request
// of the kernel for each file.
//
// The stream is between two parts of this program, of one build: a client who reads the archive, and who has the tree. So it has no version
// and no checksums. Who has the tree trusts nothing in it: whatever it says, nothing outside of the directory is touched, and nothing comes
// of it that its sender could not have made himself.
//
// What is made is what tar makes of the same entries in the same order. A later entry takes the place of an earlier one of its path, but a
// directory stays and gets the attributes. Directories that no entry names are made. A directory's times are as told, whatever came into it
// later. What tar would do through a symbolic link of the archive is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// An entry. Bytes of a file follow it.
struct ImportedInode {
  std::string path;              // from the directory on, without "", "." and ".." between slashes; "": the directory itself
  std::uint32_t mode = 0;        // type and permission bits, as st_mode
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t rdev = 0;        // character and block devices
  std::uint64_t size = 0;        // files: bytes, with the holes
  std::optional<Time> atime, mtime;  // none: now
  std::string target;            // symbolic links: what they say
  bool is_link = false;          // one more name of the file that has the path `target`; all else is of no account
  std::vector<std::pair<std::string, std::string>> xattrs;  // full names and values, access control lists as in Tree::setxattr
  friend bool operator==(const ImportedInode&, const ImportedInode&) = default;
};

inline constexpr std::size_t kImportFrameMax = 4 * MiB;  // bytes of a record
inline constexpr std::size_t kImportDataMax = MiB;       // bytes of a file in a record

// Adds a record to a stream.
void put_record(std::string& stream, const ImportedInode& inode);  // must hold: it is no longer than kImportFrameMax
void put_record(std::string& stream, std::uint64_t offset, std::string_view data);  // of the file that came last, in ascending order

// The bytes of an entry's record; more than kImportFrameMax cannot be sent.
std::size_t record_size(const ImportedInode& inode);

// Who imports, as far as it says what he may.
struct Importing {
  bool as_root = false;              // inodes belong to whom the stream says; else all to him
  bool devices = true, trusted = true, capabilities = true;  // as root, what he may beside: make those, and set trusted. and security. attributes
  std::uint32_t uid = 0, gid = 0;
  bool is_member = true;             // of that group, so that files of it may be set-group-id
  std::uint32_t umask = 0;           // for directories that no entry names
};

struct ImportCounts {
  std::uint64_t files = 0, directories = 0, others = 0;  // entries; names of files that have one count among the files
  std::uint64_t bytes = 0;                               // of data
  friend bool operator==(const ImportCounts&, const ImportCounts&) = default;
};

// Threads: one at a time.
class Importer {
 public:
  // Into the directory `top`, which its maker holds on to.
  Importer(Tree& tree, Ino top, const Importing& who);
  ~Importer();  // lets go of all inodes

  // The next bytes of the stream, however they are cut. After an error, whose context is the path that it is about, the rest is refused with
  // the same one. EPERM (not for him), EINVAL (a path, type or record that cannot be), ENOENT (a link to nothing), ENOTDIR (a path leads
  // through what is no directory), and those of Tree.
  Result<void> feed(Bytes bytes);
  // That was all. EINVAL: it ends within a record.
  Result<ImportCounts> finish();

 private:
  struct Directory {
    Ino ino;
    std::string name;
    std::optional<Time> mtime;  // that it is to have
    bool changed = false;       // something has been made in it since
  };
  struct File {
    Ino ino;
    std::string path;
    std::uint64_t size = 0, end = 0;  // that it is to have; of its data so far
    bool in_bulk = false;
    std::string block;                // then the one that it ends with, as far as it has come
    std::optional<Time> atime, mtime;
  };

  Result<void> feed_record(std::string_view record);
  Result<void> make(ImportedInode inode);
  Result<void> make_link(const ImportedInode& inode);
  Result<void> set_top(const ImportedInode& inode);
  Result<void> write(std::uint64_t offset, std::string_view data);
  Result<void> write_in_bulk(std::uint64_t offset, std::string_view data);
  Result<void> put_in_bulk(std::uint64_t offset, std::string_view data);
  Result<void> finish_file();
  Result<void> set_attributes(const ImportedInode& inode, const Attr& made);
  Result<void> set_xattrs(const ImportedInode& inode, Ino ino);
  Result<Attr> make_new(const ImportedInode& inode, std::string_view name);
  Result<void> end_bulk();
  Result<void> take_away(const std::string& path, const Attr& there);
  Result<Ino> find(std::string_view path);
  Result<void> enter(std::string_view path);
  Result<void> leave();
  Directory& here() { return stack_.back(); }

  Tree& tree_;
  const Importing who_;
  std::string rest_;                 // of a record that has not come as a whole
  std::vector<Directory> stack_;     // the top, and down to where the last entry lies
  std::optional<File> file_;         // whose data may follow
  bool in_bulk_ = true;              // files come so
  ImportCounts counts_;
  std::optional<Error> failed_;
};

}  // namespace lsmfs

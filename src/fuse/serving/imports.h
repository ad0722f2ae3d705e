// Imports: trees that programs send as streams of records (lsmfs/import.h) instead of making each file by requests.
//
// A program makes a file without a name (O_TMPFILE) in the directory where the tree is to be, which the kernel lets only him do who may make
// something there. By an ioctl it says that this file is an import: what is written to it from then on, in order, is the stream, of which
// the file keeps nothing. The tree grows in a directory without a name. At the end the program says so by another ioctl, and makes the
// directory by mkdir(2), which becomes that one (clone_orders.h). A program that closes the file earlier, or dies, leaves nothing.
//
// Threads: all functions, from any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/import.h"
#include "lsmfs/mutex.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// One of them.
class Import {
 public:
  // Holds on to the directory `staged`.
  Import(Tree& tree, Ino staged, Ino parent, const Importing& who)
      : tree_(tree), staged_(staged), parent_(parent), user_(who.uid), importer_(tree, staged, who) {}
  ~Import();

  Ino staged() const { return staged_; }
  Ino parent() const { return parent_; }
  std::uint32_t user() const { return user_; }
  // The next bytes of the stream; the kernel cuts one write into several requests, which come at once. So some may come early. EINVAL: too many
  // do, or these came before; and those of Importer::feed().
  Result<std::size_t> write(std::uint64_t offset, Bytes bytes);
  // As Importer::finish(), also again. After an error of write() that one.
  Result<ImportCounts> finish();

 private:
  static constexpr std::size_t kEarlyMost = 8;  // requests, of a MiB at most

  Tree& tree_;
  const Ino staged_, parent_;
  const std::uint32_t user_;
  Mutex mutex_;
  Importer importer_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t fed_ LSMFS_GUARDED_BY(mutex_) = 0;  // bytes, to the importer
  std::map<std::uint64_t, std::string> early_ LSMFS_GUARDED_BY(mutex_);  // by where they begin
  std::optional<Result<ImportCounts>> ended_ LSMFS_GUARDED_BY(mutex_);
};

class Imports {
 public:
  static constexpr std::size_t kMostOfAUser = 16;  // each takes some MiB

  // What is written to `file` is an import into a new directory, which is to be `name` in the directory where the file was made. EPERM: it is
  // no file without a name, or has something in it. EEXIST: it is an import already. EMFILE: he has kMostOfAUser under way. And those of
  // Tree::stage().
  Result<void> begin(Tree& tree, Ino file, std::string_view name, const Importing& who);
  std::shared_ptr<Import> find(Ino file);
  // Nobody has the file open any more.
  void forget(Ino file);
  void forget_all();  // before the tree is closed; nothing else may be called meanwhile, or later

 private:
  Mutex mutex_;
  std::map<Ino, std::shared_ptr<Import>> imports_ LSMFS_GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};  // for who writes or forgets a file
};

}  // namespace lsmfs

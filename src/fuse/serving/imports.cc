#include "fuse/serving/imports.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace lsmfs {

Import::~Import() { tree_.forget(staged_, 1); }

Result<std::size_t> Import::write(std::uint64_t offset, Bytes bytes) {
  const MutexLock lock(mutex_);
  if (ended_ || offset < fed_) return make_error(EINVAL, "");
  if (offset > fed_) {
    if (early_.size() == kEarlyMost || !early_.emplace(offset, as_text(bytes)).second) return make_error(EINVAL, "");
    return bytes.size();
  }
  LSMFS_TRY(importer_.feed(bytes));
  fed_ += bytes.size();
  for (auto next = early_.find(fed_); next != early_.end(); next = early_.find(fed_)) {
    LSMFS_TRY(importer_.feed(as_bytes(next->second)));
    fed_ += next->second.size();
    early_.erase(next);
  }
  return bytes.size();
}

Result<ImportCounts> Import::finish() {
  const MutexLock lock(mutex_);
  if (!ended_) ended_ = early_.empty() ? importer_.finish() : Result<ImportCounts>(make_error(EINVAL, ""));
  return *ended_;
}

Result<void> Imports::begin(Tree& tree, Ino file, std::string_view name, const Importing& who) {
  LSMFS_ASSIGN(const Attr attr, tree.getattr(file, Wait::yes));
  if (!S_ISREG(attr.mode) || attr.nlink != 0 || attr.size != 0) return make_error(EPERM, "");
  LSMFS_ASSIGN(const Ino parent, tree.directory_of(file, Wait::yes));
  if (find(file)) return make_error(EEXIST, "");
  const NewInode directory{.mode = S_IFDIR | 0777, .umask = who.umask, .uid = who.uid, .gid = who.gid};
  LSMFS_ASSIGN(const Attr staged, tree.stage(parent, name, directory, Wait::yes));
  auto import = std::make_shared<Import>(tree, staged.ino, parent, who);
  const MutexLock lock(mutex_);
  const auto of_user = std::ranges::count_if(imports_, [&](const auto& each) { return each.second->user() == who.uid; });
  if (static_cast<std::size_t>(of_user) >= kMostOfAUser) return make_error(EMFILE, "");
  if (!imports_.emplace(file, std::move(import)).second) return make_error(EEXIST, "");
  any_ = true;
  return {};
}

std::shared_ptr<Import> Imports::find(Ino file) {
  if (!any_) return nullptr;
  const MutexLock lock(mutex_);
  const auto found = imports_.find(file);
  return found == imports_.end() ? nullptr : found->second;
}

void Imports::forget_all() {
  std::map<Ino, std::shared_ptr<Import>> gone;
  const MutexLock lock(mutex_);
  gone.swap(imports_);
}

void Imports::forget(Ino file) {
  if (!any_) return;
  std::shared_ptr<Import> gone;  // it lets go of the tree outside of the lock
  const MutexLock lock(mutex_);
  const auto found = imports_.find(file);
  if (found == imports_.end()) return;
  gone = std::move(found->second);
  imports_.erase(found);
  any_ = !imports_.empty();
}

}  // namespace lsmfs

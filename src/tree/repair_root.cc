// The root, the directory of snapshots and lost+found, for repair_tree().
#include "tree/check.h"
#include "tree/repair.h"

namespace lsmfs {
namespace {

constexpr std::string_view kLostAndFound = "lost+found";

}  // namespace

// Where its entries lie. One that is made anew has its first home, unless a snapshot has what lies there.
std::string Mender::root_home() const {
  return keys::root_home(facts_.root ? *facts_.root : facts_.nodes.contains(kRootIno) ? new_root_ : kRootIno);
}

// Something may have to come to the root. Where it shows a base that is there, it gets entries of its own first. False: it has some.
Result<bool> Mender::expand_root() {
  const auto shown = facts_.root ? facts_.bases.find(*facts_.root) : facts_.bases.end();
  if (shown == facts_.bases.end() || facts_.circles.contains(*facts_.root)) return false;
  const TreeFacts::Base& base = shown->second;
  if (!facts_.directory_node_at(base.number, base.home) || facts_.of_number(base.number)) return false;
  LSMFS_ASSIGN(const auto row, store_.get(Family::names, keys::kRoot, Wait::yes));
  auto root = row ? decode_record(*row) : std::nullopt;
  if (!root || !root->has_base()) return false;
  const std::string home = root_home();
  root->base.reset();
  root->shift = root->size = 0;
  root->nlink = 2;
  const std::string begin = keys::entries_begin(base.home);
  const auto cursor = store_.cursor(Family::names, {.lower = begin, .upper = keys::entries_end(base.home), .readahead = kWholeReadahead});
  for (cursor->seek(begin); cursor->valid(); cursor->next()) {
    auto entry = decode_record(cursor->value());
    if (!entry) continue;  // it is damaged, or a link, which cannot be shown
    const std::string_view name = keys::entry_name(base.home, cursor->key());
    std::string row_home;
    Record record = record_shown(base.home, base.shift, name, *std::move(entry), row_home);
    record.home_number = new_number();
    batch_.put(Family::names, keys::entry(home, name), encode(record));
    if (record.has_base()) batch_.put(Family::names, keys::user(*keys::number_of(*record.base), record.number()), keys::kWholeUser);
    for (const Xattr& xattr : record.xattrs) {
      if (xattr.row_size == 0) continue;
      const auto value = store_.get(Family::names, keys::xattr(row_home, xattr.name), Wait::yes);
      if (value && *value) batch_.put(Family::names, keys::xattr(record.home_in(home, name), xattr.name), **value);
    }
    ++root->size;
    root->nlink += record.is_directory();
    LSMFS_TRY(commit_some(kBatch));
  }
  LSMFS_TRY(cursor->status());
  batch_.put(Family::names, keys::kRoot, encode(*root));
  batch_.erase(Family::names, keys::user(base.number, *facts_.root));
  LSMFS_TRY(commit_some(0));
  did("/: has entries of its own, and not those that it shared with a snapshot");
  return true;
}

Result<void> Mender::find_lost_and_found() {
  if (!facts_.root && facts_.nodes.contains(kRootIno)) new_root_ = new_number();
  const std::string home = root_home();
  for (int attempt = 0;; ++attempt) {
    lost_and_found_ = attempt == 0 ? std::string(kLostAndFound) : fmt::format("{}-{}", kLostAndFound, attempt);
    LSMFS_ASSIGN(const auto row, store_.get(Family::names, keys::entry(home, lost_and_found_), Wait::yes));
    if (!row) {
      make_lost_and_found_ = true;
      lost_and_found_ino_ = unused_number();
      given_.insert(lost_and_found_ino_);
      lost_and_found_home_ = keys::child_home(home, lost_and_found_, lost_and_found_ino_);
      return {};
    }
    const auto record = decode_record(*row);
    if (!record || !record->is_directory() || record->has_base()) continue;
    lost_and_found_ino_ = record->number();
    lost_and_found_home_ = record->home_in(home, lost_and_found_);
    if (facts_.directory_at(lost_and_found_ino_, lost_and_found_home_)) return {};
  }
}

void Mender::mend_root() {
  if (facts_.root) return;
  Record root = blank(kRootIno, S_IFDIR | 0755);
  root.home = root_home();
  if (!root.home.empty()) root.home_number = new_root_;
  for (const auto& directory : facts_.stray_directories) {
    if (!directory.home.empty() || !root.home.empty()) continue;
    root.size = directory.entries;
    root.nlink += static_cast<std::uint32_t>(directory.subdirectories);
  }
  batch_.put(Family::names, keys::kRoot, encode(root));
  did("/: its record is lost: owner, mode and times are new");
}

// What lies at the first home of a root that has another one by now, and that no snapshot has: a directory shows it.
void Mender::show_old_root(const TreeFacts::Directory& directory) {
  Record record = blank(new_number(), S_IFDIR | 0700);
  record.base = "";
  record.size = directory.entries;
  record.nlink += static_cast<std::uint32_t>(directory.subdirectories);
  batch_.put(Family::names, keys::node(kRootIno), encode(Node{.home = "", .directory = true}));
  batch_.put(Family::names, keys::user(kRootIno, record.ino), keys::kWholeUser);
  did("/: its old entries are in {}", put_in_lost_and_found(record.ino, encode(record)));
}

void Mender::mend_snapshots_row(std::string_view key, std::string_view value) {
  if (facts_.inodes.contains(kSnapshotsIno)) return mend_record(key, *decode_record(value), "/" + std::string(kSnapshotsName));
  did("/{}: its record is damaged: erased", kSnapshotsName);
  batch_.erase(Family::names, key);
}

void Mender::mend_snapshots() {
  if (facts_.inodes.contains(kSnapshotsIno)) return;
  const std::string home = keys::far_home(kSnapshotsIno);
  for (const auto& directory : facts_.stray_directories) {
    if (directory.home != home) continue;
    Record record = blank(kSnapshotsIno, S_IFDIR | 0755);
    record.home = home;
    record.size = directory.entries;
    record.nlink += static_cast<std::uint32_t>(directory.subdirectories);
    batch_.put(Family::names, keys::kSnapshots, encode(record));
    did("/{}: its record is lost: owner, mode and times are new", kSnapshotsName);
  }
}

}  // namespace lsmfs

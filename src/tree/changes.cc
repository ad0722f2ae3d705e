// The log of changes: what operations tell it, and what it answers.
//
// Operations tell names in directories. What is told of a directory by its name is by its path at that moment. So who moves a directory tells
// both places with all below, and a question about either is answered rightly, whatever was told before.
#include <algorithm>
#include <utility>
#include <vector>

#include "tree/change_log.h"
#include "tree/keys.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kLittleForLog = 32 * MiB, kLittleShare = 16;  // that is left of a volume, or a share of it if that is less: files may want it more
constexpr std::size_t kPathRoom = 8;               // bytes that a path takes beside its own, at most
constexpr std::size_t kStepRoom = 64;

std::string joined(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && !name.empty()) path += '/';
  return path.append(name);
}

bool is_below(std::string_view path, std::string_view directory) {
  if (directory.empty()) return !path.empty();
  return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

// What rows say of one directory.
class Below {
 public:
  explicit Below(std::string_view directory) : directory_(directory) {}
  // False: everything below it may have changed.
  bool take(const ChangedPaths& changed, std::vector<std::string>& paths) const {
    // Those in it come together.
    for (const auto& [path, names] : changed) {
      if (names.all && (path == directory_ || is_below(directory_, path))) return false;
      if (directory_.empty() && (path == kSnapshotsName || is_below(path, kSnapshotsName))) continue;  // which no listing of the root has
      if (path != directory_ && !is_below(path, directory_)) {
        for (const std::string& name : names.names) {
          if (joined(path, name) == directory_) paths.emplace_back();
        }
        continue;
      }
      const std::string_view within = std::string_view(path).substr(std::min(path.size(), directory_.empty() ? 0 : directory_.size() + 1));
      if (names.all) paths.push_back(std::string(within) + '/');
      for (const std::string& name : names.names) paths.push_back(joined(within, name));
    }
    return true;
  }

 private:
  const std::string_view directory_;
};

// Rows from one on back to the one after `since`, as many as a step may tell of.
Result<void> read_changes(Cursor& rows, std::string_view directory, std::uint64_t newest, const ChangesAsked& asked, const Stop& stop, ChangesStep& step) {
  const Below below(directory);
  std::uint64_t skip = asked.skip;
  std::size_t size = kStepRoom;
  rows.seek(keys::change(newest));
  for (std::uint64_t next = newest; next > asked.since->position; --next, skip = 0) {
    if (stop()) return make_error(EINTR, "");
    std::vector<std::string> paths;
    const auto row = rows.valid() && keys::parse_change(rows.key()) == next ? decode_change_row(rows.value()) : std::nullopt;
    step.everything = !row || !below.take(row->paths, paths);
    if (!row) LSMFS_TRY(rows.status());
    if (step.everything) return {};
    for (std::uint64_t i = skip; i < paths.size(); ++i) {
      size += paths[i].size() + kPathRoom;
      if (size > asked.room) {
        step.before = next + 1;
        step.skip = i;
        return {};
      }
      step.paths.push_back(std::move(paths[i]));
    }
    rows.next();
  }
  step.ended = true;
  return {};
}

}  // namespace

// ---- what operations tell

// nullopt: it is not known, since somebody has let go of a directory above it.
std::optional<LsmTree::ToldPath> LsmTree::told_path(const Inode& directory) const {
  std::vector<const Inode*> above;
  for (const Inode* at = &directory; at->ino() != kRootIno;) {
    if (at->removed()) return ToldPath{.nowhere = true, .path = {}};
    above.push_back(at);
    at = inodes_.find(at->parent);
    if (!at || above.size() > inodes_.size()) return std::nullopt;
  }
  std::string path;
  for (auto at = above.rbegin(); at != above.rend(); ++at) path = joined(path, (*at)->name);
  return ToldPath{.nowhere = false, .path = std::move(path)};
}

void LsmTree::tell_name(const Inode& dir, std::string_view name) {
  if (!changes_.is_kept()) return;
  ChangeNotes& notes = changes_.notes();
  ChangedNames* at = notes.known(dir.ino());
  if (!at) {
    auto told = told_path(dir);
    if (!told) return notes.add_everything();
    if (told->nowhere) return;
    if (told->path.size() > ChangeRow::kPathMost) return notes.add_below(shortened(told->path));
    at = &notes.at(dir.ino(), told->path);
  }
  notes.add(*at, name);
}

std::string LsmTree::shortened(const std::string& path) {
  return path.size() <= ChangeRow::kPathMost ? path : path.substr(0, path.rfind('/', ChangeRow::kPathMost));
}

// What has this name in `dir`, if it is not "", with all that lies below it.
void LsmTree::tell_below(const Inode& dir, std::string_view name) {
  if (!changes_.is_kept()) return;
  const auto told = told_path(dir);
  if (!told) changes_.notes().add_everything();
  else if (!told->nowhere) changes_.notes().add_below(shortened(joined(told->path, name)));
}

// Its data or attributes.
void LsmTree::tell(Inode& inode) {
  if (!changes_.is_kept()) return;
  ChangeNotes& notes = changes_.notes();
  if (inode.told == notes.moment() || inode.removed()) return;
  const auto tell_in = [&](Ino dir, std::string_view name) LSMFS_LOCKED {
    const Inode* const found = inodes_.find(dir);
    if (found) tell_name(*found, name);
    else notes.add_everything();
  };
  if (inode.ino() == kRootIno) {
    notes.add_everything();
  } else if (inode.place == Inode::Place::named) {
    tell_in(inode.parent, inode.name);
  } else if (inode.names.empty()) {
    notes.add_everything();  // nobody knows where the others are
  } else {
    for (const Inode::Name& name : inode.names) tell_in(name.dir, name.name);
  }
  inode.told = notes.moment();
}

void LsmTree::put_changes(Group& group) {
  if (changes_.is_damaged()) changes_.forget(group.batch);
  if (!changes_.is_kept() || changes_.notes().empty()) return;
  const std::uint64_t volume = store_.space().total.v, little = std::min(kLittleForLog, volume / kLittleShare);
  changes_.put(group.batch, {.now = Time::now(clock_).seconds, .volume = volume, .little_room = store_.room_for_names().v < little});
}

// ---- questions

Result<ChangesStep> LsmTree::changes(Ino dir, const ChangesAsked& asked, const Stop& stop) {
  struct Begun {
    ChangesStep step;
    std::string path;
    std::uint64_t newest = 0;
    std::unique_ptr<Cursor> rows;
  };
  auto begun = attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED -> Result<Begun> {
    LSMFS_TRY(find_directory(dir));
    if (can_change()) {
      LSMFS_TRY(begin_own_change(lock, Wait::yes));
      const std::int64_t now = Time::now(clock_).seconds;
      const bool was_kept = changes_.is_kept();
      if (!was_kept) changes_.begin(batch(), now);
      if (!was_kept || changes_.asked(batch(), now)) begin_group();
    } else if (!changes_.is_kept()) {
      return make_error(EROFS, "");
    }
    // All is committed, so the log is as the rows say.
    LSMFS_TRY(settle(lock, open_group().empty() ? open_group().number - 1 : open_group().number));
    LSMFS_ASSIGN(const Inode* inode, find_directory(dir));
    Begun found;
    found.step.now = changes_.now();
    const auto told = told_path(*inode);
    found.step.everything = !asked.since || !changes_.knows(*asked.since) || !told || told->nowhere || told->path.size() > ChangeRow::kPathMost;
    if (found.step.everything) return found;
    found.newest = asked.before == 0 ? found.step.now.position : asked.before - 1;
    found.step.everything = found.newest > found.step.now.position;
    found.path = told->path;
    const std::uint64_t since = asked.since->position;
    if (!found.step.everything && found.newest > since) {
      found.rows = store_.cursor(Family::names, {.lower = keys::change(found.newest), .upper = keys::change(since), .readahead = kRowsReadahead});
    }
    return found;
  });
  if (!begun) return begun.error().code == ENOENT ? make_error(ESTALE, "") : std::move(begun.error());
  ChangesStep step = std::move(begun->step);
  step.ended = step.everything || !begun->rows;
  if (step.ended) return step;
  const auto read = read_changes(*begun->rows, begun->path, begun->newest, asked, stop, step);
  if (!read && read.error().code != EUCLEAN) return read.error();
  step.everything |= !read;  // it is damaged
  if (step.everything) step.paths.clear();
  step.ended |= step.everything;
  return step;
}

}  // namespace lsmfs

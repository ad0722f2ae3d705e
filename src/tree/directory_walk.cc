// readdir: one scan over a directory's range of family names.
#include <fmt/format.h>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

// How far a directory is read from the device at a time when it is not in memory.
constexpr ByteCount kWalkReadahead{256 * KiB};
constexpr std::uint64_t kDots = 2;  // the cookies 1 and 2 follow "." and ".."

// From the first entry on to the one after that which `cookie` follows.
Result<void> find_place(Cursor& cursor, const std::string& home, std::uint64_t cookie, DirCookies& cookies) {
  for (; cursor.valid(); cursor.next()) {
    const std::string_view name = keys::entry_name(home, cursor.key());
    if (!cookies.is_after(cookie, name)) continue;
    cookies.found(name);
    cursor.next();
    return cursor.status();
  }
  LSMFS_TRY(cursor.status());
  return make_error(ESTALE, "the entry after which a listing should go on has been removed, and was forgotten");
}

}  // namespace

Result<void> LsmTree::readdir(Ino ino, std::uint64_t cookie, bool plus, const DirVisitor& visit, Wait wait,
                              AccessTime atime) {
  if (cookie == DirCookies::kEnd) return {};
  // Programs pass over ".", and libraries over an entry of no inode.
  const auto give_filler = [&visit] { visit({.name = ".", .attr = {}, .next_cookie = DirCookies::kEnd}); };
  if (cookie == DirCookies::kFull) {
    give_filler();
    return {};
  }
  LSMFS_ASSIGN(const Lock lock, acquire_for_access(wait));
  LSMFS_ASSIGN(Inode * dir, find(ino));
  if (!dir->record.is_directory()) return make_error(ENOTDIR, "");
  if (dir->removed()) return {};  // nothing is left in it, not even the dots
  LSMFS_TRY(settle(lock, dir->entries_group, wait));
  if (!dir->cookies) dir->cookies = std::make_unique<DirCookies>(cookie_seed_, cookie_memory_);
  DirCookies& cookies = *dir->cookies;

  // The entry that is next is fetched before the one at hand is given: the last one says so in its
  // cookie. And a walk that must wait says so before it has given anything.
  const std::string& home = *dir->shared_home();
  const std::string begin = keys::entries_begin(home), end = keys::entries_end(home);
  std::unique_ptr<Cursor> cursor;
  DirCookies::Walk walk = cookies.walk_at(cookie);
  if (dir->record.size > 0) {
    const auto after = cookies.resume(cookie);
    if (!after && wait == Wait::no) return make_error(EAGAIN, "");  // the entries before it may be many
    if (cookie == 0) names_ahead_.note(begin, end);
    cursor = store_.cursor(Family::names, {.lower = begin, .upper = end, .wait = wait,
                                           .readahead = wait == Wait::yes ? kWalkReadahead : ByteCount{0}});
    cursor->seek(!after || after->empty() ? begin : keys::entry(home, *after) + '\0');
    LSMFS_TRY(after ? cursor->status() : find_place(*cursor, home, cookie, cookies));
  }

  if (cookie == 0 && atime == AccessTime::now) note_access_time(*dir);

  for (std::uint64_t dot = cookie; dot < kDots; ++dot) {
    const Ino target_ino = dot == 0 ? ino : dir->parent;
    DirEntry entry;
    entry.name = dot == 0 ? "." : "..";
    if (const Inode* target = inodes_.find(target_ino)) entry.attr = target->record.attr();
    entry.attr.ino = target_ino;
    entry.attr.mode |= S_IFDIR;
    entry.next_cookie = dot + 1 == kDots && !(cursor && cursor->valid()) ? DirCookies::kEnd : dot + 1;
    if (!visit(entry)) return {};
  }

  std::string name, row;
  bool given = cookie < kDots;
  while (cursor && cursor->valid()) {
    name = keys::entry_name(home, cursor->key());
    if (!keys::is_name(name)) return make_error(EUCLEAN, fmt::format("the name of an entry in directory {} is damaged", ino.v));
    row = cursor->value();
    cursor->next();
    const auto more = cursor->status();
    if (!more && !(more.error().code == EAGAIN && given)) return more;
    // When only the next row is missing in memory, this entry is not known to be the last.
    const bool last = more.has_value() && !cursor->valid();

    DirEntry entry;
    entry.name = name;
    Inode* inode = nullptr;
    if (plus) {
      auto adopted = adopt(*dir, name, row, wait);
      if (!adopted && adopted.error().code == EAGAIN && given) return {};
      LSMFS_ASSIGN(inode, std::move(adopted));
      entry.attr = inode->record.attr();
    } else {
      const auto decoded = decode_entry(row);
      if (!decoded) return make_error(EUCLEAN, fmt::format("the row of an entry in directory {} is damaged", ino.v));
      const auto* link = std::get_if<Link>(&*decoded);
      entry.attr.ino = link ? link->ino : std::get<Record>(*decoded).ino;
      entry.attr.mode = link ? link->type : std::get<Record>(*decoded).mode & S_IFMT;
    }
    entry.next_cookie = cookies.pass(walk, name, last);
    const bool accepted = visit(entry);
    if (inode) {
      if (accepted) ++inode->lookups;
      drop_if_unused(inode);
    }
    if (!accepted) return {};
    cookies.given(name);
    if (entry.next_cookie == DirCookies::kFull) give_filler();
    given = true;
  }
  if (cursor && cursor->status()) cookies.ended();
  if (!given && cookies.is_full(walk)) give_filler();  // what was to follow has been removed
  return {};
}

}  // namespace lsmfs

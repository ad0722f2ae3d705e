// readdir: one scan over a directory's range of family names.
#include <fmt/format.h>

#include <algorithm>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::size_t kFetched = 64 * KiB;  // of its rows, where they are not in memory; a reply has room for about as many
constexpr std::uint64_t kDots = 2;  // the cookies 1 and 2 follow "." and ".."

// Programs pass over ".", and libraries over an entry of no inode.
void give_filler(const Tree::DirVisitor& visit) { visit({.name = ".", .attr = {}, .next_cookie = DirCookies::kEnd}); }

// The name of an entry of a directory, among all that it has in the store.
Result<std::string> find_name(Store& store, const std::string& home, const DirCookies::Match& matches) {
  const std::string begin = keys::entries_begin(home);
  const auto cursor = store.cursor(Family::names, {.lower = begin, .upper = keys::entries_end(home), .readahead = kRowsReadahead});
  for (cursor->seek(begin); cursor->valid(); cursor->next()) {
    const std::string_view name = keys::entry_name(home, cursor->key());
    if (matches(name)) return std::string(name);
  }
  LSMFS_TRY(cursor->status());
  return make_error(ESTALE, "the entry after which a listing should go on has been removed, and was forgotten");
}

}  // namespace

// What is at hand while entries are given.
struct LsmTree::Listing {
  Inode& dir;
  const std::string& home;
  const std::string& end;  // of the rows of its entries
  const AttrsOf attrs;
  const DirVisitor& visit;
  const Lock& lock;
  DirCookies::Walk walk;
  ParkedCursors::Place place{};  // without a cursor when the directory is empty
  bool given = false;            // something
  bool ended = false;            // all there is has been given
  std::string names{};           // that have been given, each with a 0 after it

  std::string_view last_name() const {  // some have been given
    const auto given_names = std::string_view(names).substr(0, names.size() - 1);
    return given_names.substr(given_names.rfind('\0') + 1);
  }
  bool has_more() const { return place.cursor && place.cursor->valid() && place.cursor->key() < end; }
};

Result<void> LsmTree::readdir(Ino ino, std::uint64_t cookie, AttrsOf attrs, const DirVisitor& visit, Wait wait,
                              AccessTime atime) {
  if (cookie == DirCookies::kEnd) return {};
  if (cookie == DirCookies::kFull) {
    give_filler(visit);
    return {};
  }
  std::optional<Result<std::string>> found;  // the name that `cookie` follows, where it had to be looked for
  bool missed = wait == Wait::yes;           // whoever may wait has found them missing in memory
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    pass_on_for_access(lock);
    LSMFS_ASSIGN(Inode * dir, find(ino));
    if (!dir->record.is_directory()) return make_error(ENOTDIR, "");
    if (is_gone(*dir)) return {};  // nothing is left in it, not even the dots
    LSMFS_TRY(settle(lock, std::max(dir->entries_group, copied_group_)));
    if (!dir->cookies) dir->cookies = std::make_unique<DirCookies>(cookie_seed_, cookie_memory_);
    DirCookies& cookies = *dir->cookies;

    // The entry that is next is fetched before the one at hand is given: the last one says so in its
    // cookie. And a walk that must wait says so before it has given anything.
    const std::string home = dir->data_home();
    const std::string begin = keys::entries_begin(home), end = keys::entries_end(home);
    Listing listing{.dir = *dir, .home = home, .end = end, .attrs = attrs, .visit = visit, .lock = lock, .walk = cookies.walk_at(cookie)};
    const auto first_after = [&](std::string_view name) { return keys::entry(home, name) + '\0'; };  // the first row after an entry's
    Fetched::Range rows{.family = Family::names, .from = {}, .upper = end, .most = kFetched};  // that are read
    const Fetched::Rows* fetched = nullptr;
    if (dir->record.size > 0) {
      auto after = cookies.resume(cookie);
      if (!after && found) {
        if (!*found) return found->error();
        cookies.found(**found);
        after = **found;
      }
      if (!after) {  // the entries before it may be many
        lock.want([this, &found, home, matches = cookies.match(cookie)] { found = find_name(store_, home, matches); });
        return make_error(EAGAIN, "");
      }
      rows.from = after->empty() ? begin : first_after(*after);
      fetched = rows_.fetched(lock).find(rows);
      if (!fetched && std::exchange(missed, false)) {
        want_names(lock, rows, attrs);
        return make_error(EAGAIN, "");
      }
      if (fetched) {
        listing.place.cursor = cursor_over(*fetched);
      } else {
        listing.place = rows_.seek_names(rows.from);
      }
      const auto ready = listing.place.cursor->status();
      if (!ready && ready.error().code == EAGAIN) want_names(lock, rows, attrs);
      LSMFS_TRY(ready);
    }

    if (cookie == 0 && atime == AccessTime::now) note_access_time(*dir);

    for (std::uint64_t dot = cookie; dot < kDots; ++dot) {
      const Ino target_ino = dot == 0 ? ino : dir->parent;
      DirEntry entry;
      entry.name = dot == 0 ? "." : "..";
      if (const Inode* target = inodes_.find(target_ino)) entry.attr = target->record.attr();
      entry.attr.ino = target_ino;
      entry.attr.mode |= S_IFDIR;
      entry.next_cookie = dot + 1 == kDots && !listing.has_more() ? DirCookies::kEnd : dot + 1;
      if (!visit(entry)) return {};
      listing.given = true;
    }

    const auto listed = list(listing);
    if (!listed && listed.error().code == EAGAIN) want_names(lock, rows, attrs);
    // Piece by piece, for a directory may have any size, and one that begins in memory need not end there.
    if (listing.place.cursor && (listing.ended || !listing.names.empty()) && !rows_.files_ahead().knows(dir->data_number())) {
      rows_.note_names(rows.from, listing.ended ? end : first_after(listing.last_name()), wait);
    }
    if (listing.ended) {
      cookies.ended();
    } else {
      cookies.given(listing.names);
    }
    if (listed && !fetched && listing.place.cursor && listing.place.cursor->status()) rows_.park_names(std::move(listing.place));
    return listed;
  });
}

// Rows of a directory's entries; With all attributes the records of files with several names, too, which lie elsewhere.
void LsmTree::want_names(const Lock& lock, const Fetched::Range& range, AttrsOf attrs) {
  (void)lock.take_wanted();  // a single one of these
  lock.want([this, &lock, range, attrs] {
    Fetched& fetched = lock.fetched();
    fetched.fetch(store_, range);
    if (attrs != AttrsOf::all) return;
    for (const auto& [key, value] : fetched.find(range)->rows) {
      const auto entry = decode_entry(value);
      const auto* const link = entry ? std::get_if<Link>(&*entry) : nullptr;
      if (link) fetched.fetch(store_, Family::names, keys::linked(link->ino));
    }
  });
}

// Gives entries until there are no more, or no more are wanted.
Result<void> LsmTree::list(Listing& listing) {
  const auto& cursor = listing.place.cursor;
  std::string& passed = listing.place.passed;
  DirCookies& cookies = *listing.dir.cookies;
  std::string name, row;
  while (listing.has_more()) {
    passed = cursor->key();
    name = keys::entry_name(listing.home, passed);
    if (!keys::is_name(name)) return make_error(EUCLEAN, fmt::format("the name of an entry in directory {} is damaged", listing.dir.ino().v));
    row = cursor->value();
    cursor->next();
    const auto more = cursor->status();
    // What is damaged behind this entry is told by the next call.
    if (!more && more.error().code != EUCLEAN && !(more.error().code == EAGAIN && listing.given)) return more;
    // When only the next row is missing in memory, this entry is not known to be the last.
    const bool last = more.has_value() && !listing.has_more();

    DirEntry entry;
    entry.name = name;
    Inode* inode = nullptr;
    if (listing.attrs != AttrsOf::all) {
      const auto decoded = decode_entry(row);
      if (!decoded) return make_error(EUCLEAN, fmt::format("the row of an entry in directory {} is damaged", listing.dir.ino().v));
      const auto* link = std::get_if<Link>(&*decoded);
      entry.attr.ino = shifts::shifted(link ? link->ino : std::get<Record>(*decoded).ino, listing.dir.record.shift);
      entry.attr.mode = link ? link->type : std::get<Record>(*decoded).mode & S_IFMT;
    }
    entry.whole = listing.attrs == AttrsOf::all || (listing.attrs == AttrsOf::directories && S_ISDIR(entry.attr.mode));
    if (entry.whole) {
      auto adopted = adopt(listing.lock, listing.dir, name, row);
      if (!adopted && adopted.error().code == EAGAIN && listing.given) return {};
      LSMFS_ASSIGN(inode, std::move(adopted));
      entry.attr = inode->record.attr();
      entry.held = inode->lookups > 0;
    }
    entry.next_cookie = cookies.pass(listing.walk, name, last);
    const bool accepted = listing.visit(entry);
    if (inode) {
      if (accepted) {
        ++inode->lookups;
        inodes_.used(*inode);
      }
      drop_if_unused(inode);
    }
    if (!accepted) return {};
    (listing.names += name) += '\0';
    if (entry.next_cookie == DirCookies::kFull) give_filler(listing.visit);
    listing.given = true;
  }
  if (!cursor || !cursor->status()) return {};
  listing.ended = true;
  if (!listing.given && cookies.is_full(listing.walk)) give_filler(listing.visit);  // what was to follow has been removed
  return {};
}

}  // namespace lsmfs

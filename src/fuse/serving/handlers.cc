#include "fuse/serving/handlers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "fuse/serving/context.h"
#include "fuse/serving/ioctls.h"
#include "fuse/transport/message.h"

// What is not in the table: create (the kernel then sends MKNOD, and since it goes on with an OPEN
// learns that it need not send any, nor RELEASE), flush, release, releasedir, access, locks (the kernel
// keeps them by itself).

namespace lsmfs {
namespace {

constexpr std::size_t kShortListing = KiB;  // bytes: some six entries
// Reads ahead that the kernel may have under way. Its default of 12 is less than one reader of a
// large file asks for.
constexpr unsigned kBackgroundMax = 64;

// ---- connection

void init(void* user_data, fuse_conn_info* conn) {
  const auto& context = *static_cast<Context*>(user_data);
  const auto want = [&](unsigned capability, bool on) {
    conn->want = on ? conn->want | (conn->capable & capability) : conn->want & ~capability;
  };
  want(FUSE_CAP_ATOMIC_O_TRUNC, false);  // with no OPEN it would truncate nothing; SETATTR comes instead
  want(FUSE_CAP_HANDLE_KILLPRIV, false);  // would not tell root's writes from others'
#ifdef FUSE_CAP_OVER_IO_URING
  want(FUSE_CAP_OVER_IO_URING, false);  // not through libfuse's own rings: Handshake, Rings
#endif
  want(FUSE_CAP_AUTO_INVAL_DATA, false);  // all changes come through this kernel
  want(FUSE_CAP_EXPLICIT_INVAL_DATA, false);
  // Pipes cost more than a copy for replies of this size, and reads could not be told apart from writes.
  want(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE, false);
  want(FUSE_CAP_READDIRPLUS, true);
  want(FUSE_CAP_READDIRPLUS_AUTO, false);  // auto gives attributes for the first buffer only
  want(FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO, true);  // see kernel_cache.h
  want(FUSE_CAP_CACHE_SYMLINKS, true);
  want(FUSE_CAP_IOCTL_DIR, true);
  want(FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT, true);
  want(FUSE_CAP_WRITEBACK_CACHE, context.writeback);
  want(FUSE_CAP_POSIX_ACL, context.acl);
  want(FUSE_CAP_DONT_MASK, true);  // whether the umask counts is for the directory to say
  conn->max_write = kTransferMax;
  conn->max_background = kBackgroundMax;
  conn->congestion_threshold = kBackgroundMax * 3 / 4;
}

void destroy(void* user_data) { static_cast<Context*>(user_data)->destroy(); }

// ---- inodes

Result<Entry> entry_of(Result<Attr> made) {
  if (!made) return std::move(made.error());
  return Entry{*made};
}

void lookup(fuse_req_t req, fuse_ino_t dir, const char* name) {
  auto& context = context_of(req);
  serve(req, [&context, &tree = context.tree, dir](Wait wait, std::string_view n) -> Result<Entry> {
    LSMFS_ASSIGN(auto found, tree.lookup(Ino{dir}, n, wait));
    if (found) context.kernel_cache.drop_listings(context.listings.looked_up(Ino{dir}, *found));
    return Entry{found};
  }, std::string_view(name));
}

void forget(fuse_req_t req, fuse_ino_t ino, std::uint64_t lookups) {
  context_of(req).imports.forget(Ino{ino});
  context_of(req).tree.forget(Ino{ino}, lookups);
  fuse_reply_none(req);
}

void forget_multi(fuse_req_t req, std::size_t count, fuse_forget_data* forgets) {
  auto& context = context_of(req);
  for (std::size_t i = 0; i < count; ++i) {
    context.imports.forget(Ino{forgets[i].ino});
    context.tree.forget(Ino{forgets[i].ino}, forgets[i].nlookup);
  }
  fuse_reply_none(req);
}

void getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info*) {
  auto& tree = context_of(req).tree;
  serve(req, [&tree, ino](Wait wait) -> Result<Attributes> {
    LSMFS_ASSIGN(auto attr, tree.getattr(Ino{ino}, wait));
    return Attributes{attr};
  });
}

// The permission bits to set for a file to have no privileges, unless it has none.
Result<std::optional<std::uint32_t>> mode_without_privileges(fuse_req_t req, Ino ino, Wait wait) {
  LSMFS_ASSIGN(const Attr attr, context_of(req).tree.getattr(ino, wait));
  const std::uint32_t mode = without_privileges(attr, req);
  return mode == attr.mode ? std::nullopt : std::optional(mode & 07777);
}

// For requests whose answer tells the kernel no mode: it would go on executing the file with the old one. Those that, unlike a write,
// do not say whether the caller may keep its privileges leave that to be asked, of a file that has some.
enum class Drop : std::uint8_t { always, unless_root };
Result<void> drop_privileges(fuse_req_t req, Ino ino, Wait wait, Drop when = Drop::always) {
  AttrChange change;
  LSMFS_ASSIGN(change.mode, mode_without_privileges(req, ino, wait));
  if (!change.mode || (when == Drop::unless_root && caller_of(req).is_root())) return {};
  LSMFS_TRY(context_of(req).tree.setattr(ino, change, wait));
  context_of(req).kernel_cache.drop_attributes(ino);
  return {};
}

// A file loses its capabilities when it is written over or changes hands. The kernel sees to that, but for attributes of which it
// does not know. A later mount would go by them.
constexpr std::string_view kCapability = "security.capability";
Result<bool> has_hidden_capability(fuse_req_t req, Ino ino, Wait wait) {
  if (context_of(req).xattr) return false;
  const auto found = context_of(req).tree.getxattr(ino, kCapability, wait);
  if (!found && found.error().code != ENODATA) return found.error();
  return found.has_value();
}

Result<void> drop_hidden_capability(fuse_req_t req, Ino ino, Wait wait) {
  LSMFS_ASSIGN(const bool there, has_hidden_capability(req, ino, wait));
  return there ? context_of(req).tree.removexattr(ino, kCapability, wait) : Result<void>();
}

Result<bool> is_root_or_owner(fuse_req_t req, Ino ino, Wait wait) {
  LSMFS_ASSIGN(const Attr attr, context_of(req).tree.getattr(ino, wait));
  const Caller caller = caller_of(req);
  return caller.is_root() || caller.uid == attr.uid;
}

void setattr(fuse_req_t req, fuse_ino_t ino, struct stat* values, int to_set, fuse_file_info* open) {
  auto& tree = context_of(req).tree;
  // With the writeback cache the kernel notes times itself, and tells them later: with an open file, or at least without having
  // changed that of the last write, as when a link was made. A program's utimensat(2) comes without the former.
  const bool noted = context_of(req).writeback && to_set == (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_CTIME);
  serve(req, [&tree, req, ino, change = to_change(*values, to_set), drop = drops_privileges, noted, is_open = open != nullptr,
              nothing = (to_set & ~FUSE_SET_ATTR_CTIME) == 0](Wait wait) -> Result<Attributes> {
    AttrChange all = change;
    if (noted) {
      LSMFS_ASSIGN(const Attr before, tree.getattr(Ino{ino}, wait));
      all.settles = is_open || before.mtime == change.mtime;
    }
    if (drop && !all.mode) {
      LSMFS_ASSIGN(all.mode, mode_without_privileges(req, Ino{ino}, wait));
    }
    bool capable = false;
    if (drop || all.size) {
      LSMFS_ASSIGN(capable, has_hidden_capability(req, Ino{ino}, wait));
    }
    // A change of nothing is chown(-1, -1), which anybody may call, or comes before a write, which drops by itself
    // unless it is refused.
    if (nothing && (all.mode || capable)) {
      LSMFS_ASSIGN(const bool may, is_root_or_owner(req, Ino{ino}, wait));
      if (!may) {
        LSMFS_ASSIGN(const Attr attr, tree.getattr(Ino{ino}, wait));
        return Attributes{attr};
      }
    }
    if (capable) LSMFS_TRY(tree.removexattr(Ino{ino}, kCapability, wait));
    LSMFS_ASSIGN(auto attr, tree.setattr(Ino{ino}, all, wait));
    return Attributes{attr};
  });
}

void readlink(fuse_req_t req, fuse_ino_t ino) {
  auto& tree = context_of(req).tree;
  serve(req, [&tree, ino](Wait wait) -> Result<Target> {
    LSMFS_ASSIGN(auto path, tree.readlink(Ino{ino}, wait));
    return Target{std::move(path)};
  });
}

// ---- names

NewInode new_inode(fuse_req_t req, mode_t mode, dev_t rdev = 0) {
  const fuse_ctx* caller = fuse_req_ctx(req);
  NewInode inode;
  inode.mode = mode;
  inode.umask = caller->umask;
  inode.inherits_acl = context_of(req).acl;
  inode.uid = caller->uid;
  inode.gid = caller->gid;
  inode.rdev = rdev;
  return inode;
}

void make(fuse_req_t req, fuse_ino_t dir, const char* name, const NewInode& inode) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, dir, inode](Wait wait, std::string_view n) {
    return entry_of(tree.make(Ino{dir}, n, inode, wait));
  }, std::string_view(name));
}

void mknod(fuse_req_t req, fuse_ino_t dir, const char* name, mode_t mode, dev_t rdev) {
  make(req, dir, name, new_inode(req, mode, rdev));
}

// A directory that has been imported gets its name.
void name_staged(fuse_req_t req, Ino staged, Ino dir, std::string_view name) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, staged, dir](Wait wait, std::string_view n) { return entry_of(tree.link(staged, dir, n, wait)); }, name);
}

// Until this is answered the kernel lets nobody else change the directory, so the name is that of the clone. Where only the look-up has to
// wait, it is not made again.
void clone(fuse_req_t req, const CloneOrders::Source& source, Ino dir, std::string_view name) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, req, source, dir, made = std::make_shared<bool>(false)](Wait wait, std::string_view n) -> Result<Entry> {
    if (!*made) {
      LSMFS_ASSIGN(const Attr attr, tree.getattr(source.dir, wait));
      if (!source.of_any_owner && attr.uid != fuse_req_ctx(req)->uid) {
        context_of(req).clones.deny(fuse_req_ctx(req)->pid);
        return make_error(EPERM, "");
      }
      LSMFS_TRY(tree.clone(source.dir, dir, n, wait));
      *made = true;
    }
    LSMFS_ASSIGN(auto found, tree.lookup(dir, n, wait));
    return Entry{found};
  }, name);
}

void mkdir(fuse_req_t req, fuse_ino_t dir, const char* name, mode_t mode) {
  const auto is_of = [req](uid_t user) { return fuse_req_ctx(req)->uid == user || process_of(req).uid == user; };
  if (const auto source = context_of(req).clones.take(fuse_req_ctx(req)->pid, Ino{dir}, name, is_of)) {
    return source->is_staged ? name_staged(req, source->dir, Ino{dir}, name) : clone(req, *source, Ino{dir}, name);
  }
  make(req, dir, name, new_inode(req, S_IFDIR | (mode & 07777)));
}

void symlink(fuse_req_t req, const char* target, fuse_ino_t dir, const char* name) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, dir, inode = new_inode(req, S_IFLNK | 0777)](Wait wait, std::string_view n, std::string_view t) {
    NewInode link = inode;
    link.symlink = t;
    return entry_of(tree.make(Ino{dir}, n, link, wait));
  }, std::string_view(name), std::string_view(target));
}

void link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir, const char* name) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, ino, dir](Wait wait, std::string_view n) {
    return entry_of(tree.link(Ino{ino}, Ino{dir}, n, wait));
  }, std::string_view(name));
}

void unlink(fuse_req_t req, fuse_ino_t dir, const char* name) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, dir](Wait wait, std::string_view n) -> Result<Done> {
    LSMFS_TRY(tree.unlink(Ino{dir}, n, wait));
    return Done{};
  }, std::string_view(name));
}

void rmdir(fuse_req_t req, fuse_ino_t dir, const char* name) {
  auto& tree = context_of(req).tree;
  serve_names(req, [&tree, dir](Wait wait, std::string_view n) -> Result<Done> {
    LSMFS_TRY(tree.rmdir(Ino{dir}, n, wait));
    return Done{};
  }, std::string_view(name));
}

void rename(fuse_req_t req, fuse_ino_t from_dir, const char* from, fuse_ino_t to_dir, const char* to, unsigned flags) {
  auto& tree = context_of(req).tree;
  const Owner caller{fuse_req_ctx(req)->uid, fuse_req_ctx(req)->gid};
  serve_names(req, [&tree, from_dir, to_dir, flags, caller](Wait wait, std::string_view f, std::string_view t) -> Result<Done> {
    LSMFS_TRY(tree.rename(Ino{from_dir}, f, Ino{to_dir}, t, flags, wait, caller));
    return Done{};
  }, std::string_view(from), std::string_view(to));
}

// ---- directories and data

// The kernel takes it as: this daemon never needs to hear of opens, and keeps what it has cached.
void open(fuse_req_t req, fuse_ino_t, fuse_file_info*) { fuse_reply_err(req, ENOSYS); }

// The open file's O_NOATIME comes with each request that reads.
AccessTime access_time_of(const fuse_file_info& file) {
  return file.flags & O_NOATIME ? AccessTime::stays : AccessTime::now;
}

void list(fuse_req_t req, fuse_ino_t dir, std::size_t size, off_t cookie, const fuse_file_info& file, bool plus) {
  auto& context = context_of(req);
  if (cookie == 0) context.kernel_cache.note_listing(Ino{dir});
  if (plus && context.kernel_cache.doubts_listing()) size = std::min(size, kShortListing);
  const std::uint64_t caller = static_cast<std::uint64_t>(fuse_req_ctx(req)->pid);
  Listings::Plan plan{.attrs = AttrsOf::none};
  if (plus) plan = context.listings.plan(caller, Ino{dir}, cookie == 0);
  context.kernel_cache.drop_listings(std::move(plan.old));
  serve(req, [&context, req, caller, dir, size, cookie = static_cast<std::uint64_t>(cookie), plus, attrs = plan.attrs, probes = plan.probes,
              atime = access_time_of(file)](Wait wait) -> Result<DirectoryReply> {
    DirectoryReply reply(req, scratch(size), plus, probes);
    const auto add = [&](const DirEntry& entry) { return reply.add(entry); };
    auto listed = context.tree.readdir(Ino{dir}, cookie, attrs, add, wait, atime);
    if (const auto without = reply.withheld()) {
      context.listings.withheld(caller, Ino{dir}, *without);
      context.tree.forget(*without, 1);
    }
    // What was given before an error counts; the kernel asks for the rest and gets the error then.
    if (!listed && reply.bytes().empty()) return std::move(listed.error());
    return reply;
  });
}

void readdir(fuse_req_t req, fuse_ino_t dir, std::size_t size, off_t cookie, fuse_file_info* file) {
  list(req, dir, size, cookie, *file, false);
}

void readdirplus(fuse_req_t req, fuse_ino_t dir, std::size_t size, off_t cookie, fuse_file_info* file) {
  list(req, dir, size, cookie, *file, true);
}

void read(fuse_req_t req, fuse_ino_t ino, std::size_t size, off_t offset, fuse_file_info* file) {
  auto& tree = context_of(req).tree;
  if (!(file->flags & O_DIRECT)) context_of(req).kernel_cache.note_read(Ino{ino});
  if (offset == 0) {
    if (const auto dir = tree.directory_of(Ino{ino}, Wait::no)) context_of(req).kernel_cache.note_read_in(*dir);
  }
  serve(req, [&tree, ino, size, from = ByteOffset{static_cast<std::uint64_t>(offset)},
              atime = access_time_of(*file)](Wait wait) -> Result<Data> {
    const MutableBytes to = scratch(size);
    LSMFS_ASSIGN(const std::size_t got, tree.read(Ino{ino}, from, to, wait, atime));
    return Data{to.first(got)};
  });
}

struct WrittenFile {
  Ino ino;
  std::size_t size;
  bool past_pages;  // direct, and there may be pages
};

void send(fuse_req_t req, Tree&, const WrittenFile& reply) {
  if (!reply.past_pages) {
    fuse_reply_write(req, reply.size);
  } else {
    context_of(req).kernel_cache.drop_pages(reply.ino, [req, size = reply.size] { fuse_reply_write(req, size); });
  }
}

// Of the kernel's pages, which it writes whole when something was appended to one. What an append-only file takes of that is what is
// new; what is there must be as it is.
// With the writeback cache the kernel notes when programs wrote, and may tell that before it sends the pages: they change no time.
Result<void> write_pages(fuse_req_t req, Ino ino, ByteOffset to, Bytes bytes, Wait wait) {
  Tree& tree = context_of(req).tree;
  const ChangeTime time = context_of(req).writeback ? ChangeTime::stays : ChangeTime::now;
  auto written = tree.write(ino, to, bytes, wait, time);
  if (written || written.error().code != EPERM) return written;
  LSMFS_ASSIGN(const Attr attr, tree.getattr(ino, wait));
  if (to.v >= attr.size) return written;
  const MutableBytes there = scratch(kTransferMax).first(std::min<std::uint64_t>(bytes.size(), attr.size - to.v));
  LSMFS_ASSIGN(const std::size_t got, tree.read(ino, to, there, wait, AccessTime::stays));
  if (got != there.size() || !std::ranges::equal(there, bytes.first(got))) return written;
  if (got == bytes.size()) return {};
  return tree.write(ino, ByteOffset{attr.size}, bytes.subspan(got), wait, time);
}

// What an import says is made of it before the next of it comes.
void write_import(fuse_req_t req, std::shared_ptr<Import> import, std::uint64_t offset, Bytes bytes) {
  context_of(req).workers.submit([req, import = std::move(import), offset, copy = owned(bytes)] {
    auto written = import->write(offset, copy);
    answer(req, written ? Result<Written>(Written{*written}) : Result<Written>(std::move(written.error())), Wait::yes);
  });
}

void write(fuse_req_t req, fuse_ino_t ino, const char* data, std::size_t size, off_t offset, fuse_file_info* file) {
  if (auto import = context_of(req).imports.find(Ino{ino})) {
    return write_import(req, std::move(import), static_cast<std::uint64_t>(offset), as_bytes({data, size}));
  }
  auto& tree = context_of(req).tree;
  const bool direct = (file->flags & O_DIRECT) && !file->writepage;
  serve(req, [&tree, req, ino, direct, pages = file->writepage != 0, to = ByteOffset{static_cast<std::uint64_t>(offset)},
              drop = drops_privileges](Wait wait, Bytes bytes) -> Result<WrittenFile> {
    if (drop) LSMFS_TRY(drop_privileges(req, Ino{ino}, wait));
    LSMFS_TRY(drop_hidden_capability(req, Ino{ino}, wait));
    // What reaches past the largest size there can be is written up to it.
    const Bytes fits = to.v < kFileSizeMax ? bytes.first(std::min<std::size_t>(bytes.size(), kFileSizeMax - to.v)) : bytes;
    const auto written = pages ? write_pages(req, Ino{ino}, to, fits, wait) : tree.write(Ino{ino}, to, fits, wait);
    // Of a snapshot: the kernel has the bytes in its pages by now, and would go on to show them.
    if (pages && !written && written.error().code == EROFS && !tree.read_only()) context_of(req).kernel_cache.drop_pages(Ino{ino}, [] {});
    if (!written) return written.error();
    return WrittenFile{Ino{ino}, fits.size(), direct && context_of(req).kernel_cache.take_read(Ino{ino})};
  }, as_bytes({data, size}));
}

void fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, fuse_file_info*) {
  auto& tree = context_of(req).tree;
  serve(req, [&tree, req, ino, mode, from = ByteOffset{static_cast<std::uint64_t>(offset)},
              size = ByteCount{static_cast<std::uint64_t>(length)}](Wait wait) -> Result<Done> {
    LSMFS_TRY(drop_privileges(req, Ino{ino}, wait, Drop::unless_root));
    LSMFS_TRY(drop_hidden_capability(req, Ino{ino}, wait));
    LSMFS_TRY(tree.fallocate(Ino{ino}, mode, from, size, wait));
    return Done{};
  });
}

void lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, fuse_file_info*) {
  // What the kernel has gathered and not sent is no hole. It flushes nothing before it asks, so let it not ask again: then it
  // takes all of a file for data.
  if (context_of(req).writeback) {
    fuse_reply_err(req, ENOSYS);
    return;
  }
  auto& tree = context_of(req).tree;
  serve(req, [&tree, ino, whence, from = ByteOffset{static_cast<std::uint64_t>(offset)}](Wait wait) -> Result<Position> {
    LSMFS_ASSIGN(const ByteOffset found, tree.seek(Ino{ino}, from, whence, wait));
    return Position{found};
  });
}

void copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, fuse_file_info*, fuse_ino_t to, off_t to_offset,
                     fuse_file_info*, std::size_t size, int flags) {
  if (flags != 0) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  serve(req, [&tree = context_of(req).tree, req, from, to, size, from_offset, to_offset](Wait wait) -> Result<Written> {
    LSMFS_TRY(drop_privileges(req, Ino{to}, wait, Drop::unless_root));
    LSMFS_TRY(drop_hidden_capability(req, Ino{to}, wait));
    LSMFS_ASSIGN(const ByteCount copied, tree.copy_range(Ino{from}, ByteOffset{static_cast<std::uint64_t>(from_offset)}, Ino{to},
                                                         ByteOffset{static_cast<std::uint64_t>(to_offset)}, ByteCount{size}, wait));
    return Written{copied.v};
  });
}

void fsync(fuse_req_t req, fuse_ino_t, int, fuse_file_info*) {
  auto& tree = context_of(req).tree;
  serve_waiting(req, [&tree]() -> Result<Done> {
    LSMFS_TRY(tree.sync());
    return Done{};
  });
}

// ---- the rest

void statfs(fuse_req_t req, fuse_ino_t) {
  auto& tree = context_of(req).tree;
  serve(req, [&tree](Wait wait) { return tree.space(wait); });
}

// ---- extended attributes

// Answered so, the kernel asks for none any more, and tells programs that there are none here (EOPNOTSUPP).
bool there_are_none(fuse_req_t req) {
  if (context_of(req).xattr) return false;
  fuse_reply_err(req, ENOSYS);
  return true;
}

constexpr std::string_view kAccessList = "system.posix_acl_access", kDefaultList = "system.posix_acl_default";

bool is_list(std::string_view name) { return name == kAccessList || name == kDefaultList; }

// What ext4 knows.
Result<void> check_namespace(std::string_view name, bool acl) {
  if (acl && is_list(name)) return {};
  for (const std::string_view known : {"user.", "trusted.", "security."}) {
    if (name.starts_with(known)) return name == known ? Result<void>(make_error(EINVAL, "")) : Result<void>();
  }
  return make_error(EOPNOTSUPP, "");
}

// A caller that gives no room asks for the size.
Result<Sized> sized(Result<std::string> bytes, std::size_t room) {
  if (!bytes) return std::move(bytes.error());
  if (room != 0 && bytes->size() > room) return make_error(ERANGE, "");
  return Sized{std::move(*bytes), room == 0};
}

// Who gives a file an access list without belonging to its group takes its set-group-id bit away.
Result<void> drop_foreign_group(fuse_req_t req, Ino ino, Wait wait) {
  LSMFS_ASSIGN(const Attr attr, context_of(req).tree.getattr(ino, wait));
  if (!(attr.mode & S_ISGID) || root_or_in_group(req, attr.gid)) return {};
  AttrChange change;
  change.mode = attr.mode & 07777 & ~static_cast<std::uint32_t>(S_ISGID);
  LSMFS_TRY(context_of(req).tree.setattr(ino, change, wait));
  return {};
}

void setxattr(fuse_req_t req, fuse_ino_t ino, const char* name, const char* value, std::size_t size, int flags) {
  if (there_are_none(req)) return;
  auto& tree = context_of(req).tree;
  serve(req, [&tree, req, ino, flags, acl = context_of(req).acl](Wait wait, std::string_view n, std::string_view v) -> Result<Done> {
    LSMFS_TRY(check_namespace(n, acl));
    LSMFS_TRY(tree.setxattr(Ino{ino}, n, v, flags, wait));
    if (n == kAccessList) LSMFS_TRY(drop_foreign_group(req, Ino{ino}, wait));
    return Done{};
  }, std::string_view(name), std::string_view(value, size));
}

void getxattr(fuse_req_t req, fuse_ino_t ino, const char* name, std::size_t size) {
  if (there_are_none(req)) return;
  auto& tree = context_of(req).tree;
  serve(req, [&tree, ino, size, acl = context_of(req).acl](Wait wait, std::string_view n) -> Result<Sized> {
    LSMFS_TRY(check_namespace(n, acl));
    return sized(tree.getxattr(Ino{ino}, n, wait), size);
  }, std::string_view(name));
}

// The names that are for the caller: `trusted` ones are for root, whose values the kernel gives to nobody else.
std::string names_for_caller(std::string_view names, fuse_req_t req) {
  const bool acl = context_of(req).acl, trusted = names.find("trusted.") != std::string_view::npos && caller_of(req).is_root();
  std::string out;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('\0'));
    if ((trusted || !name.starts_with("trusted.")) && (acl || !is_list(name))) out.append(name).push_back('\0');
    names.remove_prefix(name.size() + 1);
  }
  return out;
}

void listxattr(fuse_req_t req, fuse_ino_t ino, std::size_t size) {
  if (there_are_none(req)) return;
  auto& tree = context_of(req).tree;
  serve(req, [&tree, req, ino, size](Wait wait) -> Result<Sized> {
    LSMFS_ASSIGN(const auto names, tree.listxattr(Ino{ino}, wait));
    return sized(names_for_caller(names, req), size);
  });
}

void removexattr(fuse_req_t req, fuse_ino_t ino, const char* name) {
  if (there_are_none(req)) return;
  auto& tree = context_of(req).tree;
  serve(req, [&tree, ino, acl = context_of(req).acl](Wait wait, std::string_view n) -> Result<Done> {
    LSMFS_TRY(check_namespace(n, acl));
    LSMFS_TRY(tree.removexattr(Ino{ino}, n, wait));
    return Done{};
  }, std::string_view(name));
}

fuse_lowlevel_ops make_table() {
  fuse_lowlevel_ops ops{};
  ops.init = init;
  ops.destroy = destroy;
  ops.lookup = lookup;
  ops.forget = forget;
  ops.forget_multi = forget_multi;
  ops.getattr = getattr;
  ops.setattr = setattr;
  ops.readlink = readlink;
  ops.mknod = mknod;
  ops.mkdir = mkdir;
  ops.symlink = symlink;
  ops.link = link;
  ops.unlink = unlink;
  ops.rmdir = rmdir;
  ops.rename = rename;
  ops.open = open;
  ops.opendir = open;
  ops.readdir = readdir;
  ops.readdirplus = readdirplus;
  ops.read = read;
  ops.write = write;
  ops.fallocate = fallocate;
  ops.lseek = lseek;
  ops.copy_file_range = copy_file_range;
  ops.fsync = fsync;
  ops.fsyncdir = fsync;
  ops.statfs = statfs;
  ops.ioctl = ioctl;
  ops.setxattr = setxattr;
  ops.getxattr = getxattr;
  ops.listxattr = listxattr;
  ops.removexattr = removexattr;
  return ops;
}

}  // namespace

const fuse_lowlevel_ops& handlers() {
  static const fuse_lowlevel_ops table = make_table();
  return table;
}

}  // namespace lsmfs

#include "fuse/serving/ioctls.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <type_traits>

#include "fuse/control/stats_codec.h"
#include "fuse/serving/context.h"
#include "fuse/serving/permission.h"
#include "fuse/serving/privileges.h"

namespace lsmfs {
namespace {

// One function for each command. It answers the request with an IoctlOutput, which the kernel wants
// even if it is empty, or with an error. `in` lies in the request and has the command's size of input.

template <class Value>
IoctlOutput output_of(const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return IoctlOutput{std::string(reinterpret_cast<const char*>(&value), sizeof value)};
}

template <class Value>
Value input_of(Bytes in) {  // must hold: there are as many bytes
  Value value;
  std::memcpy(&value, in.data(), sizeof value);
  return value;
}

// ---- the file system as a whole

void facts(fuse_req_t req, Ino, Bytes) {
  serve_waiting(req, [&context = context_of(req)]() -> Result<IoctlOutput> {
    std::string json = context.administration.info_json();
    if (json.size() > kFactsMax) return make_error(EMSGSIZE, "");
    return IoctlOutput{std::move(json)};
  });
}

// What ext4 asks of a caller who wants to administer the file system, as far as it can be known here.
// Whoever runs the daemon owns the device or image and may do as he likes with it.
bool may_administer(fuse_req_t req) {
  const Caller caller = caller_of(req);
  return caller.is_root() || caller.uid == geteuid();
}

// Whether nobody wants the answer any more.
Stop end_of(fuse_req_t req) {
  return [req, &context = context_of(req)] { return context.turnstile.closed() || fuse_req_interrupted(req) != 0; };
}

void trim(fuse_req_t req, Ino, Bytes in) {
  if (!may_administer(req)) {
    fuse_reply_err(req, EPERM);
    return;
  }
  serve_waiting(req, [req, &context = context_of(req), range = input_of<fstrim_range>(in)]() -> Result<IoctlOutput> {
    const TrimRange what{ByteOffset{range.start}, ByteCount{range.len}, ByteCount{range.minlen}};
    LSMFS_ASSIGN(const ByteCount trimmed, context.tree.trim(what, end_of(req)));
    fstrim_range out = range;
    out.len = trimmed.v;
    return output_of(out);
  });
}

void scrub(fuse_req_t req, Ino, Bytes in) {
  if (!may_administer(req)) {
    fuse_reply_err(req, EPERM);
    return;
  }
  serve_waiting(req, [req, &context = context_of(req), asked = position_of(input_of<ScrubMessage>(in))]() -> Result<IoctlOutput> {
    ScrubPosition position = asked;
    LSMFS_ASSIGN(const ScrubStep step, context.tree.scrub(position, end_of(req)));
    return output_of(to_message(position, step));
  });
}

void numbers(fuse_req_t req, Ino, Bytes in) {
  serve_waiting(req, [&context = context_of(req), all = may_administer(req), asked = input_of<StatsMessage>(in)]() -> Result<IoctlOutput> {
    MountStats stats{.mounted_ns = context.mounted_ns(), .requests = context.answers.stats(), .layers = context.administration.stats()};
    if (!all) {
      for (const ProgramCount& program : stats.requests.programs) stats.requests.other_programs += program.requests;
      stats.requests.programs.clear();
    }
    LSMFS_ASSIGN(const StatsMessage answer, to_message(stats, asked));
    return output_of(answer);
  });
}

void get_label(fuse_req_t req, Ino, Bytes) {
  serve_waiting(req, [&context = context_of(req)]() -> Result<IoctlOutput> {
    std::string label = context.administration.label();
    label.resize(FSLABEL_MAX);
    return IoctlOutput{std::move(label)};
  });
}

void set_label(fuse_req_t req, Ino, Bytes in) {
  if (!may_administer(req)) {
    fuse_reply_err(req, EPERM);
    return;
  }
  const std::string_view text = as_text(in);
  serve_waiting(req, [&context = context_of(req), label = std::string(text.substr(0, text.find('\0')))]() -> Result<IoctlOutput> {
    LSMFS_TRY(context.administration.set_label(label));
    return IoctlOutput{};
  });
}

void grow(fuse_req_t req, Ino, Bytes in) {
  if (!may_administer(req)) {
    fuse_reply_err(req, EPERM);
    return;
  }
  serve_waiting(req, [&context = context_of(req), asked = input_of<GrowMessage>(in)]() -> Result<IoctlOutput> {
    LSMFS_ASSIGN(const ByteCount size, context.administration.grow(asked.size == 0 ? std::nullopt : std::optional(ByteCount{asked.size})));
    return output_of(GrowMessage{size.v});
  });
}

void reconfigure(fuse_req_t req, Ino, Bytes in) {
  // The kernel has checked nothing: an ioctl is open to whoever may open the file.
  if (!caller_of(req).is_root()) {
    fuse_reply_err(req, EPERM);
    return;
  }
  const auto settings = to_settings(input_of<ReconfigureRequest>(in));
  if (!settings) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  serve_waiting(req, [&context = context_of(req), settings = *settings]() -> Result<IoctlOutput> {
    LSMFS_TRY(context.tree.reconfigure(settings.tree));
    if (settings.durable_names) context.durable_names = *settings.durable_names;
    return IoctlOutput{};
  });
}

void drop_caches(fuse_req_t req, Ino, Bytes) {
  if (!may_administer(req)) {
    fuse_reply_err(req, EPERM);
    return;
  }
  serve_waiting(req, [&context = context_of(req)]() -> Result<IoctlOutput> {
    LSMFS_TRY(context.tree.drop_caches());
    return IoctlOutput{};
  });
}

// ---- a directory with all that lies below it

// Who may have it removed, when it lies in `parent`. The kernel has checked nothing.
Result<void> may_remove_tree(fuse_req_t req, Ino dir, Ino parent, Wait wait) {
  const Context& context = context_of(req);
  if (may_administer(req)) return {};
  const Asker asker{.uid = caller_of(req).uid, .is_in_group = [req](gid_t group) { return root_or_in_group(req, group); }};
  LSMFS_ASSIGN(const Attr attr, context.tree.getattr(dir, wait));
  LSMFS_ASSIGN(const Attr above, context.tree.getattr(parent, wait));
  std::string list;
  if (context.acl) {
    auto kept = context.tree.getxattr(parent, "system.posix_acl_access", wait);
    if (!kept && kept.error().code != ENODATA) return std::move(kept.error());
    if (kept) list = *std::move(kept);
  }
  const bool may = context.user_rm && asker.uid == attr.uid && may_remove_from(above, list, attr.uid, asker);
  return may ? Result<void>() : make_error(EACCES, "");
}

struct RemovedTree {
  Ino dir, parent;
  std::string name;
};

void send(fuse_req_t req, Tree& tree, const RemovedTree& reply) {
  KernelCache& cache = context_of(req).kernel_cache;
  const auto is_back = [&tree, parent = reply.parent, name = reply.name] {
    const auto found = tree.lookup(parent, name, Wait::yes);
    if (!found || !*found) return false;
    tree.forget((*found)->ino, 1);
    return true;
  };
  for (const Ino ino : {reply.dir, reply.parent}) cache.drop_attributes(ino);
  cache.drop_tree(reply.parent, reply.name, is_back, [req] { fuse_reply_ioctl(req, 0, nullptr, 0); });
}

void remove_tree(fuse_req_t req, Ino dir, Bytes) {
  serve_names(req, [&tree = context_of(req).tree, req, dir](Wait wait) -> Result<RemovedTree> {
    for (;;) {
      LSMFS_ASSIGN(const Ino parent, tree.directory_of(dir, wait));
      LSMFS_TRY(may_remove_tree(req, dir, parent, wait));
      auto removed = tree.remove_tree(dir, parent, wait);
      if (removed) return RemovedTree{dir, parent, *std::move(removed)};
      if (removed.error().code != ESTALE) return std::move(removed.error());  // it has been moved meanwhile
    }
  });
}

// ---- a copy of a directory with all that lies below it, in two steps: clone_orders.h

// The kernel has let him open it, and checks where he may make a directory. Whose it must be is looked at then.
void clone(fuse_req_t req, Ino dir, Bytes in) {
  const auto asked = input_of<CloneRequest>(in);
  const std::string_view name(asked.name, strnlen(asked.name, sizeof asked.name));
  if (name.empty() || name.size() > kNameMax) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  const pid_t thread = fuse_req_ctx(req)->pid;
  if (thread == 0) {  // of another process namespace: it is not known from others
    fuse_reply_err(req, ESRCH);
    return;
  }
  serve(req, [&context = context_of(req), req, dir, thread, parent = Ino{asked.parent}](Wait wait, std::string_view n) -> Result<IoctlOutput> {
    LSMFS_ASSIGN(const Attr attr, context.tree.getattr(dir, wait));
    if (!S_ISDIR(attr.mode)) return make_error(ENOTDIR, "");
    context.clones.put(thread, caller_of(req).uid, {.dir = dir, .of_any_owner = may_administer(req)}, parent, n);
    return IoctlOutput{};
  }, name);
}

void cloned(fuse_req_t req, Ino, Bytes) {
  serve(req, [&context = context_of(req), thread = fuse_req_ctx(req)->pid](Wait) -> Result<IoctlOutput> {
    return output_of(ClonedMessage{static_cast<std::uint32_t>(context.clones.end(thread))});
  });
}

// Whoever could open the snapshot may know of what it is one.
void snapshot(fuse_req_t req, Ino dir, Bytes) {
  serve(req, [&tree = context_of(req).tree, dir](Wait wait) -> Result<IoctlOutput> {
    LSMFS_ASSIGN(const SnapshotInfo info, tree.snapshot_info(dir, wait));
    if (info.of.size() > sizeof SnapshotMessage::of) return make_error(EMSGSIZE, "");
    return output_of(to_message(info));
  });
}

// Sizes tell of what lies in directories that the caller may not read, and take long to find. So they are for those who could have made it.
void snapshot_sizes(fuse_req_t req, Ino dir, Bytes) {
  serve_waiting(req, [req, dir, &tree = context_of(req).tree]() -> Result<IoctlOutput> {
    LSMFS_ASSIGN(const Attr attr, tree.getattr(dir, Wait::yes));
    if (!may_administer(req) && caller_of(req).uid != attr.uid) return make_error(EPERM, "");
    LSMFS_ASSIGN(const SnapshotSizes sizes, tree.snapshot_sizes(dir, end_of(req)));
    return output_of(SnapshotSizesMessage{.alone = sizes.alone.v, .refers = sizes.refers.v});
  });
}

// ---- two directories are compared, in two steps, as a clone is made: the first notes the first directory, as one whose place has a name that
// none has. So it is taken for nothing else.

constexpr std::string_view kCompared = "/";

void diff_with(fuse_req_t req, Ino dir, Bytes in) {
  const pid_t thread = fuse_req_ctx(req)->pid;
  if (thread == 0) {
    fuse_reply_err(req, ESRCH);
    return;
  }
  context_of(req).clones.put(thread, caller_of(req).uid, {.dir = dir, .of_any_owner = may_administer(req)}, Ino{input_of<DiffWithRequest>(in).directory}, kCompared);
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

// Differences tell of what lies in directories that the caller may not read. So they are for those who could have made a clone of both.
Result<void> may_compare(fuse_req_t req, const CloneOrders::Source& first, Ino second) {
  if (first.of_any_owner) return {};
  for (const Ino dir : {first.dir, second}) {
    LSMFS_ASSIGN(const Attr attr, context_of(req).tree.getattr(dir, Wait::yes));
    if (attr.uid != caller_of(req).uid) return make_error(EPERM, "");
  }
  return {};
}

void diff(fuse_req_t req, Ino dir, Bytes in) {
  const pid_t thread = fuse_req_ctx(req)->pid;
  CloneOrders& orders = context_of(req).clones;
  const auto first = orders.take(thread, dir, kCompared, [req](uid_t user) { return caller_of(req).uid == user; });
  if (!first) {
    fuse_reply_err(req, EAGAIN);
    return;
  }
  (void)orders.end(thread);
  const auto asked = decode_asked(bytes_of(input_of<DiffMessage>(in)));
  if (!asked) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  serve_waiting(req, [req, dir, &tree = context_of(req).tree, first = *first, asked = *asked]() -> Result<IoctlOutput> {
    LSMFS_TRY(may_compare(req, first, dir));
    LSMFS_ASSIGN(const DifferencesStep step, tree.differences(first.dir, dir, asked, end_of(req)));
    const auto answer = to_diff_message(encode(step));
    if (!answer) return make_error(EMSGSIZE, "");
    return output_of(*answer);
  });
}

// ---- a tree that comes as a stream: imports.h

void import(fuse_req_t req, Ino file, Bytes in) {
  const auto asked = input_of<ImportRequest>(in);
  serve_waiting(req, [req, file, asked, &context = context_of(req)]() -> Result<IoctlOutput> {
    const std::string_view name(asked.name, strnlen(asked.name, sizeof asked.name));
    LSMFS_ASSIGN(const Attr attr, context.tree.getattr(file, Wait::yes));
    const Caller caller = caller_of(req);
    // Whom the kernel made the file for is who makes the tree, also where a mount has owners of its own, or the directory hands its group on.
    const auto may = [capabilities = capabilities_of(req)](int capability) { return ((capabilities >> capability) & 1) != 0; };
    const Importing who{.as_root = caller.is_root() && attr.uid == 0 && may(CAP_CHOWN) && may(CAP_FOWNER) && may(CAP_FSETID),
                        .devices = may(CAP_MKNOD),
                        .trusted = may(CAP_SYS_ADMIN),
                        .capabilities = may(CAP_SETFCAP),
                        .uid = attr.uid, .gid = attr.gid, .is_member = root_or_in_group(req, attr.gid),
                        .umask = asked.umask & 0777};
    if (!caller.is_root() && caller.uid != attr.uid) return make_error(EPERM, "");
    LSMFS_TRY(context.imports.begin(context.tree, file, name, who));
    return IoctlOutput{};
  });
}

// Whoever can ask has the file open.
void imported(fuse_req_t req, Ino file, Bytes in) {
  const auto import = context_of(req).imports.find(file);
  const pid_t thread = fuse_req_ctx(req)->pid;
  if (!import || thread == 0) {
    fuse_reply_err(req, import ? ESRCH : EINVAL);
    return;
  }
  serve_waiting(req, [req, import, thread, asked = input_of<ImportedMessage>(in), &context = context_of(req)]() -> Result<IoctlOutput> {
    ImportedMessage message;
    const auto counts = import->finish();
    if (!counts) {
      message.code = static_cast<std::uint32_t>(reply_code(counts.error()));
      message.size = static_cast<std::uint32_t>(counts.error().context.copy(message.context, sizeof message.context));
      return output_of(message);
    }
    message.files = counts->files;
    message.directories = counts->directories;
    message.others = counts->others;
    message.bytes = counts->bytes;
    const std::string_view name(asked.name, strnlen(asked.name, sizeof asked.name));
    if (name.empty()) return output_of(message);  // he only asks
    context.clones.put(thread, caller_of(req).uid, {.dir = import->staged(), .of_any_owner = true, .is_staged = true}, import->parent(), name);
    return output_of(message);
  });
}

// ---- the log of changes

// It tells of what lies in directories that the caller may not read. So it is for those who could have made a clone.
void changes(fuse_req_t req, Ino dir, Bytes in) {
  const auto asked = decode_changes_asked(bytes_of(input_of<ChangesMessage>(in)));
  if (!asked) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  serve_waiting(req, [req, dir, &tree = context_of(req).tree, asked = *asked]() -> Result<IoctlOutput> {
    LSMFS_ASSIGN(const Attr attr, tree.getattr(dir, Wait::yes));
    if (!may_administer(req) && caller_of(req).uid != attr.uid) return make_error(EPERM, "");
    LSMFS_ASSIGN(const ChangesStep step, tree.changes(dir, asked, end_of(req)));
    const auto answer = to_changes_message(encode(step));
    if (!answer) return make_error(EMSGSIZE, "");
    return output_of(*answer);
  });
}

// ---- a directory gets what a snapshot has, in two steps, as a clone: the first notes the snapshot, as one whose place has no name

void roll_back_to(fuse_req_t req, Ino snapshot, Bytes in) {
  const pid_t thread = fuse_req_ctx(req)->pid;
  if (thread == 0) {
    fuse_reply_err(req, ESRCH);
    return;
  }
  serve(req, [&context = context_of(req), req, snapshot, thread, directory = Ino{input_of<RollBackRequest>(in).directory}](Wait wait) -> Result<IoctlOutput> {
    LSMFS_TRY(context.tree.snapshot_info(snapshot, wait));
    context.clones.put(thread, caller_of(req).uid, {.dir = snapshot, .of_any_owner = may_administer(req)}, directory, "");
    return IoctlOutput{};
  });
}

// As who has it removed, and makes a clone of the snapshot. The kernel has checked nothing but that the caller may open both.
Result<void> may_roll_back(fuse_req_t req, Ino dir, const CloneOrders::Source& source, Wait wait) {
  if (source.of_any_owner) return {};
  const Context& context = context_of(req);
  const uid_t uid = caller_of(req).uid;
  LSMFS_ASSIGN(const Attr attr, context.tree.getattr(dir, wait));
  LSMFS_ASSIGN(const Attr of_snapshot, context.tree.getattr(source.dir, wait));
  return context.user_rm && attr.uid == uid && of_snapshot.uid == uid ? Result<void>() : make_error(EACCES, "");
}

constexpr std::size_t kListedAtOnce = 1024;  // names: while others wait for the tree

Result<std::vector<std::string>> names_in(Tree& tree, Ino dir, Wait wait) {
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  for (std::size_t given = 1; given > 0;) {
    given = 0;
    LSMFS_TRY(tree.readdir(dir, cookie, AttrsOf::none, [&](const DirEntry& entry) {
      if (given == kListedAtOnce) return false;
      ++given;
      cookie = entry.next_cookie;
      if (entry.name != "." && entry.name != "..") names.emplace_back(entry.name);
      return true;
    }, wait, AccessTime::stays));
  }
  return names;
}

struct RolledBack {
  Ino dir;
  std::vector<SweptEntry> gone;
  std::vector<std::string> names;  // that it has now
};

void send(fuse_req_t req, Tree& tree, const RolledBack& reply) {
  KernelCache& cache = context_of(req).kernel_cache;
  std::vector<std::string> old;
  for (const SweptEntry& entry : reply.gone) old.push_back(entry.name);
  const auto is_back = [&tree, dir = reply.dir](const std::string& name) { return tree.in_use(dir, name); };
  cache.drop_attributes(reply.dir);
  cache.drop_contents(reply.dir, std::move(old), reply.names, is_back, [req] { fuse_reply_ioctl(req, 0, nullptr, 0); });
}

void roll_back(fuse_req_t req, Ino dir, Bytes in) {
  const pid_t thread = fuse_req_ctx(req)->pid;
  CloneOrders& orders = context_of(req).clones;
  const auto source = orders.take(thread, dir, "", [req](uid_t user) { return caller_of(req).uid == user; });
  if (!source) {
    fuse_reply_err(req, EAGAIN);
    return;
  }
  (void)orders.end(thread);
  if (input_of<RollBackMessage>(in).only_asks != 0) {
    serve(req, [&tree = context_of(req).tree, req, dir, source = *source](Wait wait) -> Result<IoctlOutput> {
      LSMFS_TRY(may_roll_back(req, dir, source, wait));
      if (tree.read_only()) return make_error(EROFS, "");
      return IoctlOutput{};
    });
    return;
  }
  serve_names(req, [&tree = context_of(req).tree, req, dir, source = *source](Wait wait) -> Result<RolledBack> {
    LSMFS_TRY(may_roll_back(req, dir, source, wait));
    LSMFS_ASSIGN(auto names, names_in(tree, source.dir, wait));  // which do not change any more
    LSMFS_ASSIGN(auto gone, tree.roll_back(dir, source.dir, wait));
    return RolledBack{dir, std::move(gone), std::move(names)};
  });
}

// ---- the flags of an inode, in the two forms in which the kernel asks for them. It has checked who may change what.

constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 4> kFlagNames{{{FS_IMMUTABLE_FL, FS_XFLAG_IMMUTABLE},
                                                                             {FS_APPEND_FL, FS_XFLAG_APPEND},
                                                                             {FS_NODUMP_FL, FS_XFLAG_NODUMP},
                                                                             {FS_NOATIME_FL, FS_XFLAG_NOATIME}}};

// `encode` makes the flags a reply.
template <class Encode>
void get_flags(fuse_req_t req, Ino ino, Encode encode) {
  serve(req, [&tree = context_of(req).tree, ino, encode](Wait wait) -> Result<IoctlOutput> {
    LSMFS_ASSIGN(const Attr attr, tree.getattr(ino, wait));
    return output_of(encode(attr.flags));
  });
}

// The kernel does not know that an ioctl changes attributes.
struct Changed {
  Ino ino;
};

void send(fuse_req_t req, Tree&, const Changed& reply) {
  context_of(req).kernel_cache.drop_attributes(reply.ino);
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

void set_flags(fuse_req_t req, Ino ino, std::uint32_t flags) {
  const auto set = [req, ino, flags] {
    serve(req, [&tree = context_of(req).tree, ino, flags](Wait wait) -> Result<Changed> {
      AttrChange change;
      change.flags = flags;
      LSMFS_TRY(tree.setattr(ino, change, wait));
      return Changed{ino};
    });
  };
  // What was written before is let in: of mappings, and with the writeback cache, the kernel may still have it. It sends that before it
  // forgets it.
  if (flags & (FS_IMMUTABLE_FL | FS_APPEND_FL)) {
    context_of(req).kernel_cache.drop_pages(ino, set);
  } else {
    set();
  }
}

void get_file_flags(fuse_req_t req, Ino ino, Bytes) {
  get_flags(req, ino, [](std::uint32_t flags) { return flags; });
}

void set_file_flags(fuse_req_t req, Ino ino, Bytes in) { set_flags(req, ino, input_of<std::uint32_t>(in)); }

void get_file_attributes(fuse_req_t req, Ino ino, Bytes) {
  get_flags(req, ino, [](std::uint32_t flags) {
    fsxattr out{};
    for (const auto& [flag, name] : kFlagNames) out.fsx_xflags |= flags & flag ? name : 0;
    return out;
  });
}

void set_file_attributes(fuse_req_t req, Ino ino, Bytes in) {
  const auto wanted = input_of<fsxattr>(in);
  std::uint32_t flags = 0, unknown = wanted.fsx_xflags;
  for (const auto& [flag, name] : kFlagNames) {
    if (wanted.fsx_xflags & name) flags |= flag;
    unknown &= ~name;
  }
  if (unknown != 0 || wanted.fsx_extsize != 0 || wanted.fsx_cowextsize != 0 || wanted.fsx_projid != 0) {
    fuse_reply_err(req, EOPNOTSUPP);
    return;
  }
  set_flags(req, ino, flags);
}

struct Command {
  unsigned number;
  std::size_t input;  // bytes that the kernel hands on; for flags that is an int, whatever the number says
  void (*answer)(fuse_req_t req, Ino ino, Bytes in);
};

constexpr Command kCommands[] = {
    {kFactsIoctl, 0, facts},
    {FS_IOC_GETFLAGS, 0, get_file_flags},
    {FS_IOC_SETFLAGS, sizeof(std::uint32_t), set_file_flags},
    {FS_IOC_FSGETXATTR, 0, get_file_attributes},
    {FS_IOC_FSSETXATTR, sizeof(fsxattr), set_file_attributes},
    {kReconfigureIoctl, sizeof(ReconfigureRequest), reconfigure},
    {kDropCachesIoctl, 0, drop_caches},
    {kScrubIoctl, sizeof(ScrubMessage), scrub},
    {kStatsIoctl, sizeof(StatsMessage), numbers},
    {FITRIM, sizeof(fstrim_range), trim},
    {FS_IOC_GETFSLABEL, 0, get_label},
    {FS_IOC_SETFSLABEL, FSLABEL_MAX, set_label},
    {kGrowIoctl, sizeof(GrowMessage), grow},
    {kRemoveTreeIoctl, 0, remove_tree},
    {kCloneIoctl, sizeof(CloneRequest), clone},
    {kClonedIoctl, 0, cloned},
    {kSnapshotIoctl, 0, snapshot},
    {kSnapshotSizesIoctl, 0, snapshot_sizes},
    {kDiffWithIoctl, sizeof(DiffWithRequest), diff_with},
    {kDiffIoctl, sizeof(DiffMessage), diff},
    {kImportIoctl, sizeof(ImportRequest), import},
    {kImportedIoctl, sizeof(ImportedMessage), imported},
    {kChangesIoctl, sizeof(ChangesMessage), changes},
    {kRollBackToIoctl, sizeof(RollBackRequest), roll_back_to},
    {kRollBackIoctl, sizeof(RollBackMessage), roll_back},
};

}  // namespace

void ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void*, fuse_file_info*, unsigned, const void* in,
           std::size_t in_size, std::size_t) {
  for (const Command& known : kCommands) {
    if (known.number != command) continue;
    if (in_size < known.input) break;
    return known.answer(req, Ino{ino}, {static_cast<const std::byte*>(in), known.input});
  }
  fuse_reply_err(req, ENOTTY);
}

}  // namespace lsmfs

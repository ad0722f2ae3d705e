// lsmfs send: writes a snapshot, or what differs from another one, as a stream that lsmfs receive makes the same of elsewhere.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "cli/transfer/beneath.h"
#include "cli/transfer/changes.h"
#include "cli/transfer/frames.h"
#include "cli/transfer/sender.h"
#include "cli/transfer/shown_progress.h"
#include "cli/transfer/snapshot_ids.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

struct SentSnapshot {
  std::string path;
  NamedSnapshot named;
  Fd root;
};

// The context of an error is a whole message.
Result<SentSnapshot> sent_snapshot(const std::string& given) {
  SentSnapshot snapshot{.path = without_trailing_slashes(given), .named = {}, .root = {}};
  const std::string& path = snapshot.path;
  if (const auto why = wrong_source(path, "name a snapshot", "use tar"); !why.empty()) return make_error(EINVAL, why);
  auto id = id_of_snapshot(path);
  if (!id) {
    const int code = id.error().code;
    if (code == EINVAL || code == ENOTTY) return make_error(code, fmt::format("{}: is not a snapshot; take a snapshot of it first: lsmfs snapshot {}", path, path));
    return make_error(code, explain(path, make_error(code, "")));
  }
  snapshot.named = {.id = id->id, .name = snapshot_around(path)};
  if (snapshot.named.name.empty()) snapshot.named.name = last_name_of(absolute_path(path));
  snapshot.root = Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!snapshot.root) return make_error(errno, explain(path, make_error(errno, "")));
  return snapshot;
}

// Standard output, in larger pieces than records are. A pipe is made to hold many of them, so that neither side waits for the other for long.
class Output {
 public:
  Output() { (void)fcntl(STDOUT_FILENO, F_SETPIPE_SZ, static_cast<int>(MiB)); }  // as much as users may
  Result<void> write(std::string_view bytes) {
    held_ += bytes;
    return held_.size() < kHeldMost ? Result<void>() : flush();
  }
  Result<void> flush() {
    for (std::string_view left = held_; !left.empty();) {
      const ssize_t written = ::write(STDOUT_FILENO, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return make_error(errno, fmt::format("stdout: {}", std::strerror(errno)));
      left.remove_prefix(static_cast<std::size_t>(written));
    }
    held_.clear();
    return {};
  }

 private:
  static constexpr std::size_t kHeldMost = 64 * KiB;
  std::string held_;
};

BothSides::Look look_below(const Fd& root, const std::string& name) {
  return [&root, name](const std::string& path) -> Result<std::optional<struct stat>> {
    struct stat facts {};
    const auto directory = open_beneath(root, parent_of(path), O_PATH | O_DIRECTORY);
    const int failed = !directory ? directory.error().code : fstatat(directory->get(), last_name_of(path).c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;
    if (failed == ENOENT || failed == ENOTDIR) return std::optional<struct stat>();
    if (failed != 0) return make_error(failed, fmt::format("{}: {}", path_of_child(name, path), std::strerror(failed)));
    return std::optional(facts);
  };
}

std::string explain_comparing(const std::string& from, const std::string& to, const Error& error) {
  switch (error.code) {
    case EXDEV: return fmt::format("{}: is in another file system than {}", to, from);
    case EPERM: return fmt::format("{}: only root, who mounted it and the owner of both snapshots may send what differs from {}", to, from);
    case EINVAL: case ENOTTY: return to + ": is mounted by a version that does not know this; unmount it, and mount it again";
    case ESRCH: return to + ": the daemon does not see this process, which is in another process namespace; run it where the mount was made";
    case ENAMETOOLONG: return to + ": a path below it is too long to be compared; send all of it, without -i";
    case EIO: return to + ": something in it is damaged or cannot be read; see the log, and lsmfs scrub";
    case EPROTO: return fmt::format("{}: {}", to, error.context);
    default: return explain(to, make_error(error.code, ""));
  }
}

Result<ChangePlan> plan_between(const SentSnapshot& base, const SentSnapshot& snapshot) {
  const auto explained = [&](const Error& error) { return make_error(error.code, explain_comparing(base.path, snapshot.path, error)); };
  const auto differences = differences_in_mount(base.path, snapshot.path, OneSided::as_one, Exactness::all);
  if (!differences) return explained(differences.error());
  BothSides sides{.base = look_below(base.root, base.path), .snapshot = look_below(snapshot.root, snapshot.path), .base_links = {}, .snapshot_links = {}};
  for (const bool of_base : {true, false}) {
    auto links = linked_names_in_mount(of_base ? base.path : snapshot.path);
    if (!links) return explained(links.error());
    (of_base ? sides.base_links : sides.snapshot_links) = *std::move(links);
  }
  return plan_changes(*differences, sides);
}

// What lies between the blocks that both have.
Result<std::vector<FileRange>> changed_ranges(const AskSameBlocks& common, const BothSides::Look& look, const std::string& old_path, const std::string& path) {
  LSMFS_ASSIGN(const auto facts, look(path));
  auto same = common(old_path, path);
  if (!same || !facts) return make_error(same ? ENOENT : same.error().code, fmt::format("{}: {}", path, std::strerror(same ? ENOENT : same.error().code)));
  std::vector<FileRange> ranges;
  std::uint64_t at = 0;
  const auto size = static_cast<std::uint64_t>(facts->st_size);
  same->push_back({.first = BlockIndex{div_up(size, kBlockSize)}, .count = 0});
  for (const SameBlocks& blocks : *same) {
    const std::uint64_t begin = blocks.first.v * kBlockSize;
    if (begin > at) ranges.push_back({.offset = at, .count = begin - at});
    at = begin + blocks.count * kBlockSize;
  }
  return ranges;
}

// Where the stream goes on. The context of an error is a whole message.
Result<StreamPoint> point_of(const SendArguments& arguments, const StreamOf& of) {
  if (!arguments.resume) return StreamPoint{.records = 0, .chain = chain_of(of)};
  const auto token = parse_token(*arguments.resume);
  if (!token) return make_error(EINVAL, "--resume: is no token; lsmfs receive -t prints it");
  if (token->of.snapshot.id != of.snapshot.id) {
    return make_error(EINVAL, fmt::format("--resume: the token is of the snapshot {} of {}; name that", token->of.snapshot.name, time_in_utc(token->of.snapshot.id.made)));
  }
  if (token->of.base.has_value() != of.base.has_value() || (of.base && of.base->id != token->of.base->id)) {
    return make_error(EINVAL, token->of.base ? fmt::format("--resume: the token is of a stream from the snapshot {} on; name that by -i", token->of.base->name) : "--resume: the token is of a complete stream; leave out -i");
  }
  if (token->of.without_holes != of.without_holes) {
    return make_error(EINVAL, fmt::format("--resume: the stream was sent from a mount {} -o writeback, so its records are others; mount it so again, or send all once more", token->of.without_holes ? "with" : "without"));
  }
  return token->from;
}

// The context of an error is a whole message.
Result<void> send_stream(const SendArguments& arguments) {
  LSMFS_ASSIGN(const SentSnapshot snapshot, sent_snapshot(arguments.snapshot));
  std::optional<SentSnapshot> base;
  if (arguments.from) {
    LSMFS_ASSIGN(base, sent_snapshot(*arguments.from));
    if (base->named.id == snapshot.named.id) return make_error(EINVAL, snapshot.path + ": is the snapshot that is to be its base; name an earlier one by -i");
  }
  const auto mount = streamed_mount(snapshot.path);
  if (!mount) return make_error(mount.error().code, explain(snapshot.path, mount.error()));
  StreamOf of{.snapshot = snapshot.named, .base = std::nullopt, .without_holes = mount->hides_holes};
  if (base) of.base = base->named;
  LSMFS_ASSIGN(const StreamPoint from, point_of(arguments, of));
  if (arguments.resume) of = parse_token(*arguments.resume)->of;  // names may have changed since
  std::optional<ChangePlan> plan;
  if (base) {
    LSMFS_ASSIGN(plan, plan_between(*base, snapshot));
  }
  Output output;
  const StreamWriter::Sink sink = [&](std::string_view bytes) { return output.write(bytes); };
  StreamWriter writer(sink, {.of = of, .from = from});
  ShownProgress progress(snapshot.path, arguments.quiet);
  Sender sender(snapshot.root, snapshot.path, writer, [&](std::uint64_t bytes) { progress.tell(bytes); });
  LSMFS_TRY(writer.start());
  if (plan) {
    const auto common = same_blocks_in_mount(base->path, snapshot.path);
    if (!common) return make_error(common.error().code, explain_comparing(base->path, snapshot.path, common.error()));
    const auto sizes = look_below(snapshot.root, snapshot.path);
    LSMFS_TRY(sender.send_changes(*plan, [&](const std::string& old_path, const std::string& path) { return changed_ranges(*common, sizes, old_path, path); }));
  } else {
    LSMFS_TRY(sender.send_all());
  }
  if (writer.records() < from.records) return make_error(EINVAL, "--resume: the token is of a longer stream; was it given by another version?");
  return output.flush();
}

}  // namespace

int send(const SendArguments& arguments) {
  if (isatty(STDOUT_FILENO) != 0) return report({kFailure, "stdout: is a terminal; send the stream to a file or a pipe, as in: lsmfs send SNAPSHOT | ssh HOST lsmfs receive DIR"});
  const auto sent = send_stream(arguments);
  return sent ? kOk : report({kFailure, sent.error().context});
}

}  // namespace lsmfs::cli

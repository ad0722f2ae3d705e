// The side of who asks.
#include "lsmfs/control.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "fuse/control/stats_codec.h"
#include "lsmfs/clock.h"

namespace lsmfs {
namespace {

// ENOTTY for devices, FIFOs and sockets, whose requests of the same number would be others.
Result<Fd> open_on_mount(const std::string& path) {
  // O_NONBLOCK, so that a FIFO does not hold us up.
  Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat facts {};
  if (!fd || fstat(fd.get(), &facts) != 0) return make_error(errno, path);
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return make_error(ENOTTY, path);
  return fd;
}

Result<Fd> open_directory(const std::string& path, struct stat& facts) {
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd || fstat(fd.get(), &facts) != 0) return make_error(errno, path);
  return fd;
}

// `data`: what the request takes or gives, or nothing.
Result<void> mount_ioctl(const Fd& fd, const std::string& path, unsigned long request, void* data) {
  if (::ioctl(fd.get(), request, data) != 0) return make_error(errno, path);
  return {};
}

Result<void> mount_ioctl(const std::string& path, unsigned long request, void* data = nullptr) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  return mount_ioctl(fd, path, request, data);
}

// Asks again as long as it is told that others do (EBUSY), and after a signal that has not ended this process, as one that stops it for a while.
template <class Ask>
Result<void> ask_in_turn(const Ask& ask) {
  constexpr auto kAskAgain = std::chrono::milliseconds(20);
  for (;;) {
    auto asked = ask();
    const int code = asked ? 0 : asked.error().code;
    if (code != EBUSY && code != EINTR) return asked;
    if (code == EBUSY) system_clock().sleep(kAskAgain);
  }
}

// Whether the kernel itself lets nobody write there.
bool is_read_only(const Fd& fd) {
  struct statvfs facts {};
  return fstatvfs(fd.get(), &facts) == 0 && (facts.f_flag & ST_RDONLY) != 0;
}

}  // namespace

Result<std::string> query_mount(const std::string& path) {
  std::string json(kFactsMax + 1, '\0');
  const auto asked = mount_ioctl(path, kFactsIoctl, json.data());
  json.resize(json.find('\0'));
  // What other file systems say of a request that they do not know, or make of it.
  int code = asked ? 0 : asked.error().code;
  if (code == EINVAL || code == EOPNOTSUPP || code == ENOSYS || (code == 0 && !json.starts_with('{'))) code = ENOTTY;
  if (code != 0) return make_error(code, path);
  return json;
}

Result<void> reconfigure_mount(const std::string& mount_point, const MountSettings& settings) {
  ReconfigureRequest request = to_request(settings);
  return mount_ioctl(mount_point, kReconfigureIoctl, &request);
}

Result<void> drop_caches_of_mount(const std::string& path) { return mount_ioctl(path, kDropCachesIoctl); }

Result<void> scrub_mount(const std::string& path, const std::function<bool(const ScrubStep&)>& go_on) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  for (ScrubMessage message; !position_of(message).done();) {
    LSMFS_TRY(mount_ioctl(fd, path, kScrubIoctl, &message));
    if (!go_on(step_of(message))) return make_error(EINTR, path);
  }
  return {};
}

Result<MountStats> stats_of_mount(const std::string& path) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  MountStats stats;
  std::uint32_t part = 0;
  do {
    StatsMessage message;
    message.version = kStatsVersion;
    message.part = part;
    LSMFS_TRY(mount_ioctl(fd, path, kStatsIoctl, &message));
    LSMFS_TRY(take_part(message, part, stats));
    part = message.part;
  } while (part != 0);
  return stats;
}

Result<ByteCount> trim_mount(const std::string& path) {
  fstrim_range range{0, UINT64_MAX, 0};
  LSMFS_TRY(mount_ioctl(path, FITRIM, &range));
  return ByteCount{range.len};
}

Result<void> label_mount(const std::string& path, const std::string& label) {
  char text[FSLABEL_MAX] = {};
  if (label.size() >= sizeof text) return make_error(EINVAL, path);
  label.copy(text, label.size());
  return mount_ioctl(path, FS_IOC_SETFSLABEL, text);
}

Result<void> remove_tree_of_mount(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return make_error(errno, path);
  return mount_ioctl(fd, path, kRemoveTreeIoctl, nullptr);
}

Result<void> clone_in_mount(const std::string& source, const std::string& parent, const std::string& name) {
  const Fd from(open(source.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat of_source {}, of_parent {};
  if (!from || fstat(from.get(), &of_source) != 0) return make_error(errno, source);
  const Fd to(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!to || fstat(to.get(), &of_parent) != 0) return make_error(errno, parent);
  if (of_source.st_dev != of_parent.st_dev) return make_error(EXDEV, parent);
  CloneRequest request{.parent = of_parent.st_ino};
  if (name.size() >= sizeof request.name) return make_error(ENAMETOOLONG, name);
  name.copy(request.name, name.size());
  if (syncfs(from.get()) != 0) return make_error(errno, source);
  LSMFS_TRY(mount_ioctl(from, source, kCloneIoctl, &request));
  const int failed = mkdirat(to.get(), name.c_str(), 0700) != 0 ? errno : 0;
  ClonedMessage cloned;
  LSMFS_TRY(mount_ioctl(from, source, kClonedIoctl, &cloned));
  if (cloned.outcome == ClonedMessage::kDenied) return make_error(EPERM, source);
  // No ordinary directory is made among snapshots, so there a wish that is forgotten is EROFS.
  const bool forgotten = failed == EROFS && cloned.outcome == ClonedMessage::kOrdinary && of_parent.st_ino == kSnapshotsIno.v && !is_read_only(to);
  if (failed != 0 && !forgotten) return make_error(failed, parent + "/" + name);
  if (cloned.outcome == ClonedMessage::kCopy) return {};
  if (!forgotten) (void)unlinkat(to.get(), name.c_str(), AT_REMOVEDIR);
  return make_error(EAGAIN, source);
}

Result<SentImport> SentImport::begin(const std::string& parent, const std::string& name) {
  ImportRequest request;
  if (name.size() >= sizeof request.name) return make_error(ENAMETOOLONG, name);
  name.copy(request.name, name.size());
  request.umask = umask(0);
  umask(request.umask);
  Fd parent_fd(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat facts {};
  if (!parent_fd) return make_error(errno, parent);
  if (fstatat(parent_fd.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) return make_error(EEXIST, parent + "/" + name);
  // What is written must come to the daemon as it is, and in order.
  Fd file(openat(parent_fd.get(), ".", O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600));
  if (!file) return make_error(errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL ? ENOTTY : errno, parent);
  LSMFS_TRY(mount_ioctl(file, parent, kImportIoctl, &request));
  return SentImport(std::move(parent_fd), std::move(file), parent, name);
}

Result<void> SentImport::send(std::string_view stream) {
  // Of a request, wherever in a page it begins.
  constexpr std::size_t kAtOnce = MiB - 4 * KiB;
  while (!stream.empty()) {
    const ssize_t sent = pwrite(file_.get(), stream.data(), std::min(stream.size(), kAtOnce), static_cast<off_t>(sent_));
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return make_error(sent < 0 ? errno : EIO, parent_);
    sent_ += static_cast<std::uint64_t>(sent);
    stream.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<ImportCounts> SentImport::ask(std::string_view name, std::optional<Error>& refused) {
  ImportedMessage message;
  name.copy(message.name, name.size());
  LSMFS_TRY(mount_ioctl(file_, parent_, kImportedIoctl, &message));
  if (message.code != 0) {
    refused = make_error(static_cast<int>(message.code), std::string(message.context, std::min<std::size_t>(message.size, sizeof message.context)));
  }
  return ImportCounts{.files = message.files, .directories = message.directories, .others = message.others, .bytes = message.bytes};
}

Result<std::optional<Error>> SentImport::refusal() {
  std::optional<Error> refused;
  LSMFS_TRY(ask("", refused));
  return refused;
}

Result<ImportCounts> SentImport::finish(bool& in_tree) {
  std::optional<Error> refused;
  LSMFS_ASSIGN(const ImportCounts counts, ask(name_, refused));
  in_tree = refused.has_value();
  if (refused) return *refused;
  const std::string path = parent_ + "/" + name_;
  const int failed = mkdirat(parent_fd_.get(), name_.c_str(), 0700) != 0 ? errno : 0;
  ClonedMessage named;
  LSMFS_TRY(mount_ioctl(file_, parent_, kClonedIoctl, &named));
  if (failed != 0) return make_error(failed, path);
  if (named.outcome != ClonedMessage::kCopy) {
    (void)unlinkat(parent_fd_.get(), name_.c_str(), AT_REMOVEDIR);
    return make_error(EAGAIN, path);
  }
  if (fsync(file_.get()) != 0) return make_error(errno, path);
  return counts;
}

Result<void> roll_back_in_mount(const std::string& directory, const std::string& snapshot, RollBack what) {
  struct stat of_directory {}, of_snapshot {};
  LSMFS_ASSIGN(const Fd to, open_directory(directory, of_directory));
  LSMFS_ASSIGN(const Fd from, open_directory(snapshot, of_snapshot));
  if (of_directory.st_dev != of_snapshot.st_dev) return make_error(EXDEV, directory);
  if (is_read_only(to)) return make_error(EROFS, directory);
  RollBackRequest request{.directory = of_directory.st_ino};
  LSMFS_TRY(mount_ioctl(from, snapshot, kRollBackToIoctl, &request));
  RollBackMessage message{.only_asks = what == RollBack::only_asks};
  return mount_ioctl(to, directory, kRollBackIoctl, &message);
}

Result<SnapshotInfo> snapshot_info_of(const std::string& path) {
  SnapshotMessage message;
  LSMFS_TRY(mount_ioctl(path, kSnapshotIoctl, &message));
  return snapshot_of(message);
}

Result<SnapshotSizes> snapshot_sizes_of(const std::string& path) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  SnapshotSizesMessage message;
  LSMFS_TRY(ask_in_turn([&] { return mount_ioctl(fd, path, kSnapshotSizesIoctl, &message); }));
  return SnapshotSizes{.alone = ByteCount{message.alone}, .refers = ByteCount{message.refers}};
}

namespace {

// One directory's differences from another one.
class Comparison {
 public:
  static Result<Comparison> of(const std::string& a, const std::string& b) {
    Comparison opened(a, b);
    struct stat of_a {}, of_b {};
    LSMFS_ASSIGN(opened.from_, open_directory(a, of_a));
    LSMFS_ASSIGN(opened.to_, open_directory(b, of_b));
    if (of_a.st_dev != of_b.st_dev) return make_error(EXDEV, b);
    opened.request_.directory = of_b.st_ino;
    if (syncfs(opened.from_.get()) != 0) return make_error(errno, a);
    return opened;
  }
  Result<DifferencesStep> step(const DifferencesAsked& asked) {
    const auto message = to_diff_message(encode(asked));
    if (!message) return make_error(ENAMETOOLONG, a_);
    DiffMessage answer;
    LSMFS_TRY(ask_in_turn([&]() -> Result<void> {
      if (auto noted = mount_ioctl(from_, a_, kDiffWithIoctl, &request_); !noted) return noted;
      answer = *message;
      return mount_ioctl(to_, b_, kDiffIoctl, &answer);
    }));
    auto found = decode_step(bytes_of(answer));
    if (!found) return make_error(EPROTO, "what it says of differences is not understood");
    return *std::move(found);
  }

 private:
  Comparison(std::string a, std::string b) : a_(std::move(a)), b_(std::move(b)) {}
  std::string a_, b_;
  Fd from_, to_;
  DiffWithRequest request_;
};

}  // namespace

Result<std::vector<Difference>> differences_in_mount(const std::string& a, const std::string& b, OneSided one_sided, Exactness exactness) {
  LSMFS_ASSIGN(Comparison compared, Comparison::of(a, b));
  const auto ask = [&](DifferencesAsked asked) {
    asked.exact = exactness == Exactness::all;
    return compared.step(asked);
  };
  return find_differences(ask, one_sided);
}

Result<std::vector<LinkedName>> linked_names_in_mount(const std::string& directory) {
  LSMFS_ASSIGN(Comparison itself, Comparison::of(directory, directory));
  std::vector<LinkedName> names;
  for (DifferencesAsked asked{.a = std::nullopt, .b = "", .from = {}, .only_linked = true};;) {
    LSMFS_ASSIGN(DifferencesStep step, itself.step(asked));
    for (FoundDifference& each : step.found) names.push_back({.path = std::move(each.path), .file = each.number});
    if (step.ended) return names;
    asked.from = std::move(step.next);
  }
}

Result<AskSameBlocks> same_blocks_in_mount(const std::string& a, const std::string& b) {
  LSMFS_ASSIGN(Comparison compared, Comparison::of(a, b));
  return AskSameBlocks([shared = std::make_shared<Comparison>(std::move(compared))](const std::string& in_a, const std::string& in_b) -> Result<std::vector<SameBlocks>> {
    std::vector<SameBlocks> same;
    for (DifferencesAsked asked{.a = in_a, .b = in_b, .from = {}, .only_data = true};;) {
      LSMFS_ASSIGN(DifferencesStep step, shared->step(asked));
      same.insert(same.end(), step.same.begin(), step.same.end());
      if (step.ended) return same;
      asked.from = std::move(step.next);
    }
  });
}

Result<Changes> changes_in_mount(const std::string& path, const std::optional<ChangesToken>& since) {
  struct stat facts {};
  LSMFS_ASSIGN(const Fd fd, open_directory(path, facts));
  if (syncfs(fd.get()) != 0) return make_error(errno, path);
  return find_changes([&](const ChangesAsked& asked) -> Result<ChangesStep> {
    auto message = to_changes_message(encode(asked));
    if (!message) return make_error(EPROTO, "what is asked is too long");
    LSMFS_TRY(ask_in_turn([&] { return mount_ioctl(fd, path, kChangesIoctl, &*message); }));
    auto step = decode_changes_step(bytes_of(*message));
    if (!step) return make_error(EPROTO, "what it says of changes is not understood");
    return *std::move(step);
  }, since);
}

Result<ByteCount> grow_mount(const std::string& path, std::optional<ByteCount> size) {
  GrowMessage message{size ? size->v : 0};
  LSMFS_TRY(mount_ioctl(path, kGrowIoctl, &message));
  return ByteCount{message.size};
}

}  // namespace lsmfs

#include "cli/transfer/receiving.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "cli/messages.h"
#include "cli/transfer/removing.h"
#include "cli/transfer/snapshot_ids.h"

namespace lsmfs::cli {
namespace {

constexpr const char* kState = "state";
constexpr const char* kNewState = "state.new";
constexpr const char* kMoved = "moved";
constexpr std::size_t kStateMost = 2 * MiB;

std::optional<ReceivingState> read_state(const Fd& directory) {
  const Fd file(openat(directory.get(), kState, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string bytes(kStateMost, '\0');
  const ssize_t size = read(file.get(), bytes.data(), bytes.size());
  if (size <= 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(size));
  return decode_state(bytes);
}

Fd open_directory_in(const Fd& directory, const std::string& name) { return Fd(openat(directory.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)); }

}  // namespace

std::string explain_receiving(const std::string& path, int code) {
  if (code == ENOSPC || code == EDQUOT) return path + ": no space left on the device";
  return explain(path, make_error(code, code == EINVAL ? std::strerror(code) : ""));  // of others it adds that by itself
}

std::string encode_state(const ReceivingState& state) {
  std::string out;
  put_string(out, encode_payload(BeginRecord{.of = state.of, .from = state.at}));
  put_u8(out, state.has_node);
  put_string(out, state.node);
  put_varint(out, state.bytes);
  put_le64(out, checksum(out));
  return out;
}

std::optional<ReceivingState> decode_state(std::string_view bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return std::nullopt;
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof(std::uint64_t));
  if (Reader(bytes.substr(body.size())).le64() != checksum(body)) return std::nullopt;
  Reader in(body);
  const auto begin = decode_payload(record_type(BeginRecord()), in.string());
  ReceivingState state;
  state.has_node = in.u8() != 0;
  state.node = in.string();
  state.bytes = in.varint();
  if (!begin || !in.ok() || !in.at_end() || (!state.node.empty() && !is_path_below(state.node))) return std::nullopt;
  state.of = std::get<BeginRecord>(*begin).of;
  state.at = std::get<BeginRecord>(*begin).from;
  return state;
}

std::string Receiving::tree_path() const { return fmt::format("/proc/self/fd/{}/{}/{}", directory_.get(), is_whole_ ? kReceivedWhole : kReceivedPart, kReceivedTree); }

Result<void> Receiving::call_whole() {
  if (renameat(directory_.get(), kReceivedPart.data(), directory_.get(), kReceivedWhole.data()) != 0) return make_error(errno, path_);
  is_whole_ = true;
  return {};
}

Result<Receiving> Receiving::open(const std::string& parent, const StreamOf& of, const std::function<Result<void>(const std::string& path)>& make_tree) {
  const std::string name = receiving_name(of.snapshot.id);
  Receiving made;
  made.path_ = fmt::format("{}{}{}", parent, parent.ends_with('/') ? "" : "/", name);
  const auto failed = [&](int code) { return make_error(code, explain_receiving(made.path_, code)); };
  made.parent_ = Fd(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!made.parent_) return make_error(errno, explain_receiving(parent, errno));
  for (bool again = false;; again = true) {
    const bool is_new = mkdirat(made.parent_.get(), name.c_str(), 0700) == 0;
    if (!is_new && errno != EEXIST) {
      if (errno == EACCES || errno == EROFS || errno == EPERM) return make_error(errno, fmt::format("{}: {}", parent, errno == EROFS ? "is mounted read-only, or a snapshot" : "no permission to make a directory there"));
      return failed(errno);
    }
    made.directory_ = open_directory_in(made.parent_, name);
    struct stat facts {};
    if (!made.directory_ || fstat(made.directory_.get(), &facts) != 0) return failed(errno);
    if (facts.st_uid != geteuid()) return make_error(EACCES, made.path_ + ": belongs to somebody else; receive it elsewhere, or remove that");
    if (flock(made.directory_.get(), LOCK_EX | LOCK_NB) != 0) return make_error(EBUSY, made.path_ + ": the same snapshot is being received there by another process");
    (void)fchmod(made.directory_.get(), 0700);  // of others there is nothing in it yet
    const auto state = is_new ? std::nullopt : read_state(made.directory_);
    if (state) {
      if (state->of != of) return make_error(EEXIST, made.path_ + ": keeps a part of another stream of this snapshot; go on with that, or give it up: lsmfs rm -r");
      made.state_ = *state;
      break;
    }
    if (is_new) {
      if (mkdirat(made.directory_.get(), kMoved, 0700) != 0 || mkdirat(made.directory_.get(), kReceivedPart.data(), 0700) != 0) return failed(errno);
      if (auto tree = make_tree(made.tree_path()); !tree) {
        (void)remove_all(made.parent_, name);
        return tree.error();
      }
      made.state_ = {.of = of, .at = {.records = 0, .chain = chain_of(of)}, .node = {}};
      break;
    }
    // What did not get as far as to a state has nothing of the stream.
    if (again) return failed(EEXIST);
    if (auto removed = remove_all(made.parent_, name); !removed) return failed(removed.error().code);
  }
  // That of which no snapshot could be made is done once more from the last record on.
  if (renameat(made.directory_.get(), kReceivedWhole.data(), made.directory_.get(), kReceivedPart.data()) != 0 && errno != ENOENT) return failed(errno);
  made.tree_ = open_directory_in(made.directory_, fmt::format("{}/{}", kReceivedPart, kReceivedTree));
  made.moved_ = open_directory_in(made.directory_, kMoved);
  if (!made.tree_ || !made.moved_) return failed(errno);
  if (auto kept = made.keep(made.state_); !kept) {
    const int code = kept.error().code;
    if (made.state_.at.records == 0) (void)made.remove();
    return failed(code);
  }
  return made;
}

Result<void> Receiving::keep(ReceivingState state) {
  if (failed_ != 0) return make_error(failed_, path_);
  if (auto kept = keep_now(state); !kept) {
    failed_ = kept.error().code;
    return kept;
  }
  state_ = std::move(state);
  return {};
}

Result<void> Receiving::keep_now(const ReceivingState& state) {
  // Mappings and pages that the kernel has go to the daemon first, and all that the daemon has goes to the device with the state: its log is in
  // the order of operations.
  if (syncfs(directory_.get()) != 0) return make_error(errno, path_);
  const std::string bytes = encode_state(state);
  const Fd file(openat(directory_.get(), kNewState, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return make_error(errno, path_);
  const ssize_t written = write(file.get(), bytes.data(), bytes.size());
  if (written != static_cast<ssize_t>(bytes.size())) return make_error(written < 0 ? errno : ENOSPC, path_);
  if (fsync(file.get()) != 0 || renameat(directory_.get(), kNewState, directory_.get(), kState) != 0 || fsync(directory_.get()) != 0) return make_error(errno, path_);
  return {};
}

Result<void> Receiving::remove() {
  // Without it the rest is removed by whoever comes next, also when this ends halfway.
  if (unlinkat(directory_.get(), kState, 0) != 0 && errno != ENOENT) return make_error(errno, path_);
  tree_.reset();
  moved_.reset();
  LSMFS_TRY(remove_all(parent_, receiving_name(state_.of.snapshot.id)));
  if (fsync(parent_.get()) != 0) return make_error(errno, path_);
  return {};
}

Result<std::vector<BeginRecord>> unfinished_in(const std::string& parent) {
  const Fd directory(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return make_error(errno, parent);
  std::vector<BeginRecord> found;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(parent, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    if (!parse_receiving_name(name)) continue;
    const Fd each = open_directory_in(directory, name);
    const auto state = each ? read_state(each) : std::nullopt;
    if (state) found.push_back({.of = state->of, .from = state->at});
  }
  if (failed) return make_error(failed.value(), parent);
  return found;
}

}  // namespace lsmfs::cli

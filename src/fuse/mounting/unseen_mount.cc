#include "fuse/mounting/unseen_mount.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "fuse/mounting/attachment.h"
#include "lsmfs/channel.h"
#include "fuse/mounting/kernel_mount.h"

namespace lsmfs {
namespace {

// A message is an errno value or 0 in four bytes, then the error's context; with it comes the descriptor.
void send_result(int channel, const Result<Fd>& done) {
  std::string message;
  put_le32(message, done ? 0 : static_cast<std::uint32_t>(done.error().code));
  if (!done) message += done.error().context.substr(0, kMessageMax - message.size());
  (void)send_message(channel, message, done ? done->get() : -1);
}

// What is mounted or unmounted by others goes on to come here, so that nothing of theirs is kept.
Result<void> leave_mount_namespace() {
  if (unshare(CLONE_NEWNS) != 0) return make_error(errno, "unshare");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return make_error(errno, "mount namespace");
  return {};
}

Result<Fd> mount_unseen(const MountOptions& options) {
  LSMFS_TRY(leave_mount_namespace());
  return kernel_mount(options);
}

Result<Fd> part_shown(const MountOptions& options) {
  LSMFS_ASSIGN(const Fd part, open_part(options.mount_point, options.shows));
  return detached_copy(part, options.kernel_options, options.mount_point + "/" + options.shows);
}

// All but the two, and those for words.
void close_others(const Fd& one, const Fd& other) {
  const auto first = static_cast<unsigned>(std::min(one.get(), other.get())), last = static_cast<unsigned>(std::max(one.get(), other.get()));
  if (first > 3) close_range(3, first - 1, 0);
  if (last > first + 1) close_range(first + 1, last - 1, 0);
  close_range(last + 1, ~0u, 0);
}

[[noreturn]] void find(const MountOptions& options, const Fd& channel, Fd& until_found) {
  close_others(channel, until_found);
  {
    const auto device = mount_unseen(options);
    send_result(channel.get(), device);
    if (!device) _exit(0);
  }
  send_result(channel.get(), part_shown(options));
  // Before the end, which may unmount: who waits for this hears of it before the session ends.
  until_found.reset();
  _exit(0);
}

}  // namespace

Result<UnseenMount> UnseenMount::begin(const MountOptions& options) {
  Fd place(open(options.mount_point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place) return make_error(errno, options.mount_point);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return make_error(errno, "socketpair");
  Fd ours(ends[0]), theirs(ends[1]);
  if (pipe2(ends, O_CLOEXEC) != 0) return make_error(errno, "pipe");
  Fd found(ends[0]);
  Fd until_found(ends[1]);
  const pid_t process = fork();
  if (process < 0) return make_error(errno, "fork");
  if (process == 0) find(options, theirs, until_found);
  return UnseenMount(options.mount_point, std::move(place), std::move(ours), std::move(found), process);
}

UnseenMount::UnseenMount(UnseenMount&& other) noexcept
    : mount_point_(std::move(other.mount_point_)), place_(std::move(other.place_)), channel_(std::move(other.channel_)),
      found_(std::move(other.found_)), process_(std::exchange(other.process_, 0)) {}

UnseenMount::~UnseenMount() {
  if (process_ > 0) kill(process_, SIGKILL);
  wait_for_end();
}

Result<Fd> UnseenMount::device() { return receive(); }

Result<void> UnseenMount::show() {
  LSMFS_ASSIGN(const Fd found, receive());
  LSMFS_TRY(attach(found, place_, mount_point_));
  // Not after an error: what it has mounted is then unmounted by its end, for which it may have to be served.
  wait_for_end();
  return {};
}

Result<Fd> UnseenMount::receive() {
  auto message = receive_message(channel_.get());
  if (!message) return make_error(ESRCH, "the process that mounts");
  Reader reader(message->bytes);
  const auto code = static_cast<int>(reader.le32());
  if (!reader.ok()) return make_error(EPROTO, "the process that mounts");
  if (code != 0) return make_error(code, std::string(reader.rest()));
  return std::move(message->descriptor);
}

void UnseenMount::wait_for_end() {
  while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
}

}  // namespace lsmfs

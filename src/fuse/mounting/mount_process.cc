#include "fuse/mounting/mount_process.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lsmfs/channel.h"
#include "fuse/nearness/follower.h"
#include "lsmfs/mutex.h"

namespace lsmfs {
namespace {

// A request is one of these letters; after kDefer and kServe comes the number of a thread, in four bytes, after kKeepOff those
// of a processor and of the thread that is left alone. An answer is an errno value or 0 in four bytes, then the error's context;
// with it comes the descriptor of /dev/fuse, of the log, or of what tells when the part to be shown is found, if that was asked for. kEnd gets no answer.
constexpr char kMount = 'm', kTune = 't', kUnmount = 'u', kUnmountLazily = 'l', kOpenLog = 'o', kMayDefer = 'p', kDefer = 'd', kServe = 's',
               kKeepOff = 'k', kFound = 'f', kShow = 'w', kEnd = 'e';

Result<void> set_deferring(Mounter& mounter, std::string_view thread, bool defers, pid_t served) {
  Reader reader(thread);
  const auto number = static_cast<pid_t>(reader.le32());
  // Other processes are none of its business.
  if (!reader.ok() || number <= 0 || syscall(SYS_tgkill, served, number, 0) != 0) return make_error(ESRCH, "policy of a thread");
  return mounter.set_deferring(number, defers);
}

Result<void> keep_off(std::string_view processor_and_server, pid_t served) {
  Reader reader(processor_and_server);
  const auto processor = static_cast<int>(reader.le32());
  const auto server = static_cast<pid_t>(reader.le32());
  if (!reader.ok()) return make_error(EINVAL, "processors of threads");
  return lsmfs::keep_off(processor, server, served);
}

// `served`: the process that asks, also when it has ended since.
Result<Fd> perform(Mounter& mounter, std::string_view request, pid_t served) {
  const auto without_descriptor = [](const Result<void>& done) { return done ? Result<Fd>(Fd()) : Result<Fd>(done.error()); };
  switch (request[0]) {
    case kMount:
      return mounter.mount();
    case kFound:
      return mounter.found();
    case kShow:
      return without_descriptor(mounter.show());
    case kTune:
      mounter.tune();
      return Fd();
    case kUnmount:
    case kUnmountLazily:
      return without_descriptor(mounter.unmount(request[0] == kUnmountLazily));
    case kOpenLog:
      return mounter.open_log();
    case kMayDefer:
      return mounter.may_set_deferring() ? Result<Fd>(Fd()) : make_error(EPERM, "policy of a thread");
    case kDefer:
    case kServe:
      return without_descriptor(set_deferring(mounter, request.substr(1), request[0] == kDefer, served));
    case kKeepOff:
      return without_descriptor(keep_off(request.substr(1), served));
    default:
      return make_error(EINVAL, "mounting");
  }
}

std::string encode(const Result<Fd>& done) {
  std::string answer;
  put_le32(answer, done ? 0 : static_cast<std::uint32_t>(done.error().code));
  if (!done) answer += done.error().context.substr(0, kMessageMax - answer.size());
  return answer;
}

[[noreturn]] void serve(const MountOptions& options, Fd channel, pid_t served) {
  // It ends with the process that it serves, and not by a signal from a terminal or a service manager that is meant for both.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_IGN);
  prctl(PR_SET_NAME, kMounterName);
  if (chdir("/") != 0) {
    // then it stays where it is
  }
  // The device, above all, is that process's alone.
  const auto own = static_cast<unsigned>(channel.get());
  if (own > 3) close_range(3, own - 1, 0);
  close_range(own + 1, ~0u, 0);

  auto mounter = mounter_here(options);
  bool mounted = false;
  while (const auto request = receive_message(channel.get())) {
    const char letter = request->bytes[0];
    if (letter == kEnd) {
      mounter.reset();
      _exit(0);
    }
    // The descriptor goes out of this process with the answer: the mount must be dead when its daemon is.
    const auto done = perform(*mounter, request->bytes, served);
    if (letter == kMount) {
      mounted = done.has_value();
      // Not before: an automounter lets those of its own process group mount, and has all others wait for that.
      setsid();
    }
    if (!send_message(channel.get(), encode(done), done ? done->get() : -1)) break;
  }
  if (mounted) options.died();
  _exit(0);
}

class Apart final : public Mounter {
 public:
  Apart(Fd channel, pid_t process) : channel_(std::move(channel)), process_(process) {}
  ~Apart() override {
    (void)send_message(channel_.get(), std::string(1, kEnd));
    channel_.reset();
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

  Result<Fd> mount() override { return ask(kMount); }
  Result<Fd> found() override { return ask(kFound); }
  Result<void> show() override {
    LSMFS_TRY(ask(kShow));
    return {};
  }
  void tune() override { (void)ask(kTune); }
  Result<void> unmount(bool lazy) override {
    LSMFS_TRY(ask(lazy ? kUnmountLazily : kUnmount));
    return {};
  }
  Result<Fd> open_log() override { return ask(kOpenLog); }
  Result<void> set_deferring(pid_t thread, bool defers) override {
    LSMFS_TRY(ask(defers ? kDefer : kServe, {static_cast<std::uint32_t>(thread)}));
    return {};
  }
  bool may_set_deferring() override { return ask(kMayDefer).has_value(); }
  Result<void> keep_off(int processor, pid_t server) override {
    LSMFS_TRY(ask(kKeepOff, {static_cast<std::uint32_t>(processor), static_cast<std::uint32_t>(server)}));
    return {};
  }

 private:
  Result<Fd> ask(char letter, std::initializer_list<std::uint32_t> numbers = {}) {
    std::string request(1, letter);
    for (const std::uint32_t number : numbers) put_le32(request, number);
    const MutexLock lock(mutex_);
    const bool asked = send_message(channel_.get(), request);
    auto answer = asked ? receive_message(channel_.get()) : std::nullopt;
    if (!answer) return make_error(ESRCH, "the process that mounts and unmounts");
    Reader reader(answer->bytes);
    const auto code = static_cast<int>(reader.le32());
    if (!reader.ok()) return make_error(EPROTO, "the process that mounts and unmounts");
    if (code != 0) return make_error(code, std::string(reader.rest()));
    return std::move(answer->descriptor);
  }

  Mutex mutex_;
  Fd channel_ LSMFS_GUARDED_BY(mutex_);
  const pid_t process_;
};

}  // namespace

Result<std::unique_ptr<Mounter>> mounter_apart(const MountOptions& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return make_error(errno, "socketpair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t served = getpid(), process = fork();
  if (process < 0) return make_error(errno, "fork");
  if (process == 0) serve(options, std::move(theirs), served);
  return std::unique_ptr<Mounter>(std::make_unique<Apart>(std::move(ours), process));
}

}  // namespace lsmfs

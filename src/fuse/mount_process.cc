#include "fuse/mount_process.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <mutex>
#include <string>
#include <utility>

#include "fuse/channel.h"

namespace lsmfs {
namespace {

// A request is one of these letters. An answer is an errno value or 0 in four bytes, then the error's context; with it
// comes the descriptor of /dev/fuse, if that was asked for.
constexpr char kMount = 'm', kTune = 't', kUnmount = 'u', kUnmountLazily = 'l';

Result<Fd> perform(Mounter& mounter, char request) {
  const auto without_descriptor = [](const Result<void>& done) { return done ? Result<Fd>(Fd()) : Result<Fd>(done.error()); };
  switch (request) {
    case kMount:
      return mounter.mount();
    case kTune:
      mounter.tune();
      return Fd();
    case kUnmount:
    case kUnmountLazily:
      return without_descriptor(mounter.unmount(request == kUnmountLazily));
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

[[noreturn]] void serve(const MountOptions& options, Fd channel) {
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

  const auto mounter = mounter_here(options);
  while (const auto request = receive_message(channel.get())) {
    // The descriptor goes out of this process with the answer: the mount must be dead when its daemon is.
    const auto done = perform(*mounter, request->bytes[0]);
    if (!send_message(channel.get(), encode(done), done ? done->get() : -1)) break;
  }
  _exit(0);
}

class Apart final : public Mounter {
 public:
  Apart(Fd channel, pid_t process) : channel_(std::move(channel)), process_(process) {}
  ~Apart() override {
    channel_.reset();
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

  Result<Fd> mount() override { return ask(kMount); }
  void tune() override { (void)ask(kTune); }
  Result<void> unmount(bool lazy) override {
    LSMFS_TRY(ask(lazy ? kUnmountLazily : kUnmount));
    return {};
  }

 private:
  Result<Fd> ask(char request) {
    const std::lock_guard lock(mutex_);
    const bool asked = send_message(channel_.get(), {&request, 1});
    auto answer = asked ? receive_message(channel_.get()) : std::nullopt;
    if (!answer) return make_error(ESRCH, "the process that mounts and unmounts");
    Reader reader(answer->bytes);
    const auto code = static_cast<int>(reader.le32());
    if (!reader.ok()) return make_error(EPROTO, "the process that mounts and unmounts");
    if (code != 0) return make_error(code, std::string(reader.rest()));
    return std::move(answer->descriptor);
  }

  std::mutex mutex_;
  Fd channel_;
  const pid_t process_;
};

}  // namespace

Result<std::unique_ptr<Mounter>> mounter_apart(const MountOptions& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return make_error(errno, "socketpair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t process = fork();
  if (process < 0) return make_error(errno, "fork");
  if (process == 0) serve(options, std::move(theirs));
  return std::unique_ptr<Mounter>(std::make_unique<Apart>(std::move(ours), process));
}

}  // namespace lsmfs

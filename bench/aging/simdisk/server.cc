#include "simdisk/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "simdisk/files.h"

namespace lsmfs::simdisk {
namespace {

// A sleeping thread wakes up this much late or less, so it gets up earlier and watches the clock.
constexpr Nanos kWatch = std::chrono::microseconds(50);
constexpr int kRequestsAtOnce = 64;  // before other things are looked at again

// The data of a write begins here in its message. It has to begin on a page, so the message begins before one.
constexpr std::size_t kWriteHeaders = sizeof(fuse_in_header) + sizeof(fuse_write_in);
constexpr std::size_t kPage = 4096;
static_assert(kWriteHeaders < kPage);
constexpr std::size_t kBufferSize = kPage + kTransferMax;

timespec to_timespec(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::duration_cast<Nanos>(time.time_since_epoch()).count();
  return {since / 1'000'000'000, since % 1'000'000'000};
}

bool set_priority(int priority, int policy) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  return sched_setscheduler(0, policy, &parameters) == 0;
}

// On two busy CPUs, answers were 4 ms late without the priority.
void keep_time(const ServerOptions& options) {
  if (!set_priority(2, SCHED_FIFO | SCHED_RESET_ON_FORK)) {
    options.notice(make_error(errno, "no real-time priority, so answers are late while the processors are busy").message());
  }
  prctl(PR_SET_TIMERSLACK, 1UL);  // nanoseconds, of this thread
}

// Without those that it was started to ignore, as by nohup.
sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&signals, number);
  }
  return signals;
}

// Gives the descriptor of /dev/fuse that serves the new mount.
Result<int> mount_fuse(const ServerOptions& options) {
  const int fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return make_error(errno == EACCES || errno == EPERM ? EPERM : ENODEV, "/dev/fuse");
  const std::string data = fmt::format("fd={},rootmode={:o},user_id={},group_id={},default_permissions,allow_other",
                                       fd, S_IFDIR, getuid(), getgid());
  const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME;
  if (mount(options.source.c_str(), options.mount_point.c_str(), "fuse.simdisk", flags, data.c_str()) != 0) {
    const int reason = errno;
    close(fd);
    return make_error(reason, options.mount_point);
  }
  return fd;
}

// Whether a mount is still there whose connection is aborted.
bool is_dead_mount(const std::string& path) {
  const int before = errno;
  struct stat facts {};
  const bool dead = ::stat(path.c_str(), &facts) != 0 && (errno == ENOTCONN || errno == ECONNABORTED);
  errno = before;
  return dead;
}

class Server {
 public:
  Server(Disk& disk, Workers& workers, const ServerOptions& options)
      : disk_(disk), workers_(workers), options_(options), mounted_{disk, workers, buffers_, to_timespec(system_clock().wall())} {}
  ~Server() {
    workers_.drain();  // they answer requests of the session
    disk_.give_up();
    session_.reset();  // closes /dev/fuse: nobody waits for answers from here on, not even who unmounts
    if (unmounter_.joinable()) {
      unmounter_.join();
    } else if (fuse_ >= 0 && !gone_) {
      umount2(options_.mount_point.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
    }
  }

  Result<void> start() {
    const sigset_t signals = stop_signals();
    signals_ = Fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_) return make_error(errno, "signalfd");
    char name[] = "simdisk";
    char* argv[] = {name, nullptr};
    fuse_args args = FUSE_ARGS_INIT(1, argv);
    session_.reset(fuse_session_new(&args, &file_operations(), sizeof(fuse_lowlevel_ops), &mounted_));
    fuse_opt_free_args(&args);
    if (!session_) return make_error(ENOMEM, "libfuse session");
    LSMFS_ASSIGN(fuse_, mount_fuse(options_));
    if (fuse_session_mount(session_.get(), fmt::format("/dev/fd/{}", fuse_).c_str()) != 0) {
      close(std::exchange(fuse_, -1));
      umount2(options_.mount_point.c_str(), MNT_DETACH);
      return make_error(EIO, "libfuse does not take /dev/fuse");
    }
    return {};
  }

  Result<void> run() {
    bool ready = false;
    while (!fuse_session_exited(session_.get())) {
      disk_.finish_due();
      LSMFS_TRY(receive());
      if (gone_) break;
      if (mounted_.initialised && !std::exchange(ready, true)) options_.on_ready();
      wait(disk_.next());
    }
    if (!ready && !gone_) return make_error(EPROTO, "the kernel's FUSE and libfuse do not agree");
    return {};
  }

 private:
  // Takes what the kernel has.
  Result<void> receive() {
    for (int i = 0; i < kRequestsAtOnce; ++i) {
      if (!mounted_.message) mounted_.message = buffers_.take();
      std::byte* begin = mounted_.message->data() + kPage - kWriteHeaders;
      const ssize_t got = ::read(fuse_, begin, kBufferSize - (kPage - kWriteHeaders));
      if (got < 0) {
        if (errno == EAGAIN) return {};
        // The kernel says ECONNABORTED when requests were under way at the end, mostly to forget inodes.
        gone_ = errno == ENODEV || (errno == ECONNABORTED && !is_dead_mount(options_.mount_point));
        if (gone_) return {};
        if (errno == EINTR || errno == ENOENT) continue;  // ENOENT: who asked has given up meanwhile
        return make_error(errno, "reading /dev/fuse");
      }
      fuse_buf buffer{};
      buffer.size = static_cast<std::size_t>(got);
      buffer.mem = begin;
      fuse_session_process_buf(session_.get(), &buffer);
      disk_.finish_due();
    }
    return {};
  }

  // For requests, signals, or the time at which the disk wants to be called.
  void wait(std::optional<Nanos> until) {
    std::array<pollfd, 2> events{{{fuse_, POLLIN, 0}, {signals_.get(), POLLIN, 0}}};
    timespec time{};
    if (until) {
      const auto sleep = std::max(*until - kWatch - disk_.now(), Nanos(0)).count();
      time = {sleep / 1'000'000'000, sleep % 1'000'000'000};
    }
    const int some = ppoll(events.data(), events.size(), until ? &time : nullptr, nullptr);
    if (some > 0 && events[1].revents != 0) stop();
    if (some == 0) {
      while (disk_.now() < *until) {
      }
    }
  }

  void stop() {
    signalfd_siginfo which;
    if (read(signals_.get(), &which, sizeof which) != sizeof which) return;
    if (unmounter_.joinable()) {
      fuse_session_exit(session_.get());
      return;
    }
    // In a thread: whatever unmounting wants from the mount, this one has to answer.
    unmounter_ = std::thread([this] {
      const std::string& where = options_.mount_point;
      if (umount2(where.c_str(), UMOUNT_NOFOLLOW) == 0) return;
      if (errno != EBUSY) {
        options_.notice(make_error(errno, where + ": cannot be unmounted, signal again to stop it now").message());
        return;
      }
      options_.notice(where + ": is in use; the disk works on until that ends; signal again to stop it now");
      umount2(where.c_str(), UMOUNT_NOFOLLOW | MNT_DETACH);
    });
  }

  struct CloseSession {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
  };

  Disk& disk_;
  Workers& workers_;
  const ServerOptions& options_;
  Buffers buffers_{kBufferSize, kBackgroundMax + 1};  // and one for the next message
  Mounted mounted_;
  Fd signals_;
  std::unique_ptr<fuse_session, CloseSession> session_;
  int fuse_ = -1;  // the session's
  bool gone_ = false;  // the mount
  std::thread unmounter_;
};

}  // namespace

void go_before_others() { set_priority(1, SCHED_FIFO); }

void hold_back_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Result<void> serve(Disk& disk, Workers& workers, const ServerOptions& options) {
  keep_time(options);
  Server server(disk, workers, options);
  LSMFS_TRY(server.start());
  return server.run();
}

}  // namespace lsmfs::simdisk

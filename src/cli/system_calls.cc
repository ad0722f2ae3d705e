#include "cli/system_calls.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/prctl.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

namespace lsmfs::cli {

#ifdef LSMFS_SANITIZED

Result<void> restrict_system_calls() { return {}; }

#else

namespace {

// ---- the list

constexpr const char* kAllowed[] = {
    // Memory; mmap and mprotect are below.
    "brk", "madvise", "mremap", "munmap",
    // Threads that exist, their locks and signals; clone is below. The C library asks for the processors when it and RocksDB
    // divide caches among them.
    "exit", "exit_group", "futex", "getcpu", "getpid", "gettid", "membarrier", "restart_syscall", "rseq", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "set_robust_list", "sigaltstack",
    // Time, where the kernel offers no other way to it; pauses.
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time",
    // The device, by its descriptor.
    "fallocate", "fdatasync", "ftruncate", "pread64", "pwrite64",
    // /dev/fuse, the log, eventfds, stdout; opened before, or here. fcntl is below.
    "close", "dup3", "eventfd2", "fstat", "lseek", "newfstatat", "poll", "ppoll", "read", "readv", "statx", "write", "writev",
    // Rings that were made before, which allow nothing but requests of FUSE; to set them up is below.
    "io_uring_enter",
    // To read, which is what open() below leaves: the table of mounts, the groups of a caller and its processor, all in /proc.
    "open", "openat",
    // The process that mounts and unmounts, and its end; the one that connects to a server; to leave the terminal.
    "recvmsg", "sendmsg", "setsid", "wait4",
    // syslog(3); socket is below.
    "connect", "sendto",
    // A server, by a socket that is connected.
    "recvfrom", "shutdown",
    // Facts about this process and the machine.
    "getegid", "geteuid", "getgid", "getrandom", "getuid", "sysinfo", "uname",
};

using Conditions = std::vector<scmp_arg_cmp>;
struct Rule {
  const char* call;
  Conditions conditions;  // all of them
};

constexpr std::uint64_t kInt = 0xffffffff;  // of an int the kernel sees no more
scmp_arg_cmp bits(unsigned argument, std::uint64_t mask, std::uint64_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}
scmp_arg_cmp is_int(unsigned argument, std::uint64_t value) { return bits(argument, kInt, value); }

std::vector<Rule> allowed_if() {
  const auto self = static_cast<std::uint64_t>(getpid());
  return {
      // No code but the program's own.
      {"mmap", {bits(2, PROT_EXEC, 0)}},
      {"mprotect", {bits(2, PROT_EXEC, 0)}},
      // Threads, no processes.
      {"clone", {bits(0, CLONE_THREAD, CLONE_THREAD)}},
      // abort(3), and the thread that interrupts another one.
      {"tgkill", {is_int(0, self)}},
      // What a descriptor is, and another one of it; not whom it sends which signal when something happens.
      {"fcntl", {is_int(1, F_GETFD)}},
      {"fcntl", {is_int(1, F_SETFD)}},
      {"fcntl", {is_int(1, F_GETFL)}},
      {"fcntl", {is_int(1, F_SETFL), bits(2, O_ASYNC, 0)}},
      {"fcntl", {is_int(1, F_DUPFD_CLOEXEC)}},
      // A volume is claimed once its UUID is known.
      {"fcntl", {is_int(1, F_OFD_SETLK)}},
      // The threads that take requests bind themselves to a processor.
      {"sched_setaffinity", {is_int(0, 0)}},
      // Names of threads, and of memory.
      {"prctl", {is_int(0, PR_SET_NAME)}},
      {"prctl", {is_int(0, PR_SET_VMA)}},
      {"prlimit64", {bits(2, ~std::uint64_t{0}, 0)}},  // to ask
      // The files and the first use of a ring.
      {"io_uring_register", {is_int(1, IORING_REGISTER_FILES)}},
      {"io_uring_register", {is_int(1, IORING_REGISTER_ENABLE_RINGS)}},
      // Of a block device; and whether stdout is a terminal, and how wide.
      {"ioctl", {is_int(1, BLKDISCARD)}},
      {"ioctl", {is_int(1, TCGETS)}},
      {"ioctl", {is_int(1, TIOCGWINSZ)}},
      // /dev/log, again and again if the log's daemon is started again.
      {"socket", {is_int(0, AF_UNIX), bits(1, 0xf, SOCK_DGRAM)}},
  };
}

struct Refusal {
  int error;
  Rule rule;
};

// What libraries are known to try, can do without, and is no news.
std::vector<Refusal> refused_quietly() {
  std::vector<Refusal> refused{
      // Its flags lie in memory, where they could change after a look at them; the C library takes clone then.
      {ENOSYS, {"clone3", {}}},
      // RocksDB asks whether there is any.
      {ENOSYS, {"io_uring_setup", {}}},
  };
  // Opening to write: libfuse tries /dev/null, and RocksDB the names of its threads.
  for (const auto& [call, flags] : {std::pair{"open", 1u}, std::pair{"openat", 2u}}) {
    for (const std::uint64_t access : {O_WRONLY, O_RDWR, O_ACCMODE}) {
      refused.push_back({EACCES, {call, {bits(flags, O_ACCMODE, access)}}});
    }
    for (const std::uint64_t change : {O_CREAT, O_TRUNC}) refused.push_back({EACCES, {call, {bits(flags, change, change)}}});
  }
  return refused;
}

// ---- how it becomes a filter

class Filter {
 public:
  explicit Filter(std::uint32_t otherwise) : context_(seccomp_init(otherwise)) {
    if (context_ == nullptr) {
      error_ = ENOMEM;
      return;
    }
    // What an older library or kernel does not know of these it does without.
    (void)seccomp_attr_set(context_, SCMP_FLTATR_CTL_TSYNC, 1);
    (void)seccomp_attr_set(context_, SCMP_FLTATR_CTL_SSB, 1);  // else older kernels slow down the whole process
  }
  ~Filter() {
    if (context_ != nullptr) seccomp_release(context_);
  }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;

  void tell() { (void)seccomp_attr_set(context_, SCMP_FLTATR_CTL_LOG, 1); }

  void add(std::uint32_t action, const Rule& rule) {
    if (error_ != 0) return;
    const int number = seccomp_syscall_resolve_name(rule.call);
    if (number == __NR_SCMP_ERROR) error_ = EINVAL;  // a slip of the pen: the library knows all calls of all machines
    if (number < 0) return;                          // not on this machine
    const int done = seccomp_rule_add_array(context_, action, number, static_cast<unsigned>(rule.conditions.size()),
                                            rule.conditions.data());
    if (done != 0) error_ = -done;
  }

  Result<void> load() {
    if (error_ == 0) error_ = -seccomp_load(context_);
    if (error_ != 0) return make_error(error_, "seccomp");
    return {};
  }

 private:
  scmp_filter_ctx context_;
  int error_ = 0;
};

}  // namespace

// Two filters, of which the stricter one counts: the kernel's log is told of all that a filter refuses or of nothing.
Result<void> restrict_system_calls() {
  Filter quiet(SCMP_ACT_ALLOW), telling(SCMP_ACT_ERRNO(ENOSYS));
  telling.tell();
  for (const char* call : kAllowed) telling.add(SCMP_ACT_ALLOW, {call, {}});
  for (const Rule& rule : allowed_if()) telling.add(SCMP_ACT_ALLOW, rule);
  for (const auto& [error, rule] : refused_quietly()) {
    quiet.add(SCMP_ACT_ERRNO(static_cast<unsigned>(error)), rule);
    if (rule.conditions.empty()) telling.add(SCMP_ACT_ALLOW, rule);
  }
  LSMFS_TRY(quiet.load());
  return telling.load();
}

#endif

}  // namespace lsmfs::cli

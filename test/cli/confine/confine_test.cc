// What is left to a process that has been confined. Each test tries it in a process of its own.

#include "cli/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lsmfs/clock.h"

namespace lsmfs::cli::confine_test {
namespace {

// What `work` gives, from 0 to 199, in a process that has been confined; 200: which failed, 1000 and more: a signal ended it.
int confined(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool complete = true;
    confine([&](std::string_view) { complete = false; });
    ::_exit(complete ? work() : 200);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// The errno with which a system call fails, or 0.
int error_of(const std::function<long()>& call) {
  return confined([&] { return call() < 0 ? errno : 0; });
}

std::string status_of_this_process() {
  std::ifstream file("/proc/self/status");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Confined, HasNoCapabilitiesAndGetsNone) {
  EXPECT_EQ(confined([] {
    const std::string status = status_of_this_process();
    for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
      if (status.find(std::string(set) + ":\t0000000000000000\n") == status.npos) return 1;
    }
    if (::getuid() == 0 && status.find("CapBnd:\t0000000000000000\n") == status.npos) return 2;
    return status.find("NoNewPrivs:\t1\n") == status.npos ? 3 : 0;
  }), 0);
}

TEST(Confined, ReadsWhatEverybodyMayRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "who is not root keeps their own rights";
  const std::string path = "/tmp/lsmfs-confine-test-" + std::to_string(::getpid());
  std::ofstream(path) << "contents";
  const auto opening = [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); };
  EXPECT_EQ(error_of(opening), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0660), 0);
  EXPECT_EQ(error_of(opening), EACCES);
  ::unlink(path.c_str());
  EXPECT_EQ(confined([] {
    const std::string status = status_of_this_process();
    return status.find("Uid:\t0\t0\t0\t65534\n") != status.npos && status.find("Groups:\t \n") != status.npos ? 0 : 1;
  }), 0);
}

// The filter, which builds with a sanitizer do without.
class Filtered : public testing::Test {
 protected:
  void SetUp() override {
#ifdef LSMFS_SANITIZED
    GTEST_SKIP() << "there is no filter in builds with a sanitizer";
#endif
  }
};

TEST_F(Filtered, AnswersWhatItDoesNotKnowAsAKernelThatDoesNotHaveIt) {
  struct Call {
    const char* name;
    std::function<long()> make;
  };
  const pid_t parent = ::getpid();
  const std::string folder = "/tmp/lsmfs-confine-test-" + std::to_string(parent);
  const std::vector<Call> calls{
      {"execve", [] { return ::execl("/bin/true", "true", static_cast<char*>(nullptr)); }},
      {"execveat", [] { return ::syscall(SYS_execveat, AT_FDCWD, "/bin/true", nullptr, nullptr, 0); }},
      {"fork", [] { return ::fork(); }},
      {"vfork", [] { return ::syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0); }},
      {"a socket of the network", [] { return ::socket(AF_INET, SOCK_DGRAM, 0); }},
      {"a raw socket", [] { return ::socket(AF_PACKET, SOCK_DGRAM, 0); }},
      {"a local stream", [] { return ::socket(AF_UNIX, SOCK_STREAM, 0); }},
      {"bind", [] { return ::bind(0, nullptr, 0); }},
      {"ptrace", [] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
      {"process_vm_readv", [=] { return ::syscall(SYS_process_vm_readv, parent, nullptr, 0, nullptr, 0, 0); }},
      {"kill", [=] { return ::kill(parent, 0); }},
      {"signals by way of a file: to whom", [=] { return ::fcntl(0, F_SETOWN, parent); }},
      {"signals by way of a file: which", [] { return ::fcntl(0, F_SETSIG, SIGKILL); }},
      {"signals by way of a file: when", [] { return ::fcntl(0, F_SETFL, O_ASYNC); }},
      {"tgkill of another process", [=] { return ::syscall(SYS_tgkill, parent, parent, 0); }},
      {"pidfd_open", [=] { return ::syscall(SYS_pidfd_open, parent, 0); }},
      {"mount", [] { return ::mount("none", "/tmp", "tmpfs", 0, nullptr); }},
      {"umount", [] { return ::umount2("/no/such/mount", 0); }},
      {"unshare", [] { return ::unshare(CLONE_NEWUSER); }},
      {"chroot", [] { return ::chroot("/"); }},
      {"setuid", [] { return ::syscall(SYS_setuid, 0); }},
      {"prctl of more than names", [] { return ::prctl(PR_SET_DUMPABLE, 0); }},
      {"limits", [] {
         const rlimit limit{1, 1};
         return ::setrlimit(RLIMIT_NOFILE, &limit);
       }},
      {"a terminal's input", [] { return ::ioctl(0, TIOCSTI, "x"); }},
      {"memory to execute", [] {
         return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1L : 0L;
       }},
      {"memory made to execute", [] {
         void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
         return ::mprotect(page, 4096, PROT_READ | PROT_EXEC);
       }},
      {"mkdir", [=] { return ::mkdir(folder.c_str(), 0700); }},
      {"unlink", [] { return ::unlink("/no/such/file"); }},
      {"truncate", [] { return ::truncate("/no/such/file", 0); }},
      {"openat2", [] { return ::syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0); }},
      {"bpf", [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }},
      {"io_uring_setup", [] { return ::syscall(SYS_io_uring_setup, 1, nullptr); }},
      {"io_uring_register: buffers", [] { return ::syscall(SYS_io_uring_register, 0, 0, nullptr, 0); }},
      {"sched_setscheduler: real time", [] {
         const sched_param first{1};
         return ::sched_setscheduler(0, SCHED_FIFO, &first);
       }},
      {"sched_setscheduler: stepping back", [] {
         const sched_param none{};
         return ::sched_setscheduler(0, SCHED_IDLE, &none);
       }},
      {"processors of another process", [=] {
         cpu_set_t all;
         CPU_ZERO(&all);
         return ::sched_setaffinity(parent, sizeof all, &all);
       }},
      {"clone3", [] { return ::syscall(SYS_clone3, nullptr, 0); }},
  };
  for (const Call& call : calls) EXPECT_EQ(error_of(call.make), ENOSYS) << call.name;
  ::rmdir(folder.c_str());  // if it was made after all
}

TEST_F(Filtered, OpensFilesOnlyToReadThem) {
  const std::string path = "/tmp/lsmfs-confine-test-" + std::to_string(::getpid());
  std::ofstream(path) << "contents";
  for (const int flags : {O_WRONLY, O_RDWR, O_RDWR | O_CREAT, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC, O_RDWR | O_APPEND, O_ACCMODE}) {
    EXPECT_EQ(error_of([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600); }), EACCES) << flags;
    EXPECT_EQ(error_of([&] { return ::syscall(SYS_openat, AT_FDCWD, path.c_str(), flags, 0600); }), EACCES) << flags;
  }
  EXPECT_EQ(error_of([&] { return ::open("/tmp", O_TMPFILE | O_RDWR, 0600); }), EACCES);
  EXPECT_EQ(confined([&] {
    std::ifstream file(path);
    std::string text;
    return std::getline(file, text) && text == "contents" ? 0 : 1;
  }), 0);
  ::unlink(path.c_str());
}

TEST_F(Filtered, ThreadsAreAsConfinedAsTheirMaker) {
  EXPECT_EQ(confined([] {
    int seen = 0;
    std::thread([&] {
      std::ifstream file("/proc/thread-self/status");
      const std::string status{std::istreambuf_iterator<char>(file), {}};
      seen = status.find("Seccomp:\t2\n") != status.npos && ::syscall(SYS_unlink, "/no/such/file") < 0 ? errno : 1;
    }).join();
    return seen;
  }), ENOSYS);
}

TEST_F(Filtered, ADaemonsDailyWorkGoesOn) {
  EXPECT_EQ(confined([] {
    // Threads that wait for each other, memory in pieces of all sizes, pauses.
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([i] {
        for (int size = 1; size < (64 << 20); size *= 3) std::string(static_cast<std::size_t>(size), 'x').append("y");
        system_clock().sleep(std::chrono::microseconds(i));
      });
    }
    for (auto& thread : threads) thread.join();
    const int event = ::eventfd(1, EFD_CLOEXEC);
    std::uint64_t count = 0;
    if (::read(event, &count, sizeof count) != sizeof count || count != 1) return 1;
    // A log's socket, and one that is not there.
    const int log = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{AF_UNIX, "/no/such/socket"};
    if (log < 0 || ::connect(log, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno != ENOENT) return 2;
    return ::prctl(PR_SET_NAME, "name") == 0 ? 0 : 3;
  }), 0);
}

TEST_F(Filtered, AProcessThatAbortsEndsByThatSignal) {
  EXPECT_EQ(confined([]() -> int { ::abort(); }), 1000 + SIGABRT);
}

}  // namespace
}  // namespace lsmfs::cli::confine_test

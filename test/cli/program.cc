#include "cli/program.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lsmfs/fuse.h"

namespace lsmfs::test {
namespace {

constexpr int kPatience = 600'000;  // ms; for a command to end

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool all_may_enter(std::filesystem::path folder) {
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    if ((std::filesystem::status(folder).permissions() & std::filesystem::perms::others_exec) == std::filesystem::perms::none) return false;
  }
  return true;
}

// A copy of the program, for users who cannot enter the folder that it lies in.
class PublicCopy {
 public:
  PublicCopy() {
    char name[] = "/tmp/lsmfs-cli-program-XXXXXX";
    folder_ = ::mkdtemp(name);
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
    std::filesystem::create_directories(folder_ / "libexec/lsmfs");
    std::filesystem::copy_file(LSMFS_PROGRAM, program());
    std::filesystem::copy_file(whole_program(), folder_ / "libexec/lsmfs/lsmfs");
  }
  ~PublicCopy() { std::filesystem::remove_all(folder_); }
  std::filesystem::path program() const { return folder_ / "lsmfs"; }

 private:
  std::filesystem::path folder_;
};

std::string program_for_all() {
  static const bool enterable = all_may_enter(std::filesystem::path(LSMFS_PROGRAM).parent_path());
  if (enterable) return LSMFS_PROGRAM;
  static const PublicCopy copy;
  return copy.program();
}

[[noreturn]] void become(const std::vector<std::string>& arguments, const Circumstances& how, const std::string& out,
                         const std::string& err) {
  const auto redirect = [](const std::string& path, int fd, int flags) {
    const int opened = ::open(path.c_str(), flags, 0666);
    if (opened < 0 || ::dup2(opened, fd) < 0) ::_exit(210);
  };
  redirect("/dev/null", 0, O_RDONLY);
  redirect(out, 1, O_WRONLY | O_TRUNC);
  redirect(err, 2, O_WRONLY | O_TRUNC);
  const std::string program = how.program.empty() ? std::string(LSMFS_PROGRAM) : how.program;
  if (how.without_dev_fuse) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/dev", "tmpfs", 0, nullptr) != 0) {
      ::_exit(211);
    }
    // A copy of what other tests have mounted would hold on to it.
    const auto table = mount_table();
    for (const MountEntry& entry : table.value()) {
      if (entry.is_lsmfs()) (void)::umount2(entry.mount_point.c_str(), MNT_DETACH);
    }
  }
  if (how.uid != 0 && (::setgroups(0, nullptr) != 0 || ::setgid(how.uid) != 0 || ::setuid(how.uid) != 0)) ::_exit(212);
  if (!how.folder.empty() && ::chdir(how.folder.c_str()) != 0) ::_exit(213);
  std::vector<char*> argv;
  std::string name = how.name;
  argv.push_back(name.data());
  std::vector<std::string> words = arguments;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  for (const int fd : how.closed) ::close(fd);
  ::execv(program.c_str(), argv.data());
  ::_exit(214);
}

}  // namespace

bool Outcome::is_one_line() const {
  return err.starts_with("lsmfs: ") && err.find('\n') == err.size() - 1 && err.size() > 10;
}

std::string whole_program() { return std::filesystem::path(LSMFS_PROGRAM).parent_path() / "libexec/lsmfs/lsmfs"; }

Outcome run(const std::vector<std::string>& arguments, const Circumstances& asked) {
  Circumstances circumstances = asked;
  if (circumstances.uid != 0 && circumstances.program.empty()) circumstances.program = program_for_all();
  std::array<std::string, 2> files;
  for (auto& file : files) {
    char name[] = "/tmp/lsmfs-cli-output-XXXXXX";
    ::close(mkstemp(name));
    file = name;
  }
  const pid_t pid = ::fork();
  if (pid == 0) become(arguments, circumstances, files[0], files[1]);
  if (circumstances.meanwhile) circumstances.meanwhile([&] { return contents(files[1]); });
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd end{process.get(), POLLIN, 0};
  if (::poll(&end, 1, kPatience) != 1) {
    ADD_FAILURE() << "lsmfs " << (arguments.empty() ? "" : arguments[0]) << " does not end; it has said: " << contents(files[1]);
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  outcome.out = contents(files[0]);
  outcome.err = contents(files[1]);
  for (const auto& file : files) ::unlink(file.c_str());
  return outcome;
}

Folder::Folder() {
  char name[] = "/var/tmp/lsmfs-cli-test-XXXXXX";  // /tmp may be too small for images
  folder_ = mkdtemp(name);
}

Folder::~Folder() {
  if (const auto table = mount_table()) {
    for (auto entry = table->rbegin(); entry != table->rend(); ++entry) {
      if (!entry->mount_point.starts_with(folder_ + "/")) continue;
      if (entry->is_lsmfs()) {
        run({"umount", entry->mount_point});
      } else {
        (void)unmount(entry->mount_point, true);
      }
    }
  }
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  EXPECT_FALSE(error) << error.message();
}

void MountFolder::SetUp() {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::access("/dev/fuse", R_OK | W_OK), 0) << "load the fuse module";
}

std::string Folder::make_directory(const std::string& name) {
  EXPECT_EQ(::mkdir(path(name).c_str(), 0755), 0);
  return path(name);
}

std::string Folder::make_file(const std::string& name, std::uint64_t size) {
  const int fd = ::open(path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(size)), 0);
  ::close(fd);
  return path(name);
}

std::string Folder::make_image(const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"mkfs", "--size", "128M", path(name)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  accepted(arguments);
  return path(name);
}

void Folder::patch(const std::string& name, std::uint64_t offset, std::string_view bytes) {
  const int fd = ::open(path(name).c_str(), O_WRONLY);
  ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)), static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

std::string Folder::read(const std::string& name, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, 0);
  const int fd = ::open(path(name).c_str(), O_RDONLY);
  EXPECT_EQ(::pread(fd, bytes.data(), size, static_cast<off_t>(offset)), static_cast<ssize_t>(size));
  ::close(fd);
  return bytes;
}

std::uint64_t Folder::sum(const std::string& name) {
  const int fd = ::open(path(name).c_str(), O_RDONLY);
  EXPECT_GE(fd, 0);
  std::uint64_t sum = 0;
  std::string chunk(1 * MiB, 0);
  // Holes are left out: images here are mostly that.
  for (off_t at = 0; (at = ::lseek(fd, at, SEEK_DATA)) >= 0;) {
    const off_t end = ::lseek(fd, at, SEEK_HOLE);
    while (at < end) {
      const ssize_t got = ::pread(fd, chunk.data(), std::min<std::size_t>(chunk.size(), end - at), at);
      if (got <= 0) break;
      const auto bytes = std::string_view(chunk).substr(0, static_cast<std::size_t>(got));
      sum = checksum(bytes, sum + static_cast<std::uint64_t>(at));
      at += got;
    }
  }
  ::close(fd);
  return sum;
}

bool Folder::is_mounted(const std::string& name) const {
  const auto table = mount_table();
  if (!table) return false;
  for (const auto& entry : *table) {
    if (entry.mount_point == path(name)) return true;
  }
  return false;
}

void Folder::refused(int code, const std::vector<std::string>& arguments, const std::vector<std::string>& words,
                     const Circumstances& circumstances) {
  const Outcome outcome = run(arguments, circumstances);
  std::string command = circumstances.name;
  for (const auto& word : arguments) command += " " + word;
  EXPECT_EQ(outcome.code, code) << command << ": " << outcome.err;
  EXPECT_TRUE(outcome.is_one_line()) << command << ": " << outcome.err;
  EXPECT_EQ(outcome.out, "") << command;
  for (const auto& word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << command << ": " << outcome.err;
}

std::string Folder::accepted(const std::vector<std::string>& arguments, const Circumstances& circumstances) {
  const Outcome outcome = run(arguments, circumstances);
  std::string command = circumstances.name;
  for (const auto& word : arguments) command += " " + word;
  EXPECT_EQ(outcome.code, 0) << command << ": " << outcome.err;
  EXPECT_EQ(outcome.err, "") << command;
  return outcome.out;
}

}  // namespace lsmfs::test

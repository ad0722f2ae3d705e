#include "cli/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include "cli/exit_codes.h"
#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

class Direct : public Starter {
 public:
  void notice(std::string_view line) override { tell(line); }
  void failed(const Problem& problem) override { report(problem); }
  void ready() override {}
};

// Over a pipe, one line each: "n TEXT" a notice, "f CODE TEXT" failed, "r" ready.
class Piped : public Starter {
 public:
  explicit Piped(int fd) : fd_(fd) {}
  ~Piped() override { end(); }
  void notice(std::string_view line) override { say(fmt::format("n {}", one_line(line))); }
  void failed(const Problem& problem) override {
    say(fmt::format("f {} {}", problem.exit_code, one_line(problem.text)));
    end();
  }
  void ready() override {
    // Not before: an automounter lets those of its own process group mount, and has all others wait for that.
    setsid();
    say("r");
    end();
  }

 private:
  static std::string one_line(std::string_view text) {
    std::string line(text);
    for (char& c : line) c = c == '\n' ? ' ' : c;
    return line;
  }
  void say(std::string line) {
    line += '\n';
    if (fd_ >= 0 && write(fd_, line.data(), line.size()) < 0) end();  // nobody listens any more
  }
  void end() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd_;
};

int listen_to(int fd) {
  std::string heard;
  char chunk[1024];
  for (;;) {
    const auto end = heard.find('\n');
    if (end == std::string::npos) {
      const ssize_t got = read(fd, chunk, sizeof chunk);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return report({kSystemError, "the daemon ended without a word; see the log"});
      heard.append(chunk, static_cast<std::size_t>(got));
      continue;
    }
    const std::string line = heard.substr(0, end);
    heard.erase(0, end + 1);
    if (line == "r") return kOk;
    if (line.starts_with("n ")) tell(line.substr(2));
    if (line.starts_with("f ")) {
      const auto blank = std::min(line.find(' ', 2), line.size() - 1);
      const auto code = parse_number(line.substr(2, blank - 2), 255);
      return report({code ? static_cast<int>(*code) : kSystemError, line.substr(blank + 1)});
    }
  }
}

void leave_terminal() {
  if (chdir("/") != 0) {
    // then it stays where it is
  }
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  if (null > 2) close(null);
}

}  // namespace

int run_and_report(bool background, const std::function<int(Starter&)>& work) {
  // A log or a pipe that nobody reads must not end a file system.
  signal(SIGPIPE, SIG_IGN);
  if (!background) {
    Direct direct;
    return work(direct);
  }
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return report({kSystemError, make_error(errno, "pipe").message()});
  const pid_t child = fork();
  if (child < 0) return report({kSystemError, make_error(errno, "fork").message()});
  if (child == 0) {
    close(pipe_ends[0]);
    leave_terminal();
    int code = 0;
    {
      Piped piped(pipe_ends[1]);
      code = work(piped);
    }
    // As exit(), but without writing the parent's buffered output a second time.
    _exit(code);
  }
  close(pipe_ends[1]);
  const int code = listen_to(pipe_ends[0]);
  // One that failed is gone before we are: its lock on the device too.
  if (code != kOk) waitpid(child, nullptr, 0);
  return code;
}

}  // namespace lsmfs::cli

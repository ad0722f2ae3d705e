#include "fuse/mounting/fusermount.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "lsmfs/channel.h"

extern char** environ;

namespace lsmfs {
namespace {

// Starts fusermount3 with stderr on `errors` and, unless it is -1, `channel` as the socket on which
// it passes the descriptor.
Result<pid_t> spawn(std::vector<std::string> arguments, int errors, int channel) {
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  std::string channel_number = "_FUSE_COMMFD=" + std::to_string(channel);
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  if (channel >= 0) environment.push_back(channel_number.data());
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  // dup2 of a descriptor onto itself clears its close-on-exec flag.
  if (channel >= 0) posix_spawn_file_actions_adddup2(&actions, channel, channel);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) return make_error(code, "fusermount3");
  return pid;
}

// What it has to say, on one line and without its own name.
std::string read_words(int fd) {
  std::string text;
  std::array<char, 1024> chunk;
  ssize_t got = 0;
  while ((got = read(fd, chunk.data(), chunk.size())) > 0) text.append(chunk.data(), static_cast<std::size_t>(got));
  if (const auto end = text.find('\n'); end != std::string::npos) text.resize(end);
  if (const std::string name = "fusermount3: "; text.starts_with(name)) text.erase(0, name.size());
  return text;
}

Error refusal(std::string words) {
  int code = EPERM;
  // The line ends in the error's text, which Error::message() adds again.
  for (const int known : {EBUSY, EPERM, EACCES, EINVAL, ENODEV, ENOENT, ENOTCONN}) {
    const std::string text = std::string(": ") + strerror(known);
    if (words.ends_with(text)) {
      code = known == EACCES ? EPERM : known;
      words.resize(words.size() - text.size());
      break;
    }
  }
  return make_error(code, "fusermount3: " + words);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Result<Fd> fusermount_mount(const std::string& mount_point, const std::string& options) {
  int sockets[2], words[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return make_error(errno, "socketpair");
  Fd ours(sockets[0]), theirs(sockets[1]);
  if (pipe2(words, O_CLOEXEC) != 0) return make_error(errno, "pipe");
  Fd words_read(words[0]), words_write(words[1]);

  LSMFS_ASSIGN(const pid_t pid,
               spawn({"fusermount3", "-o", options, "--", mount_point}, words_write.get(), theirs.get()));
  theirs.reset();
  words_write.reset();
  auto received = receive_message(ours.get());
  const std::string said = read_words(words_read.get());
  wait_for(pid);
  if (!received || !received->descriptor) return refusal(said.empty() ? "it failed without a word" : said);
  return std::move(received->descriptor);
}

Result<void> fusermount_unmount(const std::string& mount_point, bool lazy) {
  int words[2];
  if (pipe2(words, O_CLOEXEC) != 0) return make_error(errno, "pipe");
  Fd words_read(words[0]), words_write(words[1]);
  std::vector<std::string> arguments{"fusermount3", "-u"};
  if (lazy) arguments.push_back("-z");
  arguments.insert(arguments.end(), {"--", mount_point});
  LSMFS_ASSIGN(const pid_t pid, spawn(std::move(arguments), words_write.get(), -1));
  words_write.reset();
  const std::string said = read_words(words_read.get());
  if (const int status = wait_for(pid); status != 0) return refusal(said);
  return {};
}

}  // namespace lsmfs

#include "cli/kept_options.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "cli/confine.h"
#include "cli/messages.h"
#include "cli/sources.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

// In the child.
int write_options(const std::string& path, int to) {
  const auto device = open_source(path, Access::read_only, Sharing::shared, {.notice = [](std::string_view) {}});
  if (!device) return 1;
  confine([](std::string_view) {});  // who mounts is told
  const auto info = read_volume_info(**device);
  if (!info) return 1;
  const std::string& text = info->mount_options;
  return write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
}

}  // namespace

Result<std::string> kept_options(const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return make_error(errno, "pipe");
  Fd from(ends[0]), to(ends[1]);
  const pid_t child = fork();
  if (child < 0) return make_error(errno, "fork");
  if (child == 0) _exit(write_options(path, to.get()));
  to.reset();
  std::array<char, kMountOptionsMax> text;
  std::size_t size = 0;
  // A pipe takes so little as one.
  for (ssize_t got; size < text.size() && ((got = read(from.get(), text.data() + size, text.size() - size)) > 0 || (got < 0 && errno == EINTR));) {
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return make_error(EIO, path);
  return std::string(text.data(), size);
}

}  // namespace lsmfs::cli

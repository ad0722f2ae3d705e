#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fuse/mount_ioctl.h"
#include "fuse/scrub_ioctl.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

ScrubPosition position_of(const ScrubMessage& message) { return {message.part, {message.next, message.end}}; }

ScrubMessage to_message(const ScrubPosition& position, const ScrubStep& step) {
  ScrubMessage message;
  message.part = position.part;
  message.next = position.range.next;
  message.end = position.range.end;
  message.read = step.read.v;
  message.left = step.left.v;
  message.damage = step.damage.size();
  std::size_t at = 0;
  for (std::string line : step.damage) {
    // Names may hold anything.
    std::ranges::replace_if(line, [](char c) { return c == '\n' || c == '\0'; }, '?');
    constexpr std::size_t kLineMax = sizeof message.text / 2 - 2;
    if (line.size() > kLineMax) line.resize(kLineMax);
    if (at + line.size() + 2 > sizeof message.text) break;
    line += '\n';
    std::memcpy(message.text + at, line.data(), line.size());
    at += line.size();
  }
  return message;
}

ScrubStep step_of(const ScrubMessage& message) {
  ScrubStep step{ByteCount{message.read}, ByteCount{message.left}, {}};
  std::string_view text(message.text, strnlen(message.text, sizeof message.text));
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    step.damage.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const std::size_t told = step.damage.size();
  if (message.damage > told) step.damage.push_back(fmt::format("and {} more, which the log names", message.damage - told));
  return step;
}

Result<void> scrub_mount(const std::string& path, const std::function<bool(const ScrubStep&)>& go_on) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  for (ScrubMessage message; !position_of(message).done();) {
    LSMFS_TRY(mount_ioctl(fd, path, kScrubIoctl, &message));
    if (!go_on(step_of(message))) return make_error(EINTR, path);
  }
  return {};
}

}  // namespace lsmfs

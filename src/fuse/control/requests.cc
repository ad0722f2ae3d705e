#include "fuse/control/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace lsmfs {

ReconfigureRequest to_request(const MountSettings& settings) {
  const TreeSettings& tree = settings.tree;
  ReconfigureRequest request;
  if (tree.read_only) request.read_only = *tree.read_only;
  if (tree.atime) request.atime = static_cast<std::int32_t>(*tree.atime);
  if (tree.directory_atime) request.directory_atime = *tree.directory_atime;
  if (tree.sync_interval_ms) request.sync_interval_ms = static_cast<std::int32_t>(*tree.sync_interval_ms);
  if (settings.durable_names) request.durable_names = *settings.durable_names;
  return request;
}

std::optional<MountSettings> to_settings(const ReconfigureRequest& request) {
  constexpr std::int32_t kUnchanged = ReconfigureRequest::kUnchanged;
  const auto within = [](std::int32_t value, std::int32_t most) { return value >= kUnchanged && value <= most; };
  if (!within(request.read_only, 1) || !within(request.directory_atime, 1) || !within(request.durable_names, 1) ||
      !within(request.sync_interval_ms, INT32_MAX) || !within(request.atime, static_cast<std::int32_t>(AtimePolicy::strictatime))) {
    return std::nullopt;
  }
  MountSettings settings;
  TreeSettings& tree = settings.tree;
  if (request.read_only != kUnchanged) tree.read_only = request.read_only == 1;
  if (request.atime != kUnchanged) tree.atime = static_cast<AtimePolicy>(request.atime);
  if (request.directory_atime != kUnchanged) tree.directory_atime = request.directory_atime == 1;
  if (request.sync_interval_ms != kUnchanged) tree.sync_interval_ms = static_cast<std::uint32_t>(request.sync_interval_ms);
  if (request.durable_names != kUnchanged) settings.durable_names = request.durable_names == 1;
  return settings;
}

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

SnapshotMessage to_message(const SnapshotInfo& info) {
  SnapshotMessage message{.seconds = info.made.seconds, .nanoseconds = info.made.nanoseconds, .size = static_cast<std::uint32_t>(info.of.size())};
  info.of.copy(message.of, sizeof message.of);
  return message;
}

Result<SnapshotInfo> snapshot_of(const SnapshotMessage& message) {
  if (message.size > sizeof message.of || message.nanoseconds >= 1'000'000'000) return make_error(EPROTO, "what it says of a snapshot is not understood");
  return SnapshotInfo{.made = {message.seconds, message.nanoseconds}, .of = std::string(message.of, message.size)};
}

std::optional<DiffMessage> to_diff_message(std::string_view bytes) {
  DiffMessage message{.size = static_cast<std::uint32_t>(bytes.size())};
  if (bytes.size() > sizeof message.bytes) return std::nullopt;
  bytes.copy(message.bytes, bytes.size());
  return message;
}

std::optional<ChangesMessage> to_changes_message(std::string_view bytes) {
  ChangesMessage message{.size = static_cast<std::uint32_t>(bytes.size())};
  if (bytes.size() > sizeof message.bytes) return std::nullopt;
  bytes.copy(message.bytes, bytes.size());
  return message;
}

std::string_view bytes_of(const ChangesMessage& message) { return {message.bytes, message.size <= sizeof message.bytes ? message.size : 0}; }

std::string_view bytes_of(const DiffMessage& message) { return {message.bytes, message.size <= sizeof message.bytes ? message.size : 0}; }

}  // namespace lsmfs

#include "cli/transfer/snapshot_ids.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/sizes.h"
#include "cli/transfer/beneath.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

constexpr std::string_view kReceivingStart = ".receiving-";

std::optional<std::int64_t> parse_signed(std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto number = parse_number(text.substr(negative ? 1 : 0), INT64_MAX);
  if (!number) return std::nullopt;
  return negative ? -static_cast<std::int64_t>(*number) : static_cast<std::int64_t>(*number);
}

}  // namespace

std::string receiving_name(const SnapshotId& id) {
  return fmt::format("{}{}.{}.{}.{}", kReceivingStart, id.volume.text(), id.number, id.made.seconds, id.made.nanoseconds);
}

std::optional<SnapshotId> parse_receiving_name(std::string_view name) {
  if (!name.starts_with(kReceivingStart)) return std::nullopt;
  std::vector<std::string_view> parts;
  for (std::string_view rest = name.substr(kReceivingStart.size());;) {
    const std::size_t dot = rest.find('.');
    parts.push_back(rest.substr(0, dot));
    if (dot == rest.npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (parts.size() != 4) return std::nullopt;
  const auto volume = Uuid::parse(parts[0]);
  const auto number = parse_number(parts[1], UINT64_MAX), nanoseconds = parse_number(parts[3], 999'999'999);
  const auto seconds = parse_signed(parts[2]);
  if (!volume || !number || !seconds || !nanoseconds) return std::nullopt;
  const SnapshotId id{.volume = *volume, .number = *number, .made = {*seconds, static_cast<std::uint32_t>(*nanoseconds)}};
  return receiving_name(id) == name ? std::optional(id) : std::nullopt;
}

std::optional<SnapshotId> received_as(const SnapshotInfo& info) {
  const std::string above = parent_of(info.of);
  if (last_name_of(info.of) != kReceivedTree || last_name_of(above) != kReceivedWhole) return std::nullopt;
  return parse_receiving_name(last_name_of(parent_of(above)));
}

Result<StreamedMount> streamed_mount(const std::string& path) {
  LSMFS_ASSIGN(const std::string facts, query_mount(path));
  const auto json = nlohmann::json::parse(facts, nullptr, false);
  const auto uuid = json.is_object() && json.contains("uuid") && json["uuid"].is_string() ? Uuid::parse(json["uuid"].get<std::string>()) : std::nullopt;
  if (!uuid) return make_error(EPROTO, "what it says of itself is not understood");
  const auto options = json.find("options");
  const bool hides_holes = options != json.end() && options->is_object() && options->value("writeback", false);
  return StreamedMount{.volume = *uuid, .hides_holes = hides_holes};
}

Result<IdOfSnapshot> id_of_snapshot(const std::string& path) {
  LSMFS_ASSIGN(const SnapshotInfo info, snapshot_info_of(path));
  if (const auto received = received_as(info)) return IdOfSnapshot{.id = *received, .is_received = true};
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) return make_error(errno, path);
  LSMFS_ASSIGN(const StreamedMount mount, streamed_mount(path));
  return IdOfSnapshot{.id = {.volume = mount.volume, .number = facts.st_ino, .made = info.made}};
}

std::string time_in_utc(const Time& time) {
  const std::time_t seconds = time.seconds;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", utc);
}

}  // namespace lsmfs::cli

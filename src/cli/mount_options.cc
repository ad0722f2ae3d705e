#include "cli/mount_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

constexpr std::array<std::string_view, 14> kForTheKernel{"suid", "nosuid", "dev",         "nodev",    "exec",
                                                         "noexec", "sync",  "async",       "dirsync",  "allow_other",
                                                         "noatime", "atime", "default_permissions", "rw"};
// What fstab entries say to mount(8) and to systemd, not to a file system.
constexpr std::array<std::string_view, 11> kIgnored{"defaults", "auto",   "noauto", "nofail", "_netdev", "user",
                                                    "nouser",   "users",  "owner",  "group",  "silent"};
constexpr std::array<std::string_view, 2> kIgnoredStarts{"x-", "comment="};

// Less does not hold RocksDB's write buffers and the tables' indexes.
constexpr ByteCount kCacheMin{16 * MiB};
constexpr std::uint64_t kSyncIntervalMax = 3600;  // seconds

Error bad(std::string_view option, std::string_view why) {
  return make_error(EINVAL, fmt::format("option {}: {}", option, why));
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Result<void> apply(ParsedOptions& parsed, std::string_view option) {
  const auto equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : option.substr(equals + 1);

  if (name == "cache" && equals != std::string_view::npos) {
    const auto size = parse_size(value);
    if (!size || *size < kCacheMin) {
      return bad(option, fmt::format("give a size of at least {}, as in cache=256M", format_size(kCacheMin.v)));
    }
    parsed.cache = *size;
    return {};
  }
  if (name == "sync_interval" && equals != std::string_view::npos) {
    const auto seconds = parse_number(value, kSyncIntervalMax);
    if (!seconds) return bad(option, fmt::format("give 0 (never) to {} seconds", kSyncIntervalMax));
    parsed.sync_interval_ms = static_cast<std::uint32_t>(*seconds * 1000);
    return {};
  }
  if (name == "latency" && equals != std::string_view::npos) {
    if (value == "auto") {
      parsed.latency = IdleLatency::automatic;
    } else if (value == "on") {
      parsed.latency = IdleLatency::on;
    } else if (value == "off") {
      parsed.latency = IdleLatency::off;
    } else {
      return bad(option, "give auto, on or off");
    }
    return {};
  }
  if (option == "ro" || option == "rw") {
    parsed.read_only = option == "ro";
    return {};
  }
  if (option == "writeback") {
    parsed.writeback = true;
    return {};
  }
  if (option == "acl" || option == "noacl") {
    parsed.acl = option == "acl";
    return {};
  }
  if (option == "noatime" || option == "atime" || option == "relatime" || option == "strictatime") {
    parsed.atime = option == "noatime"       ? AtimePolicy::noatime
                   : option == "strictatime" ? AtimePolicy::strictatime
                                             : AtimePolicy::relatime;
    parsed.kernel.emplace_back(option == "noatime" ? "noatime" : "atime");
    return {};
  }
  if (contains(kForTheKernel, option)) {
    parsed.kernel.emplace_back(option);
    return {};
  }
  if (option.empty() || contains(kIgnored, option)) return {};
  for (const auto start : kIgnoredStarts) {
    if (option.starts_with(start)) return {};
  }
  return bad(option, "unknown; lsmfs mount --help lists what there is");
}

}  // namespace

Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists) {
  ParsedOptions parsed;
  for (const std::string_view list : lists) {
    for (std::size_t at = 0; at <= list.size();) {
      const auto comma = std::min(list.find(',', at), list.size());
      LSMFS_TRY(apply(parsed, list.substr(at, comma - at)));
      at = comma + 1;
    }
  }
  return parsed;
}

}  // namespace lsmfs::cli

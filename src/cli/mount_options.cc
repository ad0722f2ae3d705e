#include "cli/mount_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

constexpr std::array<std::string_view, 14> kForTheKernel{"suid", "nosuid",   "dev",        "nodev",     "exec",
                                                         "noexec", "sync",   "async",      "dirsync",   "lazytime",
                                                         "nolazytime", "symfollow", "nosymfollow", "allow_other"};
// What fstab entries say to mount(8) and to systemd, and what has no meaning here.
constexpr std::array<std::string_view, 19> kIgnored{
    "defaults", "auto",    "noauto", "_netdev", "user",     "nouser",     "users",  "nousers", "owner",
    "noowner",  "group",   "nogroup", "silent", "loud",   "iversion", "noiversion", "mand",   "nomand",  "default_permissions"};
constexpr std::array<std::string_view, 5> kIgnoredStarts{"x-", "X-", "comment=", "user=", "uhelper="};
// What the mount table says of every FUSE mount: mount(8) hands it on when it remounts.
constexpr std::array<std::string_view, 5> kOfTheMountTable{"user_id=", "group_id=", "blksize=", "max_read=", "seclabel"};

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

template <std::size_t N>
bool begins_with(const std::array<std::string_view, N>& starts, std::string_view word) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return word.starts_with(start); });
}

// nullopt: it says nothing about access times.
std::optional<AtimePolicy> atime_policy(std::string_view option) {
  if (option == "noatime") return AtimePolicy::noatime;
  if (option == "strictatime") return AtimePolicy::strictatime;
  // The kernel's default, and so what is left when another one is taken back.
  for (const char* word : {"relatime", "atime", "norelatime", "nostrictatime"}) {
    if (option == word) return AtimePolicy::relatime;
  }
  return std::nullopt;
}

// The kernel does not keep access times of FUSE files, but it shows in the mount table who does.
void tell_kernel_of_atime(ParsedOptions& parsed) {
  if (parsed.atime) {
    parsed.kernel.emplace_back(*parsed.atime == AtimePolicy::noatime       ? "noatime"
                               : *parsed.atime == AtimePolicy::strictatime ? "strictatime"
                                                                           : "relatime");
  }
  if (parsed.directory_atime) parsed.kernel.emplace_back(*parsed.directory_atime ? "diratime" : "nodiratime");
}

Result<void> apply(ParsedOptions& parsed, std::string_view option, bool sloppy) {
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
  if (option == "nofail") {
    parsed.nofail = true;
    return {};
  }
  if (option == "remount") return {};
  if (option == "writeback") {
    parsed.writeback = true;
    return {};
  }
  if (option == "acl" || option == "noacl") {
    parsed.acl = option == "acl";
    return {};
  }
  if (const auto policy = atime_policy(option)) {
    parsed.atime = policy;
    return {};
  }
  if (option == "diratime" || option == "nodiratime") {
    parsed.directory_atime = option == "diratime";
    return {};
  }
  if (contains(kForTheKernel, option)) {
    parsed.kernel.emplace_back(option);
    return {};
  }
  if (option.empty() || contains(kIgnored, option) || begins_with(kIgnoredStarts, option)) return {};
  if (sloppy || (parsed.remount && begins_with(kOfTheMountTable, option))) return {};
  return bad(option, "unknown; lsmfs mount --help lists what there is");
}

template <class Visit>
Result<void> for_each_word(const std::vector<std::string>& lists, Visit visit) {
  for (const std::string_view list : lists) {
    for (std::size_t at = 0; at <= list.size();) {
      const auto comma = std::min(list.find(',', at), list.size());
      LSMFS_TRY(visit(list.substr(at, comma - at)));
      at = comma + 1;
    }
  }
  return {};
}

}  // namespace

Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists, bool sloppy) {
  ParsedOptions parsed;
  LSMFS_TRY(for_each_word(lists, [&](std::string_view option) -> Result<void> {
    parsed.remount |= option == "remount";
    return {};
  }));
  LSMFS_TRY(for_each_word(lists, [&](std::string_view option) { return apply(parsed, option, sloppy); }));
  tell_kernel_of_atime(parsed);
  return parsed;
}

}  // namespace lsmfs::cli

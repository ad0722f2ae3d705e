#include "cli/mount_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cli/choices.h"
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

// The words about access times mean together what they do to mount(8) since util-linux 2.39: of those that name a policy the last one
// counts, unless its opposite takes it back. (Before, what counted was up to the kernel, to which all of them went.)
class AtimeWords {
 public:
  bool take(std::string_view option) {
    if (option == "nodiratime" || option == "diratime") {
      directories_ = option == "diratime";
      return true;
    }
    for (const Policy& policy : kPolicies) {
      if (option != policy.name && option != policy.opposite) continue;
      said_ = true;
      std::erase(policies_, policy.policy);
      if (option == policy.name) policies_.push_back(policy.policy);
      return true;
    }
    return false;
  }

  void put(ParsedOptions& parsed) const {
    if (said_) parsed.atime = policies_.empty() ? AtimePolicy::relatime : policies_.back();
    parsed.directory_atime = directories_;
  }

  static std::string_view name(AtimePolicy policy) {
    return std::ranges::find(kPolicies, policy, &Policy::policy)->name;
  }

 private:
  struct Policy {
    std::string_view name, opposite;
    AtimePolicy policy;
  };
  static constexpr Policy kPolicies[] = {{"noatime", "atime", AtimePolicy::noatime},
                                         {"relatime", "norelatime", AtimePolicy::relatime},
                                         {"strictatime", "nostrictatime", AtimePolicy::strictatime}};
  bool said_ = false;  // anything about a policy
  std::vector<AtimePolicy> policies_;
  std::optional<bool> directories_;
};

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
  if ((name == "latency" || name == "io_uring") && equals != std::string_view::npos) {
    const auto choice = parse_choice(value);
    if (!choice) return bad(option, "give auto, on or off");
    (name == "latency" ? parsed.latency : parsed.io_uring) = choice;
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
  if (contains(kForTheKernel, option)) {
    parsed.kernel.emplace_back(option);
    if (option == "sync" || option == "async") parsed.synchronous = option == "sync";
    if (option == "dirsync") parsed.dirsync = true;
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

// The kernel does not keep access times of FUSE files, but shows in the mount table what was asked for, so that must agree with what
// the daemon does. Told of one part of it, it takes the other as not wanted; told nothing, a remount leaves both as they are.
std::vector<std::string> ParsedOptions::kernel_options(AtimePolicy atime_now, bool directory_atime_now) const {
  std::vector<std::string> options = kernel;
  if (!atime && !directory_atime) return options;
  options.emplace_back(AtimeWords::name(atime.value_or(atime_now)));
  if (!directory_atime.value_or(directory_atime_now)) options.emplace_back("nodiratime");
  return options;
}

Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists, bool sloppy) {
  ParsedOptions parsed;
  LSMFS_TRY(for_each_word(lists, [&](std::string_view option) -> Result<void> {
    parsed.remount |= option == "remount";
    return {};
  }));
  AtimeWords atime;
  LSMFS_TRY(for_each_word(lists, [&](std::string_view option) {
    return atime.take(option) ? Result<void>() : apply(parsed, option, sloppy);
  }));
  atime.put(parsed);
  return parsed;
}

}  // namespace lsmfs::cli

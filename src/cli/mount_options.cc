#include "cli/mount_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "cli/choices.h"
#include "cli/nearest.h"
#include "cli/sizes.h"
#include "cli/snapshot_names.h"

namespace lsmfs::cli {
namespace {

// Beside those of the table.
constexpr std::array<std::string_view, 7> kForTheKernel{"suid", "dev", "exec", "async", "nolazytime", "symfollow", "nosymfollow"};
// What fstab entries say to mount(8) and to systemd, and what has no meaning here.
constexpr std::array<std::string_view, 19> kIgnored{
    "defaults", "auto",    "noauto", "_netdev", "user",     "nouser",     "users",  "nousers", "owner",
    "noowner",  "group",   "nogroup", "silent", "loud",   "iversion", "noiversion", "mand",   "nomand",  "default_permissions"};
constexpr std::array<std::string_view, 5> kIgnoredStarts{"x-", "X-", "comment=", "user=", "uhelper="};
// What other file systems know, from whose entries in fstab it comes along. A start ends with "=".
struct Foreign {
  std::string_view word, hint;
};
constexpr std::string_view kAlwaysSo = "is always so here; leave it out", kNeverSo = "cannot be switched off; leave it out";
constexpr std::string_view kNoJournal = "there is no journal, and all changes are in order; leave it out", kNoQuotas = "there are no quotas";
constexpr std::string_view kCompressed = "all is compressed where that saves space; leave it out", kTuning = "there is nothing of that kind to set here; leave it out";
constexpr std::string_view kChecksums = "all has checksums, and nothing is written in place; leave it out";
constexpr std::string_view kOwners = "owners and modes are kept in the file system; use chown and chmod";
constexpr Foreign kForeign[] = {
    {"discard", "freed space is discarded by fstrim or lsmfs trim; leave it out"},
    {"nodiscard", kAlwaysSo}, {"user_xattr", "is always so here, but with noxattr; leave it out"}, {"barrier", kAlwaysSo}, {"barrier=1", kAlwaysSo}, {"delalloc", kAlwaysSo},
    {"nouser_xattr", "noxattr leaves out those of all kinds"}, {"nobarrier", kNeverSo}, {"barrier=0", kNeverSo}, {"nodelalloc", kNeverSo},
    {"commit=", "sync_interval=SECONDS does that here"}, {"data=", kNoJournal}, {"journal_checksum", kNoJournal}, {"journal_async_commit", kNoJournal},
    {"noload", "ro replays the log in memory alone; leave it out"}, {"norecovery", "ro replays the log in memory alone; leave it out"},
    {"errors=", "after an error of the device nothing more is written; leave it out"},
    {"quota", kNoQuotas}, {"usrquota", kNoQuotas}, {"grpquota", kNoQuotas}, {"prjquota", kNoQuotas}, {"uquota", kNoQuotas}, {"gquota", kNoQuotas},
    {"pquota", kNoQuotas}, {"usrjquota=", kNoQuotas}, {"grpjquota=", kNoQuotas}, {"jqfmt=", kNoQuotas},
    {"compress", kCompressed}, {"compress=", kCompressed},
    {"compress-force", kCompressed}, {"compress-force=", kCompressed}, {"nodatacow", kChecksums}, {"nodatasum", kChecksums},
    {"datacow", kAlwaysSo}, {"datasum", kAlwaysSo}, {"degraded", "it lies on one device"}, {"device=", "it lies on one device"},
    {"ssd", kTuning}, {"nossd", kTuning}, {"space_cache", kTuning}, {"space_cache=", kTuning}, {"nospace_cache", kTuning}, {"clear_cache", kTuning},
    {"thread_pool=", kTuning}, {"max_inline=", kTuning}, {"flushoncommit", kAlwaysSo}, {"skip_balance", kTuning}, {"usebackuproot", "lsmfs fsck repairs"},
    {"stripe=", kTuning}, {"inode_readahead_blks=", kTuning}, {"init_itable", kTuning}, {"init_itable=", kTuning}, {"noinit_itable", kTuning},
    {"journal_ioprio=", kNoJournal}, {"journal_dev=", kNoJournal}, {"journal_path=", kNoJournal}, {"logdev=", kNoJournal}, {"logbufs=", kNoJournal},
    {"logbsize=", kNoJournal}, {"auto_da_alloc", kAlwaysSo}, {"noauto_da_alloc", kNeverSo}, {"block_validity", kAlwaysSo}, {"noblock_validity", kNeverSo},
    {"max_batch_time=", kTuning}, {"min_batch_time=", kTuning}, {"dioread_lock", kTuning}, {"dioread_nolock", kTuning},
    {"resuid=", "what is kept back is for nobody; see df"}, {"resgid=", "what is kept back is for nobody; see df"},
    {"sb=", "the second superblock is found without it; leave it out"}, {"dax", "data is compressed, and cannot be mapped from the device"},
    {"grpid", "set the set-group-id bit of the directory instead"}, {"bsdgroups", "set the set-group-id bit of the directory instead"},
    {"nogrpid", kAlwaysSo}, {"sysvgroups", kAlwaysSo}, {"inode64", kAlwaysSo}, {"inode32", kNeverSo}, {"attr2", kAlwaysSo}, {"largeio", kTuning},
    {"nolargeio", kTuning}, {"allocsize=", kTuning}, {"sunit=", kTuning}, {"swidth=", kTuning}, {"noalign", kTuning}, {"ikeep", kTuning}, {"noikeep", kTuning},
    {"swalloc", kTuning}, {"filestreams", kTuning}, {"wsync", "dirsync does that here"}, {"rtdev=", "it lies on one device"},
    {"nouuid", "lsmfs tune -U random gives a copy a UUID of its own; leave it out"}, {"noquota", kAlwaysSo}, {"nobh", kTuning}, {"bh", kTuning},
    {"discard=", "freed space is discarded by fstrim or lsmfs trim; leave it out"},
    {"user_subvol_rm_allowed", "user_rm does that here"}, {"autodefrag", "order is kept without it; leave it out"}, {"subvol=", "there are no subvolumes"}, {"subvolid=", "there are no subvolumes"},
    {"uid=", kOwners}, {"gid=", kOwners}, {"umask=", kOwners}, {"fmask=", kOwners}, {"dmask=", kOwners}};

// What the mount table says of every FUSE mount: mount(8) hands it on when it remounts.
constexpr std::array<std::string_view, 5> kOfTheMountTable{"user_id=", "group_id=", "blksize=", "max_read=", "seclabel"};

// Less does not hold RocksDB's write buffers and the tables' indexes.
constexpr ByteCount kCacheMin{16 * MiB};
constexpr std::uint64_t kSyncIntervalMax = 3600, kTimeoutMax = 86400;  // seconds

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

using Value = decltype(Setting::value);

Value value_of(bool value) { return value; }
Value value_of(ByteCount value) { return value.v; }
Value value_of(std::chrono::seconds value) { return static_cast<std::uint64_t>(value.count()); }
Value value_of(Choice value) { return std::string(text_of(value)); }

// What stays as it is for as long as it is mounted. `said`: what the option is read to; `Where`: gives its place among the options of the
// layers.
template <auto said, class Where>
constexpr MountOption lasting_option(std::string_view words, std::string_view fallback, std::string_view help, std::string_view fact,
                                     Result<void> (*read)(ParsedOptions&, std::string_view, std::string_view), Where) {
  return {.words = words, .fallback = fallback, .help = help, .read = read,
          .put = [](const ParsedOptions& parsed, LayerOptions& layers) { Where()(layers) = (parsed.*said).value_or(Where()(layers)); },
          .fact = fact,
          .said = [](const ParsedOptions& parsed) { return parsed.*said ? std::optional(value_of(*(parsed.*said))) : std::nullopt; },
          .used = [](const LayerOptions& layers) { return value_of(Where()(layers)); }};
}

Result<void> wrong(std::string why) { return make_error(EINVAL, std::move(why)); }

template <auto to>
Result<void> read_choice(ParsedOptions& parsed, std::string_view, std::string_view value) {
  parsed.*to = parse_choice(value);
  return parsed.*to ? Result<void>() : wrong("give auto, on or off");
}

Result<void> read_kernel(ParsedOptions& parsed, std::string_view word, std::string_view) {
  parsed.kernel.emplace_back(word);
  if (word == "sync" || word == "async") parsed.synchronous = word == "sync";
  if (word == "dirsync") parsed.dirsync = true;
  return {};
}

std::uint64_t memory_of_this_machine() { return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

constexpr MountOption kOptions[] = {
    {.words = "ro, rw", .fallback = "rw", .help = "read only; read and write",
     .read = [](ParsedOptions& parsed, std::string_view word, std::string_view) -> Result<void> {
       parsed.read_only = word == "ro";
       return {};
     },
     .put = [](const ParsedOptions& parsed, LayerOptions& layers) { layers.mount.read_only = parsed.read_only; },
     .change = [](const ParsedOptions& parsed, MountSettings& settings) { settings.tree.read_only = parsed.read_only; }},
    lasting_option<&ParsedOptions::cache>(
        "cache=SIZE", "256M", "memory for data, indexes and unwritten changes", "cache_bytes",
        [](ParsedOptions& parsed, std::string_view, std::string_view value) -> Result<void> {
          const auto size = parse_size(value);
          if (!size || *size < kCacheMin) {
            return wrong(fmt::format("give a size of at least {}, as in cache=256M", format_size(kCacheMin.v)));
          }
          if (const std::uint64_t there = memory_of_this_machine(); size->v > there) {
            return wrong(fmt::format("this machine has {} of memory", format_size(there)));
          }
          parsed.cache = *size;
          return {};
        },
        [](auto& layers) -> auto& { return layers.open.store.cache; }),
    {.words = "sync_interval=SECONDS", .fallback = "5", .help = "make changes durable this often; 0: only when programs ask",
     .read = [](ParsedOptions& parsed, std::string_view, std::string_view value) -> Result<void> {
       const auto seconds = parse_number(value, kSyncIntervalMax);
       if (!seconds) return wrong(fmt::format("give 0 (never) to {} seconds", kSyncIntervalMax));
       parsed.sync_interval_ms = static_cast<std::uint32_t>(*seconds * 1000);
       return {};
     },
     .put = [](const ParsedOptions& parsed, LayerOptions& layers) {
       layers.open.tree.sync_interval_ms = parsed.sync_interval_ms.value_or(layers.open.tree.sync_interval_ms);
     },
     .change = [](const ParsedOptions& parsed, MountSettings& settings) { settings.tree.sync_interval_ms = parsed.sync_interval_ms; }},
    lasting_option<&ParsedOptions::timeout>(
        "timeout=SECONDS", "60", "for how long requests wait for an NBD server that is away", "timeout_seconds",
        [](ParsedOptions& parsed, std::string_view, std::string_view value) -> Result<void> {
          const auto seconds = parse_number(value, kTimeoutMax);
          if (!seconds) return wrong(fmt::format("give 0 (give up at once) to {} seconds", kTimeoutMax));
          parsed.timeout = std::chrono::seconds(*seconds);
          return {};
        },
        [](auto& layers) -> auto& { return layers.timeout; }),
    {.words = "relatime, noatime, strictatime, nodiratime", .fallback = "relatime", .help = "when reading updates access times", .read = nullptr,
     .put = [](const ParsedOptions& parsed, LayerOptions& layers) {
       TreeOptions& tree = layers.open.tree;
       layers.mount.kernel_options = parsed.kernel_options(tree.atime, tree.directory_atime);
       tree.atime = parsed.atime.value_or(tree.atime);
       tree.directory_atime = parsed.directory_atime.value_or(tree.directory_atime);
     },
     .change = [](const ParsedOptions& parsed, MountSettings& settings) {
       settings.tree.atime = parsed.atime;
       settings.tree.directory_atime = parsed.directory_atime;
     }},
    lasting_option<&ParsedOptions::acl>(
        "acl, noacl", "acl", "keep POSIX access control lists and go by them", "acl",
        [](ParsedOptions& parsed, std::string_view word, std::string_view) -> Result<void> {
          parsed.acl = word == "acl";
          if (*parsed.acl && parsed.xattr) parsed.xattr = true;
          return {};
        },
        [](auto& layers) -> auto& { return layers.mount.acl; }),
    // Lists are attributes: of the words of both options the last counts, and this one is put after the other.
    {.words = "xattr, noxattr", .fallback = "xattr",
     .help = "keep extended attributes; without: no access lists, no file capabilities, fewer requests",
     .read = [](ParsedOptions& parsed, std::string_view word, std::string_view) -> Result<void> {
       parsed.xattr = word == "xattr";
       if (!*parsed.xattr) parsed.acl.reset();
       return {};
     },
     .put = [](const ParsedOptions& parsed, LayerOptions& layers) {
       layers.mount.xattr = parsed.xattr.value_or(layers.mount.xattr);
       if (!layers.mount.xattr) layers.mount.acl = false;
     },
     .fact = "xattr",
     .said = [](const ParsedOptions& parsed) { return parsed.xattr ? std::optional(value_of(*parsed.xattr)) : std::nullopt; },
     .used = [](const LayerOptions& layers) { return value_of(layers.mount.xattr); }},
    lasting_option<&ParsedOptions::user_rm>(
        "user_rm, nouser_rm", "nouser_rm", "let the owner of a directory remove it by lsmfs rm, or roll it back", "user_rm",
        [](ParsedOptions& parsed, std::string_view word, std::string_view) -> Result<void> {
          parsed.user_rm = word == "user_rm";
          return {};
        },
        [](auto& layers) -> auto& { return layers.mount.user_rm; }),
    {.words = "snapshot=NAME", .fallback = "", .help = "show this snapshot alone, read-only; also where the whole is mounted already",
     .read = [](ParsedOptions& parsed, std::string_view, std::string_view value) -> Result<void> {
       if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
       if (!wrong_snapshot_name(value).empty()) return wrong("give a name that lsmfs snapshots lists, without a /");
       parsed.snapshot = std::string(value);
       return {};
     },
     .put = [](const ParsedOptions& parsed, LayerOptions& layers) {
       if (parsed.snapshot) layers.mount.shows = snapshot_path(*parsed.snapshot);
     },
     .fact = "snapshot",
     .said = [](const ParsedOptions& parsed) { return parsed.snapshot ? std::optional<Value>(*parsed.snapshot) : std::nullopt; },
     .used = [](const LayerOptions& layers) -> Value { return layers.mount.shows.empty() ? "" : layers.mount.shows.substr(snapshot_path("").size()); }},
    {.words = "remount", .fallback = "", .help = "change the options of what is mounted there, as ro and rw", .read = nullptr,
     .put = [](const ParsedOptions&, LayerOptions&) {}, .change = [](const ParsedOptions&, MountSettings&) {}},
    lasting_option<&ParsedOptions::latency>(
        "latency=auto|on|off", "auto: if permitted", "keep CPUs from sleeping while requests are served", "latency",
        read_choice<&ParsedOptions::latency>, [](auto& layers) -> auto& { return layers.mount.latency; }),
    lasting_option<&ParsedOptions::io_uring>(
        "io_uring=auto|on|off", "auto: if the kernel has that switched on", "take requests by a ring for each processor; on, by root, switches that on in the kernel", "io_uring",
        read_choice<&ParsedOptions::io_uring>, [](auto& layers) -> auto& { return layers.mount.io_uring; }),
    lasting_option<&ParsedOptions::writeback>(
        "writeback", "", "let the kernel gather small writes before the daemon sees them", "writeback",
        [](ParsedOptions& parsed, std::string_view, std::string_view) -> Result<void> {
          parsed.writeback = true;
          return {};
        },
        [](auto& layers) -> auto& { return layers.mount.writeback; }),
    {.words = "sync, dirsync", .fallback = "", .help = "what is written, or only what makes and removes names, is durable at once",
     .read = read_kernel,
     .put = [](const ParsedOptions& parsed, LayerOptions& layers) { layers.mount.durable_names = parsed.durable_names(); },
     .change = [](const ParsedOptions& parsed, MountSettings& settings) { settings.durable_names = parsed.durable_names(); }},
    {.words = "nosuid, nodev, noexec, lazytime, allow_other", .fallback = "", .help = "as for other file systems", .read = read_kernel,
     .put = [](const ParsedOptions&, LayerOptions&) {}, .change = [](const ParsedOptions&, MountSettings&) {}},
};

// Of the table. The last would have a stranger's volume change the kernel.
constexpr std::array<std::string_view, 4> kNeverKept{"remount", "allow_other", "user_rm", "io_uring=on"};
// Nobody could mount the whole any more.
constexpr std::array<std::string_view, 1> kNeverKeptStarts{"snapshot="};

std::string_view name_of(std::string_view word) { return word.substr(0, word.find('=')); }
bool has_value(std::string_view word) { return word.find('=') != word.npos; }

// Of an option, as its help writes them.
std::vector<std::string_view> words_of(const MountOption& option) {
  std::vector<std::string_view> words;
  for (std::string_view rest = option.words; !rest.empty();) {
    words.push_back(rest.substr(0, rest.find(", ")));
    rest.remove_prefix(std::min(words.back().size() + 2, rest.size()));
  }
  return words;
}

// Whether a word is one of an option's.
bool is_of(const MountOption& option, std::string_view word) {
  return std::ranges::any_of(words_of(option), [&](std::string_view one) { return name_of(one) == name_of(word) && has_value(one) == has_value(word); });
}

// Of a word that is not known: what would be right.
std::string hint_for(std::string_view word) {
  for (const Foreign& foreign : kForeign) {
    if (word == foreign.word || (foreign.word.ends_with('=') && word.starts_with(foreign.word))) return std::string(foreign.hint);
  }
  std::vector<std::string_view> known(kForTheKernel.begin(), kForTheKernel.end());
  std::ranges::copy(kIgnored, std::back_inserter(known));
  for (const MountOption& option : kOptions) {
    for (const std::string_view one : words_of(option)) {
      if (name_of(one) == name_of(word)) return fmt::format("write {}", one);  // with a value, or without one
      known.push_back(name_of(one));
    }
  }
  const std::string_view meant = nearest(name_of(word), known);
  return fmt::format("unknown{}; lsmfs mount --help lists what there is", meant.empty() ? "" : fmt::format(", did you mean {}?", meant));
}

Result<void> apply(ParsedOptions& parsed, std::string_view word, bool sloppy) {
  const auto bad = [&](std::string_view why) { return make_error(EINVAL, fmt::format("option {}: {}", word, why)); };
  if (word == "remount") return {};
  if (const auto option = std::ranges::find_if(kOptions, [&](const auto& each) { return each.read && is_of(each, word); });
      option != std::end(kOptions)) {
    const auto read = option->read(parsed, word, word.substr(std::min(word.find('='), word.size() - 1) + 1));
    return read ? read : bad(read.error().context);
  }
  if (contains(kForTheKernel, word) || begins_with(kLabelOptions, word)) return read_kernel(parsed, word, {});
  if (word == "nofail") {
    parsed.nofail = true;
    return {};
  }
  if (word.empty() || contains(kIgnored, word) || begins_with(kIgnoredStarts, word)) return {};
  if (sloppy || (parsed.remount && begins_with(kOfTheMountTable, word))) return {};
  return bad(hint_for(word));
}

// As mount(8) takes them apart: a comma between double quotes is one of the word.
std::size_t end_of_word(std::string_view list, std::size_t at) {
  bool quoted = false;
  for (; at < list.size() && (quoted || list[at] != ','); ++at) quoted ^= list[at] == '"';
  return at;
}

template <class Visit>
Result<void> for_each_word(const std::vector<std::string>& lists, Visit visit) {
  for (const std::string_view list : lists) {
    for (std::size_t at = 0; at <= list.size();) {
      const auto comma = end_of_word(list, at);
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

std::span<const MountOption> mount_options() { return kOptions; }

std::string mount_options_help() {
  constexpr std::size_t kColumn = 27;
  std::string help;
  for (const MountOption& option : kOptions) {
    std::string line = fmt::format("  {}", option.words);
    if (line.size() + 1 >= kColumn) {
      help += line + '\n';
      line.clear();
    }
    line.resize(kColumn, ' ');
    help += fmt::format("{}{}{}\n", line, option.help, option.fallback.empty() ? "" : fmt::format(" (default {})", option.fallback));
  }
  return help;
}

LayerOptions layer_options(const ParsedOptions& parsed) {
  LayerOptions layers;
  for (const MountOption& option : kOptions) option.put(parsed, layers);
  return layers;
}

MountSettings changes(const ParsedOptions& parsed) {
  MountSettings settings;
  for (const MountOption& option : kOptions) {
    if (option.change) option.change(parsed, settings);
  }
  return settings;
}

std::vector<Setting> lasting(const LayerOptions& layers) {
  std::vector<Setting> settings;
  for (const MountOption& option : kOptions) {
    if (!option.change) settings.push_back({std::string(option.fact), option.used(layers)});
  }
  return settings;
}

std::optional<std::string> first_change(const ParsedOptions& parsed, const std::vector<Setting>& used) {
  for (const MountOption& option : kOptions) {
    const auto said = option.change ? std::nullopt : option.said(parsed);
    if (said && std::ranges::find(used, Setting{std::string(option.fact), *said}) == used.end()) {
      return std::string(option.words.substr(0, option.words.find_first_of(",=")));
    }
  }
  return std::nullopt;
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
  parsed.read_only |= parsed.snapshot.has_value();
  return parsed;
}

Result<void> check_kept_options(const std::string& list) {
  LSMFS_TRY(parse_mount_options({list}));
  return for_each_word({list}, [](std::string_view word) -> Result<void> {
    const bool kept = word.empty() || (!contains(kNeverKept, word) && !begins_with(kNeverKeptStarts, word) &&
                                       std::ranges::any_of(kOptions, [&](const MountOption& option) { return is_of(option, word); }));
    if (kept) return {};
    return make_error(EINVAL, fmt::format("option {}: is not kept; give it to mount", word));
  });
}

}  // namespace lsmfs::cli

#include "cli/snapshot_mount.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/snapshot_names.h"

namespace lsmfs::cli {
namespace {

constexpr std::size_t kNamesTold = 5;

// `names`: of those that there are, the first kNamesTold and one more if there are more.
Problem problem_of_missing(const std::string& path, const std::string& name, std::vector<std::string> names) {
  std::ranges::sort(names);
  const bool more = names.size() > kNamesTold;
  if (more) names.resize(kNamesTold);
  for (std::string& each : names) each = printable(each);
  const std::string there = names.empty() ? "there is none at all" : fmt::format("there are {}{}", fmt::join(names, ", "), more ? " and others, which lsmfs snapshots lists" : "");
  return {kMountFailure, fmt::format("{}: has no snapshot {}; {}", path, printable(name), there)};
}

// Some of them, for problem_of_missing().
std::vector<std::string> names_of_snapshots(const std::string& mount_point) {
  std::vector<std::string> names;
  const auto directory = open_part(mount_point, std::string(kSnapshotsName));
  std::error_code failed;
  if (!directory) return names;
  for (std::filesystem::directory_iterator at(fmt::format("/proc/self/fd/{}", directory->get()), failed), end; !failed && at != end && names.size() <= kNamesTold; at.increment(failed)) {
    names.push_back(at->path().filename());
  }
  return names;
}

// Whoever mounts as a user may call that what he likes.
bool is_roots(const MountEntry& mount) { return fmt::format(",{},", mount.options).find(",user_id=0,") != std::string::npos; }

// Where all of it is mounted, and to be seen; nullopt: nowhere. `part`: where something else of it is.
std::optional<MountEntry> whole_mount_of(const std::vector<MountEntry>& mounts, const std::string& path, std::optional<MountEntry>& part) {
  for (const MountEntry& mount : mounts) {
    if (!mount.is_lsmfs() || mount.source != path || !is_roots(mount)) continue;
    if (mount.root != "/") {
      part = mount;
      continue;
    }
    const auto visible = own_mount(mounts, mount.mount_point);
    if (visible && visible->id == mount.id) return mount;
  }
  return std::nullopt;
}

}  // namespace

std::string snapshot_shown_by(const MountEntry& mount) {
  const std::string above = "/" + snapshot_path("");
  if (!mount.root.starts_with(above) || mount.root.find('/', above.size()) != std::string::npos) return "";
  return mount.root.substr(above.size());
}

bool shows_snapshot(const std::string& directory, const std::string& path, const std::string& name) {
  const auto mount = mounted_at(directory);
  return mount && *mount && (*mount)->is_lsmfs() && (*mount)->source == path && snapshot_shown_by(**mount) == name;
}

std::optional<Problem> mount_snapshot_beside(const std::string& path, const std::string& directory, const ParsedOptions& options, bool fake) {
  const auto mounts = mount_table();
  if (!mounts) return Problem{kSystemError, mounts.error().message()};
  std::optional<MountEntry> part;
  const auto whole = whole_mount_of(*mounts, path, part);
  if (!whole && part) {
    return Problem{kMountFailure, fmt::format("{}: only its {} is mounted, at {}; unmount that, and mount all of it before its parts", path, part->root.substr(1), part->mount_point)};
  }
  if (!whole) return std::nullopt;
  const auto place = snapshots_of(whole->mount_point);
  if (!place) return Problem{kMountFailure, place.error().context};
  const auto snapshot = open_part(whole->mount_point, snapshot_path(*options.snapshot));
  if (!snapshot && snapshot.error().code == ENOENT) return problem_of_missing(path, *options.snapshot, names_of_snapshots(whole->mount_point));
  if (!snapshot) return Problem{kMountFailure, explain_showing(directory, snapshot.error())};
  if (fake) return Problem{kOk, ""};
  if (const auto done = mount_part(*snapshot, directory, options.kernel); !done) return Problem{kMountFailure, explain_showing(directory, done.error())};
  return Problem{kOk, ""};
}

std::string explain_showing(const std::string& directory, const Error& error) {
  switch (error.code) {
    case EPERM:
      return directory + ": no permission to mount there";
    case ENOSYS:
      return directory + ": this kernel cannot mount a part of what is mounted; that takes Linux 5.12";
    case EXDEV:
      return error.context + ": is hidden by something else that is mounted there; unmount that first";
    case ELOOP:
      return error.context + ": leads through a symbolic link, as no snapshot does; unmount the file system, and check it with lsmfs fsck";
    default:
      return explain(error.context, error);
  }
}

std::optional<Problem> missing_snapshot(Tree& tree, const std::string& path, const std::string& name) {
  const auto problem = [&](const Error& error) { return Problem{kMountFailure, explain(path, error)}; };
  const auto directory = tree.lookup(kRootIno, kSnapshotsName, Wait::yes);
  if (!directory) return problem(directory.error());
  if (!*directory) return problem_of_missing(path, name, {});
  const Ino place = (*directory)->ino;
  std::optional<Problem> missing;
  const auto found = tree.lookup(place, name, Wait::yes);
  if (!found) {
    missing = problem(found.error());
  } else if (*found) {
    tree.forget((*found)->ino, 1);
  } else {
    std::vector<std::string> names;
    const auto read = tree.readdir(place, 0, AttrsOf::none, [&](const DirEntry& entry) {
      if (entry.name != "." && entry.name != "..") names.emplace_back(entry.name);
      return names.size() <= kNamesTold;
    }, Wait::yes);
    missing = read ? problem_of_missing(path, name, std::move(names)) : problem(read.error());
  }
  tree.forget(place, 1);
  return missing;
}

}  // namespace lsmfs::cli

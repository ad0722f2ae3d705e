// lsmfs umount: returns when all is on disk, or when it can say who still uses the file system elsewhere.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "cli/commands.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/facts.h"
#include "cli/holders.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "cli/snapshot_mount.h"
#include "lsmfs/clock.h"
#include "lsmfs/device.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kNewNamespace = 2s;

// The daemon of a mount, whose end is waited for. It ends some time after the mount is gone, when all is written. Made before the
// mount goes: afterwards nothing says where the daemon is.
class Daemon {
 public:
  Daemon(const MountEntry& mount, const std::string& directory) : source_(mount.source) {
    // It has a lock on the device or image. Whoever mounted that may have given any name, and it may have another one by now.
    image_ = open_to_look(source_);
    if (image_ && is_locked(*image_)) return;
    image_ = make_error(ENOENT, source_);
    const auto facts = query_mount(directory);
    if (!facts) {
      ended_ = facts.error().code == ENOTCONN || facts.error().code == ECONNABORTED;
      return;
    }
    // Of this system call the C library knows nothing before 2.36.
    if (const auto id = daemon_in_facts(*facts)) process_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, *id, 0)));
  }

  bool had_ended() const { return ended_; }

  // Says so if it takes long. Whoever may neither open the image nor see the daemon cannot wait.
  void wait_for_end() {
    const auto begin = system_clock().now();
    for (bool said = false; serves();) {
      if (!said && system_clock().now() - begin > kWorthAWord) {
        tell(source_ + ": waiting until all is on it");
        said = true;
      }
    }
  }

 private:
  static constexpr auto kWorthAWord = 1s;
  static constexpr auto kBetweenLooks = 5ms;

  // Waits for a moment if it does.
  bool serves() const {
    if (process_) {
      pollfd end{process_.get(), POLLIN, 0};
      return ::poll(&end, 1, static_cast<int>(kBetweenLooks / 1ms)) <= 0;
    }
    // A next mount may have taken the lock, and would be waited for to its end.
    if (!image_ || !is_locked(*image_) || mounted_where(source_)) return false;
    system_clock().sleep(kBetweenLooks);
    return true;
  }

  const std::string source_;
  Result<Fd> image_ = Fd();  // or an error: the lock tells nothing
  Fd process_;               // or none
  bool ended_ = false;
};

Problem problem_of(const Error& error, const std::string& directory, const MountEntry& mount) {
  switch (error.code) {
    case EBUSY: {
      auto users = processes_in(mount);
      constexpr std::size_t kNamed = 5;
      const std::string more = users.size() > kNamed ? fmt::format(" and {} more", users.size() - kNamed) : "";
      users.resize(std::min(users.size(), kNamed));
      if (users.empty()) return {kMountFailure, directory + ": is in use; end the programs that have files open there (fuser -m)"};
      return {kMountFailure, fmt::format("{}: is in use by {}{}; end that first", directory, fmt::join(users, ", "), more)};
    }
    case EPERM:
      return {kUsage, directory + ": no permission to unmount it"};
    default:
      return {kMountFailure, fmt::format("{}: {}", directory, error.message())};
  }
}

// Waits until no copy of the mount is left that matters, or until it is `due`; gives all that are.
template <class Matters>
std::vector<MountCopy> left_at(Clock::Time due, const MountEntry& mount, const Matters& matters) {
  for (;; system_clock().sleep(20ms)) {
    auto left = mounts_left_of(mount);
    if (std::ranges::none_of(left, matters) || system_clock().now() >= due) return left;
  }
}

// Whether its file system is mounted still, or another snapshot of it. Not a directory below the same one (mount --bind).
bool is_shown_otherwise(const MountEntry& mount) {
  const auto table = mount_table();
  return table && std::ranges::any_of(*table, [&](const MountEntry& other) { 
    return mount.shows_same(other) && other.root != mount.root && (other.root == "/" || !snapshot_shown_by(other).empty());
  });
}

}  // namespace

int umount(const UmountArguments& arguments) {
  const std::string directory = absolute_path(arguments.directory);
  const auto mount = mounted_at(directory);
  if (!mount) return report({kSystemError, mount.error().message()});
  if (!*mount) return report({kMountFailure, directory + ": is not mounted"});
  if (!(*mount)->is_lsmfs()) {
    return report({kMountFailure, fmt::format("{}: is a mount of type {}, not lsmfs; use umount", directory, (*mount)->type)});
  }
  Daemon daemon(**mount, directory);
  if (const auto done = unmount(directory, false); !done) return report(problem_of(done.error(), directory, **mount));
  if (daemon.had_ended()) {
    return report({kMountFailure, fmt::format("{}: is unmounted, but its daemon had ended before; what was not synced then is lost", directory)});
  }
  // What shows a snapshot alone has nothing to write, as long as it is served for others.
  if (!snapshot_shown_by(**mount).empty() && is_shown_otherwise(**mount)) return kOk;
  // Who makes a mount namespace has copies of all mounts for a moment.
  const auto left = left_at(system_clock().now() + kNewNamespace, **mount, [](const MountCopy& copy) { return copy.process != 0; });
  for (const MountCopy& copy : left) tell(fmt::format("{}: is not here any more, and still {}", (*mount)->source, copy.text()));
  if (!left.empty()) {
    if (!arguments.wait) return kOk;
    (void)left_at(Clock::kNever, **mount, [](const MountCopy&) { return true; });
  }
  daemon.wait_for_end();
  return kOk;
}

}  // namespace lsmfs::cli

#include "cli/device_use.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "cli/facts.h"
#include "cli/holders.h"
#include "cli/storage.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenLooks = 10ms;
// The kernel gives up a mount's claim on its block device after the daemon has ended, by itself and unseen. That is a
// matter of milliseconds, unless the machine is busy or slow. So is what a new mount namespace shows at first.
constexpr auto kGoes = 5s;
constexpr auto kClosing = 60s;
constexpr auto kWorthAWord = 200ms;

bool is_swap(const std::string& path) {
  std::ifstream swaps("/proc/swaps");
  for (std::string line; std::getline(swaps, line);) {
    if (line.starts_with(path + " ") || line.starts_with(path + "\t")) return true;
  }
  return false;
}

bool is_claimed(const std::string& path) {
  const auto fd = open_to_look(path, O_EXCL);
  return !fd && fd.error().code == EBUSY;
}

bool is_path_locked(const std::string& path) {
  const auto fd = open_to_look(path);
  return fd && is_locked(*fd);
}

// Who has a lock of flock(2) on the file. proc(5): "1: FLOCK ADVISORY WRITE 123 08:01:456 0 EOF", the device in hexadecimal digits.
std::optional<pid_t> lock_holder(const Storage& file) {
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    long process = 0;
    unsigned first = 0, second = 0;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &process, &first, &second, &inode) != 4) continue;
    if (process > 0 && inode == file.inode && makedev(first, second) == file.device) return static_cast<pid_t>(process);
  }
  return std::nullopt;
}

// What a path leads to, and by what other names the same bytes can be reached.
class Target {
 public:
  explicit Target(const std::string& path) : path_(path), storage_(storage_of(path)) {
    struct stat facts {};
    if (stat(path.c_str(), &facts) != 0) return;
    there_ = true;
    block_ = S_ISBLK(facts.st_mode);
    if (block_) number_ = fmt::format("{}:{}", major(facts.st_rdev), minor(facts.st_rdev));
    if (!storage_) return;
    others_ = loop_devices_over(*storage_);
    const auto self = std::ranges::find(others_, number_, &LoopDevice::number);
    if (self == others_.end()) return;
    // The kernel itself sees to it that the parts of one disk do not get into each other's way.
    const std::string disk = self->disk;
    file_ = self->file;
    std::erase_if(others_, [&](const LoopDevice& other) { return other.disk == disk; });
  }

  bool there() const { return there_; }

  // What can be told without opening it.
  std::optional<std::string> named_use() const {
    if (auto where = mounted()) return where;
    if (is_swap(path_)) return "used as swap";
    if (!block_ && !others_.empty()) return "attached to " + others_.front().path;
    return std::nullopt;
  }

  // By a daemon whose image has another name by now: who has the lock says where it serves.
  std::optional<std::string> served_under_an_old_name() const {
    const auto holder = storage_ ? lock_holder(*storage_) : std::nullopt;
    const auto table = mount_table();
    if (!holder || !table) return std::nullopt;
    for (const MountEntry& entry : *table) {
      if (!entry.is_lsmfs() || is_path_locked(entry.source)) continue;
      const auto facts = query_mount(entry.mount_point);
      if (facts && daemon_in_facts(*facts) == holder) return fmt::format("mounted at {}, as {}", entry.mount_point, entry.source);
    }
    return std::nullopt;
  }

  // Copies of a mount that other namespaces have. Who makes one has copies of all mounts for a moment.
  std::optional<std::string> mounted_elsewhere() const {
    for (const MountCopy& mount : foreign_mounts()) {
      if (shows(mount.entry, fmt::format("/proc/{}/root", mount.process))) return mount.text();
    }
    return std::nullopt;
  }

  // What is claimed of all that shows it.
  std::optional<std::string> claimed() const {
    if (!block_) return std::nullopt;
    if (is_claimed(path_)) return "claimed by another program, or by something on top of it";
    for (const LoopDevice& other : others_) {
      // With partitions one of them may be what is claimed, and not ours.
      const bool divided = std::ranges::count(others_, other.disk, &LoopDevice::disk) > 1 && other.number == other.disk;
      if (!divided && is_claimed(other.path)) return fmt::format("{} shows the same bytes, and is claimed by another program", other.path);
    }
    return std::nullopt;
  }

  // Whether another lsmfs has it, by this or any other name.
  bool locked() const { return is_path_locked(path_) || locked_elsewhere(); }
  // The other name.
  std::optional<std::string> locked_elsewhere() const {
    for (const LoopDevice& other : others_) {
      if (is_path_locked(other.path)) return other.path;
    }
    // The file may have another name by now, and another file its name.
    const auto file = file_.empty() ? std::nullopt : storage_of(file_);
    if (file && storage_ && file->overlaps(*storage_) && is_path_locked(file_)) return file_;
    return std::nullopt;
  }

 private:
  bool shows(const MountEntry& entry, const std::string& root = "") const {
    if (block_ && entry.device == number_) return true;
    if (!entry.is_lsmfs()) return false;
    if (entry.source == path_ && root.empty()) return true;
    const auto other = storage_of(root + entry.source);
    return storage_ && other && other->overlaps(*storage_);
  }

  // As a file system of any type under this device's number, or as one of ours by any name.
  std::optional<std::string> mounted() const {
    const auto table = mount_table();
    if (!table) return std::nullopt;
    const auto through = [&](const MountEntry& entry) {
      return entry.source == path_ || entry.device == number_ ? "" : ", as " + entry.source;
    };
    for (const MountEntry& entry : *table) {
      if (shows(entry)) return fmt::format("mounted at {}{}", entry.mount_point, through(entry));
    }
    for (const LoopDevice& other : others_) {
      const auto entry = std::ranges::find(*table, other.number, &MountEntry::device);
      if (entry != table->end()) return fmt::format("mounted at {}, as {}", entry->mount_point, other.path);
    }
    return std::nullopt;
  }

  const std::string path_;
  const std::optional<Storage> storage_;
  bool there_ = false, block_ = false;
  std::string number_;               // of a block device, "major:minor"
  std::string file_;                 // of a loop device, what it shows
  std::vector<LoopDevice> others_;   // that show a part of it, too
};

}  // namespace

bool is_locked(const Fd& file) { return ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR); }

std::optional<std::string> in_use(const std::string& path, Clock& clock) {
  for (const auto begin = clock.now();; clock.sleep(kBetweenLooks)) {
    const Target target(path);
    if (!target.there()) return std::nullopt;
    if (auto use = target.named_use()) return use;
    if (const auto other = target.locked_elsewhere()) return fmt::format("another lsmfs has {}, which is the same", *other);
    const auto mount = target.mounted_elsewhere();
    const auto use = mount ? mount : target.claimed();
    if (!use || clock.now() - begin > kGoes) return use;
  }
}

std::optional<std::string> in_use_for_good(const std::string& path, const std::function<void(std::string_view)>& notice, Clock& clock) {
  // A daemon whose mount is gone first writes what it has, under its lock.
  const auto begin = clock.now();
  for (bool said = false;; clock.sleep(kBetweenLooks)) {
    const Target target(path);
    if (!target.there()) return std::nullopt;
    if (!target.locked()) break;
    if (auto use = target.named_use()) return use;
    const auto waited = clock.now() - begin;
    auto use = target.mounted_elsewhere();
    if (use && waited > kGoes) return use;
    if (waited > kClosing) return "another lsmfs is still closing it";
    if (!said && !use && waited > kWorthAWord) {
      if (use = target.served_under_an_old_name(); use) return use;
      notice(path + ": another lsmfs is still closing it; waiting");
      said = true;
    }
  }
  return in_use(path, clock);
}

std::optional<std::string> mounted_where(const std::string& path) {
  const auto table = mount_table();
  if (!table) return std::nullopt;
  for (const auto& entry : *table) {
    if (entry.is_lsmfs() && entry.source == path) return entry.mount_point;
  }
  return std::nullopt;
}

}  // namespace lsmfs::cli

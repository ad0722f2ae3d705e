#include "cli/device_use.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "lsmfs/fuse.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenLooks = 10ms;
// The kernel gives up a mount's claim on its block device after the daemon has ended, by itself and unseen. That is a
// matter of milliseconds, unless the machine is busy or slow.
constexpr auto kClaimGoes = 5s;
constexpr auto kClosing = 60s;
constexpr auto kWorthAWord = 200ms;

std::optional<std::string> in_mount_table(const std::string& path, const struct stat& facts) {
  const auto table = mount_table();
  if (!table) return std::nullopt;
  const std::string number = fmt::format("{}:{}", major(facts.st_rdev), minor(facts.st_rdev));
  for (const auto& entry : *table) {
    if ((entry.is_lsmfs() && entry.source == path) || (S_ISBLK(facts.st_mode) && entry.device == number)) {
      return "mounted at " + entry.mount_point;
    }
  }
  return std::nullopt;
}

bool is_swap(const std::string& path) {
  std::ifstream swaps("/proc/swaps");
  for (std::string line; std::getline(swaps, line);) {
    if (line.starts_with(path + " ") || line.starts_with(path + "\t")) return true;
  }
  return false;
}

// The loop device that shows the image, if there is one.
std::optional<std::string> loop_device_of(const std::string& path) {
  std::error_code error;
  for (const auto& block : std::filesystem::directory_iterator("/sys/block", error)) {
    std::ifstream file(block.path() / "loop/backing_file");
    std::string backing;
    if (std::getline(file, backing) && backing == path) return "/dev/" + block.path().filename().string();
  }
  return std::nullopt;
}

bool is_claimed(const std::string& path) {
  const auto fd = open_to_look(path, O_EXCL);
  return !fd && fd.error().code == EBUSY;
}

bool is_locked(const std::string& path) {
  const auto fd = open_to_look(path);
  return fd && ::flock(fd->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// What can be told without opening it.
std::optional<std::string> named_use(const std::string& path, const struct stat& facts) {
  if (auto where = in_mount_table(path, facts)) return where;
  if (is_swap(path)) return "used as swap";
  if (S_ISREG(facts.st_mode)) {
    if (auto loop = loop_device_of(path)) return "attached to " + *loop;
  }
  return std::nullopt;
}

struct FreeProbe {
  void operator()(blkid_struct_probe* probe) const { blkid_free_probe(probe); }
};

std::string value_of(blkid_probe probe, const char* name) {
  const char* value = nullptr;
  return blkid_probe_lookup_value(probe, name, &value, nullptr) == 0 && value != nullptr ? value : "";
}

}  // namespace

std::optional<std::string> in_use(const std::string& path, Clock& clock) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return std::nullopt;
  for (const auto begin = clock.now();; clock.sleep(kBetweenLooks)) {
    if (auto use = named_use(path, facts)) return use;
    if (!S_ISBLK(facts.st_mode) || !is_claimed(path)) return std::nullopt;
    if (clock.now() - begin > kClaimGoes) return "claimed by another program, or by something on top of it";
  }
}

std::optional<std::string> in_use_for_good(const std::string& path, const std::function<void(std::string_view)>& notice, Clock& clock) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return std::nullopt;
  // A daemon whose mount is gone first writes what it has, under its lock.
  const auto begin = clock.now();
  for (bool said = false; is_locked(path); clock.sleep(kBetweenLooks)) {
    if (auto use = named_use(path, facts)) return use;
    const auto waited = clock.now() - begin;
    if (waited > kClosing) return "another lsmfs is still closing it";
    if (!said && waited > kWorthAWord) {
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

Result<std::optional<std::string>> signature(Device& device) {
  const auto own = read_volume_info(device);
  if (own) return std::optional("an lsmfs" + (own->label.empty() ? "" : fmt::format(" (label {})", own->label)));
  if (own.error().code == EUCLEAN) return std::optional<std::string>("a damaged lsmfs");
  if (own.error().code == EPROTONOSUPPORT) return std::optional<std::string>("an lsmfs of another version");
  if (own.error().code == ENOSPC) return std::optional<std::string>("an lsmfs that was larger");
  if (own.error().code != EMEDIUMTYPE) return own.error();

  // What is open here: the path may lead to something else by now. libblkid wants a descriptor of its own, without O_DIRECT.
  const std::string same = fmt::format("/proc/self/fd/{}", device.descriptor());
  const std::unique_ptr<blkid_struct_probe, FreeProbe> probe(blkid_new_probe_from_filename(same.c_str()));
  if (!probe) return make_error(errno, "cannot look for other file systems on " + device.path());
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL);
  blkid_probe_enable_partitions(probe.get(), 1);
  const int found = blkid_do_safeprobe(probe.get());
  if (found == -2) return std::optional<std::string>("signatures of several file systems");
  if (found < 0) return make_error(EIO, "cannot look for other file systems on " + device.path());
  if (found == 1) return std::optional<std::string>();
  const std::string type = value_of(probe.get(), "TYPE"), label = value_of(probe.get(), "LABEL");
  if (!type.empty()) return std::optional(label.empty() ? type : fmt::format("{} (label {})", type, label));
  return std::optional(fmt::format("a partition table ({})", value_of(probe.get(), "PTTYPE")));
}

}  // namespace lsmfs::cli

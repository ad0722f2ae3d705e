#include "cli/holders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

namespace lsmfs::cli {
namespace {

namespace fs = std::filesystem;

struct Process {
  pid_t id = 0;
  fs::path folder;  // in /proc
  std::string name() const {
    std::string name;
    std::getline(std::ifstream(folder / "comm"), name);
    return name;
  }
};

std::vector<Process> processes() {
  std::vector<Process> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    Process process{0, entry.path()};
    if (std::from_chars(name.data(), name.data() + name.size(), process.id).ptr == name.data() + name.size()) found.push_back(process);
  }
  return found;
}

// What tells one namespace from all others; {0, 0}: it cannot be looked at.
std::pair<dev_t, ino_t> mount_namespace(const fs::path& process) {
  struct stat facts {};
  if (stat((process / "ns/mnt").c_str(), &facts) != 0) return {};
  return {facts.st_dev, facts.st_ino};
}

bool is_of(const fs::path& link, const std::string& device) {
  struct statx facts {};
  if (statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &facts) != 0) return false;
  return fmt::format("{}:{}", facts.stx_dev_major, facts.stx_dev_minor) == device;
}

bool works_in(const Process& process, const std::string& device) {
  for (const char* link : {"cwd", "root", "exe"}) {
    if (is_of(process.folder / link, device)) return true;
  }
  std::error_code error;
  for (const char* folder : {"fd", "map_files"}) {
    for (const auto& entry : fs::directory_iterator(process.folder / folder, error)) {
      if (is_of(entry.path(), device)) return true;
    }
  }
  return false;
}

}  // namespace

std::string MountCopy::text() const {
  if (process == 0) return "mounted at " + entry.mount_point;
  return fmt::format("mounted at {} in the mount namespace of {} ({})", entry.mount_point, name, process);
}

std::vector<MountCopy> foreign_mounts() {
  std::vector<MountCopy> found;
  std::set<std::pair<dev_t, ino_t>> known{{}, mount_namespace("/proc/self")};
  for (const Process& process : processes()) {
    const auto place = mount_namespace(process.folder);
    if (known.contains(place)) continue;
    const auto table = mount_table(process.id);
    if (!table) continue;
    known.insert(place);
    for (const MountEntry& mount : *table) {
      if (mount.is_lsmfs()) found.push_back({mount, process.id, process.name()});
    }
  }
  return found;
}

std::vector<MountCopy> mounts_left_of(const MountEntry& entry) {
  std::vector<MountCopy> left;
  const auto table = mount_table();
  for (const MountEntry& other : table ? *table : std::vector<MountEntry>()) {
    if (entry.shows_same(other)) left.push_back({other, 0, ""});
  }
  for (const MountCopy& other : foreign_mounts()) {
    if (entry.shows_same(other.entry)) left.push_back(other);
  }
  return left;
}

std::vector<std::string> processes_in(const MountEntry& entry) {
  std::vector<std::string> found;
  for (const Process& process : processes()) {
    if (process.id != getpid() && works_in(process, entry.device)) found.push_back(fmt::format("{} ({})", process.name(), process.id));
  }
  return found;
}

}  // namespace lsmfs::cli

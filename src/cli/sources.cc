#include "cli/sources.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "cli/nbd_source.h"
#include "cli/paths.h"
#include "lsmfs/device.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

// proc(5): "   7        0     131072 loop0", sizes in KiB. What is too small is not even opened: floppies
// and empty drives may take their time.
std::vector<std::string> block_devices() {
  std::vector<std::string> found;
  std::ifstream partitions("/proc/partitions");
  for (std::string line; std::getline(partitions, line);) {
    unsigned major = 0, minor = 0;
    unsigned long long kib = 0;
    char name[256];
    if (std::sscanf(line.c_str(), " %u %u %llu %255s", &major, &minor, &kib, name) != 4 || kib * KiB < kDeviceMin) continue;
    std::string path = std::string("/dev/") + name;
    std::replace(path.begin(), path.end(), '!', '/');  // as sysfs writes cciss/c0d0
    found.push_back(std::move(path));
  }
  return found;
}

bool same_without_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

Result<std::string> find(const std::string& tag, const std::function<bool(const VolumeInfo&)>& fits) {
  std::string found;
  bool denied = false;
  for (const std::string& path : block_devices()) {
    const auto device = open_device(path, Access::read_only, Sharing::shared);
    if (!device) {
      denied |= device.error().code == EACCES;
      continue;
    }
    const auto info = read_volume_info(**device);
    if (!info || !fits(*info)) continue;
    if (!found.empty()) {
      return make_error(ENOTUNIQ, fmt::format("{}: both {} and {} have it; name the device", tag, found, path));
    }
    found = path;
  }
  if (!found.empty()) return absolute_path(found);
  return make_error(ENOENT, fmt::format("{}: no block device with an lsmfs has it{}; an image is named by its path", tag,
                                        denied ? " (some may only be read by root)" : ""));
}

}  // namespace

Result<std::string> find_source(const std::string& source) {
  if (source.starts_with("LABEL=")) {
    const std::string label = source.substr(6);
    return find(source, [&](const VolumeInfo& info) { return !label.empty() && info.label == label; });
  }
  if (source.starts_with("UUID=")) {
    const std::string uuid = source.substr(5);
    return find(source, [&](const VolumeInfo& info) { return same_without_case(info.uuid.text(), uuid); });
  }
  if (is_nbd(source)) {
    LSMFS_TRY(parse_nbd(source));
    return source;
  }
  return absolute_path(source);
}

Result<std::unique_ptr<Device>> open_source(const std::string& source, Access access, Sharing sharing, const Away& away) {
  if (is_nbd(source)) return open_nbd(source, access, away);
  return open_device(source, access, sharing);
}

Result<void> check_there(const std::string& source) {
  struct stat facts {};
  if (!is_nbd(source) && stat(source.c_str(), &facts) != 0) return make_error(errno, source);
  return {};
}

}  // namespace lsmfs::cli

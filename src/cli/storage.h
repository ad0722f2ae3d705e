// Where the bytes of a block device or image lie in the end: which part of which file or disk. A file may be reached by links of
// any names, by several loop devices, by their partitions, or directly, and all of these are one storage.
// What it is not: who uses it; see device_use. Device mapper is not looked through: it claims what lies below it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lsmfs::cli {

struct Storage {
  dev_t device = 0;  // of a disk its number, of a file that of the file system it lies in
  ino_t inode = 0;   // 0: a disk
  std::uint64_t begin = 0, end = UINT64_MAX;  // bytes of it; the end of a whole disk or file is UINT64_MAX

  bool overlaps(const Storage& other) const {
    return device == other.device && inode == other.inode && begin < other.end && other.begin < end;
  }
};

// nullopt: `path` leads to neither, or nothing can be found out.
std::optional<Storage> storage_of(const std::string& path);

// A loop device, or a partition of one.
struct LoopDevice {
  std::string path;       // in /dev
  std::string number;     // "major:minor"
  std::string disk;       // number of the whole device
  std::string file;       // the name that its file had when it was attached
  Storage storage;
};
// All that show a part of `storage`. Who may not open them learns only of those whose file has its name still.
std::vector<LoopDevice> loop_devices_over(const Storage& storage);

}  // namespace lsmfs::cli

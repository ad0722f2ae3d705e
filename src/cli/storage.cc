#include "cli/storage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "lsmfs/device.h"

namespace lsmfs::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSector = 512;  // what sysfs counts in, whatever the disk's are

std::optional<std::string> line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line)) return std::nullopt;
  return line;
}

std::uint64_t number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? number : 0;
}

// As a loop device tells them, whatever dev_t looks like here.
dev_t device_number(std::uint64_t of_kernel) {
  return makedev((of_kernel >> 8) & 0xfff, (of_kernel & 0xff) | ((of_kernel >> 12) & 0xfff00));
}

// The part of `whole` that begins at `offset`, of `length` bytes; 0: to its end.
Storage part_of(Storage whole, std::uint64_t offset, std::uint64_t length) {
  whole.begin += std::min(offset, UINT64_MAX - whole.begin);
  if (length != 0 && length < whole.end - std::min(whole.begin, whole.end)) whole.end = whole.begin + length;
  return whole;
}

std::optional<Storage> of_number(dev_t number, int depth);

// `folder`: of the whole loop device in sysfs.
std::optional<Storage> of_loop(const fs::path& folder, int depth) {
  const auto file = line_of(folder / "loop/backing_file");
  if (!file) return std::nullopt;
  loop_info64 info{};
  const auto fd = open_to_look("/dev/" + folder.filename().string());
  if (fd && ioctl(fd->get(), LOOP_GET_STATUS64, &info) == 0) {
    if (info.lo_rdevice != 0) {
      const auto below = of_number(device_number(info.lo_rdevice), depth + 1);
      if (!below) return std::nullopt;
      return part_of(*below, info.lo_offset, info.lo_sizelimit);
    }
    return part_of({device_number(info.lo_device), info.lo_inode}, info.lo_offset, info.lo_sizelimit);
  }
  struct stat facts {};
  if (stat(file->c_str(), &facts) != 0) return std::nullopt;
  const auto below = S_ISBLK(facts.st_mode) ? of_number(facts.st_rdev, depth + 1) : Storage{facts.st_dev, facts.st_ino};
  if (!below) return std::nullopt;
  return part_of(*below, number_in(folder / "loop/offset"), number_in(folder / "loop/sizelimit"));
}

std::optional<Storage> of_number(dev_t number, int depth) {
  constexpr int kDepthMax = 8;  // of loop devices over loop devices
  if (depth > kDepthMax) return std::nullopt;
  std::error_code error;
  fs::path folder = fs::canonical(fmt::format("/sys/dev/block/{}:{}", major(number), minor(number)), error);
  if (error) return Storage{number, 0};
  std::uint64_t start = 0, length = 0;
  if (fs::exists(folder / "partition", error)) {
    start = number_in(folder / "start") * kSector;
    length = number_in(folder / "size") * kSector;
    folder = folder.parent_path();
    unsigned first = 0, second = 0;
    if (std::sscanf(line_of(folder / "dev").value_or("").c_str(), "%u:%u", &first, &second) != 2) return std::nullopt;
    number = makedev(first, second);
  }
  const auto whole = fs::exists(folder / "loop/backing_file", error) ? of_loop(folder, depth) : Storage{number, 0};
  if (!whole) return std::nullopt;
  return part_of(*whole, start, length);
}

}  // namespace

std::optional<Storage> storage_of(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return std::nullopt;
  if (S_ISREG(facts.st_mode)) return Storage{facts.st_dev, facts.st_ino};
  if (S_ISBLK(facts.st_mode)) return of_number(facts.st_rdev, 0);
  return std::nullopt;
}

std::vector<LoopDevice> loop_devices_over(const Storage& storage) {
  std::vector<LoopDevice> found;
  std::error_code error;
  for (const auto& block : fs::directory_iterator("/sys/block", error)) {
    const auto whole = of_loop(block.path(), 0);
    if (!whole || !whole->overlaps(storage)) continue;
    const std::string disk = line_of(block.path() / "dev").value_or(""), file = line_of(block.path() / "loop/backing_file").value_or("");
    const auto add = [&](const fs::path& folder, const Storage& shown) {
      found.push_back({"/dev/" + folder.filename().string(), line_of(folder / "dev").value_or(""), disk, file, shown});
    };
    add(block.path(), *whole);
    for (const auto& inner : fs::directory_iterator(block.path(), error)) {
      if (!fs::exists(inner.path() / "partition", error)) continue;
      const Storage part = part_of(*whole, number_in(inner.path() / "start") * kSector, number_in(inner.path() / "size") * kSector);
      if (part.overlaps(storage)) add(inner.path(), part);
    }
  }
  std::ranges::sort(found, {}, &LoopDevice::path);
  return found;
}

}  // namespace lsmfs::cli

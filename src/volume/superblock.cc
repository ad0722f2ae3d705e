#include "volume/superblock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lsmfs {
namespace {

using format::Superblock;

std::uint64_t superblock_checksum(const Superblock& block) {
  Superblock copy = block;
  copy.checksum = 0;
  return checksum({reinterpret_cast<const std::byte*>(&copy), sizeof copy});
}

Error damaged(const char* what) { return make_error(EUCLEAN, fmt::format("superblock is damaged: {}", what)); }

// What to say of features that this program does not know; "": it knows all.
std::string unknown_features(std::uint64_t features, std::uint64_t known, std::string_view made_by, std::string_view what) {
  const std::uint64_t unknown = features & ~known;
  if (unknown == 0) return "";
  const std::string maker = made_by.empty() ? "" : fmt::format("lsmfs {} made it; ", made_by);
  return fmt::format("it has features ({:#x}) {}; {}use a newer lsmfs", unknown, what, maker);
}

bool is_printable(char c) { return c > ' ' && c <= '~'; }

// Printable characters, then zeros: nobody is to be told what a stranger wrote there.
bool is_version_text(std::string_view field) {
  const auto end = std::ranges::find_if_not(field, is_printable);
  return std::all_of(end, field.end(), [](char c) { return c == '\0'; });
}

Result<void> check_writable(const Device& device, const VolumeInfo& info) {
  if (!device.writable()) return {};
  const std::string unknown =
      unknown_features(info.features.read_only, kKnownFeatures.read_only, info.made_by, "with which this program can only read it");
  if (unknown.empty()) return {};
  return make_error(EPROTONOSUPPORT, fmt::format("{}: {}, or mount it with -o ro", device.path(), unknown));
}

bool in_order(const Layout& layout, std::uint64_t device_size) {
  std::uint64_t at = MiB;
  for (const Extent& e : {layout.metadata[0], layout.metadata[1], layout.fixed, layout.table}) {
    // Each bound is checked before it is added, so that nothing here can overflow.
    if (e.start < at || e.start > layout.second_superblock || e.start % MiB != 0) return false;
    if (e.length == 0 || e.length % MiB != 0 || e.length > layout.second_superblock - e.start) return false;
    at = e.end();
  }
  if (layout.table.start == layout.fixed.end()) return false;
  return std::max(layout.metadata[0].length, layout.metadata[1].length) <= metadata_area_max(device_size);
}

Result<SuperblockInfo> read_copy(Device& device, std::uint64_t offset) {
  AlignedBuffer buffer(sizeof(Superblock));
  LSMFS_TRY(device.read(ByteOffset{offset}, buffer.bytes()));
  Superblock block;
  std::memcpy(&block, buffer.data(), sizeof block);
  LSMFS_ASSIGN(auto info, decode_superblock(block));
  if (info.info.device_size > device.size()) {
    return make_error(ENOSPC,
                      fmt::format("{} has {} bytes, less than the {} bytes of the volume on it; enlarge it again",
                                  device.path(), device.size().v, info.info.device_size.v));
  }
  return info;
}

Result<SuperblockInfo> sound_copy(Device& device, const VolumeOptions& options) {
  if (device.size().v < 2 * MiB) {
    return make_error(EMEDIUMTYPE, fmt::format("{} holds no lsmfs volume; make one with lsmfs mkfs", device.path()));
  }
  auto first = read_copy(device, 0);
  // A sound superblock of another version or of a larger device is an answer, not damage.
  if (first || first.error().code == EPROTONOSUPPORT || first.error().code == ENOSPC) {
    if (!first) {
      first.error().context = fmt::format("{}: {}", device.path(), first.error().context);
      return first;
    }
    if (auto second = read_copy(device, first->layout.second_superblock); !second) {
      options.notice(fmt::format("{}: the second superblock is damaged ({}); the first one is in use", device.path(),
                                 second.error().message()));
    }
    return first;
  }
  auto second = read_copy(device, second_superblock_offset(device.size().v));
  if (second) {
    options.notice(fmt::format("{}: the first superblock is damaged ({}); using the second copy", device.path(),
                               first.error().message()));
    return second;
  }
  const int a = first.error().code, b = second.error().code;
  if (b == EPROTONOSUPPORT || b == ENOSPC) return second;
  if (a == EMEDIUMTYPE && b == EMEDIUMTYPE) {
    return make_error(EMEDIUMTYPE, fmt::format("{} holds no lsmfs volume; make one with lsmfs mkfs", device.path()));
  }
  if (a == EUCLEAN || b == EUCLEAN) {
    return make_error(EUCLEAN, fmt::format("{}: both superblocks are damaged", device.path()));
  }
  return first;
}

}  // namespace

std::uint64_t second_superblock_offset(std::uint64_t device_size) { return round_down(device_size, MiB) - MiB; }

std::uint64_t metadata_area_max(std::uint64_t device_size) {
  return std::clamp(round_down(device_size / 256, MiB), 16 * MiB, format::kMetadataAreaMax);
}

std::uint64_t seed_for(const Uuid& uuid) { return checksum({reinterpret_cast<const std::byte*>(uuid.bytes.data()), uuid.bytes.size()}); }

Result<Layout> plan_layout(std::uint64_t device_size) {
  if (device_size < kDeviceMin) {
    return make_error(ENOSPC, fmt::format("{} bytes are too small for a volume; it needs at least {} ({} MiB)",
                                          device_size, kDeviceMin, kDeviceMin / MiB));
  }
  // Half of an area holds a snapshot, which has some 140 bytes for a table; many a table is smaller than it is meant to be.
  const std::uint64_t area_most = std::clamp(round_down(device_size / 65536, MiB), 16 * MiB, format::kMetadataAreaMax);
  const std::uint64_t area = round_down(std::clamp(device_size / 256, MiB, area_most), MiB);
  const std::uint64_t fixed = round_down(std::clamp(device_size / 16, 16 * MiB, GiB), MiB);
  Layout layout;
  layout.second_superblock = second_superblock_offset(device_size);
  layout.metadata[0] = {MiB, area};
  layout.metadata[1] = {layout.metadata[0].end(), area};
  layout.fixed = {layout.metadata[1].end(), fixed};
  // The gap keeps an extent of one region from touching one of the other: they could not be told apart when joined.
  const std::uint64_t table = layout.fixed.end() + MiB;
  layout.table = {table, layout.second_superblock - table};
  return layout;
}

Result<Layout> layout_for(const Layout& now, std::uint64_t device_size) {
  constexpr std::uint64_t kTableLeast = 64 * MiB;
  // Logs must suit the memtables of a larger volume, and the list of files the count of its tables. New ones have a 16th for logs.
  constexpr std::uint64_t kDevicePerLogs = 1024;
  std::uint64_t least = std::max(kDeviceMin, now.table.start + kTableLeast + MiB);
  const std::uint64_t area = std::max(now.metadata[0].length, now.metadata[1].length);
  if (area > metadata_area_max(least)) least = area * 256;
  if (device_size < least) return make_error(ENOSPC, fmt::format("its regions need at least {} bytes", least));
  if (now.fixed.length < GiB && device_size / kDevicePerLogs > now.fixed.length) {
    return make_error(EFBIG, fmt::format("the region of its logs suits at most {} bytes; make a new one and copy the files", now.fixed.length * kDevicePerLogs));
  }
  Layout layout = now;
  layout.second_superblock = second_superblock_offset(device_size);
  layout.table.length = layout.second_superblock - layout.table.start;
  return layout;
}

void encode_superblock(const SuperblockInfo& info, Superblock& out) {
  std::memset(&out, 0, sizeof out);
  out.magic = format::kSuperblockMagic;
  out.version = info.info.version;
  std::copy(info.info.uuid.bytes.begin(), info.info.uuid.bytes.end(), out.uuid);
  out.created_ns = info.info.created_ns;
  out.device_size = info.info.device_size.v;
  const auto region = [](const Extent& e) { return format::Region{e.start, e.length}; };
  out.metadata[0] = region(info.layout.metadata[0]);
  out.metadata[1] = region(info.layout.metadata[1]);
  out.fixed = region(info.layout.fixed);
  out.table = region(info.layout.table);
  const std::size_t label = std::min(info.info.label.size(), kLabelMax);
  out.label_length = static_cast<std::uint32_t>(label);
  std::memcpy(out.label, info.info.label.data(), label);
  out.compatible = info.info.features.compatible;
  out.read_only = info.info.features.read_only;
  out.incompatible = info.info.features.incompatible;
  std::memcpy(out.made_by, info.info.made_by.data(), std::min(info.info.made_by.size(), kMadeByMax));
  out.seed = info.seed;
  const std::size_t options = std::min(info.info.mount_options.size(), kMountOptionsMax);
  out.options_length = static_cast<std::uint32_t>(options);
  std::memcpy(out.options, info.info.mount_options.data(), options);
  std::copy(info.rest.begin(), info.rest.end(), out.rest);
  out.checksum = superblock_checksum(out);
}

Result<SuperblockInfo> decode_superblock(const Superblock& block) {
  if (block.magic != format::kSuperblockMagic) return make_error(EMEDIUMTYPE, "no lsmfs superblock");
  // The checksum comes before the version: a flipped bit in the version must not look like the future.
  // Every version keeps magic, version and checksum where they are.
  if (block.checksum != superblock_checksum(block)) return damaged("checksum");
  if (block.version > kFormatVersion) {
    return make_error(EPROTONOSUPPORT,
                      fmt::format("format version {} is newer than this program (which knows {} only); "
                                  "use a newer lsmfs",
                                  block.version, kFormatVersion));
  }
  if (block.version == 0) return damaged("version");
  if (block.version < kFormatVersion) {
    return make_error(EPROTONOSUPPORT,
                      fmt::format("format version {} is older than this program (which knows {} only); "
                                  "copy the files with the lsmfs that made it",
                                  block.version, kFormatVersion));
  }
  if (!is_version_text({block.made_by, kMadeByMax})) return damaged("version of the program that made it");
  const std::string made_by(block.made_by, strnlen(block.made_by, kMadeByMax));
  // Before the other fields, since such a feature may change what they mean.
  if (const std::string unknown = unknown_features(block.incompatible, kKnownFeatures.incompatible, made_by, "that this program does not know");
      !unknown.empty()) {
    return make_error(EPROTONOSUPPORT, unknown);
  }
  if (block.label_length > kLabelMax) return damaged("length of the label");
  if (block.options_length > kMountOptionsMax) return damaged("length of the mount options");
  if (block.device_size < kDeviceMin || block.device_size > static_cast<std::uint64_t>(INT64_MAX))
    return damaged("device size");

  SuperblockInfo info;
  info.info.version = block.version;
  std::copy(std::begin(block.uuid), std::end(block.uuid), info.info.uuid.bytes.begin());
  info.info.label.assign(block.label, block.label_length);
  if (!check_label(info.info.label)) return damaged("label");
  info.info.features = {block.compatible, block.read_only, block.incompatible};
  info.info.made_by = made_by;
  info.info.mount_options.assign(block.options, block.options_length);
  if (!check_mount_options(info.info.mount_options)) return damaged("mount options");
  info.seed = block.seed;
  std::copy(std::begin(block.rest), std::end(block.rest), info.rest.begin());
  info.info.created_ns = block.created_ns;
  info.info.device_size = ByteCount{block.device_size};
  const auto extent = [](const format::Region& r) { return Extent{r.start, r.length}; };
  info.layout.metadata[0] = extent(block.metadata[0]);
  info.layout.metadata[1] = extent(block.metadata[1]);
  info.layout.fixed = extent(block.fixed);
  info.layout.table = extent(block.table);
  info.layout.second_superblock = second_superblock_offset(block.device_size);
  if (!in_order(info.layout, block.device_size)) return damaged("regions");
  return info;
}

Result<SuperblockInfo> read_superblock(Device& device, const VolumeOptions& options) {
  LSMFS_ASSIGN(auto superblock, sound_copy(device, options));
  LSMFS_TRY(check_writable(device, superblock.info));
  return superblock;
}

AlignedBuffer superblock_block(const SuperblockInfo& info) {
  AlignedBuffer buffer(sizeof(Superblock));
  Superblock block;
  encode_superblock(info, block);
  std::memcpy(buffer.data(), &block, sizeof block);
  return buffer;
}

Result<void> write_superblock(Device& device, const SuperblockInfo& info, std::uint64_t at) {
  return device.write(ByteOffset{at}, superblock_block(info).bytes());
}

Result<void> write_superblocks(Device& device, const SuperblockInfo& info) {
  LSMFS_TRY(write_superblock(device, info, info.layout.second_superblock));
  return write_superblock(device, info, 0);
}

Result<void> check_label(std::string_view label) {
  if (label.size() > kLabelMax) {
    return make_error(EINVAL, fmt::format("label of {} bytes; at most {} are allowed", label.size(), kLabelMax));
  }
  for (std::string_view rest = label; !rest.empty();) {
    const auto character = first_character(rest);
    if (!character || is_control(character->code)) return make_error(EINVAL, "label must be UTF-8 without control characters");
    rest.remove_prefix(character->bytes);
  }
  return {};
}

Result<void> check_mount_options(std::string_view options) {
  if (options.size() > kMountOptionsMax) {
    return make_error(EINVAL, fmt::format("mount options of {} bytes; at most {} are kept", options.size(), kMountOptionsMax));
  }
  if (!std::ranges::all_of(options, is_printable)) return make_error(EINVAL, "mount options must be ASCII without spaces");
  return {};
}

bool may_be_volume(Device& device) {
  if (device.size().v < 2 * MiB) return false;
  const auto may_be = [&](std::uint64_t offset) {
    AlignedBuffer buffer(sizeof(Superblock));
    if (!device.read(ByteOffset{offset}, buffer.bytes())) return true;
    return std::memcmp(buffer.data(), &format::kSuperblockMagic, sizeof format::kSuperblockMagic) == 0;
  };
  return may_be(0) || may_be(second_superblock_offset(device.size().v));
}

Result<VolumeInfo> read_volume_info(Device& device, const VolumeOptions& options) {
  LSMFS_ASSIGN(auto superblock, read_superblock(device, options));
  return superblock.info;
}

}  // namespace lsmfs

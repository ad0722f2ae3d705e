// Volume::shrink(): what lies behind the new end goes before it, and then the end moves.
//
// Each step leaves a whole volume of the old size. A piece is copied to space that is free durably, flushed, and only then a record
// says that the file lies there. At last a snapshot of the metadata log says where all files are, so that no older record is read
// that knows of space behind the end; then both superblocks say the new size.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "volume/catalog.h"
#include "volume/metadata_log.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kStep = 256 * MiB;  // moved between two records
constexpr std::uint64_t kCopy = 4 * MiB;    // read and written at once
constexpr std::uint64_t kLeastPiece = 8 * MiB;  // of what is moved, while longer runs are free

class Shrinking {
 public:
  Shrinking(Device& device, Catalog catalog, MetadataLog log, std::uint64_t end)
      : device_(device), catalog_(std::move(catalog)), log_(std::move(log)), end_(end) {}

  Result<void> move_all(const std::function<void(ByteCount, ByteCount)>& at) {
    const std::uint64_t all = behind();
    Allocator room = before_the_end();
    if (all > room.free()) {
      return make_error(ENOSPC, fmt::format("{} bytes lie behind the new end, and {} are free before it", all, room.free()));
    }
    std::uint64_t done = 0;
    std::vector<std::uint64_t> ids;
    for (const auto& [id, file] : catalog_.files()) ids.push_back(id);
    for (const std::uint64_t id : ids) {
      while (true) {
        at(ByteCount{done}, ByteCount{all});
        LSMFS_ASSIGN(const std::uint64_t moved, move_some(catalog_.files().at(id), room));
        if (moved == 0) break;
        done += moved;
      }
    }
    at(ByteCount{all}, ByteCount{all});
    log_.begin_anew();
    return write("");
  }

 private:
  std::uint64_t behind(const Extent& extent) const { return extent.end() - std::clamp(end_, extent.start, extent.end()); }

  std::uint64_t behind() const {
    std::uint64_t bytes = 0;
    for (const auto& [id, file] : catalog_.files()) {
      for (const Extent& extent : file.extents) bytes += behind(extent);
    }
    return bytes;
  }

  // What is free of the table region, without what is behind.
  Allocator before_the_end() const {
    Allocator room = catalog_.table();
    for (auto run = room.free_run(end_); run; run = room.free_run(end_)) {
      const std::uint64_t start = std::max(run->start, end_);
      room.take({start, run->end() - start});
    }
    return room;
  }

  // Moves up to kStep bytes of a file; gives how many.
  Result<std::uint64_t> move_some(const FileRecord& file, Allocator& room) {
    std::vector<Extent> to;
    std::uint64_t moved = 0;
    for (const Extent& extent : file.extents) {
      const std::uint64_t here = std::min(behind(extent), kStep - moved);
      const std::uint64_t stays = std::min(extent.length, std::max(extent.start, end_) - extent.start);
      if (here == 0) {
        append_extent(to, extent);
        continue;
      }
      append_extent(to, {extent.start, stays});
      const auto pieces = room.allocate(here, Allocator::End::high, kLeastPiece);
      if (!pieces) return make_error(ENOSPC, fmt::format("no room for {} bytes before the new end", here));
      LSMFS_TRY(copy({extent.start + stays, here}, *pieces));
      for (const Extent& piece : *pieces) append_extent(to, piece);
      append_extent(to, {extent.start + stays + here, extent.length - stays - here});
      moved += here;
    }
    if (moved == 0) return moved;
    std::string operations;
    put_extents(operations, file.id, 0, to);
    LSMFS_TRY(device_.flush());
    LSMFS_TRY(catalog_.apply(operations));
    LSMFS_TRY(write(operations));
    return moved;
  }

  Result<void> copy(Extent from, const std::vector<Extent>& to) {
    AlignedBuffer buffer = AlignedBuffer::of_any_contents(std::min(from.length, kCopy));
    for (const Extent& piece : to) {
      for (std::uint64_t at = 0; at < piece.length;) {
        const auto part = buffer.bytes().first(std::min<std::uint64_t>(piece.length - at, buffer.size()));
        LSMFS_TRY(device_.read(ByteOffset{from.start}, part));
        LSMFS_TRY(device_.write(ByteOffset{piece.start + at}, part));
        from.start += part.size();
        at += part.size();
      }
    }
    return {};
  }

  Result<void> write(std::string_view operations) {
    LSMFS_TRY(log_.append(operations, [this] { return catalog_.snapshot(); }));
    return device_.flush();
  }

  Device& device_;
  Catalog catalog_;
  MetadataLog log_;
  const std::uint64_t end_;  // of the table region, as it will be
};

}  // namespace

Result<void> Volume::shrink(Device& device, ByteCount size, const std::function<void(ByteCount done, ByteCount all)>& at) {
  LSMFS_ASSIGN(auto superblock, read_superblock(device, {}));
  if (!device.writable()) return make_error(EROFS, fmt::format("{} is open read-only", device.path()));
  if (size > superblock.info.device_size) return make_error(EINVAL, "a volume does not shrink to a larger size");
  LSMFS_ASSIGN(const Layout layout, layout_for(superblock.layout, size.v));
  Catalog catalog(superblock.layout);
  LSMFS_ASSIGN(auto log, MetadataLog::load(device, superblock, [&](std::string_view payload) { return catalog.apply(payload); }));
  LSMFS_TRY(device.flush());  // what was read may be in a volatile cache only
  LSMFS_TRY(Shrinking(device, std::move(catalog), std::move(log), layout.table.end()).move_all(at));

  const std::uint64_t old = superblock.layout.second_superblock;
  superblock.info.device_size = size;
  superblock.layout = layout;
  // Should the first be torn, the second at its old place is found, at the end of the device. Later it must not be.
  LSMFS_TRY(write_superblock(device, superblock, layout.second_superblock));
  LSMFS_TRY(device.flush());
  LSMFS_TRY(write_superblock(device, superblock, 0));
  LSMFS_TRY(device.flush());
  AlignedBuffer zeros(format::kBlock);
  if (old != layout.second_superblock) LSMFS_TRY(device.write(ByteOffset{old}, zeros.bytes()));
  return device.flush();
}

}  // namespace lsmfs

// Volume::repair(): a volume that can be opened again, from one whose own structures are damaged.
#include <fmt/format.h>

#include "volume/superblock.h"

namespace lsmfs {
namespace {

// Into a new file of the same name, whose frames begin anew: what is left of the damaged ones can never follow them.
Result<void> write_again(Volume& volume, const std::string& name, const FileReader& reader) {
  AlignedBuffer buffer(MiB);
  const std::string fresh = name + ".repaired";
  LSMFS_ASSIGN(const auto writer, volume.create(fresh, FileKind::log));
  for (std::uint64_t at = 0; at < reader.size().v;) {
    LSMFS_ASSIGN(const std::size_t got, reader.read(ByteOffset{at}, buffer.bytes()));
    LSMFS_TRY(writer->append(Bytes(buffer.bytes()).first(got)));
    at += got;
  }
  LSMFS_TRY(writer->sync());
  LSMFS_TRY(writer->close());
  LSMFS_TRY(volume.rename(fresh, name));
  return volume.commit();
}

}  // namespace

Result<void> Volume::repair(Device& device, const std::function<void(std::string_view)>& said) {
  bool superblock_damaged = false;
  LSMFS_ASSIGN(const auto superblock, read_superblock(device, {.notice = [&](std::string_view) { superblock_damaged = true; }}));
  if (superblock_damaged) {
    LSMFS_TRY(write_superblocks(device, superblock));
    LSMFS_TRY(device.flush());
    said("one of the two superblocks was damaged: written again");
  }

  // That makes the metadata log whole.
  bool damaged = false;
  VolumeOptions options;
  options.notice = said;
  options.salvage = [&](std::string_view line) {
    damaged = true;
    said(line);
  };
  LSMFS_ASSIGN(const auto volume, open(device, options));
  for (const std::string& name : volume->list()) {
    damaged = false;
    LSMFS_ASSIGN(const auto reader, volume->open_reader(name));
    if (damaged) LSMFS_TRY(write_again(*volume, name, *reader));
  }
  return {};
}

}  // namespace lsmfs

// The metadata log: atomic records in two areas of the device, each a snapshot and deltas after it.
//
// An area that is full is left as it is and a snapshot goes to the other one, under a generation
// one higher; so at any moment one whole generation is on the device. Each record is there twice, one copy
// after the other. It counts when magic, generation, sequence and checksum of one of them are right, else
// the log ends before it. After a record of which one copy is not, a snapshot comes next: so all are whole again.
//
// What it is not: it does not know what payloads mean and never flushes. Not thread-safe.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/superblock.h"

namespace lsmfs {

class MetadataLog {
 public:
  using Apply = std::function<Result<void>(std::string_view payload)>;
  using Snapshot = std::function<std::string()>;

  // Writes the first snapshot of a new volume, so that older records in the areas do not count.
  static Result<void> format(Device& device, const SuperblockInfo& superblock, std::string_view snapshot);
  // Gives the newest snapshot and its deltas to `apply`, oldest first.
  // EUCLEAN: no area is sound, or what was durable is damaged in both copies (a later record is there). With
  // options.salvage the latter is said there, and what comes before the damage counts. EIO: what counts may be where nothing
  // can be read. Whatever else the device says when it cannot be reached, which is no damage.
  static Result<MetadataLog> load(Device& device, const SuperblockInfo& superblock, const Apply& apply, const VolumeOptions& options = {});

  // Writes one record; durable after the next flush of the device. `snapshot` gives the state
  // including this delta and is asked only when the record does not fit into the area.
  // ENOSPC when the snapshot does not fit into an area; nothing has been written then.
  // At most one append between two flushes that succeed.
  Result<void> append(std::string_view delta, const Snapshot& snapshot);

  // The next record is a snapshot, in the other area.
  void begin_anew() { whole_ = false; }

  std::uint64_t generation() const { return generation_; }
  // Whether every record has both its copies.
  bool whole() const { return whole_; }

  // The largest payload of a snapshot.
  static std::uint64_t capacity(const Layout& layout);

  // The records that count, as they are on the device: a copy that is taken a piece at a time, between which others may append.
  struct Image {
    explicit Image(const Layout& layout) : bytes(std::max(layout.metadata[0].length, layout.metadata[1].length)) {}
    AlignedBuffer bytes;
    std::uint64_t size = 0;  // of it that is there
    std::uint64_t generation = 0, sequence = 0;
    bool whole = true;
  };
  // Takes the next piece, of 1 MiB at most; begins anew when the log has gone on in the other area. False: that was all.
  bool read_on(Image& image) const;
  // One line for each kind of damage to a complete image. What a crash had torn when the log was loaded is none.
  static std::vector<std::string> damage(const Image& image, const SuperblockInfo& superblock);

 private:
  MetadataLog(Device& device, const SuperblockInfo& superblock)
      : device_(&device),
        areas_{superblock.layout.metadata[0], superblock.layout.metadata[1]},
        seed_(superblock.seed) {}

  Result<void> write(format::RecordKind kind, std::string_view payload);

  Device* device_;
  Extent areas_[2];
  std::uint64_t seed_;
  int area_ = 0;                // the one in use
  std::uint64_t position_ = 0;  // of the next record in it
  std::uint64_t generation_ = 0;
  std::uint64_t sequence_ = 0;  // of the next record
  bool whole_ = true;           // or the next one is a snapshot
};

}  // namespace lsmfs

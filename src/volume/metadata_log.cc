#include "volume/metadata_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

namespace lsmfs {
namespace {

using format::kBlock;
using format::RecordHeader;
using format::RecordKind;

constexpr std::uint64_t kLastGeneration = UINT64_MAX - 1;  // of those that are read; the first is 1

std::uint64_t record_length(std::uint64_t payload) { return round_up(sizeof(RecordHeader) + payload, kBlock); }

std::uint64_t record_checksum(Bytes record, std::uint64_t seed) {
  // The field is zero while the sum is taken; a copy of the header avoids changing the record.
  RecordHeader header;
  std::memcpy(&header, record.data(), sizeof header);
  header.checksum = 0;
  const std::uint64_t head = checksum({reinterpret_cast<const std::byte*>(&header), sizeof header}, seed);
  return checksum(record.subspan(sizeof header), head);
}

struct Record {
  RecordHeader header;
  std::string_view payload;
};

// The record at `at` of an area, if there is a sound one.
std::optional<Record> record_at(Bytes area, std::uint64_t at, std::uint64_t seed) {
  if (at > area.size() || area.size() - at < sizeof(RecordHeader)) return std::nullopt;
  Record record;
  std::memcpy(&record.header, area.data() + at, sizeof record.header);
  const RecordHeader& h = record.header;
  if (h.magic != format::kRecordMagic || h.version != kFormatVersion) return std::nullopt;
  if (h.payload_length > area.size() - at - sizeof h) return std::nullopt;
  const Bytes whole = area.subspan(at, sizeof h + h.payload_length);
  if (record_checksum(whole, seed) != h.checksum) return std::nullopt;
  record.payload = as_text(whole.subspan(sizeof h));
  return record;
}

// A record by its two copies.
struct Found {
  Record record;
  std::uint64_t end = 0;  // of the second copy: where the next record begins
  bool whole = false;     // both are sound
};

// Looks from `at` on for a sound copy of a record that satisfies `test`. What is at `at` is its first copy, anything
// further on its second: the first one is damaged then, and so is all that says how long it was.
template <class Test>
std::optional<Found> find_record(Bytes area, std::uint64_t at, std::uint64_t seed, Test test) {
  for (std::uint64_t from = at; from + kBlock <= area.size(); from += kBlock) {
    const auto record = record_at(area, from, seed);
    if (!record || !test(record->header)) continue;
    const std::uint64_t end = from + record_length(record->payload.size());
    if (from > at) return Found{*record, end, false};
    if (end - from > area.size() - end) continue;  // nobody writes a record whose second copy has no room
    const auto second = record_at(area, end, seed);
    return Found{*record, 2 * end - from, second && second->header.checksum == record->header.checksum};
  }
  return std::nullopt;
}

// An area, and which of its blocks cannot be read: those are zeros.
struct Area {
  AlignedBuffer buffer;
  std::vector<bool> unreadable;  // empty: none

  Bytes bytes() const { return buffer.bytes(); }
  // Whether any block in a range is.
  bool is_unreadable(std::uint64_t at, std::uint64_t length) const {
    for (const std::uint64_t end = at + length; at < end; at += kBlock) {
      if (at / kBlock < unreadable.size() && unreadable[at / kBlock]) return true;
    }
    return false;
  }
};

// Says which blocks cannot be read, as Area has it. Fails after all of it, when one cannot even be reached.
Result<void> read_what_can_be(Device& device, std::uint64_t start, MutableBytes to, std::vector<bool>& unreadable) {
  if (device.read(ByteOffset{start}, to)) return {};
  unreadable.assign(to.size() / kBlock, false);
  Result<void> reached;
  for (std::uint64_t at = 0; at < to.size(); at += kBlock) {
    const MutableBytes block = to.subspan(at, kBlock);
    if (device.read(ByteOffset{start + at}, block)) continue;
    const auto again = device.read(ByteOffset{start + at}, block);
    if (again) continue;
    if (again.error().code != EIO) reached = again;
    std::fill(block.begin(), block.end(), std::byte{0});
    unreadable[at / kBlock] = true;
  }
  return reached;
}

Result<Area> read_area(Device& device, const Extent& place) {
  Area area{AlignedBuffer(place.length), {}};
  LSMFS_TRY(read_what_can_be(device, place.start, area.buffer.bytes(), area.unreadable));
  return area;
}

bool is_snapshot(const RecordHeader& header) {
  return header.kind == static_cast<std::uint16_t>(RecordKind::snapshot) && header.sequence == 0 && header.generation > 0;
}

// The newest in an area. Those of earlier generations may still be there, behind it or, when only its second copy is
// sound, before it.
std::optional<Found> snapshot_of(Bytes area, std::uint64_t seed) {
  std::uint64_t newest = 0;
  (void)find_record(area, 0, seed, [&](const RecordHeader& h) {
    if (is_snapshot(h)) newest = std::max(newest, h.generation);
    return false;
  });
  return find_record(area, 0, seed, [&](const RecordHeader& h) { return is_snapshot(h) && h.generation == newest; });
}

enum class End { nothing_lost, damaged, unreadable };

// What the area tells of the first record of which no copy is sound: that it never was durable, if there was one at all; that
// it was, and is damaged; or neither, since it cannot be read.
End judge_end(const Area& area, std::uint64_t at, std::uint64_t seed, std::uint64_t generation, std::uint64_t sequence) {
  // Records follow one another only after each was durable. So a later one shows that what is missing before it was
  // damaged later, and that what is here is not all there was.
  const auto later = find_record(area.bytes(), at, seed, [&](const RecordHeader& h) {
    return h.generation == generation && h.sequence > sequence;
  });
  if (later) return End::damaged;
  if (at == area.bytes().size()) return End::nothing_lost;
  // How many blocks it had only its header can tell.
  std::uint64_t length = kBlock;
  RecordHeader header;
  std::memcpy(&header, area.bytes().data() + at, sizeof header);
  if (header.magic == format::kRecordMagic && header.version == kFormatVersion && header.generation == generation &&
      header.sequence == sequence) {
    const std::uint64_t left = area.bytes().size() - at;
    length = std::min(left, 2 * record_length(std::min(left, header.payload_length)));
  }
  return area.is_unreadable(at, length) ? End::unreadable : End::nothing_lost;
}

}  // namespace

std::uint64_t MetadataLog::capacity(const Layout& layout) {
  const std::uint64_t area = std::min(layout.metadata[0].length, layout.metadata[1].length);
  return round_down(area / 2, kBlock) - sizeof(RecordHeader);
}

Result<void> MetadataLog::write(RecordKind kind, std::string_view payload) {
  const std::uint64_t length = record_length(payload.size());
  AlignedBuffer buffer(2 * length);
  RecordHeader header{};
  header.magic = format::kRecordMagic;
  header.version = kFormatVersion;
  header.kind = static_cast<std::uint16_t>(kind);
  header.generation = generation_;
  header.sequence = sequence_;
  header.payload_length = payload.size();
  std::memcpy(buffer.data(), &header, sizeof header);
  std::copy_n(as_bytes(payload).data(), payload.size(), buffer.data() + sizeof header);
  header.checksum = record_checksum(Bytes(buffer.bytes()).first(sizeof header + payload.size()), seed_);
  std::memcpy(buffer.data(), &header, sizeof header);
  std::memcpy(buffer.data() + length, buffer.data(), length);
  LSMFS_TRY(device_->write(ByteOffset{areas_[area_].start + position_}, buffer.bytes()));
  position_ += buffer.size();
  ++sequence_;
  return {};
}

Result<void> MetadataLog::format(Device& device, const SuperblockInfo& superblock, std::string_view snapshot) {
  MetadataLog log(device, superblock);
  log.generation_ = 1;
  return log.write(RecordKind::snapshot, snapshot);
}

Result<void> MetadataLog::append(std::string_view delta, const Snapshot& snapshot) {
  if (whole_ && position_ + 2 * record_length(delta.size()) <= areas_[area_].length) return write(RecordKind::delta, delta);
  if (generation_ >= kLastGeneration) return make_error(ENOSPC, "no further snapshot of the metadata log can be numbered");
  const std::string whole = snapshot();
  const int other = 1 - area_;
  if (2 * record_length(whole.size()) > areas_[other].length) {
    return make_error(ENOSPC,
                      fmt::format("the list of files takes {} bytes and does not fit into a metadata area of {} bytes",
                                  whole.size(), areas_[other].length));
  }
  area_ = other;
  position_ = 0;
  ++generation_;
  sequence_ = 0;
  whole_ = true;
  return write(RecordKind::snapshot, whole);
}

Result<MetadataLog> MetadataLog::load(Device& device, const SuperblockInfo& superblock, const Apply& apply,
                                      const VolumeOptions& options) {
  MetadataLog log(device, superblock);
  const auto unreadable = [&](const std::string& what) {
    return make_error(EIO, fmt::format("{}: {} of the metadata log cannot be read", device.path(), what));
  };
  Area areas[2];
  std::optional<Found> snapshots[2];
  for (int i = 0; i < 2; ++i) {
    LSMFS_ASSIGN(areas[i], read_area(device, log.areas_[i]));
    snapshots[i] = snapshot_of(areas[i].bytes(), log.seed_);
    // It may have been the newest.
    if (!snapshots[i] && std::ranges::count(areas[i].unreadable, true) > 0) return unreadable(fmt::format("area {}", i));
  }
  if (!snapshots[0] && !snapshots[1]) {
    return make_error(EUCLEAN, fmt::format("{}: both metadata log areas are damaged", device.path()));
  }
  const auto generation = [&](int i) { return snapshots[i] ? snapshots[i]->record.header.generation : 0; };
  log.area_ = generation(1) > generation(0) ? 1 : 0;
  log.generation_ = generation(log.area_);

  const auto damaged = [&](const std::string& what) -> Result<void> {
    if (!options.salvage) return make_error(EUCLEAN, fmt::format("{}: {} of the metadata log is damaged", device.path(), what));
    options.salvage(fmt::format("{} of the metadata log is damaged: files are as they were before it", what));
    log.whole_ = false;
    return {};
  };
  std::uint64_t newest = log.generation_;
  for (const Area& area : areas) {
    (void)find_record(area.bytes(), 0, log.seed_, [&](const RecordHeader& h) {
      newest = std::max(newest, h.generation);
      return false;
    });
  }
  if (newest > kLastGeneration) {  // the next one would be older
    return make_error(EUCLEAN, fmt::format("{}: the metadata log is damaged: generation {}", device.path(), newest));
  }
  if (newest > log.generation_) LSMFS_TRY(damaged("the newest snapshot"));

  const Area& area = areas[log.area_];
  for (auto found = snapshots[log.area_]; found;) {
    if (found->end > area.bytes().size()) {  // read_on() has room for no more
      return make_error(EUCLEAN, fmt::format("{}: record {} of the metadata log is too long", device.path(), log.sequence_));
    }
    LSMFS_TRY(apply(found->record.payload));
    const bool torn = !found->whole;  // by a crash, if it is the last one
    log.whole_ = log.whole_ && !torn;
    log.position_ = found->end;
    ++log.sequence_;
    found = find_record(area.bytes(), log.position_, log.seed_, [&](const RecordHeader& h) {
      return h.kind == static_cast<std::uint16_t>(RecordKind::delta) && h.generation == log.generation_ && h.sequence == log.sequence_;
    });
    if (torn && found) {
      options.notice(fmt::format("{}: record {} of the metadata log is damaged; using its second copy", device.path(), log.sequence_ - 1));
    }
  }
  const std::string next = fmt::format("record {}", log.sequence_);
  switch (judge_end(area, log.position_, log.seed_, log.generation_, log.sequence_)) {
    case End::nothing_lost:
      break;
    case End::damaged:
      LSMFS_TRY(damaged(next));
      break;
    case End::unreadable:
      return unreadable(next);
  }
  log.generation_ = newest;
  return log;
}

bool MetadataLog::read_on(Image& image) const {
  if (image.generation != generation_) image.size = 0;
  image.generation = generation_;
  const std::uint64_t piece = std::min(position_ - image.size, MiB);
  std::vector<bool> unreadable;
  (void)read_what_can_be(*device_, areas_[area_].start + image.size, image.bytes.bytes().subspan(image.size, piece), unreadable);
  image.size += piece;
  image.sequence = sequence_;
  image.whole = whole_;
  return image.size < position_;
}

std::vector<std::string> MetadataLog::damage(const Image& image, const SuperblockInfo& superblock) {
  const std::uint64_t seed = superblock.metadata_seed();
  std::vector<std::string> lines;
  std::vector<std::uint64_t> single;  // records of which one copy is sound
  std::uint64_t at = 0;
  for (std::uint64_t sequence = 0; sequence < image.sequence; ++sequence) {
    const auto found = find_record(image.bytes.bytes().first(image.size), at, seed, [&](const RecordHeader& h) {
      return h.generation == image.generation && h.sequence == sequence;
    });
    if (!found) {
      // Where the ones after it begin only it could tell.
      lines.push_back(fmt::format("record {} of the metadata log is damaged, in both copies", sequence));
      break;
    }
    if (!found->whole && (image.whole || sequence + 1 < image.sequence)) single.push_back(sequence);
    at = found->end;
  }
  if (!single.empty()) {
    lines.push_back(fmt::format("one of the two copies of {} record{} of the metadata log is damaged, of record {} first",
                                single.size(), single.size() == 1 ? "" : "s", single.front()));
  }
  return lines;
}

}  // namespace lsmfs

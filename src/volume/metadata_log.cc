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

// Copies of records lie one behind the other; only where a crash tore one, and a shorter one was written over it, its second
// header may stay. An area in which they together are longer than this many times the area was made to take for ever.
constexpr std::uint64_t kSumsMax = 16;
constexpr std::string_view kTooManySums = "its records lie in one another";

// A sound copy of a record.
struct Record {
  std::uint64_t at = 0;  // in its area
  RecordHeader header;
  std::string_view payload;

  std::uint64_t end() const { return at + record_length(payload.size()); }
};

// A record by its two copies.
struct Found {
  Record record;
  std::uint64_t end = 0;  // of the second copy: where the next record begins
  bool whole = false;     // both are sound
};

// All sound copies in an area, in order; behind those that count may be some of earlier generations.
class Records {
 public:
  // nullopt: kSumsMax.
  static std::optional<Records> of(Bytes area, std::uint64_t seed) {
    Records records;
    records.length_ = area.size();
    std::uint64_t summed = 0;
    for (std::uint64_t at = 0; at + kBlock <= area.size(); at += kBlock) {
      Record record;
      record.at = at;
      std::memcpy(&record.header, area.data() + at, sizeof record.header);
      const RecordHeader& h = record.header;
      if (h.magic != format::kRecordMagic || h.version != kFormatVersion) continue;
      if (h.payload_length > area.size() - at - sizeof h) continue;
      const Bytes whole = area.subspan(at, sizeof h + h.payload_length);
      summed += whole.size();
      if (summed > kSumsMax * area.size()) return std::nullopt;
      if (record_checksum(whole, seed) != h.checksum) continue;
      record.payload = as_text(whole.subspan(sizeof h));
      records.copies_.push_back(record);
    }
    return records;
  }

  // Looks from `at` on for a record whose header satisfies `test`. What is at `at` is its first copy, anything further on its
  // second: the first one is damaged then, and so is all that says how long it was.
  template <class Test>
  std::optional<Found> find(std::uint64_t at, Test test) const {
    for (auto copy = std::ranges::lower_bound(copies_, at, {}, &Record::at); copy != copies_.end(); ++copy) {
      if (!test(copy->header)) continue;
      const std::uint64_t end = copy->end();
      if (copy->at > at) return Found{*copy, end, false};
      if (end - at > length_ - end) continue;  // nobody writes a record whose second copy has no room
      const auto second = std::ranges::lower_bound(copy, copies_.end(), end, {}, &Record::at);
      const bool whole = second != copies_.end() && second->at == end && second->header.checksum == copy->header.checksum;
      return Found{*copy, 2 * end - at, whole};
    }
    return std::nullopt;
  }

  // The highest generation of those that satisfy `test`; 0: none does.
  template <class Test>
  std::uint64_t newest(Test test) const {
    std::uint64_t generation = 0;
    for (const Record& copy : copies_) {
      if (test(copy.header)) generation = std::max(generation, copy.header.generation);
    }
    return generation;
  }

 private:
  std::uint64_t length_ = 0;  // of the area
  std::vector<Record> copies_;
};

// An area, and which of its blocks cannot be read: those are zeros.
struct Area {
  AlignedBuffer buffer;
  std::vector<bool> unreadable;  // empty: none
  Records records;

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

Result<Area> read_area(Device& device, const Extent& place, std::uint64_t seed) {
  Area area{AlignedBuffer::of_any_contents(place.length), {}, {}};
  LSMFS_TRY(read_what_can_be(device, place.start, area.buffer.bytes(), area.unreadable));
  auto records = Records::of(area.bytes(), seed);
  if (!records) return make_error(EUCLEAN, fmt::format("{}: the metadata log is damaged: {}", device.path(), kTooManySums));
  area.records = std::move(*records);
  return area;
}

bool is_snapshot(const RecordHeader& header) {
  return header.kind == static_cast<std::uint16_t>(RecordKind::snapshot) && header.sequence == 0 && header.generation > 0;
}

// The newest in an area. Those of earlier generations may still be there, behind it or, when only its second copy is
// sound, before it.
std::optional<Found> snapshot_of(const Records& records) {
  const std::uint64_t newest = records.newest(is_snapshot);
  return records.find(0, [&](const RecordHeader& h) { return is_snapshot(h) && h.generation == newest; });
}

// Whether a record of which no copy is sound may be at `at` all the same, where it cannot be read.
bool may_be_unreadable(const Area& area, std::uint64_t at, std::uint64_t generation, std::uint64_t sequence) {
  const std::uint64_t left = area.bytes().size() - at;
  if (left == 0) return false;
  RecordHeader header;
  std::memcpy(&header, area.bytes().data() + at, sizeof header);
  const bool expected = header.magic == format::kRecordMagic && header.version == kFormatVersion && header.generation == generation &&
                        header.sequence == sequence;
  // How many blocks it has only its header can tell.
  return area.is_unreadable(at, expected ? std::min(left, 2 * record_length(std::min(left, header.payload_length))) : kBlock);
}

enum class End { nothing_lost, damaged, unreadable };

// What the area tells of the first record of which no copy is sound: that it never was durable, if there was one at all; that
// it was, and is damaged; or neither, since it cannot be read.
End judge_end(const Area& area, std::uint64_t at, std::uint64_t generation, std::uint64_t sequence) {
  // Records follow one another only after each was durable. So a later one shows that what is missing before it was
  // damaged later, and that what is here is not all there was.
  const auto later = area.records.find(at, [&](const RecordHeader& h) { return h.generation == generation && h.sequence > sequence; });
  if (later) return End::damaged;
  return may_be_unreadable(area, at, generation, sequence) ? End::unreadable : End::nothing_lost;
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
    LSMFS_ASSIGN(areas[i], read_area(device, log.areas_[i], log.seed_));
    snapshots[i] = snapshot_of(areas[i].records);
    // It may have been the newest.
    if (!snapshots[i] && std::ranges::count(areas[i].unreadable, true) > 0) return unreadable(fmt::format("area {}", i));
  }
  if (!snapshots[0] && !snapshots[1]) {
    return make_error(EUCLEAN, fmt::format("{}: both metadata log areas are damaged", device.path()));
  }
  const auto generation = [&](int i) { return snapshots[i] ? snapshots[i]->record.header.generation : 0; };
  log.area_ = generation(1) > generation(0) ? 1 : 0;
  log.generation_ = generation(log.area_);
  // A newer one in the other area would still be found with one block that cannot be read: it has two copies.
  const Area& other = areas[1 - log.area_];
  if (std::ranges::count(other.unreadable, true) > 1 && may_be_unreadable(other, 0, log.generation_ + 1, 0)) {
    return unreadable("the newest snapshot");
  }

  const auto damaged = [&](const std::string& what) -> Result<void> {
    if (!options.salvage) return make_error(EUCLEAN, fmt::format("{}: {} of the metadata log is damaged", device.path(), what));
    options.salvage(fmt::format("{} of the metadata log is damaged: files are as they were before it", what));
    log.whole_ = false;
    return {};
  };
  std::uint64_t newest = log.generation_;
  for (const Area& area : areas) newest = std::max(newest, area.records.newest([](const RecordHeader&) { return true; }));
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
    found = area.records.find(log.position_, [&](const RecordHeader& h) {
      return h.kind == static_cast<std::uint16_t>(RecordKind::delta) && h.generation == log.generation_ && h.sequence == log.sequence_;
    });
    if (torn && found) {
      options.notice(fmt::format("{}: record {} of the metadata log is damaged; using its second copy", device.path(), log.sequence_ - 1));
    }
  }
  const std::string next = fmt::format("record {}", log.sequence_);
  switch (judge_end(area, log.position_, log.generation_, log.sequence_)) {
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
  const auto records = Records::of(image.bytes.bytes().first(image.size), superblock.seed);
  if (!records) return {fmt::format("the metadata log is damaged: {}", kTooManySums)};
  std::vector<std::string> lines;
  std::vector<std::uint64_t> single;  // records of which one copy is sound
  std::uint64_t at = 0;
  for (std::uint64_t sequence = 0; sequence < image.sequence; ++sequence) {
    const auto found = records->find(at, [&](const RecordHeader& h) { return h.generation == image.generation && h.sequence == sequence; });
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

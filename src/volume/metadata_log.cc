#include "volume/metadata_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace lsmfs {
namespace {

using format::kBlock;
using format::RecordHeader;
using format::RecordKind;

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

std::optional<Record> snapshot_of(Bytes area, std::uint64_t seed) {
  auto record = record_at(area, 0, seed);
  if (!record || record->header.kind != static_cast<std::uint16_t>(RecordKind::snapshot) ||
      record->header.sequence != 0) {
    return std::nullopt;
  }
  return record;
}

// Whether a sound record from `at` on satisfies `test`.
template <class Test>
bool any_record(Bytes area, std::uint64_t at, std::uint64_t seed, Test test) {
  for (; at + kBlock <= area.size(); at += kBlock) {
    if (auto record = record_at(area, at, seed); record && test(record->header)) return true;
  }
  return false;
}

}  // namespace

std::uint64_t MetadataLog::capacity(const Layout& layout) {
  return std::min(layout.metadata[0].length, layout.metadata[1].length) - sizeof(RecordHeader);
}

Result<void> MetadataLog::write(RecordKind kind, std::string_view payload) {
  AlignedBuffer buffer(record_length(payload.size()));
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
  if (position_ + record_length(delta.size()) <= areas_[area_].length) return write(RecordKind::delta, delta);
  const std::string whole = snapshot();
  const int other = 1 - area_;
  if (record_length(whole.size()) > areas_[other].length) {
    return make_error(ENOSPC,
                      fmt::format("the list of files takes {} bytes and does not fit into a metadata area of {} bytes",
                                  whole.size(), areas_[other].length));
  }
  area_ = other;
  position_ = 0;
  ++generation_;
  sequence_ = 0;
  return write(RecordKind::snapshot, whole);
}

Result<MetadataLog> MetadataLog::load(Device& device, const SuperblockInfo& superblock, const Apply& apply) {
  MetadataLog log(device, superblock);
  AlignedBuffer areas[2];
  std::optional<Record> snapshots[2];
  for (int i = 0; i < 2; ++i) {
    areas[i] = AlignedBuffer(log.areas_[i].length);
    if (auto r = device.read(ByteOffset{log.areas_[i].start}, areas[i].bytes()); !r) {
      if (r = device.read(ByteOffset{log.areas_[i].start}, areas[i].bytes()); !r) return r.error();
    }
    snapshots[i] = snapshot_of(areas[i].bytes(), log.seed_);
  }
  if (!snapshots[0] && !snapshots[1]) {
    return make_error(EUCLEAN, fmt::format("{}: both metadata log areas are damaged", device.path()));
  }
  const auto generation = [&](int i) { return snapshots[i] ? snapshots[i]->header.generation : 0; };
  log.area_ = generation(1) > generation(0) ? 1 : 0;
  log.generation_ = generation(log.area_);
  if (log.generation_ == UINT64_MAX) {  // the next one would be older
    return make_error(EUCLEAN, fmt::format("{}: the metadata log is damaged: generation {}", device.path(), log.generation_));
  }
  const Bytes area = areas[log.area_].bytes(), other = areas[1 - log.area_].bytes();

  // Deltas follow a snapshot only after it was durable. So a newer delta in the other area means
  // that its snapshot was damaged later, and that what is here is not all there was.
  if (any_record(other, 0, log.seed_, [&](const RecordHeader& h) { return h.generation > log.generation_; })) {
    return make_error(EUCLEAN, fmt::format("{}: the newest snapshot of the metadata log is damaged", device.path()));
  }
  for (auto record = snapshots[log.area_]; record; record = record_at(area, log.position_, log.seed_)) {
    if (record->header.generation != log.generation_ || record->header.sequence != log.sequence_) break;
    if (log.sequence_ > 0 && record->header.kind != static_cast<std::uint16_t>(RecordKind::delta)) break;
    LSMFS_TRY(apply(record->payload));
    log.position_ += record_length(record->payload.size());
    ++log.sequence_;
  }
  // Likewise a record is written only after the one before it was durable. And what is left of other generations is older.
  if (any_record(area, log.position_, log.seed_, [&](const RecordHeader& h) {
        return h.generation > log.generation_ || (h.generation == log.generation_ && h.sequence >= log.sequence_);
      })) {
    return make_error(EUCLEAN,
                      fmt::format("{}: record {} of the metadata log is damaged", device.path(), log.sequence_));
  }
  return log;
}

}  // namespace lsmfs

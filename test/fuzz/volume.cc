// Targets of the volume: superblock, metadata log and the operations in it, frames of logs.
#include <cstring>
#include <map>
#include <set>

#include "fuzz/seals.h"
#include "fuzz/target.h"
#include "volume/metadata_log.h"

namespace lsmfs::fuzz {
namespace {

using format::kBlock;

constexpr std::uint64_t kDeviceSize = kDeviceMin;

bool sealed(std::string_view input) { return !input.empty() && (input.front() & 1); }

// Blocks are mostly zeros, which are not worth an input's bytes: it has pieces, each the number of a block (varint) and
// what begins there (string).
void put_piece(std::string& input, std::uint64_t block, std::string_view bytes) {
  put_varint(input, block);
  put_string(input, bytes.substr(0, bytes.find_last_not_of('\0') + 1));
}

void get_pieces(Reader& in, MutableBytes blocks) {
  while (in.ok() && !in.at_end() && !blocks.empty()) {
    const std::uint64_t at = in.varint() % (blocks.size() / kBlock) * kBlock;
    const std::string_view bytes = in.string();
    std::copy_n(as_bytes(bytes).data(), std::min<std::size_t>(bytes.size(), blocks.size() - at), blocks.data() + at);
  }
}

SuperblockInfo superblock_of(std::uint64_t device_size, std::string label) {
  SuperblockInfo info;
  info.info.version = kFormatVersion;
  info.info.uuid.bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  info.info.label = std::move(label);
  info.info.mount_options = "noatime,cache=64M";
  info.seed = seed_for(info.info.uuid);
  info.info.created_ns = 1'700'000'000'000'000'000;
  info.info.device_size = ByteCount{device_size};
  info.layout = *plan_layout(device_size);
  return info;
}

std::string text_of(const format::Superblock& block) { return {reinterpret_cast<const char*>(&block), sizeof block}; }

// ---- superblock

// The planted fault: a decoder that takes any size of the device.
Result<SuperblockInfo> decode_without_device_size(format::Superblock block) {
  const std::uint64_t size = block.device_size;
  block.device_size = std::clamp<std::uint64_t>(size, kDeviceMin, INT64_MAX);
  seal(block);
  LSMFS_ASSIGN(auto info, decode_superblock(block));
  info.info.device_size = ByteCount{size};
  return info;
}

void check_layout(const Layout& layout, std::uint64_t device_size) {
  std::uint64_t at = MiB;
  const std::uint64_t last = device_size / MiB * MiB - MiB;
  for (const Extent& region : {layout.metadata[0], layout.metadata[1], layout.fixed, layout.table}) {
    check(region.start >= at && region.start <= last && region.start % MiB == 0, "a region begins where none may");
    check(region.length > 0 && region.length % MiB == 0 && region.length <= last - region.start, "a region ends where none may");
    at = region.end();
  }
  check(layout.table.start > layout.fixed.end(), "the regions of tables and logs touch");
  for (const Extent& area : layout.metadata) check(area.length <= metadata_area_max(device_size), "a metadata area is too long");
  check(layout.second_superblock == last, "the second superblock is not in the last whole MiB");
}

bool run_superblock(std::string_view input) {
  if (input.empty()) return false;
  format::Superblock block{};
  std::memcpy(&block, input.data() + 1, std::min(input.size() - 1, sizeof block));
  if (sealed(input)) seal(block);
  const auto info = planted == Planted::range_not_checked ? decode_without_device_size(block) : decode_superblock(block);
  if (!info) {
    const int code = info.error().code;
    check(code == EMEDIUMTYPE || code == EUCLEAN || code == EPROTONOSUPPORT, "an error that is not promised");
    return false;
  }
  check(info->info.version == kFormatVersion, "another version");
  check(info->info.label.size() <= kLabelMax && check_label(info->info.label), "a label that cannot be");
  check(info->info.device_size.v >= kDeviceMin && info->info.device_size.v <= INT64_MAX, "a device size that cannot be");
  check_layout(info->layout, info->info.device_size.v);

  format::Superblock again{}, third{};
  encode_superblock(*info, again);
  const auto decoded = decode_superblock(again);
  check(decoded.has_value(), "what was encoded cannot be decoded");
  encode_superblock(*decoded, third);
  check(text_of(again) == text_of(third), "what was encoded decodes to something else");
  check(decoded->info.label == info->info.label && decoded->info.uuid == info->info.uuid &&
            decoded->info.created_ns == info->info.created_ns && decoded->info.features == info->info.features && decoded->info.made_by == info->info.made_by &&
            decoded->info.device_size == info->info.device_size && decoded->info.mount_options == info->info.mount_options && decoded->seed == info->seed,
        "a field does not survive");
  return true;
}

std::vector<std::string> superblock_examples() {
  std::vector<std::string> all;
  for (const SuperblockInfo& info : {superblock_of(kDeviceMin, "scratch"), superblock_of(64 * GiB + 4096, "\xc3\xa4"), superblock_of(kDeviceMin + 5 * MiB, "")}) {
    format::Superblock block;
    encode_superblock(info, block);
    for (const char mode : {1, 0}) {
      all.emplace_back(1, mode);
      all.back().append(text_of(block), 0, offsetof(format::Superblock, rest));
    }
  }
  return all;
}

// ---- operations of the metadata log

const Layout& regions() {
  static const Layout planned = *plan_layout(kDeviceSize);
  return planned;
}

bool lies_in(const Extent& extent, const Extent& region, std::uint64_t granule) {
  return extent.length > 0 && extent.start >= region.start && extent.end() <= region.end() && extent.start % granule == 0 &&
         extent.length % granule == 0;
}

void check_catalog(const Catalog& catalog) {
  std::set<std::string> names;
  std::map<std::uint64_t, std::uint64_t> taken;  // start -> end, of all files
  std::uint64_t in_fixed = 0, in_table = 0, bound = 16;
  for (const auto& [id, file] : catalog.files()) {
    check(file.id == id && id < catalog.next_id(), "a file's id");
    check(file.kind == FileKind::table || file.kind == FileKind::log || file.kind == FileKind::small, "a file's kind");
    check(!file.name.empty() && file.name.size() <= kFileNameMax && names.insert(file.name).second, "a file's name");
    check(file.kind == FileKind::log ? file.size == 0 : file.size <= total_length(file.extents), "a file's size");
    check(file.kind == FileKind::log || (file.cut_sequence == 0 && file.synced_sequence == 0), "frames of what is no log");
    for (const Extent& e : file.extents) {
      const bool table = lies_in(e, regions().table, format::kTableGranule);
      check(table || (file.kind != FileKind::table && lies_in(e, regions().fixed, format::kFixedGranule)), "an extent in no region of its own");
      (table ? in_table : in_fixed) += e.length;
      check(taken.emplace(e.start, e.end()).second, "two extents begin together");
    }
    bound += kSnapshotFileBytes + file.name.size() + kSnapshotExtentBytes * file.extents.size();
  }
  std::uint64_t end = 0;
  for (const auto& [start, stop] : taken) {
    check(start >= end, "two extents overlap");
    end = stop;
  }
  check(catalog.fixed().free() == regions().fixed.length - in_fixed && catalog.table().free() == regions().table.length - in_table,
        "free space that is not what is left");

  const std::string snapshot = catalog.snapshot();
  check(snapshot.size() <= bound, "a snapshot is longer than was accounted for");
  Catalog copy(regions());
  check(copy.apply(snapshot).has_value(), "a snapshot cannot be decoded");
  check(copy.snapshot() == snapshot && copy.next_id() == catalog.next_id(), "a snapshot decodes to something else");
  check(copy.fixed().free() == catalog.fixed().free() && copy.table().free() == catalog.table().free(), "a snapshot frees space");
}

bool run_payload(std::string_view input) {
  Catalog catalog(regions());
  if (const auto applied = catalog.apply(input); !applied) {
    check(applied.error().code == EUCLEAN, "an error that is not promised");
    return false;
  }
  check_catalog(catalog);
  return true;
}

Extent table_extent(std::uint64_t i, std::uint64_t n) {
  return {regions().table.start + i * format::kTableGranule, n * format::kTableGranule};
}
Extent fixed_extent(std::uint64_t i, std::uint64_t n) { return {regions().fixed.start + i * 64 * KiB, n * 64 * KiB}; }

// What a volume goes through: as the payloads of records.
std::vector<std::string> deltas() {
  std::vector<std::string> all(4);
  put_create(all[0], 1, FileKind::small, 0, "CURRENT");
  put_extents(all[0], 1, 0, {fixed_extent(0, 1)});
  put_size(all[0], 1, 16);
  put_create(all[0], 2, FileKind::log, 0x1122334455667788, "000004.log");
  put_extents(all[0], 2, 0, {fixed_extent(1, 8), table_extent(50, 1)});
  put_create(all[1], 5, FileKind::table, 0, "000007.sst");
  put_extents(all[1], 5, 0, {table_extent(0, 2), table_extent(9, 1)});
  put_size(all[1], 5, 2 * format::kTableGranule + 1000);
  put_synced(all[1], 2, 17);
  put_create(all[2], 6, FileKind::small, 0, "000008.dbtmp");
  put_extents(all[2], 6, 0, {fixed_extent(40, 1)});
  put_size(all[2], 6, 1);
  put_rename(all[2], 6, "CURRENT");
  put_cut(all[2], 2, 17, 5000);
  put_extents(all[3], 2, 2 * 64 * KiB, {});
  put_remove(all[3], 5);
  put_next_id(all[3], 300);
  return all;
}

std::vector<std::string> payload_examples() {
  std::vector<std::string> all = deltas();
  std::string whole;
  for (const std::string& delta : all) whole += delta;
  all.resize(2);
  all[1] = all[0] + all[1];
  all.push_back(whole);
  return all;
}

// ---- metadata log: a byte of mode, then pieces of both areas, which are small here

constexpr std::uint64_t kArea = 5 * kBlock;

const SuperblockInfo& small_superblock() {
  static const SuperblockInfo superblock = [] {
    SuperblockInfo info = superblock_of(kDeviceSize, "");
    info.layout.metadata[0] = {0, kArea};
    info.layout.metadata[1] = {kArea, kArea};
    return info;
  }();
  return superblock;
}

Result<MetadataLog> load(Device& device, Catalog& catalog) {
  return MetadataLog::load(device, small_superblock(), [&](std::string_view payload) { return catalog.apply(payload); });
}

// What is appended to a log that was decoded is there when it is decoded again. False: it has no room.
bool append(MetadataLog& log, Catalog& catalog, std::size_t filler) {
  std::string delta;
  put_create(delta, catalog.next_id(), FileKind::small, 0, "appended" + std::string(filler, 'x'));
  if (!catalog.apply(delta)) return false;  // the last id has been used
  const auto appended = log.append(delta, [&] { return catalog.snapshot(); });
  check(appended || appended.error().code == ENOSPC, "a record cannot be appended");
  return appended.has_value();
}

bool run_metadata_log(std::string_view input) {
  if (input.empty()) return false;
  AlignedBuffer bytes(2 * kArea);
  Reader in(input.substr(1));
  get_pieces(in, bytes.bytes());
  if (sealed(input)) {
    for (const std::uint64_t area : {std::uint64_t{0}, kArea}) {
      for (std::uint64_t at = kArea; at > 0;) {  // from the end: a record may lie in the payload of one before it
        at -= kBlock;
        const MutableBytes rest = bytes.bytes().subspan(area + at, kArea - at);
        if (std::memcmp(rest.data(), "LSMD", 4) == 0) seal_record(rest, small_superblock().seed);
      }
    }
  }
  const auto device = memory_device(ByteCount{2 * kArea});
  check(device->write(ByteOffset{0}, bytes.bytes()).has_value(), "the device");
  Catalog catalog(regions());
  auto log = load(*device, catalog);
  if (!log) {
    check(log.error().code == EUCLEAN, "an error that is not promised");
    return false;
  }
  check_catalog(catalog);
  MetadataLog::Image image(small_superblock().layout);
  while (log->read_on(image)) continue;
  const auto damage = MetadataLog::damage(image, small_superblock());
  check(damage.empty() || !log->whole(), "a scrub finds damage where nothing was");
  if (const Catalog before = catalog; !append(*log, catalog, 0)) catalog = before;
  Catalog again(regions());
  check(load(*device, again).has_value(), "what was appended cannot be decoded");
  check(again.snapshot() == catalog.snapshot(), "what was appended decodes to something else");
  return true;
}

std::vector<std::string> metadata_log_examples() {
  const auto device = memory_device(ByteCount{2 * kArea});
  std::vector<std::string> all;
  const auto add = [&] {
    AlignedBuffer bytes(2 * kArea);
    check(device->read(ByteOffset{0}, bytes.bytes()).has_value(), "the device");
    for (const char mode : {1, 0}) {
      std::string input(1, mode);
      for (std::uint64_t at = 0; at < bytes.size(); at += kBlock) put_piece(input, at / kBlock, as_text(bytes.bytes()).substr(at, kBlock));
      all.push_back(input);
    }
  };
  Catalog catalog(regions());
  check(MetadataLog::format(*device, small_superblock(), catalog.snapshot()).has_value(), "format");
  add();
  auto log = load(*device, catalog);
  check(log.has_value(), "load");
  for (const std::string& delta : deltas()) {
    check(catalog.apply(delta) && log->append(delta, [&] { return catalog.snapshot(); }), "append");
  }
  add();
  while (log->generation() < 3) check(append(*log, catalog, 9), "append");
  add();
  return all;
}

// ---- frames: a byte of mode, what the metadata says of the file (varints: blocks, cut_sequence, cut_size,
// synced_sequence), pieces of its blocks

constexpr std::uint64_t kLogMax = 8 * kBlock, kFileId = 9, kFrameSeed = 77;

void put_frame(std::string& blocks, std::string_view payload, format::FrameHeader header) {
  header.magic = format::kFrameMagic;
  header.version = kFormatVersion;
  header.file_id = kFileId;
  header.payload_length = static_cast<std::uint32_t>(payload.size());
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += payload;
  frame.resize(frame_length(payload.size()));
  seal_frame({reinterpret_cast<std::byte*>(frame.data()), frame.size()}, kFrameSeed);
  blocks += frame;
}

Result<LogScan> scan(const FileRecord& file, std::string_view blocks) {
  return scan_log(file, kFrameSeed, [&](std::uint64_t at, MutableBytes to) -> Result<void> {
    check(at % kBlock == 0 && to.size() % kBlock == 0, "a read that is not of blocks");
    check(at <= blocks.size() && to.size() <= blocks.size() - at, "a read outside of the extents");
    std::memcpy(to.data(), blocks.data() + at, to.size());
    return {};
  });
}

// The log's bytes, as its frames say.
std::string contents(const LogScan& log, std::string_view blocks) {
  std::string bytes;
  std::uint64_t sequence = 0;
  for (const FrameRef& frame : log.frames) {
    check(frame.offset == bytes.size() && frame.length > 0 && frame.length <= format::kFramePayloadMax, "a frame that does not follow");
    check(frame.position >= sizeof(format::FrameHeader) && frame.position <= blocks.size() && frame.length <= blocks.size() - frame.position,
          "a frame outside of the extents");
    check(frame.sequence > sequence && frame.sequence <= log.sequence, "a frame's sequence");
    sequence = frame.sequence;
    bytes += blocks.substr(frame.position, frame.length);
  }
  check(bytes.size() == log.size, "a log that is not as long as its frames");
  return bytes;
}

bool run_frames(std::string_view input) {
  if (input.empty()) return false;
  Reader in(input.substr(1));
  FileRecord file;
  file.id = kFileId;
  file.kind = FileKind::log;
  file.name = "log";
  std::string blocks(in.varint() % (kLogMax / kBlock + 1) * kBlock, '\0');
  file.cut_sequence = in.varint();
  file.cut_size = in.varint();
  file.synced_sequence = in.varint();
  get_pieces(in, {reinterpret_cast<std::byte*>(blocks.data()), blocks.size()});
  file.extents = {{MiB, blocks.size()}};
  if (sealed(input)) {
    for (std::uint64_t at = blocks.size(); at > 0;) {  // as above
      at -= kBlock;
      const MutableBytes rest{reinterpret_cast<std::byte*>(blocks.data()) + at, blocks.size() - at};
      if (std::memcmp(rest.data(), "LSMF", 4) == 0) seal_if_frame(rest, kFrameSeed);
    }
  }
  const auto log = scan(file, blocks);
  if (!log) {
    check(log.error().code == EUCLEAN, "an error that is not promised");
    return false;
  }
  const std::string bytes = contents(*log, blocks);
  check(log->position <= blocks.size() && log->position % kBlock == 0, "the next frame's place");
  check((log->sequence == 0) == (log->session == 0), "a session of 0");
  check(log->sequence >= file.synced_sequence, "what was synced is missing");

  // The same bytes in frames of another size.
  std::string again;
  format::FrameHeader header{};
  for (std::uint64_t at = 0; at < bytes.size(); at += header.payload_length) {
    header.payload_length = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes.size() - at, 5000));
    ++header.sequence;
    header.offset = at;
    header.previous_session = std::exchange(header.session, 3);
    put_frame(again, std::string_view(bytes).substr(at, header.payload_length), header);
  }
  FileRecord plain;
  plain.id = kFileId;
  plain.kind = FileKind::log;
  plain.extents = {{MiB, again.size()}};
  const auto second = scan(plain, again);
  check(second && contents(*second, again) == bytes, "what was encoded decodes to something else");
  return log->sequence > 0;
}

std::vector<std::string> frames_examples() {
  std::string plain, sessions;
  put_frame(plain, "hello", {.sequence = 1, .session = 5});
  put_frame(plain, std::string(4100, 'a'), {.sequence = 2, .durable_sequence = 1, .offset = 5, .session = 5, .previous_session = 5});
  put_frame(plain, "end", {.sequence = 3, .durable_sequence = 2, .offset = 4105, .session = 5, .previous_session = 5});
  put_frame(sessions, "0123456789", {.sequence = 1, .session = 5});
  put_frame(sessions, "shorter", {.sequence = 2, .durable_sequence = 1, .offset = 4, .session = 6, .previous_session = 5});
  std::vector<std::string> all;
  for (const char mode : {1, 0}) {
    for (const std::string& blocks : {plain, sessions}) {
      for (const std::uint64_t cut : {0, 2}) {
        std::string input(1, mode);
        for (const std::uint64_t n : {blocks.size() / kBlock + 1, cut, cut * 3, std::uint64_t{1}}) put_varint(input, n);
        for (std::uint64_t at = 0; at < blocks.size(); at += kBlock) put_piece(input, at / kBlock, blocks.substr(at, kBlock));
        all.push_back(input);
      }
    }
  }
  return all;
}

}  // namespace

const Target kSuperblock{"superblock", run_superblock, superblock_examples, 1 + sizeof(format::Superblock), 16, 200'000};
const Target kPayload{"payload", run_payload, payload_examples, 4096, 256, 100'000};
const Target kMetadataLog{"metadata_log", run_metadata_log, metadata_log_examples, 4096, 256, 50'000};
const Target kFrames{"frames", run_frames, frames_examples, 6000, 64, 100'000};

}  // namespace lsmfs::fuzz

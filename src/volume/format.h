// What a volume looks like on the device: every structure, constant and code of docs/format.md.
//
// All numbers are little-endian. Every structure has a magic, a version and a checksum, XXH3 of 64
// bits over it with the checksum field zero (over header and payload where it has both, as the document says). Names here and in the document agree.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "lsmfs/device.h"
#include "lsmfs/lease.h"
#include "lsmfs/volume.h"

namespace lsmfs::format {

static_assert(std::endian::native == std::endian::little, "structures are copied as they are");

inline constexpr std::uint64_t kBlock = kDeviceBlock;        // all structures begin at multiples of it
using lsmfs::kTableGranule;                                  // unit of the table region
inline constexpr std::uint64_t kFixedGranule = 64 * KiB;     // unit of the fixed region
inline constexpr std::uint64_t kMetadataAreaMax = 256 * MiB;  // each of the two, on the largest devices

// ---- superblock: block 0, and the first block of the device's last whole MiB ---------------

inline constexpr std::uint64_t kSuperblockMagic = 0x0a1a0d53464d534c;  // "LSMFS\r\x1a\n"

struct Region {
  std::uint64_t start;
  std::uint64_t length;
};

struct Superblock {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t label_length;
  std::uint64_t checksum;  // seed 0, over all kBlock bytes
  std::uint8_t uuid[16];
  std::int64_t created_ns;  // since 1970
  std::uint64_t device_size;
  Region metadata[2];
  Region fixed;
  Region table;
  char label[kLabelMax];
  std::uint64_t compatible;    // features, as lsmfs::Features has them
  std::uint64_t read_only;
  std::uint64_t incompatible;
  char made_by[kMadeByMax];    // the version of the program that made it
  std::uint64_t seed;            // of the checksums of metadata records and frames
  std::uint32_t options_length;
  std::uint32_t zero;
  char options[kMountOptionsMax];  // for mounting, as after -o
  std::uint8_t rest[3600];         // zeros, or what compatible features keep here
};
static_assert(sizeof(Superblock) == kBlock);
static_assert(offsetof(Superblock, version) == 8);
static_assert(offsetof(Superblock, label_length) == 12);
static_assert(offsetof(Superblock, checksum) == 16);
static_assert(offsetof(Superblock, uuid) == 24);
static_assert(offsetof(Superblock, created_ns) == 40);
static_assert(offsetof(Superblock, device_size) == 48);
static_assert(offsetof(Superblock, metadata) == 56);
static_assert(offsetof(Superblock, fixed) == 88);
static_assert(offsetof(Superblock, table) == 104);
static_assert(offsetof(Superblock, label) == 120);
static_assert(offsetof(Superblock, compatible) == 184);
static_assert(offsetof(Superblock, read_only) == 192);
static_assert(offsetof(Superblock, incompatible) == 200);
static_assert(offsetof(Superblock, made_by) == 208);
static_assert(offsetof(Superblock, seed) == 224);
static_assert(offsetof(Superblock, options_length) == 232);
static_assert(offsetof(Superblock, options) == 240);
static_assert(offsetof(Superblock, rest) == 496);

// ---- lease: block 1, of volumes with the feature ---------------------------------------------

inline constexpr std::uint64_t kLeaseAt = kBlock;
inline constexpr std::uint32_t kLeaseMagic = 0x4c4d534c;  // "LSML"

struct Lease {
  std::uint32_t magic;
  std::uint32_t held;         // 0: it was given back
  std::uint64_t checksum;     // seed that of the superblock, over all kBlock bytes
  std::uint8_t take[16];      // random, for each time it is taken
  std::uint64_t sequence;     // one more with each renewal
  std::uint8_t host[16];      // of no other host; zeros: not known
  std::int64_t taken_ns;      // since 1970, by its holder's clock
  std::int64_t renewed_ns;
  std::uint32_t name_length;
  std::uint32_t zero;
  char name[kHostNameMax];    // of the host
  std::uint8_t rest[3952];    // zeros
};
static_assert(sizeof(Lease) == kBlock);
static_assert(offsetof(Lease, held) == 4);
static_assert(offsetof(Lease, checksum) == 8);
static_assert(offsetof(Lease, take) == 16);
static_assert(offsetof(Lease, sequence) == 32);
static_assert(offsetof(Lease, host) == 40);
static_assert(offsetof(Lease, taken_ns) == 56);
static_assert(offsetof(Lease, renewed_ns) == 64);
static_assert(offsetof(Lease, name_length) == 72);
static_assert(offsetof(Lease, name) == 80);
static_assert(offsetof(Lease, rest) == 144);

// ---- metadata log ------------------------------------------------------------------------

inline constexpr std::uint32_t kRecordMagic = 0x444d534c;  // "LSMD"

enum class RecordKind : std::uint16_t { snapshot = 1, delta = 2 };

struct RecordHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;            // RecordKind
  std::uint64_t generation;      // of the area: counts the snapshots ever written
  std::uint64_t sequence;        // within the generation: 0 is the snapshot
  std::uint64_t payload_length;  // bytes that follow this header
  std::uint64_t checksum;        // seed that of the superblock, over header and payload
};
static_assert(sizeof(RecordHeader) == 40);
static_assert(offsetof(RecordHeader, kind) == 6);
static_assert(offsetof(RecordHeader, generation) == 8);
static_assert(offsetof(RecordHeader, sequence) == 16);
static_assert(offsetof(RecordHeader, payload_length) == 24);
static_assert(offsetof(RecordHeader, checksum) == 32);

// Operations in a payload: one code byte, then varints and strings as in base.h.
enum class Op : std::uint8_t {
  create = 1,   // id, u8 kind, le64 seed, string name: replaces a file of that name
  extents = 2,  // id, from, count, count x (start / kBlock, length / kBlock): cuts the list of extents
                // at byte `from` of the file and appends these
  size = 3,     // id, size: the exact length of a table or small file
  rename = 4,   // id, string name: replaces a file of that name
  remove = 5,   // id
  cut = 6,      // id, sequence, size: a log holds at most `size` bytes in its frames up to `sequence`
  synced = 7,   // id, sequence: the frames of a log up to `sequence` are known to be durable
  next_id = 8,  // id: ids below it have been used
};

// ---- frames of log files -------------------------------------------------------------------

inline constexpr std::uint32_t kFrameMagic = 0x464d534c;  // "LSMF"
inline constexpr std::uint64_t kFrameMax = MiB;           // with its header

struct FrameHeader {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t zero;
  std::uint32_t payload_length;  // bytes that follow this header, at least 1
  std::uint32_t zero2;
  std::uint64_t file_id;
  std::uint64_t sequence;          // 1 for a file's first frame
  std::uint64_t durable_sequence;  // frames up to it were durable when this one was made
  std::uint64_t offset;            // of the payload in the file
  std::uint64_t session;           // random, for each time the file is opened to append
  std::uint64_t previous_session;  // the session of the frame before this one; 0 for a file's first
  std::uint64_t checksum;          // seed frame_seed(seed of the superblock, file), over header and payload
};
static_assert(sizeof(FrameHeader) == 72);
static_assert(offsetof(FrameHeader, payload_length) == 8);
static_assert(offsetof(FrameHeader, file_id) == 16);
static_assert(offsetof(FrameHeader, sequence) == 24);
static_assert(offsetof(FrameHeader, durable_sequence) == 32);
static_assert(offsetof(FrameHeader, offset) == 40);
static_assert(offsetof(FrameHeader, session) == 48);
static_assert(offsetof(FrameHeader, previous_session) == 56);
static_assert(offsetof(FrameHeader, checksum) == 64);

inline constexpr std::uint64_t kFramePayloadMax = kFrameMax - sizeof(FrameHeader);

}  // namespace lsmfs::format

namespace lsmfs {

// A run of bytes on the device, whole granules of the region it lies in.
struct Extent {
  std::uint64_t start = 0;
  std::uint64_t length = 0;
  std::uint64_t end() const { return start + length; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

}  // namespace lsmfs

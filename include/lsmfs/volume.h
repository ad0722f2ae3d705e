// volume: a flat set of named append-only files on one device.
//
// It owns the superblock (two copies), the metadata log (two areas, each a snapshot and deltas) and
// the extent allocator; nothing above it knows a device offset. The format is docs/format.md. What
// it is not: it has no directories, no in-place overwrite, no cache and no idea what is in a file.
//
// Promises
//   1. A file exists after a crash, with at least the contents of its last sync(), once sync() of
//      it has returned. Names change (create, rename, remove) in the order of the calls, and every
//      sync() or commit() makes all name changes before it durable. rename() over an existing name
//      is atomic.
//   2. Nothing that was synced is ever overwritten in place, and an extent is given to a new file
//      only after the removal of its old owner is durable. A removed file stays readable for those
//      who have it open.
//   3. What a log holds of after a table's precede_logs() is not there after a crash unless that table is.
//   4. After any failed device write or flush every further create, append, sync, rename, remove
//      and commit fails with that error ("fail-stop"); reads go on.
//
// Threads: all functions of Volume may be called from any thread. A FileWriter may be used from
// several threads (its calls are serialised inside); so may a FileReader.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/device.h"

namespace lsmfs {

inline constexpr std::uint32_t kFormatVersion = 17;
inline constexpr std::size_t kLabelMax = 64;          // bytes
inline constexpr std::size_t kMadeByMax = 16;         // bytes
inline constexpr std::size_t kMountOptionsMax = 256;  // bytes
inline constexpr std::uint64_t kDeviceMin = 128 * MiB;  // the least device or image
inline constexpr std::uint64_t kTableGranule = 64 * KiB;  // a table takes whole pieces of this size

enum class FileKind : std::uint8_t {
  table = 1,  // large, written once; its exact size becomes durable at sync()
  log = 2,    // appended and synced often; written as self-describing frames, so that a sync()
              // costs no metadata; its size after a crash is what the frames say
  small = 3,  // like table, but in the fixed region: CURRENT, IDENTITY, OPTIONS
};

// Where a table should lie: short-lived ones (flushed level 0) are allocated from one end of the
// device, long-lived ones (compaction outputs) from the other, so that they do not fragment each other.
enum class Lifetime : std::uint8_t { brief, lasting };

class FileWriter {
 public:
  virtual ~FileWriter() = default;  // closes; errors of that close are lost
  // Adds bytes at the end. They are buffered: durable only after sync().
  virtual Result<void> append(Bytes data) = 0;
  // Contents, size and name are durable when this returns.
  virtual Result<void> sync() = 0;
  // Of a table: what is appended to logs from now on reaches the device after its contents, size and name are durable. Waits for no
  // flush: the first of these frames does. So a log may name what is in a table, and a crash that loses that loses the name, too.
  virtual Result<void> precede_logs() = 0;
  // Announces how large the file will get, before the first append; the whole is taken as one
  // extent where possible. close() gives back what was not used.
  virtual Result<void> reserve(ByteCount expected) = 0;
  // Of a table: takes space for so many bytes in all now, which appends then find. close() gives back what was not used. ENOSPC.
  virtual Result<void> allocate(ByteCount bytes) = 0;
  virtual void set_lifetime(Lifetime lifetime) = 0;
  // Shortens the file; growing is EINVAL. Only what RocksDB does to its last log needs it.
  virtual Result<void> truncate(ByteCount size) = 0;
  virtual Result<void> close() = 0;
  virtual ByteCount size() const = 0;  // with what is still buffered
};

class FileReader {
 public:
  virtual ~FileReader() = default;
  // Reads up to to.size() bytes at `from`, any alignment; gives the number of bytes, less than
  // asked only at the end. Without a copy when offset, length and address are aligned to
  // kDeviceBlock (the bytes between the file's end and the next block are then undefined).
  virtual Result<std::size_t> read(ByteOffset from, MutableBytes to) const = 0;
  virtual ByteCount size() const = 0;
};

// EINVAL unless it can be a volume's label: UTF-8 without control characters of at most kLabelMax bytes.
Result<void> check_label(std::string_view label);
// EINVAL unless a volume can keep them: printable ASCII without spaces, of at most kMountOptionsMax bytes. What they mean is not asked.
Result<void> check_mount_options(std::string_view options);

// What a volume uses of its format beyond the version, a bit each.
struct Features {
  std::uint64_t compatible = 0;    // a program that does not know one reads and writes as ever
  std::uint64_t read_only = 0;     // it may read, and must not write
  std::uint64_t incompatible = 0;  // it must leave the volume alone
  bool operator==(const Features&) const = default;
};
inline constexpr std::uint64_t kLeaseFeature = 1;  // read_only: who writes has the lease (lsmfs/lease.h)
inline constexpr Features kKnownFeatures{.read_only = kLeaseFeature};

struct FormatOptions {
  std::string label;
  Uuid uuid = Uuid::random();
  Clock* clock = &system_clock();  // which tells when it is made
  std::string made_by;             // the program's version: at most kMadeByMax printable characters of ASCII
  bool lease = false;              // with that feature
};

struct VolumeInfo {
  std::uint32_t version = 0;
  Uuid uuid;
  std::string label;
  Features features;
  std::string made_by;          // the version of the program that made it; "": not said
  std::string mount_options;    // what holds at a mount unless something else is said there; as after -o
  std::int64_t created_ns = 0;  // since 1970
  ByteCount device_size;        // of the volume; the device may be larger, but not smaller
};

// What of it can be changed; what is not set stays.
struct VolumeChange {
  std::optional<std::string> label;
  std::optional<Uuid> uuid;
  std::optional<std::string> mount_options;
  std::optional<bool> lease;  // nobody may have it who does not hold the device open for writing alone
};

struct VolumeUsage {
  ByteCount table_total, table_free;  // the region of the tables, in whole granules
  ByteCount largest_free;             // the longest free run in it
  ByteCount fixed_total, fixed_free;  // the fixed region of logs, manifest and options
  ByteCount list_total, list_free;    // what the metadata log can hold: each file takes a part of it, and each extent
  std::uint64_t files = 0;
};

// Which free space to discard.
struct TrimRange {
  ByteOffset start;                // on the device
  ByteCount length{UINT64_MAX};    // may reach beyond the end
  ByteCount least;                 // runs of free space with fewer bytes in the range are left alone
};
// Asked now and then whether to give up.
using Stop = std::function<bool()>;

// How far a scrub has come in a row of numbered files. It may come from a stranger: any values are safe.
struct ScrubRange {
  std::uint64_t next = 0;  // the first number that it has not come to
  std::uint64_t end = 0;   // files from this number on came after it began, and are left alone; 0: it has not begun
  bool done() const { return end != 0 && next >= end; }
};
// What one step of a scrub did.
struct ScrubStep {
  ByteCount read;                   // now
  ByteCount left;                   // in all that is still to come, as far as it is there now
  std::vector<std::string> damage;  // one line each; what cannot be read is damage, too
};

struct VolumeOptions {
  // Receives one line for each thing a person should know: that the second superblock is used, ...
  std::function<void(std::string_view)> notice = [](std::string_view) {};
  // If it is set, what was durable and is damaged in the metadata log or in a log file does not keep these from being
  // used as far as they go: it receives one line for each. For repair() and for those who only look.
  std::function<void(std::string_view)> salvage = {};
};

// Reads and checks the superblocks only. Errors, each with a context that says what to do:
//   EMEDIUMTYPE no lsmfs here; EPROTONOSUPPORT another format version, or features that this program does not know: incompatible ones,
//   or such with which it may only read what is open to write; EUCLEAN both copies damaged; ENOSPC the device is smaller than the
//   volume; EIO.
// `notice` is told when the first copy is damaged and the second is used.
Result<VolumeInfo> read_volume_info(Device& device, const VolumeOptions& options = {});

// Whether one of the two places of superblocks has their magic number, or cannot be read. Decodes nothing: it may be asked by who still
// has all its rights.
bool may_be_volume(Device& device);

class Volume {
 public:
  // Makes an empty volume. Destroys all that is on the device, old signatures of other file
  // systems included (both ends of the device). Errors: ENOSPC (smaller than kDeviceMin), EINVAL (label), EIO.
  static Result<void> format(Device& device, const FormatOptions& options);

  // `device` must outlive the volume. On a device that is not writable nothing is written and all
  // changes fail with EROFS. Errors: those of read_volume_info; EUCLEAN when no metadata log area
  // is sound.
  static Result<std::unique_ptr<Volume>> open(Device& device, const VolumeOptions& options = {});

  // Makes all of it sound again that the volume's own structures hold: a damaged copy of the superblock is written
  // again, the metadata log and each log file go as far as they can be read. `said` receives a line for each. Writes
  // nothing else. Errors: those of open() but for damage that it can mend; EROFS.
  static Result<void> repair(Device& device, const std::function<void(std::string_view)>& said);

  // Gives a volume that nobody has open another end: what lies behind is moved before it first, a bounded piece at a time, and a crash
  // loses nothing. `at` is told how much has been moved of how much. The device itself keeps its size. Errors: ENOSPC (what is there
  // does not fit, or its regions do not), EINVAL (larger than it is), EROFS, those of open(); nothing has been lost then.
  static Result<void> shrink(Device& device, ByteCount size, const std::function<void(ByteCount done, ByteCount all)>& at);

  virtual ~Volume() = default;  // does not sync

  // Names: 1 to 255 bytes. create() replaces an existing file of that name.
  virtual Result<std::unique_ptr<FileWriter>> create(std::string_view name, FileKind kind) = 0;
  virtual Result<std::unique_ptr<FileWriter>> reopen(std::string_view name) = 0;  // to append; ENOENT
  virtual Result<std::unique_ptr<FileReader>> open_reader(std::string_view name) = 0;  // ENOENT
  virtual Result<void> rename(std::string_view from, std::string_view to) = 0;         // ENOENT
  virtual Result<void> remove(std::string_view name) = 0;                              // ENOENT
  virtual Result<ByteCount> size_of(std::string_view name) = 0;                        // ENOENT
  virtual bool exists(std::string_view name) const = 0;
  virtual std::vector<std::string> list() const = 0;
  // Makes all name changes so far durable (what fsync of a directory does elsewhere).
  virtual Result<void> commit() = 0;
  // Writes down, apart from the log files, how much of each is durable. What a later sync() adds says that of what was
  // before; without this, damage to the last frames of all would look like an end that a crash has torn.
  virtual Result<void> note_synced() = 0;

  // Discards free space of tables, a piece at a time, while everything else goes on; gives the bytes
  // discarded. Errors: EROFS; EINVAL (begins beyond the volume's end, or `length` is less than
  // kDeviceBlock, or `least` more than the volume has); EOPNOTSUPP (the device cannot discard); EINTR
  // (stopped); EIO, which does not stop the volume.
  virtual Result<ByteCount> trim(const TrimRange& range, const Stop& stop) = 0;

  // Reads what is durable of the volume's own structures as it is on the device, and verifies it: the superblocks and the
  // metadata log with both copies, the frames of log files; small files, which have no checksums, must be readable. Tables are
  // left to whoever knows what is in them. A part at a time, from a range {} on until it is done; everything else goes on
  // meanwhile, also changes. Writes nothing, and finds damage without stopping the volume. Errors: EINTR (stopped), ENOMEM.
  virtual Result<ScrubStep> scrub(ScrubRange& range, const Stop& stop) = 0;

  virtual bool writable() const = 0;
  // The error that stopped the volume (promise 3), if one did.
  virtual std::optional<Error> failure() const = 0;
  virtual VolumeInfo info() const = 0;
  // All of it at one moment, and durable when it returns. Errors: EINVAL (check_label(), check_mount_options()), EROFS, EIO.
  virtual Result<void> change(const VolumeChange& change) = 0;
  // Gives it so many bytes of its device, or all (nullopt), while everything else goes on; the device may have grown since it was opened.
  // Durable when it returns. Errors: EINVAL (fewer than it has), ENOSPC (the device has fewer), EFBIG (too many for its regions), EROFS, EIO.
  virtual Result<void> grow(std::optional<ByteCount> size) = 0;
  // What table_total of usage() would be with another size. ENOSPC, EFBIG: it cannot have that size.
  virtual Result<ByteCount> table_total_with(ByteCount size) const = 0;
  virtual VolumeUsage usage() const = 0;
};

}  // namespace lsmfs

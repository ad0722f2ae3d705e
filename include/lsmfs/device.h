// device: read, write, flush and discard of one block device or image file.
//
// The only place that knows how to open a raw device and what it demands of alignment: every
// offset, length and buffer address is a multiple of kDeviceBlock. What it is not: it has no
// cache, no format, no retries. Decorators (tracing, faults) implement the same interface.
//
// Threads: read, write, flush and discard may be called from any thread at the same time; two
// calls on overlapping ranges are the caller's to order.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/counters.h"

namespace lsmfs {

inline constexpr std::uint64_t kDeviceBlock = 4096;

// Memory whose address suits O_DIRECT. Contents start as zeros, unless they may be any. Movable, not copyable.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size);  // size is rounded up to kDeviceBlock
  // For who fills what it uses: memory that is never used is never touched, and so costs nothing.
  static AlignedBuffer of_any_contents(std::size_t size);
  MutableBytes bytes() { return {data_.get(), size_}; }
  Bytes bytes() const { return {data_.get(), size_}; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Fills all of `to` or fails: EIO when what is there cannot be read, ENXIO past the end. Any other
  // error says nothing of what is there: the way to it has failed. Short reads are errors.
  virtual Result<void> read(ByteOffset from, MutableBytes to) = 0;
  // Writes all of `data` or fails, with EIO also when a thin device has no room for it. Volatile
  // until the next flush() that succeeds.
  virtual Result<void> write(ByteOffset to, Bytes data) = 0;
  // Makes all writes that returned before the call durable. After a failure nothing may be
  // assumed of any write since the last success; the caller must not retry.
  virtual Result<void> flush() = 0;
  // The contents of the range become undefined, and the device may use its space for something else.
  // EOPNOTSUPP: it cannot; nothing has changed then.
  virtual Result<void> discard(ByteOffset from, ByteCount length) = 0;

  virtual ByteCount size() const = 0;  // rounded down to kDeviceBlock
  // Looks how large it is now, for size() to tell: a disk or an image may have grown since it was opened. Of one that has become smaller
  // than it was then size() stays, and requests past its end fail.
  virtual Result<void> look_again() { return {}; }
  // Gives an image file another size; what is behind it is gone. EOPNOTSUPP: it is no file.
  virtual Result<void> set_size(ByteCount) { return make_error(EOPNOTSUPP, path()); }
  virtual bool writable() const = 0;
  virtual bool is_block_device() const = 0;
  virtual const std::string& path() const = 0;
  // For whoever asks the kernel about what is open, which its path need not lead to any more; -1: it is no file.
  virtual int descriptor() const { return -1; }
};

enum class Access { read_only, read_write };
// exclusive: nobody else may use it now: O_EXCL on a block device (EBUSY when mounted or claimed),
//   and a lock (flock) on either kind; for mkfs, and for offline commands that write.
// locked: only the lock; for mount, where the kernel takes the claim on a block device itself.
// shared: neither; for reading facts of a device that may be in use.
enum class Sharing { exclusive, locked, shared };

// Opens with O_DIRECT (falls back to buffered I/O where the file system below refuses it, as
// tmpfs does; flush() is then fdatasync as well). Errors: ENOENT, EACCES, EPERM, EROFS, EBUSY
// (in use), ENOTBLK (neither a block device nor a regular file). Waits a second by `clock` for the lock of a block device.
Result<std::unique_ptr<Device>> open_device(const std::string& path, Access access, Sharing sharing, Clock& clock = system_clock());

// A descriptor of a block device or regular file to lock it, or to learn something of it: O_RDONLY with `flags`.
// Nothing else is opened, since that can wait or do things. Errors: ENOTBLK, and those of open(2).
Result<Fd> open_to_look(const std::string& path, int flags = 0);

// grow: a file that exists is kept; it may grow, but never shrinks. refuse: EEXIST.
enum class Existing { grow, refuse };
// Makes a sparse image file of `size` bytes that only its owner may read or write.
Result<void> create_image(const std::string& path, ByteCount size, Existing existing = Existing::grow);

// A device in memory, for tests: zeros at first.
std::unique_ptr<Device> memory_device(ByteCount size);

// ---- what requests are for ----------------------------------------------------------------

// Why a device is read or written. Who knows says so by an IoFor, around the call; the innermost counts.
enum class IoCause : std::uint8_t {
  other,       // mounting, and what the layers do by themselves and nothing below names
  miss,        // a program waits for it
  read_ahead,  // of a walk, before somebody asks
  stream,      // blobs of large files
  log,         // the write-ahead log
  flush,       // memtables to tables
  compaction,  // tables to others
  metadata,    // what the volume and the store know of their own files
  scrub,
};
inline constexpr std::array<std::string_view, 9> kIoCauses{"other", "miss",       "read_ahead", "stream", "log",
                                                           "flush", "compaction", "metadata",   "scrub"};

// While one exists, what its thread asks of devices is for this.
class IoFor {
 public:
  explicit IoFor(IoCause cause) : outer_(std::exchange(current_, cause)) {}
  ~IoFor() { current_ = outer_; }
  IoFor(const IoFor&) = delete;
  IoFor& operator=(const IoFor&) = delete;

  static IoCause current() { return current_; }
  // Of a thread that does nothing else: what counts outside of all of these.
  static void all_of_this_thread(IoCause cause) { current_ = cause; }

 private:
  static inline constinit thread_local IoCause current_ = IoCause::other;
  const IoCause outer_;
};

struct IoCounts {
  std::uint64_t reads = 0, read_bytes = 0, writes = 0, written_bytes = 0;
};
struct DeviceStats {
  std::array<IoCounts, kIoCauses.size()> by_cause;  // by IoCause
  HistogramCounts read, write, flush;               // how long each took
  std::uint64_t discards = 0, discarded_bytes = 0;

  const IoCounts& of(IoCause cause) const { return by_cause[static_cast<std::size_t>(cause)]; }
  IoCounts sum() const;
};

// Counts what succeeds, since it was made.
class MeteredDevice : public Device {
 public:
  virtual DeviceStats stats() const = 0;
};
std::unique_ptr<MeteredDevice> metered_device(std::unique_ptr<Device> inner, Clock& clock = system_clock());

// ---- decorators ---------------------------------------------------------------------------

struct DeviceEvent {
  enum class Kind { read, write, flush, discard } kind;
  ByteOffset offset;
  ByteCount length;
};

// Calls `observe` before each request (data is empty unless it is a write); when it returns an
// error, the request fails with it and never reaches `inner`. One hook serves tracing, counting,
// recording and fault injection. `inner` must outlive the decorator.
using DeviceHook = std::function<Result<void>(const DeviceEvent&, Bytes data)>;
std::unique_ptr<Device> hooked_device(Device& inner, DeviceHook observe);

// One that is not writable, over one that may be. `inner` must outlive the decorator.
std::unique_ptr<Device> read_only_device(Device& inner);

// For those who save what can be read: a block whose read fails with EIO, with others and alone, is zeros, and `unreadable`
// hears of it once. Zeros are written there, too, on a device that is writable: disks put another sector in its place then.
// `inner` must outlive the decorator.
std::unique_ptr<Device> salvaging_device(Device& inner, std::function<void(ByteOffset)> unreadable);

}  // namespace lsmfs

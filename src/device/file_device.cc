#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "device/requests.h"
#include "lsmfs/device.h"

namespace lsmfs {
namespace {

Error system_error(std::string context) { return make_error(errno, std::move(context)); }

// Of a request. The kernel has several words for a sector that is lost: ENODATA (the medium), EILSEQ and EBADMSG (it is not
// what its checksum says), EREMOTEIO (the disk gives up). To whoever asked for it all of them are EIO. So is ENOSPC, of a thin
// device or a sparse image that has no room below it: further up that would say that the volume is full. All others stay as
// they are: when the way to a device has failed, nothing on it is lost.
Error request_error(std::string context) {
  Error error = system_error(std::move(context));
  switch (error.code) {
    case ENODATA:
    case EILSEQ:
    case EBADMSG:
    case EREMOTEIO:
    case ENOSPC:
      return make_error(EIO, error.message());
    default:
      return error;
  }
}

class FileDevice final : public Device {
 public:
  FileDevice(Fd fd, std::string path, std::uint64_t size, bool writable, bool block)
      : fd_(std::move(fd)), path_(std::move(path)), opened_size_(size), size_(size), writable_(writable), block_(block) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    LSMFS_TRY(check_request(*this, "read", from, to.size(), to.data()));
    const Waiting waiting("read", from, ByteCount{to.size()});
    std::size_t done = 0;
    while (done < to.size()) {
      const ssize_t n = ::pread(fd_.get(), to.data() + done, to.size() - done, static_cast<off_t>(from.v + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return request_error(fmt::format("read of {} bytes at {} of {}", to.size(), from.v, path_));
      // The device ends before the size it had when it was opened.
      if (n == 0)
        return make_error(
            EIO, fmt::format("{} ends at {}: read of {} bytes at {}", path_, from.v + done, to.size(), from.v));
      done += static_cast<std::size_t>(n);
    }
    return {};
  }

  Result<void> write(ByteOffset to, Bytes data) override {
    LSMFS_TRY(check_request(*this, "write", to, data.size(), data.data()));
    const Waiting waiting("write", to, ByteCount{data.size()});
    std::size_t done = 0;
    while (done < data.size()) {
      const ssize_t n = ::pwrite(fd_.get(), data.data() + done, data.size() - done, static_cast<off_t>(to.v + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return request_error(fmt::format("write of {} bytes at {} of {}", data.size(), to.v, path_));
      if (n == 0)
        return make_error(EIO, fmt::format("write of {} bytes at {} of {} made no progress", data.size(), to.v, path_));
      done += static_cast<std::size_t>(n);
    }
    return {};
  }

  Result<void> flush() override {
    const Waiting waiting("flush", {}, {});
    // Not repeated on EINTR: after a failure nobody knows what the kernel has already given up.
    if (::fdatasync(fd_.get()) != 0) return request_error(fmt::format("flush of {}", path_));
    return {};
  }

  Result<void> discard(ByteOffset from, ByteCount length) override {
    LSMFS_TRY(check_request(*this, "discard", from, length.v, nullptr));
    if (length.v == 0) return {};
    const Waiting waiting("discard", from, length);
    int rc;
    do {
      if (block_) {
        std::uint64_t range[2] = {from.v, length.v};
        rc = ::ioctl(fd_.get(), BLKDISCARD, range);
      } else {
        rc = ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from.v),
                         static_cast<off_t>(length.v));
      }
    } while (rc != 0 && errno == EINTR);
    if (rc == 0) return {};
    if (errno == ENOSYS || errno == ENOTTY) errno = EOPNOTSUPP;
    return request_error(fmt::format("discard of {} bytes at {} of {}", length.v, from.v, path_));
  }

  ByteCount size() const override { return ByteCount{size_.load()}; }

  Result<void> look_again() override {
    const off_t end = ::lseek(fd_.get(), 0, SEEK_END);  // which confined processes may call, unlike the ioctl
    if (end < 0) return system_error(fmt::format("cannot get the size of {}", path_));
    size_.store(std::max(round_down(static_cast<std::uint64_t>(end), kDeviceBlock), opened_size_));
    return {};
  }

  Result<void> set_size(ByteCount size) override {
    if (block_) return make_error(EOPNOTSUPP, path_);
    if (::ftruncate(fd_.get(), static_cast<off_t>(size.v)) != 0) return system_error(fmt::format("cannot give {} a size of {} bytes", path_, size.v));
    size_.store(round_down(size.v, kDeviceBlock));
    return {};
  }

  bool writable() const override { return writable_; }
  bool is_block_device() const override { return block_; }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return fd_.get(); }

 private:
  const Fd fd_;
  const std::string path_;
  const std::uint64_t opened_size_;
  std::atomic<std::uint64_t> size_;
  const bool writable_;
  const bool block_;
};

bool is_read_only_block_device(int fd) {
  int read_only = 0;
  return ::ioctl(fd, BLKROGET, &read_only) == 0 && read_only != 0;
}

Error read_only_device(const std::string& path) {
  return make_error(EROFS, fmt::format("{} is a read-only block device", path));
}

Error wrong_kind(const std::string& path) {
  return make_error(ENOTBLK, fmt::format("{} is neither a block device nor a regular file", path));
}

// What a path leads to, looked up once: whatever becomes of the path then, it is this that is examined and opened.
// Opening a fifo or a character device can wait or do things; this does neither.
class Place {
 public:
  static Result<Place> look_up(const std::string& path) {
    Place place;
    place.fd_ = Fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat st;
    if (!place.fd_ || ::fstat(place.fd_.get(), &st) != 0) return system_error(fmt::format("cannot open {}", path));
    place.block_ = S_ISBLK(st.st_mode);
    if (!place.block_ && !S_ISREG(st.st_mode)) return wrong_kind(path);
    return place;
  }

  bool block() const { return block_; }
  // With errno when there is none.
  Fd open(int flags) const {
    Fd fd(::open(fmt::format("/proc/self/fd/{}", fd_.get()).c_str(), flags | O_CLOEXEC | O_NONBLOCK));
    if (!fd && errno == ENOENT) errno = ENOSYS;  // no /proc
    return fd;
  }

 private:
  Fd fd_;
  bool block_ = false;
};

Result<Fd> open_for_io(const Place& place, const std::string& path, int flags) {
  Fd fd = place.open(flags | O_DIRECT);
  if (!fd && errno == EINVAL) fd = place.open(flags);
  if (fd) return fd;
  const int reason = errno;
  if (place.block() && (flags & O_ACCMODE) == O_RDWR && (reason == EACCES || reason == EPERM || reason == EROFS)) {
    // The kernel says EACCES for a device that is set read-only; people should hear the true reason.
    const Fd probe = place.open(O_RDONLY);
    if (probe && is_read_only_block_device(probe.get())) return read_only_device(path);
  }
  if (reason == EBUSY)
    return make_error(EBUSY, fmt::format("{} is in use (mounted, or claimed by another program)", path));
  return make_error(reason, fmt::format("cannot open {}", path));
}

Result<void> lock_file(int fd, const std::string& path, bool block, Clock& clock) {
  // udev takes a shared lock for a moment whenever somebody closes a block device that was open for
  // writing, as mkfs does right before mount; that is not another user.
  constexpr auto kPatience = std::chrono::seconds(1), kNone = std::chrono::seconds(0);
  const Clock::Time last = clock.now() + (block ? kPatience : kNone);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return system_error(fmt::format("cannot lock {}", path));
    if (clock.now() >= last) return make_error(EBUSY, fmt::format("{} is in use by another lsmfs", path));
    clock.sleep(std::chrono::milliseconds(20));
  }
  return {};
}

// Some file systems accept O_DIRECT at open and refuse the first request.
Result<void> settle_direct_io(int fd, const std::string& path, std::uint64_t size) {
  if (size < kDeviceBlock) return {};
  AlignedBuffer block(kDeviceBlock);
  ssize_t n;
  do {
    n = ::pread(fd, block.data(), block.size(), 0);
  } while (n < 0 && errno == EINTR);
  if (n >= 0 || errno != EINVAL) return {};  // other errors are for those who read
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0) {
    return system_error(fmt::format("cannot use {} without direct I/O", path));
  }
  return {};
}

Result<std::uint64_t> size_of_file(int fd, const struct stat& st, const std::string& path) {
  if (!S_ISBLK(st.st_mode)) return static_cast<std::uint64_t>(st.st_size);
  std::uint64_t size = 0;
  if (::ioctl(fd, BLKGETSIZE64, &size) != 0) return system_error(fmt::format("cannot get the size of {}", path));
  int sector = 0;
  if (::ioctl(fd, BLKSSZGET, &sector) != 0) return system_error(fmt::format("cannot get the sector size of {}", path));
  if (sector <= 0 || kDeviceBlock % static_cast<std::uint64_t>(sector) != 0) {
    return make_error(EINVAL,
                      fmt::format("{} has sectors of {} bytes; at most {} are supported", path, sector, kDeviceBlock));
  }
  return size;
}

}  // namespace

Result<Fd> open_to_look(const std::string& path, int flags) {
  LSMFS_ASSIGN(const Place place, Place::look_up(path));
  Fd fd = place.open(O_RDONLY | flags);
  if (!fd) return system_error(fmt::format("cannot open {}", path));
  return fd;
}

Result<std::unique_ptr<Device>> open_device(const std::string& path, Access access, Sharing sharing, Clock& clock) {
  const bool write = access == Access::read_write;
  LSMFS_ASSIGN(const Place place, Place::look_up(path));
  const bool block = place.block();
  int flags = write ? O_RDWR : O_RDONLY;
  if (block && sharing == Sharing::exclusive) flags |= O_EXCL;
  LSMFS_ASSIGN(Fd fd, open_for_io(place, path, flags));
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return system_error(fmt::format("cannot examine {}", path));
  if (block && write && is_read_only_block_device(fd.get())) return read_only_device(path);
  if (sharing != Sharing::shared) LSMFS_TRY(lock_file(fd.get(), path, block, clock));

  LSMFS_ASSIGN(const std::uint64_t bytes, size_of_file(fd.get(), st, path));
  const std::uint64_t size = round_down(bytes, kDeviceBlock);
  LSMFS_TRY(settle_direct_io(fd.get(), path, size));
  return std::unique_ptr<Device>(std::make_unique<FileDevice>(std::move(fd), path, size, write, block));
}

}  // namespace lsmfs

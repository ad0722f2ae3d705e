#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "device/requests.h"
#include "lsmfs/device.h"
#include "lsmfs/mutex.h"

namespace lsmfs {
namespace {

class MemoryDevice final : public Device {
 public:
  // Blocks that were never written stay untouched memory, so that a big device costs little. Mapped, not allocated: the thread
  // sanitizer's calloc touches all of it, and its free looks at all of it.
  explicit MemoryDevice(std::uint64_t size)
      : size_(round_down(size, kDeviceBlock)),
        data_(::mmap(nullptr, size_ + kDeviceBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)),
        written_(size_ / kDeviceBlock) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~MemoryDevice() override { ::munmap(data_, size_ + kDeviceBlock); }

  Result<void> read(ByteOffset from, MutableBytes to) override {
    LSMFS_TRY(check_request(*this, "read", from, to.size(), to.data()));
    const SharedLock lock(mutex_);
    while (!to.empty()) {
      const auto first = written_.begin() + static_cast<std::ptrdiff_t>(from.v / kDeviceBlock);
      const auto past = first + static_cast<std::ptrdiff_t>(to.size() / kDeviceBlock);
      const MutableBytes alike = to.first(static_cast<std::size_t>(std::find(first, past, !*first) - first) * kDeviceBlock);
      if (*first) {
        std::memcpy(alike.data(), at(from), alike.size());
      } else {
        std::memset(alike.data(), 0, alike.size());
      }
      from.v += alike.size();
      to = to.subspan(alike.size());
    }
    return {};
  }

  Result<void> write(ByteOffset to, Bytes data) override {
    LSMFS_TRY(check_request(*this, "write", to, data.size(), data.data()));
    const ExclusiveLock lock(mutex_);
    if (!data.empty()) std::memcpy(at(to), data.data(), data.size());
    for (std::uint64_t i = 0; i < data.size(); i += kDeviceBlock) written_[(to.v + i) / kDeviceBlock] = true;
    return {};
  }

  Result<void> flush() override { return {}; }

  // Neither the old bytes nor zeros: whoever reads a discarded range relies on what nobody promised.
  Result<void> discard(ByteOffset from, ByteCount length) override {
    LSMFS_TRY(check_request(*this, "discard", from, length.v, nullptr));
    const ExclusiveLock lock(mutex_);
    for (std::uint64_t i = 0; i < length.v; i += kDeviceBlock) {
      if (written_[(from.v + i) / kDeviceBlock]) std::memset(at(ByteOffset{from.v + i}), 0xd1, kDeviceBlock);
    }
    return {};
  }

  ByteCount size() const override { return ByteCount{size_}; }
  bool writable() const override { return true; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return path_; }

 private:
  std::byte* at(ByteOffset o) LSMFS_REQUIRES_SHARED(mutex_) { return static_cast<std::byte*>(data_) + o.v; }

  const std::uint64_t size_;
  void* const data_;
  SharedMutex mutex_;
  std::vector<bool> written_ LSMFS_GUARDED_BY(mutex_);  // by block
  std::string path_ = "memory";
};

}  // namespace

std::unique_ptr<Device> memory_device(ByteCount size) { return std::make_unique<MemoryDevice>(size.v); }

}  // namespace lsmfs

#include <cstdlib>
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
  // calloc leaves large blocks untouched until they are used, so that a big device costs little.
  explicit MemoryDevice(std::uint64_t size)
      : size_(round_down(size, kDeviceBlock)), data_(std::calloc(size_ + 1, 1)), written_(size_ / kDeviceBlock) {
    if (!data_) throw std::bad_alloc();
  }

  Result<void> read(ByteOffset from, MutableBytes to) override {
    LSMFS_TRY(check_request(*this, "read", from, to.size(), to.data()));
    const SharedLock lock(mutex_);
    if (!to.empty()) std::memcpy(to.data(), at(from), to.size());
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
      // Blocks that were never written stay untouched memory.
      if (written_[(from.v + i) / kDeviceBlock]) std::memset(at(ByteOffset{from.v + i}), 0xd1, kDeviceBlock);
    }
    return {};
  }

  ByteCount size() const override { return ByteCount{size_}; }
  bool writable() const override { return true; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return path_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };

  std::byte* at(ByteOffset o) LSMFS_REQUIRES_SHARED(mutex_) { return static_cast<std::byte*>(data_.get()) + o.v; }

  const std::uint64_t size_;
  std::unique_ptr<void, Free> data_;
  SharedMutex mutex_;
  std::vector<bool> written_ LSMFS_GUARDED_BY(mutex_);  // by block
  std::string path_ = "memory";
};

}  // namespace

std::unique_ptr<Device> memory_device(ByteCount size) { return std::make_unique<MemoryDevice>(size.v); }

}  // namespace lsmfs

#include <algorithm>
#include <cstring>
#include <set>

#include "device/decorator.h"
#include "lsmfs/mutex.h"

namespace lsmfs {
namespace {

class SalvagingDevice final : public DeviceDecorator {
 public:
  SalvagingDevice(Device& inner, std::function<void(ByteOffset)> unreadable)
      : DeviceDecorator(inner), unreadable_(std::move(unreadable)) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    const auto whole = inner_.read(from, to);
    if (whole || whole.error().code != EIO) return whole;
    for (std::size_t at = 0; at < to.size(); at += kDeviceBlock) {
      const ByteOffset place{from.v + at};
      const MutableBytes block = to.subspan(at, std::min<std::size_t>(kDeviceBlock, to.size() - at));
      const auto one = inner_.read(place, block);
      if (one) continue;
      if (one.error().code != EIO) return one;  // it may be there
      std::fill(block.begin(), block.end(), std::byte{0});
      if (inner_.writable()) LSMFS_TRY(inner_.write(place, block));
      const MutexLock lock(mutex_);
      if (told_.insert(place.v).second) unreadable_(place);
    }
    return {};
  }

 private:
  const std::function<void(ByteOffset)> unreadable_;
  Mutex mutex_;
  std::set<std::uint64_t> told_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Device> salvaging_device(Device& inner, std::function<void(ByteOffset)> unreadable) {
  return std::make_unique<SalvagingDevice>(inner, std::move(unreadable));
}

}  // namespace lsmfs

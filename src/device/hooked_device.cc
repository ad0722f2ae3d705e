#include "device/decorator.h"

namespace lsmfs {
namespace {

class HookedDevice final : public DeviceDecorator {
 public:
  HookedDevice(Device& inner, DeviceHook observe) : DeviceDecorator(inner), observe_(std::move(observe)) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    LSMFS_TRY(observe("read", {DeviceEvent::Kind::read, from, ByteCount{to.size()}}));
    return inner_.read(from, to);
  }
  Result<void> write(ByteOffset to, Bytes data) override {
    LSMFS_TRY(observe("write", {DeviceEvent::Kind::write, to, ByteCount{data.size()}}, data));
    return inner_.write(to, data);
  }
  Result<void> flush() override {
    LSMFS_TRY(observe("flush", {DeviceEvent::Kind::flush, ByteOffset{}, ByteCount{}}));
    return inner_.flush();
  }
  Result<void> discard(ByteOffset from, ByteCount length) override {
    LSMFS_TRY(observe("discard", {DeviceEvent::Kind::discard, from, length}));
    return inner_.discard(from, length);
  }

 private:
  // A hook that takes its time is a device that does.
  Result<void> observe(const char* request, const DeviceEvent& event, Bytes data = {}) {
    const Waiting waiting(request, event.offset, event.length);
    return observe_(event, data);
  }

  DeviceHook observe_;
};

}  // namespace

std::unique_ptr<Device> hooked_device(Device& inner, DeviceHook observe) {
  return std::make_unique<HookedDevice>(inner, std::move(observe));
}

}  // namespace lsmfs

#include "device/decorator.h"

namespace lsmfs {
namespace {

class ReadOnlyDevice final : public DeviceDecorator {
 public:
  using DeviceDecorator::DeviceDecorator;

  Result<void> write(ByteOffset, Bytes) override { return refuse(); }
  Result<void> discard(ByteOffset, ByteCount) override { return refuse(); }
  bool writable() const override { return false; }

 private:
  Result<void> refuse() const { return make_error(EROFS, path()); }
};

}  // namespace

std::unique_ptr<Device> read_only_device(Device& inner) { return std::make_unique<ReadOnlyDevice>(inner); }

}  // namespace lsmfs

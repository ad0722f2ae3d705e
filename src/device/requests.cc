#include "device/requests.h"

#include <fmt/format.h>

namespace lsmfs {

Result<void> check_request(const Device& device, const char* what, ByteOffset offset, std::uint64_t length,
                           const void* address) {
  const auto bits = offset.v | length | reinterpret_cast<std::uintptr_t>(address);
  if (bits % kDeviceBlock != 0) {
    return make_error(EINVAL, fmt::format("{} of {} bytes at {} of {} is not aligned to {}", what, length, offset.v,
                                          device.path(), kDeviceBlock));
  }
  const std::uint64_t size = device.size().v;
  if (offset.v > size || length > size - offset.v) {
    return make_error(ENXIO, fmt::format("{} of {} bytes at {} is past the end of {} ({} bytes)", what, length,
                                         offset.v, device.path(), size));
  }
  return {};
}

}  // namespace lsmfs

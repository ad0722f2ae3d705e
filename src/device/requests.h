// What every Device demands of a request, checked in one place.
#pragma once

#include "lsmfs/device.h"

namespace lsmfs {

// EINVAL when offset, length or address is not a multiple of kDeviceBlock (a bug of the caller),
// ENXIO when the range leaves the device. `what` names the request in the context.
Result<void> check_request(const Device& device, const char* what, ByteOffset offset, std::uint64_t length,
                           const void* address);

}  // namespace lsmfs

// lease: that only one host writes to a volume at a time.
//
// A volume that has the feature keeps a record of who writes to it, in one block of its device. Who wants to write takes the lease first,
// renews it as long as it does, and gives it back. Another host sees that it is renewed, and refuses; or that it is not, and takes it.
// Nobody's clock is believed: each host measures by its own how long nothing changes.
// What it is not: for two mounts on one host, which a lock of the device keeps apart. Nor can it stop a write that has left the host
// already, and reaches the device after another one has taken the lease: that is what a device with fencing is for.
//
// Promises, where each host's clock goes by at most an eighth faster or slower than another's:
//   1. Two that take it do not both get it.
//   2. Who has lost it makes no request to write any more than 15 s after it last read that it had it; then it looks again first.
//   3. A lease that was not given back is there to be taken 20 s after another host has first looked, or after one second by the same host.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/device.h"

namespace lsmfs {

inline constexpr std::size_t kHostNameMax = 64;  // bytes, of which those after it are not kept

struct LeaseHolder {
  std::array<std::uint8_t, 16> host{};  // of no other host; zeros: it is not known
  std::string name;                     // for people
};

struct LeaseOptions {
  LeaseHolder holder;
  Clock* clock = &system_clock();
  std::function<void(std::string_view)> waiting = [](std::string_view) {};  // a line, while it is taken: who is waited for
  std::function<void(std::string_view)> notice = [](std::string_view) {};   // a line, later: that it was lost, or cannot be renewed
};

class Lease {
 public:
  // Of the volume on `device`, which must outlive it. One that does nothing if the volume does not have the feature, or the device is not
  // writable. Takes a second, and up to 21 if another host had it. Errors: EBUSY (another host has it: its context says which), EIO,
  // those of read_volume_info().
  static Result<std::unique_ptr<Lease>> take(Device& device, const LeaseOptions& options);
  virtual ~Lease() = default;  // gives it back, if it is not lost

  // The device, on which writes fail with EIO once the lease is lost.
  virtual Device& device() = 0;
};

// Who has it, as the device says.
struct LeaseFacts {
  LeaseHolder holder;             // with a name that can be shown
  std::int64_t taken_ns = 0;      // since 1970, by its clock
  std::int64_t renewed_ns = 0;
};
// nullopt: nobody has, or the volume does not have the feature. Errors: EUCLEAN (it cannot be told), EIO, those of read_volume_info().
Result<std::optional<LeaseFacts>> read_lease(Device& device);

}  // namespace lsmfs

// Which host this is, for the lease of a volume (lsmfs/lease.h), and that no other process here writes to it.
#pragma once

#include "cli/claim.h"
#include "lsmfs/lease.h"

namespace lsmfs::cli {

// Its identity is made of what its system was given when it was installed, and of what its board or virtual machine says. So a copy of
// a machine is another host. Where one of them cannot be read, it is another one after each start, too. To be called while files may be
// read that only root may.
LeaseHolder this_host();

// Of what this process needs while it changes a volume.
struct Host {
  LeaseHolder holder = this_host();
  Claims claims = Claims::open();  // for as long as this exists
};

// On a device that no other process of this host can be kept from by a lock, as that of a server, claims the volume. Errors: EBUSY, a mount
// or a command of this host has it.
Result<void> keep_others_out(Device& device, Host& here);

// The same, and takes the lease of the volume on `device` for a command, which tells all that there is to say of it. Errors: those of
// Lease::take().
Result<std::unique_ptr<Lease>> take_lease(Device& device, Host& here);

// Warns if another host than `here` may be writing to the volume on `device`, for who only reads.
void warn_of_writer(Device& device, const LeaseHolder& here, const std::function<void(std::string_view)>& notice);

}  // namespace lsmfs::cli

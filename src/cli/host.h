// Which host this is, for the lease of a volume (lsmfs/lease.h).
#pragma once

#include "lsmfs/lease.h"

namespace lsmfs::cli {

// Its identity is made of what its system was given when it was installed, and of what its board or virtual machine says. So a copy of
// a machine is another host. Where one of them cannot be read, it is another one after each start, too. To be called while files may be
// read that only root may.
LeaseHolder this_host();

// Takes the lease of the volume on `device` for a command, which tells all that there is to say of it. Errors: those of Lease::take().
Result<std::unique_ptr<Lease>> take_lease(Device& device, const LeaseHolder& here);

// Warns if another host than `here` may be writing to the volume on `device`, for who only reads.
void warn_of_writer(Device& device, const LeaseHolder& here, const std::function<void(std::string_view)>& notice);

}  // namespace lsmfs::cli

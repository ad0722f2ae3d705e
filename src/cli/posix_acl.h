// Access control lists of an archive in the form of the kernel's extended attributes (linux/posix_acl_xattr.h).
#pragma once

#include <cstdint>
#include <string>

struct archive_entry;

namespace lsmfs::cli {

// `type`: ARCHIVE_ENTRY_ACL_TYPE_ACCESS or ARCHIVE_ENTRY_ACL_TYPE_DEFAULT. "": it has none of that type, beyond its mode. `unknown` counts entries
// that are left out, since they name somebody whom this machine does not know, and have no number.
std::string posix_acl(archive_entry* entry, int type, std::uint64_t& unknown);

}  // namespace lsmfs::cli

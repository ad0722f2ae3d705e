#include "cli/layout/request.h"

namespace lsmfs::cli {

RequestKind kind_of(std::string_view rwbs) {
  // What only flushes is "F" or, with the flag beside the operation, "FF".
  if (rwbs.size() > 1 && rwbs[0] == 'F') rwbs.remove_prefix(1);
  switch (rwbs.empty() ? '\0' : rwbs[0]) {
    case 'R':
      return RequestKind::read;
    case 'W':
      return RequestKind::write;
    case 'F':
      return RequestKind::flush;
    case 'D':
      return RequestKind::discard;
    case 'Z':
      return rwbs.starts_with("ZA") ? RequestKind::write : RequestKind::other;  // appended to a zone
    default:
      return RequestKind::other;
  }
}

}  // namespace lsmfs::cli

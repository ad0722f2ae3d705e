// What of a file's blob cannot be read, as it is on the device: for those who check all there is.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lsmfs/kv.h"
#include "tree/file_blobs.h"

namespace lsmfs {

struct Unreadable {
  std::uint64_t from, to;  // blocks of the file
  Error error;
};
// Opens the blob, and reads all that its file wants of it if `data`. `read` hears of the bytes of each piece, and says false to end it.
std::vector<Unreadable> unreadable_blocks(Store& store, const FileBlobs::Part& part, bool data, const std::function<bool(ByteCount)>& read);

}  // namespace lsmfs

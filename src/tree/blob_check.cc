#include "tree/blob_check.h"

#include <algorithm>

#include "lsmfs/device.h"

namespace lsmfs {

std::vector<Unreadable> unreadable_blocks(Store& store, const FileBlobs::Part& part, bool data, const std::function<bool(ByteCount)>& read) {
  constexpr std::uint64_t kRead = MiB / kBlobBlock;  // blocks at a time
  const auto reader = store.open_blob(part.blob, part.end);
  if (!reader) return {{part.first, part.past(), reader.error()}};
  std::vector<Unreadable> found;
  AlignedBuffer buffer(kRead * kBlobBlock);
  const auto try_read = [&](std::uint64_t block, std::uint64_t to) {
    return (*reader)->read(block - part.first, buffer.bytes().first((to - block) * kBlobBlock));
  };
  for (std::uint64_t block = part.first; data && block < part.past(); block += kRead) {
    const std::uint64_t to = std::min(block + kRead, part.past());
    if (!try_read(block, to)) {
      for (std::uint64_t one = block; one < to; ++one) {
        if (!part.has(one)) continue;
        if (const auto done = try_read(one, one + 1); !done) found.push_back({one, one + 1, done.error()});
      }
    }
    if (!read(ByteCount{(to - block) * kBlobBlock})) break;
  }
  return found;
}

}  // namespace lsmfs

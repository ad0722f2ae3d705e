#include <xxhash.h>

#include "lsmfs/base.h"

namespace lsmfs {

std::uint64_t checksum(Bytes bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace lsmfs

#include <fmt/format.h>
#include <xxhash.h>

#include "lsmfs/base.h"

namespace lsmfs {

std::vector<Library> base_libraries() {
  const unsigned version = XXH_versionNumber();  // 801 is 0.8.1
  return {{"xxHash", fmt::format("{}.{}.{}", version / 10'000, version / 100 % 100, version % 100)}};
}

}  // namespace lsmfs

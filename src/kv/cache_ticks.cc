#include "kv/cache_ticks.h"

#include "kv/memory_only.h"
#include "lsmfs/device.h"

namespace lsmfs::kv {

void CacheTicks::hit(Lookups& lookups, std::uint64_t count) {
  if (IoFor::current() == IoCause::miss) lookups.hits.add(count);
}

void CacheTicks::miss(Lookups& lookups, std::uint64_t count) {
  if (IoFor::current() == IoCause::miss && !MemoryOnly::active()) lookups.misses.add(count);
}

}  // namespace lsmfs::kv

// The free space as it is now: what no file owns, neither durably nor in memory.
//
// It chooses where files lie: tables in the table region, brief ones from its low end, lasting ones
// from its high end; logs and small files in the fixed region, and at the table region's low end
// when that is full. It also keeps the list of files small enough for a metadata area.
// While free table space is being discarded it is on loan, one bounded piece at a time: it counts as
// free, but nobody gets it. Whoever finds nothing without that piece waits until it is back.
// Thread-safe; its lock is a leaf.
#pragma once

#include <condition_variable>
#include <optional>

#include "lsmfs/mutex.h"
#include "volume/catalog.h"

namespace lsmfs {

class Space {
 public:
  Space(const Catalog& catalog, const Layout& layout);

  struct Request {
    FileKind kind;
    Lifetime lifetime;
    std::uint64_t need;       // bytes that must be had
    std::uint64_t announced;  // bytes that will be needed in all, 0 when unknown
    std::uint64_t after;      // device offset at which to go on if that is free, 0: anywhere
  };
  // nullopt: less than `need` is free; nothing is taken then.
  std::optional<std::vector<Extent>> take(const Request& request);
  void release(const std::vector<Extent>& extents);
  // The table region goes on behind its end, with so many bytes more.
  void grow(std::uint64_t length);

  // Lends the next piece of table space at or after `from` that is free and lies in `range`, of a free
  // run that has `least` bytes there. Waits for the piece that is out. nullopt: there is none any more.
  std::optional<Extent> lend(const Extent& range, std::uint64_t from, std::uint64_t least);
  void take_back(const Extent& lent);

  // Room in a snapshot. `charge` is false when the list of files would become too long.
  bool charge(std::uint64_t bytes);
  void charge_existing(std::uint64_t bytes);  // whether there is room or not
  bool can_charge(std::uint64_t bytes) const;
  void uncharge(std::uint64_t bytes);

  std::uint64_t granule_at(std::uint64_t device_offset) const;
  void fill(VolumeUsage& usage) const;

 private:
  std::optional<std::vector<Extent>> find(const Request& request) LSMFS_REQUIRES(mutex_);
  std::optional<std::vector<Extent>> take_table(const Request& request, Allocator::End end, std::uint64_t guess) LSMFS_REQUIRES(mutex_);
  std::optional<std::vector<Extent>> take_fixed(const Request& request) LSMFS_REQUIRES(mutex_);
  bool fits(std::uint64_t bytes) const LSMFS_REQUIRES(mutex_);
  bool in_fixed(std::uint64_t device_offset) const;

  mutable Mutex mutex_;
  std::condition_variable back_;
  Allocator fixed_ LSMFS_GUARDED_BY(mutex_), table_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t lent_ LSMFS_GUARDED_BY(mutex_) = 0;  // bytes that are out
  unsigned waiting_ LSMFS_GUARDED_BY(mutex_) = 0;    // callers of take() that wait for them
  const Extent fixed_region_;
  std::uint64_t charged_ LSMFS_GUARDED_BY(mutex_) = 0;
  const std::uint64_t charge_limit_;
};

}  // namespace lsmfs

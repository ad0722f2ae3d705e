#include "volume/trim.h"

#include <fmt/format.h>

#include <algorithm>

namespace lsmfs {
namespace {

// A piece of free space that nobody else gets while this exists.
class Loan {
 public:
  Loan(Space& space, const Extent& extent) : space_(space), extent_(extent) {}
  ~Loan() { space_.take_back(extent_); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  Space& space_;
  const Extent extent_;
};

}  // namespace

Result<ByteCount> trim(Shared& shared, const TrimRange& range, const Stop& stop) {
  const std::uint64_t size = shared.superblocks.now().info.device_size.v;
  if (range.start.v >= size || range.length.v < format::kBlock || range.least.v > size) {
    return make_error(EINVAL, fmt::format("trim of {} bytes at {}, runs of at least {}, of a volume of {}",
                                          range.length.v, range.start.v, range.least.v, size));
  }
  // What has been removed is free once that is durable.
  LSMFS_TRY(shared.journal.commit());

  const Extent whole{range.start.v, std::min(range.length.v, size - range.start.v)};
  ByteCount trimmed;
  std::uint64_t from = whole.start;
  while (const auto piece = shared.space->lend(whole, from, range.least.v)) {
    const Loan loan(*shared.space, *piece);
    if (stop()) return make_error(EINTR, "trim");
    LSMFS_TRY(shared.journal.discard(*piece));
    trimmed.v += piece->length;
    from = piece->end();
  }
  return trimmed;
}

}  // namespace lsmfs

#include "volume/space.h"

#include <algorithm>
#include <cassert>

#include "volume/metadata_log.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kMinPiece = 8 * MiB;     // of a table that does not fit in one run
constexpr std::uint64_t kLogPiece = 4 * MiB;     // of a log of unknown length
constexpr std::uint64_t kTableGuess = 64 * MiB;  // of a table of unknown length
constexpr std::uint64_t kLoan = 32 * MiB;        // lent at a time

// One run of `want` bytes, or half of it, a quarter ..., but at least `need`.
std::optional<std::vector<Extent>> shrinking_run(Allocator& from, std::uint64_t want, std::uint64_t need,
                                                 Allocator::End end) {
  for (want = std::max(want, need);; want = std::max(want / 2, need)) {
    if (auto run = from.allocate_run(want, end)) return std::vector<Extent>{*run};
    if (want == need) return std::nullopt;
  }
}

}  // namespace

Space::Space(const Catalog& catalog, const Layout& layout)
    : fixed_(catalog.fixed()),
      table_(catalog.table()),
      fixed_region_(layout.fixed),
      // The rest is for the counter, and for extents that are given up but not yet durably.
      charge_limit_(MetadataLog::capacity(layout) / 16 * 15) {}

bool Space::in_fixed(std::uint64_t at) const { return at >= fixed_region_.start && at < fixed_region_.end(); }

std::uint64_t Space::granule_at(std::uint64_t at) const {
  return in_fixed(at) ? format::kFixedGranule : format::kTableGranule;
}

std::optional<std::vector<Extent>> Space::take_table(const Request& request, Allocator::End end, std::uint64_t guess) {
  if (request.announced > 0) {
    if (auto run = table_.allocate_run(std::max(request.announced, request.need), end))
      return std::vector<Extent>{*run};
    if (auto pieces = table_.allocate(std::max(request.announced, request.need), end, kMinPiece)) return pieces;
  }
  // When space is short a guess must not take what others need now.
  const std::uint64_t want = std::max(std::min(guess, table_.free() / 8), request.need);
  if (const std::uint64_t next = request.after ? table_.free_at(request.after) : 0; next >= request.need && next > 0) {
    const Extent grown{request.after, round_up(std::min(want, next), table_.granule())};
    if (table_.take(grown)) return std::vector<Extent>{grown};
  }
  if (auto run = shrinking_run(table_, want, request.need, end)) return run;
  return table_.allocate(request.need, end, kMinPiece);
}

std::optional<std::vector<Extent>> Space::take_fixed(const Request& request) {
  const std::uint64_t guess = request.kind == FileKind::log ? kLogPiece : format::kFixedGranule;
  if (request.announced > 0) {
    if (auto run = fixed_.allocate_run(std::max(request.announced, request.need), Allocator::End::low)) {
      return std::vector<Extent>{*run};
    }
  }
  const std::uint64_t want = std::max(guess, request.need);
  if (const std::uint64_t next = request.after ? fixed_.free_at(request.after) : 0; next >= request.need && next > 0) {
    const Extent grown{request.after, round_up(std::min(want, next), fixed_.granule())};
    if (fixed_.take(grown)) return std::vector<Extent>{grown};
  }
  if (auto run = shrinking_run(fixed_, want, request.need, Allocator::End::low)) return run;
  if (auto pieces = fixed_.allocate(request.need, Allocator::End::low, format::kFixedGranule)) return pieces;
  Request overflow = request;
  overflow.announced = 0;
  return take_table(overflow, Allocator::End::low, guess);
}

std::optional<std::vector<Extent>> Space::find(const Request& request) {
  if (request.kind != FileKind::table) return take_fixed(request);
  const std::uint64_t guess = round_down(std::clamp(table_.total() / 64, 2 * MiB, kTableGuess), MiB);
  return take_table(request, request.lifetime == Lifetime::brief ? Allocator::End::low : Allocator::End::high, guess);
}

std::optional<std::vector<Extent>> Space::take(const Request& request) {
  MutexLock lock(mutex_);
  auto found = find(request);
  if (found || lent_ == 0) return found;
  ++waiting_;
  {
    const Waiting waiting("space that is being discarded");
    back_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return lent_ == 0; });
  }
  --waiting_;
  back_.notify_all();
  return find(request);
}

std::optional<Extent> Space::lend(const Extent& range, std::uint64_t from, std::uint64_t least) {
  MutexLock lock(mutex_);
  // Those who need the space go first.
  back_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return lent_ == 0 && waiting_ == 0; });
  const std::uint64_t granule = table_.granule();
  for (auto run = table_.free_run(std::max(from, range.start)); run; run = table_.free_run(run->end())) {
    if (run->start >= range.end()) break;
    const std::uint64_t start = round_up(std::max(run->start, range.start), granule);
    const std::uint64_t end = round_down(std::min(run->end(), range.end()), granule);
    const std::uint64_t next = std::max(start, round_up(from, granule));
    if (next >= end || end - start < least) continue;
    const Extent piece{next, std::min(end - next, kLoan)};
    table_.take(piece);
    lent_ = piece.length;
    return piece;
  }
  return std::nullopt;
}

void Space::take_back(const Extent& lent) {
  const MutexLock lock(mutex_);
  table_.release(lent);
  lent_ = 0;
  back_.notify_all();
}

void Space::release(const std::vector<Extent>& extents) {
  const MutexLock lock(mutex_);
  for (const Extent& e : extents) {
    [[maybe_unused]] const bool was_used = in_fixed(e.start) ? fixed_.release(e) : table_.release(e);
    assert(was_used);
  }
}

void Space::grow(std::uint64_t length) {
  const MutexLock lock(mutex_);
  table_.grow(length);
}

bool Space::fits(std::uint64_t bytes) const { return charged_ <= charge_limit_ && bytes <= charge_limit_ - charged_; }

bool Space::can_charge(std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  return fits(bytes);
}

bool Space::charge(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (!fits(bytes)) return false;
  charged_ += bytes;
  return true;
}

void Space::charge_existing(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  charged_ += bytes;
}

void Space::uncharge(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  charged_ -= std::min(bytes, charged_);
}

void Space::fill(VolumeUsage& usage) const {
  const MutexLock lock(mutex_);
  usage.table_total = ByteCount{table_.total()};
  usage.table_free = ByteCount{table_.free() + lent_};
  usage.largest_free = ByteCount{table_.largest()};
  usage.fixed_total = ByteCount{fixed_.total()};
  usage.fixed_free = ByteCount{fixed_.free()};
  usage.list_total = ByteCount{charge_limit_};
  usage.list_free = ByteCount{charge_limit_ - std::min(charged_, charge_limit_)};
}

}  // namespace lsmfs

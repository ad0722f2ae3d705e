#include "fuse/serving/request_counts.h"

#include <algorithm>
#include <functional>

namespace lsmfs {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kCountMax = UINT32_MAX;

template <bool shared>
void add(std::atomic<std::uint64_t>& number, std::uint64_t n) {
  if constexpr (shared) {
    number.fetch_add(n, kRelaxed);
  } else {
    number.store(number.load(kRelaxed) + n, kRelaxed);
  }
}

std::uint64_t ns(Clock::Duration time) { return static_cast<std::uint64_t>(std::max<std::int64_t>(time / std::chrono::nanoseconds(1), 0)); }

}  // namespace

RequestCounts::Counts::~Counts() {
  for (auto& kind : kinds) delete kind.load();
}

// What is there, or a new one. Two may make one at the same time.
RequestCounts::Kind& RequestCounts::Counts::kind(std::uint32_t opcode) {
  auto& place = kinds[std::min<std::size_t>(opcode, RequestStats::kKinds - 1)];
  Kind* there = place.load(std::memory_order_acquire);
  if (there != nullptr) return *there;
  auto fresh = std::make_unique<Kind>();
  if (place.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
  return *there;
}

template <bool shared>
void RequestCounts::Counts::count(const Request& request, Kind& kind) {
  add<shared>(kind.count, 1);
  if (request.bytes != 0) add<shared>(kind.bytes, request.bytes);
  Programs& set = programs[request.program % kSets];
  for (auto& place : set.places) {
    const std::uint64_t there = place.load(kRelaxed);
    if (there >> 32 != request.program || there == 0) continue;
    // Workers may meet here just when another takes the place: then one request is counted for it.
    if ((there & kCountMax) < kCountMax - 4096) add<shared>(place, 1);
    return;
  }
  auto& place = set.places[set.next.fetch_add(1, kRelaxed) % Programs::kPlaces];
  const std::uint64_t before = place.exchange(std::uint64_t{request.program} << 32 | 1, kRelaxed);
  programs_before.fetch_add(before & kCountMax, kRelaxed);
}

void RequestCounts::ended(const Request& request, Clock::Time now) {
  Kind& kind = of_workers_.kind(request.opcode);
  kind.took.add(ns(now - request.since));
  kind.waited.fetch_add(1, kRelaxed);
  of_workers_.count<true>(request, kind);
}

RequestCounts::Counts& RequestCounts::add_server() {
  const MutexLock lock(mutex_);
  return *of_servers_.emplace_back(std::make_unique<Counts>());
}

unsigned RequestCounts::Server::weight(std::uint32_t opcode) const {
  const std::uint64_t count = counts_.kind(opcode).count.load(kRelaxed);
  return count < kAllOf ? 1 : count % kEach == 0 ? kEach : 0;
}

void RequestCounts::Server::answered(const Request& request, unsigned weight, Clock::Duration took) {
  Kind& kind = counts_.kind(request.opcode);
  if (weight > 0) kind.took.add(ns(took), weight);
  counts_.count<false>(request, kind);
}

void RequestCounts::Counts::add_to(RequestStats& stats, std::map<std::uint32_t, std::uint64_t>& all_programs) const {
  for (std::size_t i = 0; i < RequestStats::kKinds; ++i) {
    const Kind* const from = kinds[i].load(std::memory_order_acquire);
    if (from == nullptr) continue;
    stats.kinds[i].count += from->count.load(kRelaxed);
    stats.kinds[i].took += from->took.counts();
    stats.kinds[i].waited += from->waited.load(kRelaxed);
    stats.kinds[i].bytes += from->bytes.load(kRelaxed);
  }
  for (const Programs& set : programs) {
    for (const auto& one : set.places) {
      if (const std::uint64_t there = one.load(kRelaxed); there != 0) all_programs[static_cast<std::uint32_t>(there >> 32)] += there & kCountMax;
    }
  }
  stats.other_programs += programs_before.load(kRelaxed);
}

RequestStats RequestCounts::stats() const {
  RequestStats stats;
  std::map<std::uint32_t, std::uint64_t> programs;
  of_workers_.add_to(stats, programs);
  {
    const MutexLock lock(mutex_);
    for (const auto& server : of_servers_) server->add_to(stats, programs);
  }
  for (const auto& [id, requests] : programs) stats.programs.push_back({id, requests});
  std::ranges::stable_sort(stats.programs, std::greater(), &ProgramCount::requests);
  while (stats.programs.size() > RequestStats::kProgramsMax) {
    stats.other_programs += stats.programs.back().requests;
    stats.programs.pop_back();
  }
  return stats;
}

}  // namespace lsmfs

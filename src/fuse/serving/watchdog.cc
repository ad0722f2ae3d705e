#include "fuse/serving/watchdog.h"

#include <fmt/format.h>

#include <utility>

namespace lsmfs {
namespace {

constexpr int kLooks = 15;  // within the limit

double seconds(Clock::Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Watchdog::Watchdog(Clock& clock, std::chrono::milliseconds limit, std::vector<const Workers*> workers,
                   std::function<void(std::string_view)> notice)
    : clock_(clock),
      limit_(limit),
      workers_(std::move(workers)),
      notice_(std::move(notice)),
      thread_(named_thread("lsmfs-watchdog", [this] { run(); })) {}

Watchdog::Reader::Reader(Watchdog& watchdog) : watchdog_(watchdog), waits_(Waits::of_this_thread()) {
  const MutexLock lock(watchdog_.mutex_);
  watchdog_.readers_.insert(this);
}

Watchdog::Reader::~Reader() {
  const MutexLock lock(watchdog_.mutex_);
  watchdog_.readers_.erase(this);
}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void Watchdog::run() {
  MutexLock lock(mutex_);
  while (!clock_.wait(lock, stop_, clock_.now() + limit_ / kLooks, [this]() LSMFS_REQUIRES(mutex_) { return stopping_; })) {
    lock.unlock();
    look();
    lock.lock();
  }
  lock.unlock();
  look();  // what has ended since
}

std::vector<UnderWay> Watchdog::under_way() {
  std::vector<UnderWay> all;
  for (const Workers* workers : workers_) {
    for (auto& one : workers->under_way()) all.push_back(std::move(one));
  }
  const MutexLock lock(mutex_);
  for (Reader* reader : readers_) {
    Request now{reader->unique_.load(std::memory_order_relaxed), reader->ino_.load(std::memory_order_relaxed),
                reader->opcode_.load(std::memory_order_relaxed)};
    if (now.opcode != 0) {
      // Nobody has looked at the clock for it.
      const bool same = reader->seen_.opcode == now.opcode && reader->seen_.unique == now.unique;
      now.since = same ? reader->seen_.since : clock_.now();
      const std::string waits = reader->waits_.text();
      all.push_back({now, waits.empty() ? "at work in a thread that reads requests" : waits});
    }
    reader->seen_ = now;
  }
  return all;
}

void Watchdog::look() {
  const auto now = clock_.now();
  std::set<std::uint64_t> still;
  for (const auto& [request, state] : under_way()) {
    if (request.opcode == 0 || !still.insert(request.unique).second) continue;
    const auto waited = now - request.since;
    if (waited < limit_) continue;
    Told& told = told_.try_emplace(request.unique, Told{request, limit_}).first->second;
    if (waited < told.next) continue;
    while (told.next <= waited) told.next *= 2;
    const std::string all = longest_waits();
    notice_(fmt::format("{} has waited {:.0f} s: {}{}", request.text(), seconds(waited), state,
                        all.empty() || state.ends_with(all) ? "" : fmt::format("; what has waited longest: {}", all)));
  }
  for (auto told = told_.begin(); told != told_.end();) {
    if (still.contains(told->first)) {
      ++told;
      continue;
    }
    notice_(fmt::format("{} is over after {:.0f} s", told->second.request.text(), seconds(now - told->second.request.since)));
    told = told_.erase(told);
  }
}

}  // namespace lsmfs

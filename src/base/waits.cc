#include <algorithm>
#include <map>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs {
namespace {

std::string how_long(std::int64_t since_ns) { return " (" + std::to_string((system_clock().now_ns() - since_ns) / 1'000'000'000) + " s)"; }

// Of all threads that have ever waited and still exist. Never destroyed: threads may end after the statics have.
struct Threads {
  Mutex mutex;
  std::vector<const Waits*> all LSMFS_GUARDED_BY(mutex);
};
Threads& threads() {
  static Threads& instance = *new Threads;
  return instance;
}

}  // namespace

Waits::Waits() {
  const MutexLock lock(threads().mutex);
  threads().all.push_back(this);
}

Waits::~Waits() {
  const MutexLock lock(threads().mutex);
  std::erase(threads().all, this);
}

Waits& Waits::of_this_thread() {
  thread_local Waits waits;
  return waits;
}

void Waits::push(const char* what, bool device, ByteOffset offset, ByteCount bytes) {
  const std::size_t depth = depth_.load(std::memory_order_relaxed);
  if (depth < kDepth) {
    Frame& frame = frames_[depth];
    frame.what.store(what, std::memory_order_relaxed);
    frame.device.store(device, std::memory_order_relaxed);
    frame.offset.store(offset.v, std::memory_order_relaxed);
    frame.bytes.store(bytes.v, std::memory_order_relaxed);
    frame.since_ns.store(system_clock().now_ns(), std::memory_order_relaxed);
  }
  depth_.store(depth + 1, std::memory_order_release);
}

std::string Waits::Frame::text() const {
  std::string out = what.load();
  if (!device.load()) return out;
  if (const std::uint64_t count = bytes.load(); count > 0) {
    out += " of " + std::to_string(count) + " bytes at " + std::to_string(offset.load());
  }
  return out + " of the device";
}

std::string Waits::text() const {
  const std::size_t depth = std::min(depth_.load(std::memory_order_acquire), kDepth);
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) out += (i > 0 ? ", " : "") + frames_[i].text();
  return depth > 0 ? out + how_long(frames_[depth - 1].since_ns) : out;
}

std::string longest_waits() {
  std::map<std::string, std::int64_t> oldest;  // by what is waited for
  {
    const MutexLock lock(threads().mutex);
    for (const Waits* waits : threads().all) {
      const std::size_t depth = std::min(waits->depth_.load(std::memory_order_acquire), Waits::kDepth);
      if (depth == 0) continue;
      const Waits::Frame& frame = waits->frames_[depth - 1];
      const std::int64_t since = frame.since_ns.load();
      const auto place = oldest.try_emplace(frame.text(), since).first;
      place->second = std::min(place->second, since);
    }
  }
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [text, since] : oldest) sorted.emplace_back(since, text);
  std::sort(sorted.begin(), sorted.end());
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(sorted.size(), 3); ++i) {
    out += (i > 0 ? ", " : "") + sorted[i].second + how_long(sorted[i].first);
  }
  return out;
}

Waiting::Waiting(const char* what) { Waits::of_this_thread().push(what, false, {}, {}); }

Waiting::Waiting(const char* request, ByteOffset offset, ByteCount bytes) {
  Waits::of_this_thread().push(request, true, offset, bytes);
}

Waiting::~Waiting() { Waits::of_this_thread().depth_.fetch_sub(1, std::memory_order_release); }

}  // namespace lsmfs

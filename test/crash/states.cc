#include "crash/states.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lsmfs::test {
namespace {

// The requests between two flushes.
class Epoch {
 public:
  Epoch(const SparseImage& durable, const std::vector<TraceEvent>& trace, std::size_t begin, std::size_t end, const StateLimits& limits,
        const std::function<bool(const CrashState&)>& visit)
      : durable_(durable), trace_(trace), begin_(begin), end_(end), limits_(limits), visit_(visit), random_(limits.seed + begin) {}

  bool run() { return prefixes() && subsets(); }

 private:
  std::size_t size() const { return end_ - begin_; }

  bool prefixes() {
    SparseImage image = durable_;
    for (std::size_t i = begin_; i < end_; ++i) {
      if (!visit_({i, prefix(i), image})) return false;
      if (!cuts(i, image) || !tears(i, image)) return false;
      apply(image, trace_[i]);
      seen_.insert(first(i - begin_));
    }
    seen_.insert(first(size()));
    return visit_({end_, fmt::format("all {} requests since event {}", size(), begin_), image});
  }

  std::string prefix(std::size_t end) const {
    return fmt::format("the first {} of {} requests since event {}", end - begin_, size(), begin_);
  }

  bool cuts(std::size_t i, SparseImage image) {
    const std::uint64_t count = sectors(trace_[i]);
    if (count > limits_.all_cuts_up_to) return true;
    for (std::uint64_t sector = 0; sector + 1 < count; ++sector) {
      apply_sector(image, trace_[i], sector);
      if (!visit_({i + 1, fmt::format("{}, and {} sectors of the next", prefix(i), sector + 1), image})) return false;
    }
    return true;
  }

  bool tears(std::size_t i, const SparseImage& image) {
    for (std::size_t n = 0; n < limits_.torn; ++n) {
      SparseImage torn = image;
      apply_torn(torn, trace_[i], random_);
      if (!visit_({i + 1, prefix(i) + ", and a part of the next", torn})) return false;
    }
    return true;
  }

  bool subsets() {
    const std::size_t n = size();
    if (n <= limits_.all_subsets_up_to) {
      for (std::uint64_t mask = 0; mask < std::uint64_t{1} << n; ++mask) {
        std::vector<bool> chosen(n);
        for (std::size_t i = 0; i < n; ++i) chosen[i] = mask >> i & 1;
        if (!give(chosen)) return false;
      }
      for (std::size_t k = 0; k < limits_.torn && n > 1; ++k) {
        const std::vector<bool> chosen = draw();
        if (!give(chosen, random_() % n)) return false;
      }
      return true;
    }
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<bool> without(n, true), alone(n, false);
      without[i] = false;
      alone[i] = true;
      if (!give(without) || !give(alone)) return false;
    }
    for (std::size_t k = 0; k < limits_.random_subsets; ++k) {
      const std::vector<bool> chosen = draw();
      if (!give(chosen, limits_.torn > 0 && random_() % 4 == 0 ? random_() % n : kNone)) return false;
    }
    return true;
  }

  std::vector<bool> draw() {
    std::vector<bool> chosen(size());
    const std::uint64_t share = 1 + random_() % 99;
    for (std::size_t i = 0; i < size(); ++i) chosen[i] = random_() % 100 < share;
    return chosen;
  }

  std::vector<bool> first(std::size_t count) const {
    std::vector<bool> chosen(size(), false);
    std::fill_n(chosen.begin(), count, true);
    return chosen;
  }

  // `torn`: of this one there is a part, chosen or not.
  bool give(const std::vector<bool>& chosen, std::size_t torn = kNone) {
    if (torn == kNone && !seen_.insert(chosen).second) return true;
    SparseImage image = durable_;
    std::string which;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (i == torn) {
        apply_torn(image, trace_[begin_ + i], random_);
      } else if (chosen[i]) {
        apply(image, trace_[begin_ + i]);
      }
      which += i == torn ? 't' : chosen[i] ? '1' : '0';
    }
    return visit_({end_, fmt::format("of the requests since event {}: {}", begin_, which), image});
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const SparseImage& durable_;
  const std::vector<TraceEvent>& trace_;
  const std::size_t begin_, end_;
  const StateLimits& limits_;
  const std::function<bool(const CrashState&)>& visit_;
  std::mt19937_64 random_;
  std::set<std::vector<bool>> seen_;
};

}  // namespace

void each_crash_state(const SparseImage& start, const std::vector<TraceEvent>& trace, const StateLimits& limits,
                      const std::function<bool(const CrashState&)>& visit) {
  SparseImage durable = start;
  std::size_t begin = 0;
  while (begin <= trace.size()) {
    std::size_t end = begin;
    while (end < trace.size() && !trace[end].flush) ++end;
    const bool given = !limits.last_epoch_alone || end == trace.size();
    if (given && !Epoch(durable, trace, begin, end, limits, visit).run()) return;
    for (std::size_t i = begin; i < end; ++i) apply(durable, trace[i]);
    begin = end + 1;
  }
}

}  // namespace lsmfs::test

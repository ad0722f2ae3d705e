#include <algorithm>

#include "device/decorator.h"

namespace lsmfs {
namespace {

class Meter final : public DecoratorOf<MeteredDevice> {
 public:
  Meter(std::unique_ptr<Device> inner, Clock& clock) : DecoratorOf(*inner), owned_(std::move(inner)), clock_(clock) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    auto done = timed(read_, [&] { return inner_.read(from, to); });
    if (done) note(now().reads, now().read_bytes, to.size());
    return done;
  }
  Result<void> write(ByteOffset to, Bytes data) override {
    auto done = timed(write_, [&] { return inner_.write(to, data); });
    if (done) note(now().writes, now().written_bytes, data.size());
    return done;
  }
  Result<void> flush() override {
    return timed(flush_, [&] { return inner_.flush(); });
  }
  Result<void> discard(ByteOffset from, ByteCount length) override {
    auto done = inner_.discard(from, length);
    if (done) note(discards_, discarded_bytes_, length.v);
    return done;
  }

  DeviceStats stats() const override {
    DeviceStats stats;
    for (std::size_t i = 0; i < by_cause_.size(); ++i) {
      const Counts& from = by_cause_[i];
      stats.by_cause[i] = {from.reads.load(kRelaxed), from.read_bytes.load(kRelaxed), from.writes.load(kRelaxed), from.written_bytes.load(kRelaxed)};
    }
    stats.read = read_.counts();
    stats.write = write_.counts();
    stats.flush = flush_.counts();
    stats.discards = discards_.load(kRelaxed);
    stats.discarded_bytes = discarded_bytes_.load(kRelaxed);
    return stats;
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  using Number = std::atomic<std::uint64_t>;
  struct alignas(64) Counts {
    Number reads{0}, read_bytes{0}, writes{0}, written_bytes{0};
  };

  Counts& now() { return by_cause_[static_cast<std::size_t>(IoFor::current())]; }
  static void note(Number& requests, Number& bytes, std::uint64_t n) {
    requests.fetch_add(1, kRelaxed);
    bytes.fetch_add(n, kRelaxed);
  }
  template <class Request>
  Result<void> timed(Histogram& histogram, Request request) {
    const std::int64_t began = clock_.now_ns();
    auto done = request();
    if (done) histogram.add(static_cast<std::uint64_t>(std::max<std::int64_t>(clock_.now_ns() - began, 0)));
    return done;
  }

  const std::unique_ptr<Device> owned_;
  Clock& clock_;
  std::array<Counts, kIoCauses.size()> by_cause_;
  Histogram read_, write_, flush_;
  Number discards_{0}, discarded_bytes_{0};
};

}  // namespace

IoCounts DeviceStats::sum() const {
  IoCounts sum;
  for (const IoCounts& one : by_cause) {
    sum.reads += one.reads;
    sum.read_bytes += one.read_bytes;
    sum.writes += one.writes;
    sum.written_bytes += one.written_bytes;
  }
  return sum;
}

std::unique_ptr<MeteredDevice> metered_device(std::unique_ptr<Device> inner, Clock& clock) {
  return std::make_unique<Meter>(std::move(inner), clock);
}

}  // namespace lsmfs

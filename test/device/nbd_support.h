// What the tests of a device behind a server of NBD have in common.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "clock.h"
#include "device/nbd_server.h"
#include "lsmfs/nbd.h"
#include "noise.h"
#include "threads.h"
#include "until.h"

namespace lsmfs::test {

inline NbdOptions options_for(NbdServer& server, Access access = Access::read_write) {
  return {.name = "the test's", .access = access, .connect = [&server] { return server.connect(); }};
}

inline NbdOptions with_clock(NbdOptions options, Clock& clock) {
  options.clock = &clock;
  return options;
}

inline constexpr NbdVerdict::Kind kCuts[] = {NbdVerdict::Kind::cut_before, NbdVerdict::Kind::cut_after, NbdVerdict::Kind::cut_in_reply};

inline std::unique_ptr<Device> opened(NbdOptions options) {
  auto device = nbd_device(std::move(options));
  EXPECT_TRUE(device) << device.error().message();
  return device ? std::move(*device) : nullptr;
}

inline AlignedBuffer noise(std::uint64_t seed, ByteCount size) {
  AlignedBuffer buffer(size.v);
  fill_with_noise(seed, {reinterpret_cast<char*>(buffer.data()), buffer.size()});
  return buffer;
}

inline int code_of(const Result<void>& result) { return result ? 0 : result.error().code; }

// What request() returns, while time goes on by a clock that stands still otherwise. It goes on when nobody has anything to do, so
// nothing takes too long that is not meant to. When it takes ten minutes of that clock the test fails, and rescue() must end it.
template <class Request, class Rescue>
auto while_time_passes(SteppedClock& clock, Request request, Rescue rescue) {
  std::optional<decltype(request())> returned;
  std::atomic<bool> done = false;
  std::thread asking([&] {
    returned.emplace(request());
    done = true;
  });
  const Clock::Time last = clock.now() + std::chrono::minutes(10);
  (void)until([&] {
    if (all_other_threads_sleep()) clock.advance(std::chrono::milliseconds(100));
    return done.load() || clock.now() > last;
  });
  if (!done) {
    ADD_FAILURE() << "a request does not return";
    rescue();
  }
  asking.join();
  return std::move(*returned);
}
template <class Request>
auto while_time_passes(SteppedClock& clock, Request request) {
  return while_time_passes(clock, std::move(request), [] {});
}

// A part of a device that one thread alone uses, by random requests, and what must be there.
class Region {
 public:
  Region(ByteOffset from, ByteCount length, std::uint64_t seed)
      : from_(from.v), random_(seed), buffer_(kMost * kDeviceBlock), model_(length.v, '\0'), known_(length.v / kDeviceBlock, true) {}

  // Errors: those of the device. The test fails when something is read that was not written.
  Result<void> random_request(Device& device) {
    const unsigned what = static_cast<unsigned>(random_() % 100);
    if (what < 8) return device.flush();
    const std::size_t count = 1 + random_() % kMost, first = random_() % (known_.size() - count + 1);
    const ByteOffset at{from_ + first * kDeviceBlock};
    const MutableBytes bytes = buffer_.bytes().first(count * kDeviceBlock);
    if (what < 40) {
      LSMFS_TRY(device.read(at, bytes));
      EXPECT_TRUE(agree(as_text(bytes), first)) << "read";
      return {};
    }
    forget(first, count);
    if (what < 48) return device.discard(at, ByteCount{bytes.size()});
    fill_with_noise(random_(), {reinterpret_cast<char*>(bytes.data()), bytes.size()});
    LSMFS_TRY(device.write(at, bytes));
    model_.replace(first * kDeviceBlock, bytes.size(), as_text(bytes));
    std::fill_n(known_.begin() + static_cast<std::ptrdiff_t>(first), count, true);
    return {};
  }

  // Whether it is in the contents of the whole device. What was discarded, or not written entirely, may be anything.
  testing::AssertionResult is_in(const std::string& contents) const { return agree(std::string_view(contents).substr(from_, model_.size()), 0); }

 private:
  static constexpr std::size_t kMost = 24;  // blocks of a request

  testing::AssertionResult agree(std::string_view bytes, std::size_t first) const {
    for (std::size_t i = 0; i < bytes.size() / kDeviceBlock; ++i) {
      const std::size_t block = first + i;
      const std::string_view written = std::string_view(model_).substr(block * kDeviceBlock, kDeviceBlock);
      if (!known_[block] || bytes.substr(i * kDeviceBlock, kDeviceBlock) == written) continue;
      return testing::AssertionFailure() << "at " << from_ + block * kDeviceBlock << " is not what was written";
    }
    return testing::AssertionSuccess();
  }
  void forget(std::size_t first, std::size_t count) { std::fill_n(known_.begin() + static_cast<std::ptrdiff_t>(first), count, false); }

  const std::uint64_t from_;
  std::mt19937_64 random_;
  AlignedBuffer buffer_;
  std::string model_;
  std::vector<bool> known_;  // by block
};

// So many threads, each with its own part of the device, make so many random requests each.
class Regions {
 public:
  Regions(ByteCount device, unsigned threads, std::uint64_t seed) {
    const std::uint64_t each = round_down(device.v / threads, kDeviceBlock);
    for (unsigned i = 0; i < threads; ++i) regions_.emplace_back(ByteOffset{i * each}, ByteCount{each}, seed + i);
  }
  // No request may fail.
  void run(Device& device, unsigned requests) {
    run_while(device, [requests](unsigned done) { return done < requests; });
  }
  // goes_on(done) is called before each request of each thread.
  template <class GoesOn>
  void run_while(Device& device, GoesOn goes_on) {
    in_threads([&](Region& region) {
      for (unsigned done = 0; goes_on(done); ++done) {
        const auto result = region.random_request(device);
        EXPECT_TRUE(result) << result.error().message();
        if (!result) return;
      }
    });
  }
  // Each thread ends when a request of it fails. Returns the error of one; 0: there was none.
  int run_until_error(Device& device, unsigned requests) {
    std::atomic<int> code = 0;
    in_threads([&](Region& region) {
      for (unsigned done = 0; done < requests; ++done) {
        const auto result = region.random_request(device);
        if (result) continue;
        code = result.error().code;
        return;
      }
    });
    return code;
  }

  bool are_in(const std::string& contents) const {
    return std::ranges::all_of(regions_, [&](const Region& region) { return static_cast<bool>(region.is_in(contents)); });
  }
  void expect_in(const NbdServer& server) const {
    const std::string contents = server.contents();
    for (const Region& region : regions_) EXPECT_TRUE(region.is_in(contents));
    EXPECT_EQ(server.counts().violations, 0u);
  }

 private:
  template <class Work>
  void in_threads(Work work) {
    std::vector<std::thread> threads;
    for (Region& region : regions_) threads.emplace_back([&] { work(region); });
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<Region> regions_;
};

}  // namespace lsmfs::test

// A device whose Nth request fails, for each N of a run that does a bit of everything: whoever waits hears of it, nothing
// wrong is ever read, nothing is acknowledged afterwards, and the next mount finds a tree that is sound.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <atomic>

#include "crash/workloads.h"

namespace lsmfs::test {
namespace {

using Kind = DeviceEvent::Kind;

const char* name(Kind kind) { return kind == Kind::read ? "read" : kind == Kind::write ? "write" : kind == Kind::flush ? "flush" : "discard"; }

// Fails the Nth request of a kind, alone or with all later ones of that kind.
struct Fault {
  Kind kind = Kind::write;
  std::size_t at = 0;  // from 1; 0: none
  bool for_ever = false;

  std::atomic<std::size_t> seen{0};
  std::atomic<bool> struck{false};

  DeviceHook hook() {
    return [this](const DeviceEvent& event, Bytes) -> Result<void> {
      if (event.kind != kind) return {};
      const std::size_t number = ++seen;
      if (at == 0 || number < at || (number > at && !for_ever)) return {};
      struck = true;
      return make_error(EIO, "a planted fault");
    };
  }
};

void work(Trial& trial) {
  const auto& all = operations();
  for (std::size_t i = 0; i < all.size(); i += 7) {
    all[i].run(trial);
    if (i % 3 == 0) trial.sync();
  }
  trial.flush();
  trial.unlink("foo");
  trial.make("again", S_IFREG | 0644);
  trial.write("again", 0, 200'000);
  trial.flush();
  trial.compact();
  trial.make("at the end", S_IFREG | 0644);
  trial.sync();
}

void run(Kind kind, std::size_t at, bool for_ever) {
  SCOPED_TRACE(fmt::format("{} {} fails{}", name(kind), at, for_ever ? ", and all later ones" : ""));
  Fault fault{.kind = kind, .at = at, .for_ever = for_ever};
  Trial trial(start_in_log(), fault.hook());
  if (trial.unmountable()) {
    EXPECT_TRUE(fault.struck) << trial.unmountable()->message();
    EXPECT_EQ(trial.unmountable()->code, EIO) << trial.unmountable()->message();
  } else {
    work(trial);
    if (fault.struck && kind != Kind::read) {
      EXPECT_TRUE(trial.failed()) << "nobody heard of it";
      EXPECT_FALSE(trial.sync()) << "a sync succeeded after a failure";
    }
    // Reads go on, and what was read wrongly would stay in a cache.
    if (kind != Kind::read || !for_ever) {
      EXPECT_EQ(trial.read_all(), "");
    }
  }
  const Findings findings = trial.judge_end();
  EXPECT_EQ(findings.problem, "");
}

std::size_t requests(Kind kind) {
  Fault fault{.kind = kind};
  Trial trial(start_in_log(), fault.hook());
  work(trial);
  trial.stop();
  EXPECT_EQ(trial.judge_end().problem, "");
  return fault.seen;
}

void each(Kind kind, std::size_t sample) {
  const std::size_t n = requests(kind);
  const std::size_t stride = everything() ? 1 : std::max<std::size_t>(1, n / sample);
  std::size_t tried = 0;
  for (std::size_t at = 1; at <= n && !testing::Test::HasFailure(); at += stride) {
    for (const bool for_ever : {false, true}) {
      run(kind, at, for_ever);
      ++tried;
    }
  }
  std::printf("%zu runs with a failing %s, of %zu\n", tried, name(kind), 2 * n);
}

TEST(DeviceFaults, AFailedReadGivesNothingWrong) { each(Kind::read, 12); }
TEST(DeviceFaults, AFailedWriteIsReportedAndTheLastThatIsAcknowledged) { each(Kind::write, 8); }
TEST(DeviceFaults, AFailedFlushIsReportedAndTheLastThatIsAcknowledged) { each(Kind::flush, 8); }

}  // namespace
}  // namespace lsmfs::test

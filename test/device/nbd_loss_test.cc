// A device behind a server of NBD: what becomes of requests when the connection is lost, and the same device is there again, or none.
#include <gtest/gtest.h>

#include <mutex>

#include "device/nbd_support.h"
#include "lsmfs/nbd.h"
#include "seed.h"

namespace lsmfs::nbd_loss_test {
namespace {

using test::code_of;
using test::kCuts;
using test::nbd_error;
using test::NbdBlockSizes;
using test::NbdCommand;
using test::NbdErrno;
using test::NbdHandshake;
using test::NbdServer;
using test::NbdServerOptions;
using test::NbdVerdict;
using test::noise;
using test::opened;
using test::options_for;
using test::until;
using test::while_time_passes;
using test::with_clock;
using Kind = NbdVerdict::Kind;

// ---- the same device is there again -------------------------------------------------------

TEST(NbdLoss, NoRequestFailsWhicheverCommandIsTheLast) {
  constexpr unsigned kThreads = 2, kRequests = 30;
  for (const Kind how : kCuts) {
    for (unsigned at = 0; at < kThreads * kRequests; ++at) {
      SCOPED_TRACE(testing::Message() << "cut " << static_cast<int>(how) << " at command " << at);
      NbdServer server({.size = ByteCount{512 * KiB}, .volatile_writes = true});
      server.on_command([&](const NbdCommand& command) { return NbdVerdict{command.number == at ? how : Kind::ok}; });
      const auto device = opened(options_for(server));
      ASSERT_TRUE(device);
      test::Regions regions(device->size(), kThreads, 7);
      regions.run(*device, kRequests);
      regions.expect_in(server);
      EXPECT_EQ(server.counts().connections, 2u);
      ASSERT_FALSE(HasFailure());
    }
  }
}

// Losses come one after another, also while what was lost is sent again.
void survive(unsigned hundreds, NbdServerOptions options) {
  const std::uint64_t seed = test::drawn_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  if (options.shuffle_seed) options.shuffle_seed = seed;
  const ByteCount size = options.size;
  test::SteppedClock clock;
  std::mutex mutex;
  std::mt19937_64 random(seed);
  std::atomic<unsigned> lost = 0, losses = 0;
  NbdServer server(std::move(options));
  server.on_command([&](const NbdCommand&) -> NbdVerdict {
    const std::lock_guard lock(mutex);
    if (lost >= losses || random() % 10 != 0) return {};
    ++lost;
    constexpr Kind kLosses[] = {Kind::cut_before, Kind::cut_after, Kind::cut_in_reply, Kind::wrong_magic, Kind::wrong_cookie};
    return {kLosses[random() % std::size(kLosses)]};
  });
  const auto device = opened(with_clock(options_for(server), clock));
  ASSERT_TRUE(device);
  test::Regions regions(size, 4, seed);
  for (unsigned hundred = 0; hundred < hundreds; ++hundred) {
    losses += 100;
    while_time_passes(clock, [&] {
      regions.run_while(*device, [&](unsigned) { return lost < losses; });
      regions.run(*device, 5);
      return true;
    });
    regions.expect_in(server);
    EXPECT_EQ(server.counts().connections, losses + 1u);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(NbdLoss, AThousandOfThemLoseNothing) { survive(10, {.size = ByteCount{MiB}, .volatile_writes = true}); }
TEST(NbdLoss, LoseNothingOfWhatIsAnsweredInAnyOrder) { survive(2, {.size = ByteCount{MiB}, .shuffle_seed = 0}); }
TEST(NbdLoss, LoseNothingOfWhatIsAskedInParts) {
  survive(2, {.size = ByteCount{2 * MiB}, .block_sizes = NbdBlockSizes{.maximum = 16 * KiB}, .volatile_writes = true});
}

TEST(NbdLoss, AnAnswerThatMakesNoSenseIsOne) {
  for (const Kind how : {Kind::wrong_magic, Kind::wrong_cookie}) {
    SCOPED_TRACE(static_cast<int>(how));
    NbdServer server;
    const auto device = opened(options_for(server));
    ASSERT_TRUE(device);
    const AlignedBuffer a = noise(1, ByteCount{kDeviceBlock});
    AlignedBuffer b(a.size());
    server.on_command([&](const NbdCommand& command) { return NbdVerdict{command.number % 4 == 0 ? how : Kind::ok}; });
    EXPECT_TRUE(device->write(ByteOffset{0}, a.bytes()));
    EXPECT_TRUE(device->read(ByteOffset{0}, b.bytes()));
    EXPECT_EQ(as_text(a.bytes()), as_text(b.bytes()));
    EXPECT_TRUE(device->flush());
    EXPECT_TRUE(device->discard(ByteOffset{0}, ByteCount{kDeviceBlock}));
    EXPECT_GT(server.counts().connections, 1u);
  }
}

TEST(NbdLoss, AServerThatShutsDownIsOne) {
  NbdServer server;
  server.on_command([&](const NbdCommand& command) { return command.number == 0 ? nbd_error(NbdErrno::eshutdown) : NbdVerdict{}; });
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  AlignedBuffer a(kDeviceBlock);
  EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_EQ(server.counts().connections, 2u);
}

TEST(NbdLoss, WhatAServerThatHangsOwesIsAskedAgain) {
  NbdServer server;
  server.on_command([&](const NbdCommand& command) { return NbdVerdict{command.connection == 0 ? Kind::hang : Kind::ok}; });
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  test::Regions regions(device->size(), 4, 1);
  std::thread requests([&] { regions.run(*device, 10); });
  EXPECT_TRUE(until([&] { return server.counts().commands > 0; }));
  server.cut();
  requests.join();
  regions.expect_in(server);
}

TEST(NbdLoss, IsSeenByWhoAsksNext) {
  NbdServer server;
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  AlignedBuffer a(kDeviceBlock);
  for (int i = 0; i < 3; ++i) {
    server.cut();
    EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
    server.cut();
    EXPECT_TRUE(device->write(ByteOffset{0}, a.bytes()));
    server.cut();
    EXPECT_TRUE(device->flush());
    server.cut();
    EXPECT_TRUE(device->discard(ByteOffset{0}, ByteCount{kDeviceBlock}));
  }
  EXPECT_EQ(server.counts().connections, 13u);
}

TEST(NbdLoss, IsToldToWhoWantsToKnow) {
  NbdServer server;
  NbdOptions options = options_for(server);
  std::mutex mutex;
  std::vector<std::string> lines;
  options.notice = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  };
  const auto device = opened(options);
  ASSERT_TRUE(device);
  AlignedBuffer a(kDeviceBlock);
  EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_TRUE(lines.empty());
  server.cut();
  EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
  ASSERT_EQ(lines.size(), 2u);
  server.resize(ByteCount{MiB});
  server.cut();
  EXPECT_FALSE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_FALSE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) {
    EXPECT_NE(line.find("the test's"), line.npos) << line;
    EXPECT_EQ(line.find('\n'), line.npos) << line;
  }
}

TEST(NbdLoss, OfADeviceThatIsReadOnlyIsNoDifferent) {
  NbdServer server({.flush = false, .trim = false, .read_only = true});
  const auto device = opened(options_for(server, Access::read_only));
  ASSERT_TRUE(device);
  server.cut();
  AlignedBuffer a(kDeviceBlock);
  EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_TRUE(device->flush());
  EXPECT_EQ(server.counts().connections, 2u);
}

TEST(NbdLoss, MayFindADeviceThatIsLarger) {
  NbdServer server({.size = ByteCount{MiB}});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  server.resize(ByteCount{2 * MiB});
  server.cut();
  AlignedBuffer a(kDeviceBlock);
  EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_EQ(device->size().v, MiB);
}

// ---- waiting for a connection -------------------------------------------------------------

TEST(NbdLoss, IsOverWhenTheServerIsThereAgain) {
  test::SteppedClock clock;
  NbdServer server;
  const auto device = opened(with_clock(options_for(server), clock));
  ASSERT_TRUE(device);
  const AlignedBuffer a = noise(2, ByteCount{kDeviceBlock});
  const auto write = [&] { return code_of(device->write(ByteOffset{0}, a.bytes())); };
  server.cut();
  server.refuse(3);
  EXPECT_EQ(while_time_passes(clock, write), 0);
  EXPECT_EQ(server.counts().refused, 3u);

  for (const NbdHandshake handshake : {NbdHandshake::garbage, NbdHandshake::cut, NbdHandshake::refusing, NbdHandshake::silent}) {
    SCOPED_TRACE(static_cast<int>(handshake));
    server.change([&](NbdServerOptions& told) { told.handshake = handshake; });
    server.cut();
    const std::uint64_t before = server.counts().connections;
    std::thread returns([&] {
      EXPECT_TRUE(until([&] { return server.counts().connections > before; }));
      server.change([](NbdServerOptions& told) { told.handshake = NbdHandshake::proper; });
    });
    EXPECT_EQ(while_time_passes(clock, write), 0);
    returns.join();
  }
}

TEST(NbdLoss, IsWaitedOutNoLongerThanPatienceLasts) {
  test::SteppedClock clock;
  NbdServer server;
  const auto device = opened(with_clock(options_for(server), clock));
  ASSERT_TRUE(device);
  AlignedBuffer a(kDeviceBlock);
  ASSERT_TRUE(device->write(ByteOffset{0}, a.bytes()));
  server.refuse();
  server.cut();
  const Clock::Time before = clock.now();
  const std::vector<int> codes = while_time_passes(clock, [&] {
    std::vector<int> each(6, -1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < each.size(); ++i) {
      threads.emplace_back([&, i] {
        AlignedBuffer b(kDeviceBlock);
        const ByteOffset at{i * kDeviceBlock};
        each[i] = code_of(i % 3 == 0 ? device->read(at, b.bytes()) : i % 3 == 1 ? device->write(at, b.bytes()) : device->flush());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return each;
  });
  EXPECT_EQ(codes, std::vector<int>(6, ETIMEDOUT));
  EXPECT_GE(clock.now() - before, NbdOptions{}.patience);
  EXPECT_GT(server.counts().refused, 10u);

  server.refuse(0);  // too late
  EXPECT_EQ(code_of(device->read(ByteOffset{0}, a.bytes())), ETIMEDOUT);
  EXPECT_EQ(code_of(device->write(ByteOffset{0}, a.bytes())), ETIMEDOUT);
  EXPECT_EQ(code_of(device->flush()), ETIMEDOUT);
  EXPECT_EQ(code_of(device->discard(ByteOffset{0}, ByteCount{kDeviceBlock})), ETIMEDOUT);
  EXPECT_EQ(server.counts().connections, 1u);
}

// A server that ends each connection at the same command is as good as none.
void be_given_up(NbdVerdict verdict) {
  test::SteppedClock clock;
  NbdServer server;
  const auto device = opened(with_clock(options_for(server), clock));
  ASSERT_TRUE(device);
  server.on_command([=](const NbdCommand&) { return verdict; });
  AlignedBuffer a(kDeviceBlock);
  std::atomic<bool> done = false;
  std::thread asking([&] {
    EXPECT_EQ(code_of(device->read(ByteOffset{0}, a.bytes())), ETIMEDOUT);
    done = true;
  });
  const Clock::Time last = clock.now() + 10 * NbdOptions{}.patience;
  EXPECT_TRUE(until([&] {
    clock.advance(std::chrono::milliseconds(100));
    return done.load() || clock.now() > last;
  }));
  EXPECT_TRUE(done) << "it tries for ever";
  server.on_command(nullptr);
  asking.join();
}

TEST(NbdLoss, IsGivenUpWhenEachConnectionIsLost) { be_given_up({Kind::cut_before}); }
TEST(NbdLoss, IsGivenUpWhenEachAnswerMakesNoSense) { be_given_up({Kind::wrong_magic}); }
TEST(NbdLoss, IsGivenUpWhenTheServerGoesOnShuttingDown) { be_given_up(nbd_error(NbdErrno::eshutdown)); }

TEST(NbdLoss, HindersNobodyFromClosingTheDevice) {
  NbdServer server;
  for (const bool refuses : {false, true}) {
    auto device = opened(options_for(server));
    ASSERT_TRUE(device);
    if (refuses) server.refuse();
    server.cut();
    device.reset();
  }
}

}  // namespace
}  // namespace lsmfs::nbd_loss_test

// A device behind a server of NBD: what becomes of it when it is another one, or has lost something, after the connection was lost.
#include <gtest/gtest.h>

#include "device/nbd_support.h"
#include "lsmfs/nbd.h"
#include "seed.h"

namespace lsmfs::nbd_stale_test {
namespace {

using test::code_of;
using test::kCuts;
using test::nbd_error;
using test::NbdBlockSizes;
using test::NbdCommand;
using test::NbdErrno;
using test::NbdKind;
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

// All requests, from now on, whatever the server does.
void expect_stale(Device& device) {
  AlignedBuffer a(kDeviceBlock);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(code_of(device.read(ByteOffset{0}, a.bytes())), ESTALE);
    EXPECT_EQ(code_of(device.write(ByteOffset{0}, a.bytes())), ESTALE);
    EXPECT_EQ(code_of(device.flush()), ESTALE);
    EXPECT_EQ(code_of(device.discard(ByteOffset{0}, ByteCount{kDeviceBlock})), ESTALE);
  }
}

// What the server is after a loss, and that nothing is asked of it then.
void expect_stale_after(const std::function<void(NbdServerOptions&)>& change, NbdServerOptions options = {}) {
  NbdServer server(std::move(options));
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  server.change(change);
  server.cut();
  expect_stale(*device);
  EXPECT_EQ(server.counts().connections, 2u);
  EXPECT_EQ(server.counts().commands, 0u);
}

TEST(NbdStale, WhenItCanDoLess) {
  expect_stale_after([](NbdServerOptions& told) { told.read_only = true; });
  expect_stale_after([](NbdServerOptions& told) { told.flush = false; });
  expect_stale_after([](NbdServerOptions& told) { told.trim = false; });
  expect_stale_after([](NbdServerOptions& told) { told.block_sizes = NbdBlockSizes{.maximum = 64 * KiB}; });
}

TEST(NbdStale, WhenItIsSmaller) {
  NbdServer server({.size = ByteCount{4 * MiB}});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  server.resize(ByteCount{4 * MiB - kDeviceBlock});
  server.cut();
  expect_stale(*device);
  server.resize(ByteCount{4 * MiB});
  expect_stale(*device);
  EXPECT_EQ(server.counts().connections, 2u);
  EXPECT_EQ(server.counts().commands, 0u);
}

TEST(NbdStale, ForAllWhoWait) {
  NbdServer server;
  server.on_command([](const NbdCommand&) { return NbdVerdict{Kind::hang}; });
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      AlignedBuffer a(kDeviceBlock);
      const ByteOffset at{i * kDeviceBlock};
      EXPECT_EQ(code_of(i % 2 == 0 ? device->read(at, a.bytes()) : device->write(at, a.bytes())), ESTALE);
    });
  }
  EXPECT_TRUE(until([&] { return server.counts().commands > 0; }));
  server.resize(ByteCount{MiB});
  server.on_command(nullptr);
  server.cut();
  for (std::thread& thread : threads) thread.join();
  expect_stale(*device);
}

// A server whose machine breaks down loses what it has not flushed.
class NbdCrash : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device_);
    ASSERT_TRUE(device_->write(ByteOffset{0}, older_.bytes()));
    ASSERT_TRUE(device_->flush());
  }
  // What is there, if the device is still the same.
  std::string read() {
    AlignedBuffer there(older_.size());
    const auto result = device_->read(ByteOffset{0}, there.bytes());
    return result ? std::string(as_text(there.bytes())) : result.error().message();
  }
  std::string older() const { return std::string(as_text(older_.bytes())); }
  std::string newer() const { return std::string(as_text(newer_.bytes())); }

  const AlignedBuffer older_ = noise(1, ByteCount{16 * kDeviceBlock}), newer_ = noise(2, ByteCount{16 * kDeviceBlock});
  NbdServer server_{{.volatile_writes = true}};
  const std::unique_ptr<Device> device_ = opened(options_for(server_));
};

TEST_F(NbdCrash, LosesNothingThatWasFlushed) {
  server_.crash();
  EXPECT_EQ(read(), older());
  ASSERT_TRUE(device_->write(ByteOffset{0}, newer_.bytes()));
  ASSERT_TRUE(device_->flush());
  server_.crash();
  EXPECT_EQ(read(), newer());
  EXPECT_EQ(server_.counts().connections, 3u);
}

TEST_F(NbdCrash, IsFoundOutByAnyBlock) {
  for (const std::uint64_t block : {0, 7, 15}) {
    SCOPED_TRACE(block);
    const auto device = opened(options_for(server_));
    ASSERT_TRUE(device);
    ASSERT_TRUE(device->write(ByteOffset{block * kDeviceBlock}, newer_.bytes().first(kDeviceBlock)));
    server_.crash();
    expect_stale(*device);
    EXPECT_TRUE(server_.contents().starts_with(older()));
  }
}

// Of blocks far from each other, more than one request reads, only the last is lost.
TEST_F(NbdCrash, IsFoundOutWhereverItIs) {
  const auto write = [&] {
    const Bytes two = newer_.bytes().first(2 * kDeviceBlock);
    for (std::uint64_t at = 0; at < 3 * MiB; at += 3 * kDeviceBlock) ASSERT_TRUE(device_->write(ByteOffset{at}, two));
  };
  write();
  ASSERT_TRUE(device_->flush());
  write();
  server_.crash();  // what is there is the same, if not by the same write
  AlignedBuffer a(kDeviceBlock);
  ASSERT_TRUE(device_->read(ByteOffset{0}, a.bytes()));
  ASSERT_TRUE(device_->write(ByteOffset{4 * MiB - kDeviceBlock}, newer_.bytes().first(kDeviceBlock)));
  server_.crash();
  expect_stale(*device_);
}

TEST_F(NbdCrash, IsFoundOutAfterALossOfTheConnectionAlone) {
  ASSERT_TRUE(device_->write(ByteOffset{0}, newer_.bytes()));
  server_.cut();
  EXPECT_EQ(read(), newer());
  server_.crash();
  expect_stale(*device_);
}

TEST_F(NbdCrash, LosesNothingOfWhatIsAskedAgain) {
  NbdOptions options = options_for(server_);
  options.connect = [this] {
    server_.lose_volatile();
    return server_.connect();
  };
  const auto device = opened(options);
  ASSERT_TRUE(device);
  const std::uint64_t writes = server_.counts().writes;
  server_.on_command([](const NbdCommand& command) { return NbdVerdict{command.connection == 1 ? Kind::cut_after : Kind::ok}; });
  ASSERT_TRUE(device->write(ByteOffset{0}, newer_.bytes()));
  EXPECT_TRUE(server_.contents().starts_with(newer()));
  EXPECT_EQ(server_.counts().writes, writes + 2);
}

TEST_F(NbdCrash, OfWhatWasDiscardedDoesNotMatter) {
  ASSERT_TRUE(device_->write(ByteOffset{0}, newer_.bytes()));
  ASSERT_TRUE(device_->discard(ByteOffset{0}, ByteCount{newer_.size()}));
  server_.crash();
  EXPECT_EQ(read(), older());
}

// What is answered while a flush is under way, it need not cover.
TEST_F(NbdCrash, IsFoundOutByWhatWasWrittenDuringAFlush) {
  const std::uint64_t flushes = server_.counts().flushes;
  server_.on_command([](const NbdCommand& command) { return NbdVerdict{command.kind == NbdKind::flush ? Kind::reply_later : Kind::ok}; });
  std::thread flushing([&] { EXPECT_TRUE(device_->flush()); });
  EXPECT_TRUE(until([&] { return server_.counts().flushes > flushes; }));
  EXPECT_TRUE(device_->write(ByteOffset{0}, newer_.bytes()));
  flushing.join();
  server_.on_command(nullptr);
  server_.crash();
  expect_stale(*device_);
}

TEST_F(NbdCrash, IsNotAssumedWhereAFlushCoversAll) {
  server_.on_command([](const NbdCommand& command) { return NbdVerdict{command.kind == NbdKind::write ? Kind::reply_later : Kind::ok}; });
  const std::uint64_t writes = server_.counts().writes;
  std::thread writing([&] { EXPECT_TRUE(device_->write(ByteOffset{0}, newer_.bytes())); });
  EXPECT_TRUE(until([&] { return server_.counts().writes > writes; }));
  EXPECT_TRUE(device_->flush());
  writing.join();
  ASSERT_TRUE(device_->flush());
  server_.crash();
  EXPECT_EQ(read(), newer());
}

// What was to be written, and is not, need not be there.
TEST_F(NbdCrash, IsNotAssumedWhereAWriteFailed) {
  server_.on_command([](const NbdCommand& command) { return command.kind == NbdKind::write ? nbd_error(NbdErrno::eio) : NbdVerdict{}; });
  EXPECT_EQ(code_of(device_->write(ByteOffset{0}, newer_.bytes())), EIO);
  server_.crash();
  EXPECT_EQ(read(), older());
}

TEST_F(NbdCrash, IsFoundOutAfterAFlushThatFailed) {
  ASSERT_TRUE(device_->write(ByteOffset{0}, newer_.bytes()));
  server_.on_command([](const NbdCommand& command) { return command.kind == NbdKind::flush ? nbd_error(NbdErrno::eio) : NbdVerdict{}; });
  EXPECT_EQ(code_of(device_->flush()), EIO);
  server_.crash();
  expect_stale(*device_);
}

// ---- while it is found out whether it is the same ----------------------------------------

class NbdCheck : public testing::Test {
 protected:
  // Returns after another connection, on which the first commands, that check it, meet with this.
  void read_after(unsigned times, NbdVerdict verdict) {
    const AlignedBuffer a = noise(1, ByteCount{4 * kDeviceBlock});
    AlignedBuffer b(kDeviceBlock);
    std::atomic<unsigned> left = times;
    NbdServer server({.volatile_writes = true});
    const auto device = opened(with_clock(options_for(server), clock_));
    ASSERT_TRUE(device);
    ASSERT_TRUE(device->write(ByteOffset{0}, a.bytes()));
    server.on_command([&](const NbdCommand& command) { return command.offset.v < a.size() && left > 0 ? --left, verdict : NbdVerdict{}; });
    server.cut();
    EXPECT_EQ(while_time_passes(clock_, [&] { return code_of(device->read(ByteOffset{MiB}, b.bytes())); }), 0);
    EXPECT_EQ(server.counts().connections, 2u + times);
    server.crash();
    expect_stale(*device);
  }

  test::SteppedClock clock_;
};

TEST_F(NbdCheck, GoesOnAfterLosses) {
  for (const Kind how : kCuts) read_after(5, {how});
  read_after(5, {Kind::wrong_magic});
}
TEST_F(NbdCheck, GoesOnAfterErrors) { read_after(5, nbd_error(NbdErrno::eio)); }
TEST_F(NbdCheck, GoesOnWhenAnAnswerIsMissing) { read_after(2, {Kind::hang}); }

// ---- looking at it ------------------------------------------------------------------------

class NbdLook : public testing::Test {
 protected:
  std::unique_ptr<Device> opened_with(std::function<Result<void>(Device&)> look) {
    NbdOptions options = with_clock(options_for(server_), clock_);
    options.look = [this, look = std::move(look)](Device& device) {
      ++looks_;
      return look(device);
    };
    return opened(std::move(options));
  }

  test::SteppedClock clock_;
  std::atomic<unsigned> looks_ = 0;
  void expect_that_it_is_taken_again(Kind instead);

  NbdServer server_;
};

TEST_F(NbdLook, ComesBeforeAnythingIsSentAgain) {
  std::atomic<std::uint64_t> writes = 0;
  const auto device = opened_with([&](Device& there) -> Result<void> {
    EXPECT_EQ(there.size().v, 4 * MiB);
    EXPECT_FALSE(there.writable());
    AlignedBuffer a(kDeviceBlock);
    EXPECT_EQ(code_of(there.write(ByteOffset{0}, a.bytes())), EROFS);
    EXPECT_EQ(code_of(there.discard(ByteOffset{0}, ByteCount{kDeviceBlock})), EROFS);
    EXPECT_EQ(code_of(there.read(ByteOffset{4 * MiB}, a.bytes())), ENXIO);
    LSMFS_TRY(there.read(ByteOffset{0}, a.bytes()));
    EXPECT_EQ(a.data()[0], std::byte{0});
    EXPECT_EQ(server_.counts().writes, writes);
    return {};
  });
  ASSERT_TRUE(device);
  const AlignedBuffer a = noise(1, ByteCount{kDeviceBlock});
  for (unsigned losses = 0; losses < 3; ++losses) {
    EXPECT_EQ(looks_, losses);
    server_.cut();
    EXPECT_TRUE(device->write(ByteOffset{MiB}, a.bytes()));
    ++writes;
  }
  EXPECT_EQ(server_.counts().violations, 0u);
}

TEST_F(NbdLook, MayEndIt) {
  const auto device = opened_with([](Device&) { return make_error(EBUSY, "it is another's"); });
  ASSERT_TRUE(device);
  server_.cut();
  expect_stale(*device);
  EXPECT_EQ(looks_, 1u);
  EXPECT_EQ(server_.counts().commands, 0u);
}

TEST_F(NbdLook, ReadsAsMuchAsItWants) {
  server_.change([](NbdServerOptions& told) { told.block_sizes = NbdBlockSizes{.maximum = 64 * KiB}; });
  const AlignedBuffer a = noise(1, ByteCount{MiB + kDeviceBlock});
  const auto device = opened_with([&](Device& there) -> Result<void> {
    AlignedBuffer b(a.size());
    LSMFS_TRY(there.read(ByteOffset{kDeviceBlock}, b.bytes()));
    EXPECT_TRUE(as_text(a.bytes()) == as_text(b.bytes()));
    return {};
  });
  ASSERT_TRUE(device);
  ASSERT_TRUE(device->write(ByteOffset{kDeviceBlock}, a.bytes()));
  server_.cut();
  EXPECT_TRUE(device->flush());
  EXPECT_EQ(looks_, 1u);
  EXPECT_EQ(server_.counts().violations, 0u);
}

// Who has not seen the device cannot say that it is the same, nor that it is another: whether or not it tells that it could not read.
void NbdLook::expect_that_it_is_taken_again(Kind instead) {
  for (const bool tells : {true, false}) {
    SCOPED_TRACE(tells);
    looks_ = 0;
    const auto device = opened_with([tells](Device& there) -> Result<void> {
      AlignedBuffer a(kDeviceBlock);
      const auto result = there.read(ByteOffset{0}, a.bytes());
      return tells ? result : Result<void>();
    });
    ASSERT_TRUE(device);
    server_.on_command([&](const NbdCommand&) { return NbdVerdict{looks_ < 3 ? instead : Kind::ok}; });
    server_.cut();
    AlignedBuffer a(kDeviceBlock);
    EXPECT_EQ(while_time_passes(
                  clock_, [&] { return code_of(device->read(ByteOffset{MiB}, a.bytes())); },
                  [&] {
                    server_.on_command(nullptr);
                    server_.cut();
                  }),
              0);
    EXPECT_EQ(looks_, 3u);
    server_.on_command(nullptr);
  }
}
TEST_F(NbdLook, IsTakenAgainWhenTheConnectionIsLost) { expect_that_it_is_taken_again(Kind::cut_before); }
TEST_F(NbdLook, IsTakenAgainWhenAnAnswerIsMissing) { expect_that_it_is_taken_again(Kind::hang); }

// ---- at any time --------------------------------------------------------------------------

// A crash at any command. Either nothing that was answered is lost, or the device says ESTALE.
class NbdCrashes : public testing::Test {
 protected:
  void run(unsigned threads) {
    const std::uint64_t seed = test::drawn_seed();
    unsigned stale = 0, same = 0;
    for (unsigned round = 0; round < 100; ++round) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
      std::mt19937_64 random(seed + round);
      const std::uint64_t at = random() % 30;
      NbdServer server({.size = ByteCount{512 * KiB}, .volatile_writes = true});
      server.on_command([&](const NbdCommand& command) -> NbdVerdict {
        if (command.number != at) return {};
        server.crash();
        return {Kind::cut_before};
      });
      const auto device = opened(options_for(server));
      ASSERT_TRUE(device);
      test::Regions regions(device->size(), threads, seed + round);
      const int code = regions.run_until_error(*device, 40);
      if (code == 0) {
        ++same;
        regions.expect_in(server);
      } else {
        ++stale;
        EXPECT_EQ(code, ESTALE);
        expect_stale(*device);
        // With one thread nothing is under way that would have been written there next.
        EXPECT_TRUE(threads > 1 || !regions.are_in(server.contents())) << "nothing was lost";
      }
      ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(stale, 0u);
    EXPECT_GT(same, 0u);
  }
};

TEST_F(NbdCrashes, AreFoundOutByOneThread) { run(1); }
TEST_F(NbdCrashes, AreFoundOutByMany) { run(4); }

}  // namespace
}  // namespace lsmfs::nbd_stale_test

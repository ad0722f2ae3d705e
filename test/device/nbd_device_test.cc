// A device behind a server of NBD: what both agree on, and what becomes of requests while the connection lasts.
#include "lsmfs/nbd.h"

#include <gtest/gtest.h>

#include "device/nbd_support.h"
#include "seed.h"

namespace lsmfs::nbd_device_test {
namespace {

using test::code_of;
using test::nbd_error;
using test::NbdBlockSizes;
using test::NbdCommand;
using test::NbdErrno;
using test::NbdHandshake;
using test::NbdKind;
using test::NbdServer;
using test::NbdServerOptions;
using test::NbdVerdict;
using test::noise;
using test::opened;
using test::options_for;

int error_of(NbdOptions options) {
  const auto device = nbd_device(std::move(options));
  return device ? 0 : device.error().code;
}

TEST(NbdDevice, KeepsWhatIsWritten) {
  NbdServer server({.size = ByteCount{4 * MiB}});
  const AlignedBuffer a = noise(1, ByteCount{192 * KiB});
  {
    const auto device = opened(options_for(server));
    ASSERT_TRUE(device);
    EXPECT_EQ(device->size().v, 4 * MiB);
    EXPECT_TRUE(device->writable());
    EXPECT_FALSE(device->is_block_device());
    EXPECT_EQ(device->path(), "the test's");
    EXPECT_EQ(device->descriptor(), -1);
    EXPECT_TRUE(device->look_again());
    EXPECT_EQ(device->set_size(ByteCount{8 * MiB}).error().code, EOPNOTSUPP);
    ASSERT_TRUE(device->write(ByteOffset{MiB}, a.bytes()));
    ASSERT_TRUE(device->flush());
    EXPECT_EQ(server.counts().flushes, 1u);
  }
  EXPECT_EQ(server.contents().substr(MiB, a.size()), as_text(a.bytes()));
  EXPECT_TRUE(test::until([&] { return server.counts().disconnects == 1; }));

  const auto device = opened(options_for(server, Access::read_only));
  ASSERT_TRUE(device);
  AlignedBuffer b(a.size());
  ASSERT_TRUE(device->read(ByteOffset{MiB}, b.bytes()));
  EXPECT_EQ(as_text(b.bytes()), as_text(a.bytes()));
  ASSERT_TRUE(device->read(ByteOffset{4 * MiB - b.size()}, b.bytes()));
  EXPECT_EQ(as_text(b.bytes()), std::string(b.size(), '\0'));
  EXPECT_EQ(server.counts().violations, 0u);
}

TEST(NbdDevice, HasTheExportThatIsAskedFor) {
  NbdServer server({.size = ByteCount{MiB + 1000}, .export_name = "disks/one two"});
  NbdOptions options = options_for(server);
  EXPECT_EQ(error_of(options), ENOENT);
  options.export_name = "disks/one two";
  const auto device = opened(options);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->size().v, MiB);  // rounded down
}

TEST(NbdDevice, DiscardsWhereTheServerCan) {
  NbdServer server({.size = ByteCount{4 * MiB}});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->discard(ByteOffset{MiB}, ByteCount{2 * MiB}));
  EXPECT_TRUE(device->discard(ByteOffset{MiB}, ByteCount{0}));
  const std::string contents = server.contents();
  EXPECT_EQ(contents[MiB - 1], '\0');
  EXPECT_NE(contents[MiB], '\0');
  EXPECT_NE(contents[3 * MiB - 1], '\0');
  EXPECT_EQ(contents[3 * MiB], '\0');

  server.on_command([](const NbdCommand&) { return nbd_error(NbdErrno::enotsup); });
  EXPECT_EQ(code_of(device->discard(ByteOffset{0}, ByteCount{MiB})), EOPNOTSUPP);

  server.change([](NbdServerOptions& options) { options.trim = false; });
  const auto without = opened(options_for(server));
  ASSERT_TRUE(without);
  EXPECT_EQ(code_of(without->discard(ByteOffset{0}, ByteCount{MiB})), EOPNOTSUPP);
  EXPECT_EQ(server.counts().trims, 1u);
  EXPECT_EQ(server.counts().violations, 0u);
}

TEST(NbdDevice, AsksForNoMoreThanTheServerTakes) {
  NbdServer server({.size = ByteCount{4 * MiB}, .block_sizes = NbdBlockSizes{.minimum = 512, .maximum = 64 * KiB}});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  const AlignedBuffer a = noise(2, ByteCount{MiB + 3 * kDeviceBlock});
  AlignedBuffer b(a.size());
  ASSERT_TRUE(device->write(ByteOffset{5 * kDeviceBlock}, a.bytes()));
  ASSERT_TRUE(device->read(ByteOffset{5 * kDeviceBlock}, b.bytes()));
  EXPECT_EQ(as_text(a.bytes()), as_text(b.bytes()));
  ASSERT_TRUE(device->discard(ByteOffset{0}, ByteCount{2 * MiB}));
  EXPECT_EQ(server.counts().largest_read, 64 * KiB);
  EXPECT_EQ(server.counts().largest_write, 64 * KiB);
  EXPECT_EQ(server.counts().violations, 0u);

  // One part of several fails.
  server.on_command([](const NbdCommand& command) { return command.offset.v == 128 * KiB ? nbd_error(NbdErrno::eio) : NbdVerdict{}; });
  EXPECT_EQ(code_of(device->read(ByteOffset{0}, b.bytes().first(256 * KiB))), EIO);
  EXPECT_EQ(code_of(device->write(ByteOffset{0}, b.bytes().first(256 * KiB))), EIO);
  EXPECT_TRUE(device->write(ByteOffset{256 * KiB}, b.bytes().first(256 * KiB)));
}

TEST(NbdDevice, AsksForNoMoreThanAServerTakesThatSaysNothing) {
  NbdServer server({.size = ByteCount{40 * MiB}});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  const AlignedBuffer a = noise(3, ByteCount{33 * MiB});
  AlignedBuffer b(a.size());
  ASSERT_TRUE(device->write(ByteOffset{MiB}, a.bytes()));
  ASSERT_TRUE(device->read(ByteOffset{MiB}, b.bytes()));
  EXPECT_TRUE(std::memcmp(a.data(), b.data(), a.size()) == 0);
  EXPECT_EQ(server.counts().violations, 0u);
}

// A maximum need not be of whole blocks, and there may be none.
TEST(NbdDevice, TakesAnyMaximumOfTheServer) {
  for (const std::uint32_t maximum : {4096u, 100000u, 33u * 1024 * 1024, UINT32_MAX}) {
    SCOPED_TRACE(maximum);
    NbdServer server({.size = ByteCount{MiB}, .block_sizes = NbdBlockSizes{.maximum = maximum}});
    const auto device = opened(options_for(server));
    ASSERT_TRUE(device);
    const AlignedBuffer a = noise(4, ByteCount{MiB});
    ASSERT_TRUE(device->write(ByteOffset{0}, a.bytes()));
    EXPECT_TRUE(server.contents() == as_text(a.bytes()));
    EXPECT_EQ(server.counts().violations, 0u);
  }
}

void agree_with_threads(NbdServerOptions options, unsigned requests) {
  const std::uint64_t seed = test::drawn_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const bool shuffles = options.shuffle_seed.has_value();
  if (shuffles) options.shuffle_seed = seed;
  const ByteCount size = options.size;
  NbdServer server(std::move(options));
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  test::Regions regions(size, 8, seed);
  regions.run(*device, requests);
  regions.expect_in(server);
  EXPECT_EQ(server.counts().connections, 1u);
  if (shuffles) {
    EXPECT_GT(server.counts().most_queued, 1u);
  }
}

TEST(NbdDevice, ServesManyThreads) { agree_with_threads({.size = ByteCount{8 * MiB}}, 400); }
TEST(NbdDevice, ServesManyThreadsInAnyOrder) { agree_with_threads({.size = ByteCount{8 * MiB}, .shuffle_seed = 0}, 100); }
TEST(NbdDevice, ServesManyThreadsInSmallParts) {
  agree_with_threads({.size = ByteCount{8 * MiB}, .block_sizes = NbdBlockSizes{.maximum = 8 * KiB}, .shuffle_seed = 0}, 50);
}

// Both sides have more to send than a socket takes, and neither may wait for the other.
TEST(NbdDevice, ReadsAndWritesALotAtATime) {
  NbdServer server({.size = ByteCount{32 * MiB}, .shuffle_seed = 1});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const AlignedBuffer a = noise(i, ByteCount{2 * MiB});
      AlignedBuffer b(a.size());
      EXPECT_TRUE(device->write(ByteOffset{i * 4 * MiB}, a.bytes()));
      EXPECT_TRUE(device->write(ByteOffset{(i * 4 + 2) * MiB}, a.bytes()));
      for (const unsigned half : {0, 2}) {
        EXPECT_TRUE(device->read(ByteOffset{(i * 4 + half) * MiB}, b.bytes()));
        EXPECT_TRUE(std::memcmp(a.data(), b.data(), a.size()) == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(NbdDevice, PassesTheServersErrorsOn) {
  const std::pair<NbdErrno, int> errors[] = {{NbdErrno::eperm, EPERM},   {NbdErrno::eio, EIO},    {NbdErrno::enomem, ENOMEM},
                                             {NbdErrno::einval, EINVAL}, {NbdErrno::enospc, EIO}, {NbdErrno::eoverflow, EOVERFLOW}};
  NbdServer server;
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  AlignedBuffer a(kDeviceBlock);
  for (const auto& [said, heard] : errors) {
    SCOPED_TRACE(heard);
    server.on_command([said = said](const NbdCommand&) { return nbd_error(said); });
    EXPECT_EQ(code_of(device->read(ByteOffset{0}, a.bytes())), heard);
    EXPECT_EQ(code_of(device->write(ByteOffset{0}, a.bytes())), heard);
    EXPECT_EQ(code_of(device->flush()), heard);
    EXPECT_EQ(code_of(device->discard(ByteOffset{0}, ByteCount{kDeviceBlock})), heard);
  }
  server.on_command(nullptr);
  EXPECT_TRUE(device->write(ByteOffset{0}, a.bytes()));
  EXPECT_EQ(server.counts().connections, 1u);
}

TEST(NbdDevice, RefusesWhatIsNotAlignedOrPastTheEnd) {
  NbdServer server({.size = ByteCount{MiB}});
  const auto device = opened(options_for(server));
  ASSERT_TRUE(device);
  AlignedBuffer a(2 * kDeviceBlock);
  EXPECT_EQ(code_of(device->read(ByteOffset{1}, a.bytes())), EINVAL);
  EXPECT_EQ(code_of(device->read(ByteOffset{0}, a.bytes().first(100))), EINVAL);
  EXPECT_EQ(code_of(device->read(ByteOffset{MiB - kDeviceBlock}, a.bytes())), ENXIO);
  EXPECT_EQ(code_of(device->write(ByteOffset{MiB}, a.bytes())), ENXIO);
  EXPECT_EQ(code_of(device->write(ByteOffset{512}, a.bytes())), EINVAL);
  EXPECT_EQ(code_of(device->discard(ByteOffset{0}, ByteCount{MiB + kDeviceBlock})), ENXIO);
  EXPECT_EQ(server.counts().commands, 0u);
}

TEST(NbdDevice, DoesNotWriteWhereItMayNot) {
  NbdServer server({.flush = false, .read_only = true});
  EXPECT_EQ(error_of(options_for(server)), EROFS);
  server.change([](NbdServerOptions& options) { options.read_only = false; });
  for (int round = 0; round < 2; ++round) {
    const auto device = opened(options_for(server, Access::read_only));
    ASSERT_TRUE(device);
    AlignedBuffer a(kDeviceBlock);
    EXPECT_FALSE(device->writable());
    EXPECT_TRUE(device->read(ByteOffset{0}, a.bytes()));
    EXPECT_FALSE(device->write(ByteOffset{0}, a.bytes()));
    EXPECT_FALSE(device->discard(ByteOffset{0}, ByteCount{kDeviceBlock}));
    server.change([](NbdServerOptions& options) { options.read_only = true; });
  }
  EXPECT_EQ(server.counts().writes + server.counts().trims, 0u);
  EXPECT_EQ(server.counts().violations, 0u);
}

TEST(NbdDevice, WritesWithoutFlushesOnlyWhenTold) {
  NbdServer server({.flush = false});
  NbdOptions options = options_for(server);
  EXPECT_EQ(error_of(options), EOPNOTSUPP);
  options.without_flush = true;
  const auto device = opened(options);
  ASSERT_TRUE(device);
  const AlignedBuffer a = noise(5, ByteCount{kDeviceBlock});
  EXPECT_TRUE(device->write(ByteOffset{0}, a.bytes()));
  EXPECT_TRUE(device->flush());
  const auto reader = opened(options_for(server, Access::read_only));
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->flush());
  EXPECT_EQ(server.counts().flushes, 0u);
  EXPECT_EQ(server.counts().violations, 0u);
}

TEST(NbdDevice, RefusesServersWithLargerBlocks) {
  NbdServer server({.block_sizes = NbdBlockSizes{.minimum = 4096}});
  EXPECT_EQ(error_of(options_for(server)), 0);
  server.change([](NbdServerOptions& options) { options.block_sizes = NbdBlockSizes{.minimum = 8192, .preferred = 8192}; });
  EXPECT_EQ(error_of(options_for(server)), EINVAL);
}

// At once: patience is for connections that there were.
TEST(NbdDevice, SaysWhyThereIsNoConnection) {
  test::SteppedClock clock;  // stands still
  NbdServer server;
  NbdOptions options = options_for(server);
  options.clock = &clock;
  server.refuse();
  EXPECT_EQ(error_of(options), ECONNREFUSED);
  server.refuse(0);
  for (const NbdHandshake handshake : {NbdHandshake::garbage, NbdHandshake::cut, NbdHandshake::refusing}) {
    SCOPED_TRACE(static_cast<int>(handshake));
    server.change([&](NbdServerOptions& told) { told.handshake = handshake; });
    EXPECT_EQ(error_of(options), EPROTO);
  }
  server.change([](NbdServerOptions& told) { told.handshake = NbdHandshake::proper; });
  EXPECT_EQ(error_of(options), 0);
}

TEST(NbdDevice, WaitsForAHandshakeForALimitedTime) {
  test::SteppedClock clock;
  NbdServer server({.handshake = NbdHandshake::silent});
  NbdOptions options = options_for(server);
  options.clock = &clock;
  EXPECT_EQ(test::while_time_passes(clock, [&] { return error_of(options); }), ETIMEDOUT);
  EXPECT_EQ(server.counts().connections, 1u);
}

}  // namespace
}  // namespace lsmfs::nbd_device_test

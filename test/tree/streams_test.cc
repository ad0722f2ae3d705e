// Streams: what a file that is written in order has in blobs, and what becomes of that.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "clock.h"
#include "gate.h"
#include "lsmfs/device.h"
#include "seed.h"
#include "tree/harness.h"
#include "tree/held_store.h"
#include "tree/keys.h"
#include "tree/pass.h"
#include "tree/streams.h"

namespace lsmfs::test::streams_test {
namespace {

using namespace std::chrono_literals;

class Streams : public testing::Test {
 protected:
  explicit Streams(Clock& clock = system_clock()) : clock_(clock) {}

  static constexpr std::uint64_t kSize = GiB;
  static constexpr std::uint64_t kPiece = 128 * KiB;

  Tree& tree() { return h_.tree(); }
  // Does not compress, and is nowhere else; or not nearly, where it takes less time.
  std::string noise(std::uint64_t bytes) { return pool_.empty() ? new_noise(bytes) : pool_.substr(random_() % (pool_.size() - bytes), bytes); }
  void take_from_pool() { pool_ = new_noise(16 * MiB); }
  std::string new_noise(std::uint64_t bytes) {
    std::string out(bytes, '\0');
    for (std::size_t i = 0; i + 8 <= out.size(); i += 8) {
      const std::uint64_t value = random_();
      std::memcpy(out.data() + i, &value, 8);
    }
    return out;
  }
  int write(std::uint64_t offset, std::string_view data) {
    const int error = code(both_ways([&](Wait w) { return tree().write(ino_, ByteOffset{offset}, as_bytes(data), w); }));
    if (error == 0) {
      contents_.resize(std::max<std::size_t>(contents_.size(), offset + data.size()));
      contents_.replace(offset, data.size(), data);
    }
    return error;
  }
  void append(std::uint64_t bytes, std::uint64_t piece = kPiece) {
    for (std::uint64_t left = bytes; left > 0 && !HasFailure();) {
      const std::uint64_t n = std::min(left, piece);
      ASSERT_EQ(write(contents_.size(), noise(n)), 0) << "at " << contents_.size();
      left -= n;
    }
  }
  void begin(std::uint64_t bytes, std::uint64_t piece = kPiece) {
    ino_ = h_.make(kRootIno, "file", S_IFREG | 0644);
    append(bytes, piece);
  }
  void look_up_again() { ino_ = h_.walk("file"); }
  void expect_contents() {
    ASSERT_EQ(h_.attr(ino_).size, contents_.size());
    std::string got(MiB, '?');
    for (std::uint64_t at = 0; at < contents_.size(); at += got.size()) {
      const auto n = tree().read(ino_, ByteOffset{at}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes);
      ASSERT_TRUE(n) << n.error().message();
      ASSERT_TRUE(std::string_view(got).substr(0, *n) == std::string_view(contents_).substr(at, got.size())) << "from " << at << " on";
    }
  }
  std::uint64_t blocks() { return h_.attr(ino_).blocks / (kBlockSize / 512); }
  std::uint64_t rows() {
    EXPECT_TRUE(tree().sync());
    return h_.rows(Family::blocks);
  }
  std::uint64_t free() { return tree().space(Wait::yes)->free.v; }

  std::mt19937_64 random_{drawn_seed()};
  std::string pool_;
  Gate commits_{true};
  HeldStore* held_ = nullptr;  // of this mount
  Clock& clock_;
  Harness h_{ByteCount{kSize},
             {.sync_interval_ms = 0, .clock = &clock_},
             {.store = [this](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> {
               auto held = std::make_unique<HeldStore>(std::move(inner), commits_);
               held_ = held.get();
               return held;
             }}};
  Ino ino_;
  std::string contents_;
};

TEST_F(Streams, LieInBlobsButForTheirFirstMegabytes) {
  begin(40 * MiB + 5000);
  EXPECT_EQ(blocks(), contents_.size() / kBlockSize + 1);
  EXPECT_LE(rows(), 6 * MiB / kBlockSize);
  EXPECT_FALSE(h_.store().blobs().empty());
  expect_contents();
  h_.remount();
  look_up_again();
  EXPECT_EQ(blocks(), contents_.size() / kBlockSize + 1);
  expect_contents();
  EXPECT_EQ(h_.check(), "");
}

TEST_F(Streams, AreGoneWithTheirSpaceWhenTheyAreRemoved) {
  const std::uint64_t before = free();
  begin(64 * MiB);
  EXPECT_LT(free() + 60 * MiB, before);
  ASSERT_TRUE(tree().unlink(kRootIno, "file", Wait::yes));
  expect_contents();  // whoever has it open still reads it
  tree().forget(ino_, 1);
  EXPECT_GE(free() + MiB, before) << "at once";
  EXPECT_TRUE(h_.store().blobs().empty());
  EXPECT_EQ(h_.check(), "");
}

TEST_F(Streams, ThatWereOpenWithoutANameAtACrashAreGone) {
  begin(32 * MiB);
  ASSERT_TRUE(tree().unlink(kRootIno, "file", Wait::yes));
  ASSERT_TRUE(tree().sync());
  h_.crash();
  ASSERT_TRUE(tree().sync());
  EXPECT_TRUE(h_.store().blobs().empty());
  EXPECT_EQ(rows(), 0u);
  EXPECT_EQ(h_.check(), "");
}

TEST_F(Streams, ThatWereNotCommittedAtACrashAreGone) {
  begin(8 * MiB);
  ASSERT_TRUE(tree().sync());
  ASSERT_TRUE(h_.store().create_blob(1'000'000, ByteCount{MiB}));
  ASSERT_TRUE(h_.store().remove_blobs({}));  // makes what was created durable
  h_.crash();
  look_up_again();
  const auto blobs = h_.store().blobs();
  EXPECT_EQ(std::ranges::count(blobs, 1'000'000u), 0);
  EXPECT_FALSE(blobs.empty());
  expect_contents();
  ino_ = h_.make(kRootIno, "other", S_IFREG | 0644);
  EXPECT_GT(ino_.v, 1'000'000u) << "no number is given again";
}

// Whole blocks of them go to the blob, whatever the pieces are.
TEST_F(Streams, MayBeWrittenInPiecesOfAnySize) {
  begin(24 * MiB, 10'007);
  EXPECT_LE(rows(), 6 * MiB / kBlockSize);
  expect_contents();
  for (int i = 0; i < 50; ++i) {
    append(1 + random_() % 300'000, 1 + random_() % 50'000);
    if (i % 10 == 0) {
      ASSERT_TRUE(tree().sync());
    }
  }
  expect_contents();
  h_.remount();
  look_up_again();
  expect_contents();
  EXPECT_EQ(h_.check(), "");
}

// The kernel may pass several writes on at the same time.
TEST_F(Streams, MayComeOutOfOrderNowAndThen) {
  begin(8 * MiB);
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t end = contents_.size();
    ASSERT_EQ(write(end + kPiece, noise(kPiece)), 0);
    ASSERT_EQ(write(end, noise(kPiece)), 0);
    append(2 * MiB);
  }
  EXPECT_LE(h_.store().blobs().size(), 40u);
  EXPECT_EQ(blocks(), contents_.size() / kBlockSize);
  expect_contents();
  EXPECT_LE(rows(), (6 * MiB + 40 * kPiece) / kBlockSize);
  EXPECT_EQ(h_.check(), "");
}

TEST_F(Streams, GiveBackTheSpaceThatTheyKeepWhenTheyEnd) {
  begin(9 * MiB);
  const std::uint64_t while_open = free();
  tree().forget(ino_, 1);
  ASSERT_TRUE(tree().sync());
  ASSERT_TRUE(tree().sync());
  EXPECT_GT(free(), while_open);
  look_up_again();
  expect_contents();
}

TEST_F(Streams, EndWhenNothingIsWrittenAnyMore) {
  begin(9 * MiB);
  ASSERT_TRUE(tree().reconfigure({.read_only = true}));
  expect_contents();
  ASSERT_TRUE(tree().reconfigure({.read_only = false}));
  append(3 * MiB);
  expect_contents();
  EXPECT_EQ(h_.check(), "");
}

TEST_F(Streams, CanBeChangedAnywhereWhileTheyAreWritten) {
  begin(16 * MiB);
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    const std::uint64_t at = random_() % contents_.size();
    switch (random_() % 5) {
      case 0:
        ASSERT_EQ(write(at, noise(random_() % 20'000 + 1)), 0);
        break;
      case 1: {
        const std::uint64_t length = std::min<std::uint64_t>(random_() % 200'000 + 1, contents_.size() - at);
        const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        ASSERT_TRUE(both_ways([&](Wait w) { return tree().fallocate(ino_, mode, ByteOffset{at}, ByteCount{length}, w); }));
        contents_.replace(at, length, std::string(length, '\0'));
        break;
      }
      case 2: {
        const std::uint64_t size = contents_.size() - random_() % 100'000;
        ASSERT_TRUE(both_ways([&](Wait w) { return tree().setattr(ino_, {.size = size}, w); }));
        contents_.resize(size);
        break;
      }
      default:
        append(random_() % (2 * MiB) + 1);
    }
  }
  expect_contents();
  EXPECT_EQ(h_.check(), "");
  h_.crash();
  ASSERT_EQ(h_.check(), "");
}

// What is written over a part of a block is kept beside the blob.
class PatchedStreams : public Streams {
 protected:
  static constexpr std::uint64_t kBlock = 2500;  // of a blob

  void begin_and_settle() {
    begin(24 * MiB);
    ASSERT_TRUE(tree().sync());
    ASSERT_TRUE(tree().drop_caches());  // and it is a stream no more
    rows_before_ = rows();
  }
  // Reads nothing: who does not wait can do it.
  void patch(std::uint64_t at, std::string_view bytes) {
    ASSERT_EQ(code(tree().write(ino_, ByteOffset{at}, as_bytes(bytes), Wait::no)), 0) << "at " << at;
    contents_.replace(at, bytes.size(), bytes);
  }
  void expect_contents_everywhere() {
    expect_contents();
    ASSERT_EQ(h_.check(), "");
    h_.crash();
    look_up_again();
    expect_contents();
    ASSERT_EQ(h_.check(), "");
  }
  std::uint64_t patches() {
    EXPECT_TRUE(tree().sync());
    std::uint64_t found = 0;
    const auto cursor = h_.store().cursor(Family::names, {.lower = std::string(keys::kBlobPatchPrefix), .upper = keys::prefix_end(keys::kBlobPatchPrefix)});
    for (cursor->seek(""); cursor->valid(); cursor->next()) ++found;
    return found;
  }
  std::uint64_t rows_before_ = 0;
};

TEST_F(PatchedStreams, AreWrittenOverInPlacesWithoutALook) {
  begin_and_settle();
  const std::uint64_t first = 6 * MiB;
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t bytes = 1 + random_() % 100, at = first + random_() % (contents_.size() - first - bytes);
    ASSERT_NO_FATAL_FAILURE(patch(at, noise(bytes)));
  }
  EXPECT_GT(patches(), 400u);
  EXPECT_EQ(rows(), rows_before_);
  EXPECT_EQ(blocks(), contents_.size() / kBlockSize);
  expect_contents_everywhere();
}

TEST_F(PatchedStreams, KeepTheLatestOfWhatWasWrittenOverAPlace) {
  begin_and_settle();
  const std::uint64_t at = kBlock * kBlockSize;
  for (int i = 0; i < 150; ++i) {
    const std::uint64_t bytes = 1 + random_() % 60;
    ASSERT_EQ(write(at + random_() % (200 - bytes), noise(bytes)), 0);
    if (i % 50 == 0) expect_contents();
  }
  EXPECT_EQ(patches(), 1u);
  expect_contents_everywhere();
}

TEST_F(PatchedStreams, WriteTwoPartsAndWhatLiesBetween) {
  begin_and_settle();
  ASSERT_EQ(write(kBlock * kBlockSize - 7, noise(2 * kBlockSize + 20)), 0);
  EXPECT_EQ(patches(), 2u);
  EXPECT_EQ(rows(), rows_before_ + 2);
  expect_contents_everywhere();
}

TEST_F(PatchedStreams, LoseThePatchWithItsBlock) {
  begin_and_settle();
  const auto at = [](std::uint64_t block) { return block * kBlockSize; };
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_NO_FATAL_FAILURE(patch(at(kBlock + i) + 50, "patched"));
  EXPECT_EQ(patches(), 8u);
  ASSERT_EQ(write(at(kBlock), noise(kBlockSize)), 0);                       // written over
  ASSERT_EQ(write(at(kBlock + 1) + 100, noise(kBlockSize - 200)), 0);       // nearly
  EXPECT_EQ(patches(), 6u);
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  ASSERT_TRUE(tree().fallocate(ino_, mode, ByteOffset{at(kBlock + 2)}, ByteCount{kBlockSize + 52}, Wait::yes));  // one, and up to within another's
  contents_.replace(at(kBlock + 2), kBlockSize + 52, std::string(kBlockSize + 52, '\0'));
  EXPECT_EQ(patches(), 4u);
  expect_contents();
  ASSERT_TRUE(tree().setattr(ino_, {.size = at(kBlock + 5) + 53}, Wait::yes));  // cut within one
  contents_.resize(at(kBlock + 5) + 53);
  EXPECT_EQ(patches(), 1u);
  ASSERT_EQ(write(at(kBlock + 9), "far behind"), 0);
  expect_contents_everywhere();
  ASSERT_TRUE(tree().unlink(kRootIno, "file", Wait::yes));
  tree().forget(ino_, 1);
  EXPECT_EQ(patches(), 0u);
  EXPECT_EQ(h_.check(), "");
}

TEST_F(PatchedStreams, GetRowsWhereTheyAreWrittenOverAgainAndAgain) {
  begin_and_settle();
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(write(kBlock * kBlockSize + random_() % 4000, noise(4)), 0);
  EXPECT_EQ(patches(), 0u);
  EXPECT_EQ(rows(), rows_before_ + 1);
  expect_contents_everywhere();
}

TEST_F(PatchedStreams, AreFoundUnderAnyName) {
  begin_and_settle();
  ASSERT_NO_FATAL_FAILURE(patch(kBlock * kBlockSize + 50, "patched"));
  const Ino folder = h_.make(kRootIno, "folder", S_IFDIR | 0755);
  ASSERT_TRUE(tree().rename(kRootIno, "file", folder, "other", 0, Wait::yes));
  ASSERT_NO_FATAL_FAILURE(patch(kBlock * kBlockSize + 60, "again"));
  ASSERT_TRUE(tree().rename(folder, "other", kRootIno, "file", 0, Wait::yes));
  expect_contents_everywhere();
}

// A reader that looked up where the block lies sees no older state when it gets a row meanwhile.
TEST_F(PatchedStreams, AreReadAsTheyWereWhileBlocksGetRows) {
  begin_and_settle();
  std::atomic<std::uint64_t> patched{0};
  const std::uint64_t at = kBlock * kBlockSize;
  constexpr std::uint64_t kBlocks = 300;
  contents_.replace(at, kBlocks * kBlockSize, std::string(kBlocks * kBlockSize, '0'));
  std::atomic<bool> done{false};
  ASSERT_EQ(write(at, std::string(kBlocks * kBlockSize, '0')), 0);
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    while (!done) {
      const std::uint64_t known = patched;
      std::string got(kBlocks * kBlockSize, '?');
      if (!tree().read(ino_, ByteOffset{at}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes)) ++wrong;
      for (std::uint64_t i = 0; i < known; ++i) wrong += got[i * kBlockSize] < '1';
    }
  });
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    EXPECT_EQ(write(at + i * kBlockSize, "1"), 0);
    patched = i + 1;
    EXPECT_EQ(write(at + i * kBlockSize, std::string(kBlockSize, '2')), 0);
  }
  done = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(PatchedStreams, AreCheckedAndMended) {
  begin_and_settle();
  ASSERT_NO_FATAL_FAILURE(patch(kBlock * kBlockSize + 50, "patched"));
  ASSERT_NO_FATAL_FAILURE(patch((kBlock + 1) * kBlockSize + 50, "patched"));
  ASSERT_TRUE(tree().sync());
  const auto put = [&](const std::string& key, std::string_view value) {
    Batch batch;
    batch.put(Family::names, key, value);
    EXPECT_TRUE(h_.store().commit(batch));
  };
  const auto expect_said = [&](const std::string& key, std::string_view value, const std::string& what) {
    put(key, value);
    EXPECT_NE(h_.check().find(what), std::string::npos) << h_.check();
    EXPECT_NE(h_.repair(), "");
    look_up_again();
    EXPECT_EQ(h_.check(), "");
    EXPECT_EQ(patches(), 2u);
    expect_contents();
  };
  const std::string sound("x\x01", 2);
  expect_said(keys::blob_patch(ino_, BlockIndex{3}), sound, "lies in no blob that has any");  // it has a row
  expect_said(keys::blob_patch(Ino{ino_.v + 1}, BlockIndex{3}), sound, "lies in no blob that has any");
  expect_said(std::string(keys::kBlobPatchPrefix) + "x", sound, "malformed key");
  put(keys::blob_patch(ino_, BlockIndex{kBlock}), std::string("x\x02", 2));
  const std::string said = h_.check();
  EXPECT_NE(said.find(fmt::format("the patch of the block at byte {} is damaged", kBlock * kBlockSize)), std::string::npos) << said;
  std::string got(10, '?');
  EXPECT_EQ(code(tree().read(ino_, ByteOffset{kBlock * kBlockSize}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes)), EUCLEAN);
  h_.repair();
  look_up_again();
  contents_.replace(kBlock * kBlockSize, kBlockSize, std::string(kBlockSize, '\0'));
  EXPECT_EQ(patches(), 1u);
  expect_contents();
  EXPECT_EQ(h_.check(), "");
}

// What nobody wants any more of their blobs takes space; when it becomes short, all else of them becomes rows.
TEST_F(Streams, CanBeWrittenOverOnAFullDisk) {
  take_from_pool();
  begin(free() / kPiece * kPiece * 3 / 4);
  const Ino large = std::exchange(ino_, h_.make(kRootIno, "rest", S_IFREG | 0644));
  std::string other;
  other.swap(contents_);
  while (write(contents_.size(), noise(kPiece)) == 0) {}
  while (write(contents_.size(), noise(kBlockSize)) == 0) {}
  ino_ = large;
  other.swap(contents_);
  const std::uint64_t before = blocks();
  for (std::uint64_t written = 0; written < contents_.size() / 2 && !HasFailure();) {
    const std::uint64_t at = random_() % (contents_.size() / 65536) * 65536;
    ASSERT_EQ(write(at, noise(65536)), 0) << "after " << written / MiB << " MiB";
    written += 65536;
  }
  EXPECT_EQ(blocks(), before);
  expect_contents();
  ASSERT_TRUE(tree().sync());
  ASSERT_EQ(h_.check(), "");
  look_up_again();
}

// df goes by what is live: writing over a file on a volume that is half empty takes next to nothing.
TEST_F(Streams, TakeLittleMoreWhenTheyAreWrittenOver) {
  take_from_pool();
  begin(free() / 2 / kPiece * kPiece);
  ASSERT_TRUE(tree().sync());
  const std::uint64_t before = free();
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(write(random_() % (contents_.size() / 65536) * 65536, noise(65536)), 0);
  EXPECT_GE(free() + before / 8, before);
  expect_contents();
}

// What was acknowledged can be read as long as it is mounted.
TEST_F(Streams, CanBeReadAfterACommitHasFailed) {
  begin(12 * MiB);
  ASSERT_TRUE(tree().sync());
  append(MiB / 2);
  held_->release(EIO);
  EXPECT_FALSE(tree().sync());
  EXPECT_EQ(write(contents_.size(), "x"), EROFS);
  expect_contents();
}

TEST_F(Streams, CanBeReadWhenWhatIsOpenCannotBeCommitted) {
  begin(12 * MiB);
  ASSERT_TRUE(tree().sync());
  commits_.shut();
  append(MiB + MiB / 2);
  held_->release(EIO);
  EXPECT_FALSE(tree().sync());
  expect_contents();
}

TEST_F(Streams, WaitForTheDeviceAndNobodyElseDoes) {
  begin(4 * MiB + kPiece);  // the last of it is in a blob, with room for more
  ASSERT_TRUE(tree().sync());
  commits_.shut();
  std::uint64_t written = 0;
  std::string piece = noise(kPiece);
  for (int refused = 0; refused < 10'000;) {  // a few may only mean that the tree's mutex is taken
    const int error = code(tree().write(ino_, ByteOffset{contents_.size()}, as_bytes(piece), Wait::no));
    ASSERT_TRUE(error == 0 || error == EAGAIN) << error;
    if (error == 0) contents_ += piece, written += kPiece, piece = noise(kPiece);
    refused = error == 0 ? 0 : refused + 1;
    if (error != 0) std::this_thread::yield();
  }
  EXPECT_LE(written, 3 * MiB);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().make(kRootIno, fmt::format("another {}", i), {.mode = S_IFREG | 0644}, w); })), 0);
  }
  commits_.open();
  append(8 * MiB);
  expect_contents();
}

struct HasClock {
  SteppedClock stepped;
};
class StreamsInTime : private HasClock, public Streams {
 protected:
  StreamsInTime() : Streams(stepped) {}
  void TearDown() override { commits_.open(); }
  void pass(Clock::Duration time, std::size_t threads = kTreeThreads) { test::pass(stepped, time, threads); }
  void advance(Clock::Duration time) { stepped.advance(time); }
};

TEST_F(StreamsInTime, EndWhenNothingComesForAWhile) {
  begin(9 * MiB);
  ASSERT_TRUE(tree().sync());
  const std::uint64_t while_open = free();
  pass(1s);
  ASSERT_TRUE(tree().sync());
  EXPECT_EQ(free(), while_open);
  pass(10s);
  ASSERT_TRUE(tree().sync());
  EXPECT_GT(free(), while_open);
}

// Whoever finds no room in that moment waits for it.
TEST_F(StreamsInTime, GiveRoomAlsoWhileTheirRemovalIsCommitted) {
  begin(8 * MiB);
  ASSERT_TRUE(tree().sync());
  ASSERT_TRUE(tree().unlink(kRootIno, "file", Wait::yes));
  tree().forget(ino_, 1);
  advance(2s);  // that it was forgotten a moment ago is no reason any more
  commits_.shut();
  std::thread syncing([&] { EXPECT_TRUE(tree().sync()); });
  EXPECT_TRUE(held_->await_waiting());
  std::uint64_t seen = 0;
  EXPECT_TRUE(tree().room_comes(Wait::no, seen));
  commits_.open();
  syncing.join();
  EXPECT_FALSE(tree().room_comes(Wait::no, seen));
}

TEST_F(StreamsInTime, GoOnAfterTheyHaveWaitedForTheDevice) {
  begin(9 * MiB);
  const std::uint64_t before = rows();
  commits_.shut();
  append(MiB + kPiece);  // a group is passed on
  ASSERT_TRUE(held_->await_waiting());
  for (int i = 0; i < 3; ++i) pass(10s, kTreeThreads - 1);
  commits_.open();
  ASSERT_TRUE(tree().sync());
  pass(1s);
  append(MiB);
  EXPECT_LT(rows(), before + 16);
  expect_contents();
}

TEST_F(StreamsInTime, GiveWayToOthersThoughNotForLong) {
  begin(8 * MiB + 4 * kPiece);  // its blob has room for all that comes
  auto others = [&, number = 0]() mutable { h_.make(kRootIno, fmt::format("another {}", ++number), S_IFREG | 0644); };
  const auto commit_a_group = [&] {  // with blocks of the stream, in a millisecond
    held_->on_commit = [&] { advance(1ms); };
    append(kPiece);
    ASSERT_TRUE(tree().sync());
    held_->on_commit = [] {};
  };
  const auto waits = [&] {
    for (int i = 0; i < 100; ++i) {  // EAGAIN may also mean that the tree's mutex is taken
      if (code(tree().write(ino_, ByteOffset{contents_.size()}, as_bytes(noise(kPiece)), Wait::no)) != EAGAIN) return false;
    }
    return true;
  };
  const auto goes_on = [&] {
    const std::string piece = noise(kPiece);
    const int error = code(at_once([&](Wait w) { return tree().write(ino_, ByteOffset{contents_.size()}, as_bytes(piece), w); }));
    if (error == 0) contents_ += piece;
    return error == 0;
  };
  ASSERT_TRUE(tree().sync());
  advance(GiveWay::kMost);

  commit_a_group();
  EXPECT_TRUE(goes_on()) << "nobody else is at work";
  commit_a_group();
  others();
  EXPECT_TRUE(waits());
  advance(GiveWay::kQuiet - 1ms);
  EXPECT_TRUE(waits());
  advance(1ms);
  EXPECT_TRUE(goes_on()) << "they are at work no more";
  commit_a_group();
  for (int i = 0; i < GiveWay::kTimes; ++i) {
    others();
    EXPECT_TRUE(waits()) << i;
    advance(1ms);
  }
  others();
  EXPECT_TRUE(goes_on()) << "they are at work still";
  expect_contents();
}

TEST(GiveWay, IsForOthersAlone) {
  constexpr Ino kStream{7}, kOther{8};
  constexpr Clock::Time kBegin{1h}, kEnd = kBegin + 1ms;
  const auto waits = [&](GiveWay& way) {
    way.committed(kBegin, kEnd);
    return way.due(kStream, kEnd) > kEnd;
  };
  GiveWay way;
  EXPECT_FALSE(waits(way));
  way.others_changed(kStream, kEnd);
  EXPECT_FALSE(waits(way)) << "it was no stream yet";
  way.others_changed(kOther, kEnd);
  EXPECT_TRUE(waits(way));
  way = {};
  EXPECT_FALSE(way.sync_began()) << "of what the stream itself has written";
  way.others_changed(kOther, kBegin);
  ASSERT_TRUE(way.sync_began());
  way.committed(kBegin, kBegin + 1s);
  EXPECT_EQ(way.due(kStream, kBegin + 1s), kBegin + 1s + GiveWay::kQuiet) << "the sync is under way";
  EXPECT_EQ(way.due(kStream, kBegin + 1s + GiveWay::kMost), kBegin + 1s + GiveWay::kMost) << "for too long";
  EXPECT_FALSE(way.sync_began());
  way.others_sync_ended(kEnd);
  EXPECT_TRUE(waits(way));
  EXPECT_LE(way.due(kStream, kEnd + GiveWay::kQuiet), kEnd + GiveWay::kQuiet);
}

TEST_F(Streams, KeepAHoleThatIsPunchedOnceMoreWhereNoRowIsLeft) {
  begin(24 * MiB);
  ASSERT_TRUE(tree().sync());
  const auto punch = [&](std::uint64_t at, std::uint64_t length) {
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    ASSERT_TRUE(both_ways([&](Wait w) { return tree().fallocate(ino_, mode, ByteOffset{at}, ByteCount{length}, w); }));
    contents_.replace(at, length, std::string(length, '\0'));
  };
  ASSERT_NO_FATAL_FAILURE(punch(0, 8 * MiB));
  EXPECT_EQ(rows(), 0u) << "the rest lies in blobs";
  ASSERT_NO_FATAL_FAILURE(punch(100, 50));
  ASSERT_NO_FATAL_FAILURE(punch(5 * kBlockSize + 100, 3 * kBlockSize));
  EXPECT_EQ(rows(), 0u);
  expect_contents();
  EXPECT_EQ(h_.check(), "");
}

// Streams that begin early, so that small files have some of their blocks in blobs.
class SmallStreams : public testing::Test {
 protected:
  Harness h_{ByteCount{GiB}, {.sync_interval_ms = 0, .stream_from = ByteCount{16 * KiB}}};
};

// A rename makes rows of the open group of what such a file has in rows, but not of the rest.
TEST_F(SmallStreams, AreCountedWhenTheyAreRenamedAndCutInOneGroup) {
  const Ino ino = h_.make(kRootIno, "file", S_IFREG | 0644);
  std::string contents;
  for (char byte = 'a'; contents.size() < 160 * KiB; byte = byte == 'z' ? 'a' : static_cast<char>(byte + 1)) {
    const std::string piece(8 * KiB, byte);
    ASSERT_TRUE(h_.tree().write(ino, ByteOffset{contents.size()}, as_bytes(piece), Wait::yes));
    contents += piece;
    if (contents.size() == 16 * KiB) {
      ASSERT_TRUE(h_.tree().sync());  // a new file is no stream
    }
  }
  ASSERT_TRUE(h_.tree().sync());
  ASSERT_FALSE(h_.store().blobs().empty());
  ASSERT_LT(h_.rows(Family::blocks), contents.size() / kBlockSize);
  const Ino folder = h_.make(kRootIno, "folder", S_IFDIR | 0755);
  ASSERT_TRUE(h_.tree().rename(kRootIno, "file", folder, "other", 0, Wait::yes));
  contents.resize(100 * KiB + 100);
  ASSERT_TRUE(h_.tree().setattr(ino, {.size = contents.size()}, Wait::yes));
  EXPECT_EQ(h_.attr(ino).blocks, (contents.size() / kBlockSize + 1) * (kBlockSize / 512));
  ASSERT_TRUE(h_.tree().sync());
  EXPECT_EQ(h_.check(), "");
  std::string got(contents.size(), '?');
  EXPECT_TRUE(h_.tree().read(ino, ByteOffset{0}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes));
  EXPECT_TRUE(got == contents);
}

TEST_F(Streams, HaveHolesLikeOtherFiles) {
  begin(16 * MiB);
  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  ASSERT_TRUE(both_ways([&](Wait w) { return tree().fallocate(ino_, punch, ByteOffset{8 * MiB}, ByteCount{MiB}, w); }));
  contents_.replace(8 * MiB, MiB, std::string(MiB, '\0'));
  EXPECT_EQ(blocks(), 15 * MiB / kBlockSize);
  const auto seek = [&](std::uint64_t from, int whence) { return both_ways([&](Wait w) { return tree().seek(ino_, ByteOffset{from}, whence, w); }); };
  EXPECT_EQ(seek(0, SEEK_HOLE)->v, 8 * MiB);
  EXPECT_EQ(seek(8 * MiB, SEEK_DATA)->v, 9 * MiB);
  EXPECT_EQ(seek(8 * MiB + 5, SEEK_HOLE)->v, 8 * MiB + 5);
  EXPECT_EQ(seek(9 * MiB + 5, SEEK_DATA)->v, 9 * MiB + 5);
  EXPECT_EQ(seek(9 * MiB, SEEK_HOLE)->v, 16 * MiB);
  expect_contents();
}

class DamagedStreams : public Streams {
 protected:
  static constexpr std::uint64_t kBlock = 9 * MiB / kBlockSize + 5;  // whose bytes are damaged on the device

  DamagedStreams() {
    begin(16 * MiB);
    EXPECT_TRUE(tree().drop_caches());
    flip(kBlock);
  }
  void flip(std::uint64_t block) {
    const std::string_view bytes = std::string_view(contents_).substr(block * kBlockSize + 100, 64);
    AlignedBuffer piece(MiB);
    bool found = false;
    for (std::uint64_t at = 0; at < h_.device().size().v; at += piece.size()) {
      ASSERT_TRUE(h_.device().read(ByteOffset{at}, piece.bytes()));
      const auto place = as_text(piece.bytes()).find(bytes);
      if (place == std::string_view::npos) continue;
      piece.bytes()[place] ^= std::byte{1};
      ASSERT_TRUE(h_.device().write(ByteOffset{at}, piece.bytes()));
      found = true;
    }
    ASSERT_TRUE(found);
  }
  int read(std::uint64_t block, std::uint64_t count) {
    std::string got(count * kBlockSize, '?');
    return code(tree().read(ino_, ByteOffset{block * kBlockSize}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes));
  }
  std::vector<std::string> scrub() {
    std::vector<std::string> damage;
    for (ScrubPosition position; !position.done();) {
      const auto step = tree().scrub(position, [] { return false; });
      EXPECT_TRUE(step) << step.error().message();
      if (!step) break;
      damage.insert(damage.end(), step->damage.begin(), step->damage.end());
    }
    return damage;
  }
  std::string repair() { return h_.repair(); }
};

TEST_F(DamagedStreams, CostTheBlocksThatAreDamagedUntilTheyAreWritten) {
  EXPECT_EQ(read(kBlock, 1), EUCLEAN);
  EXPECT_EQ(read(kBlock - 10, 20), EUCLEAN);
  EXPECT_EQ(read(kBlock - 1, 1), 0);
  EXPECT_EQ(read(kBlock + 1, 1), 0);
  ASSERT_EQ(scrub().size(), 1u);
  EXPECT_NE(scrub()[0].find(fmt::format("bytes {} to {} of inode {}", kBlock * kBlockSize, (kBlock + 1) * kBlockSize, ino_.v)), std::string::npos);
  EXPECT_NE(h_.check(), "");
  EXPECT_EQ(write(kBlock * kBlockSize + 10, noise(1000)), EUCLEAN) << "the rest of it has to be read";
  EXPECT_EQ(code(tree().write(ino_, ByteOffset{kBlock * kBlockSize + 10}, as_bytes("part"), Wait::yes)), 0) << "nothing is read";
  EXPECT_EQ(read(kBlock, 1), EUCLEAN) << "the rest of it is still damaged";
  EXPECT_EQ(write(kBlock * kBlockSize, noise(kBlockSize)), 0);
  ASSERT_TRUE(tree().sync());
  expect_contents();
  EXPECT_EQ(scrub(), std::vector<std::string>{});
  EXPECT_EQ(h_.check(), "");
}

TEST_F(DamagedStreams, AreZerosThereAfterARepair) {
  const std::string said = repair();
  EXPECT_NE(said.find(fmt::format("1 of its {} blocks", contents_.size() / kBlockSize)), std::string::npos) << said;
  contents_.replace(kBlock * kBlockSize, kBlockSize, std::string(kBlockSize, '\0'));
  look_up_again();
  expect_contents();
  EXPECT_EQ(h_.check(), "");
}

TEST_F(DamagedStreams, KeepWhatTheyHoldWhenTheirRecordIsLost) {
  Batch batch;
  batch.erase(Family::names, keys::entry("", "file"));
  ASSERT_TRUE(h_.store().commit(batch));
  repair();
  contents_.replace(kBlock * kBlockSize, kBlockSize, std::string(kBlockSize, '\0'));
  ino_ = h_.walk(fmt::format("lost+found/#{}", ino_.v));
  ASSERT_NE(ino_.v, 0u);
  expect_contents();
}

TEST_F(DamagedStreams, CannotBeReadWhereABlobIsMissing) {
  ASSERT_TRUE(h_.store().remove_blobs(h_.store().blobs()));
  h_.crash();
  look_up_again();
  EXPECT_EQ(read(kBlock, 1), EUCLEAN);
  EXPECT_EQ(write(kBlock * kBlockSize + 1, noise(1000)), EUCLEAN);
  EXPECT_EQ(read(0, 1), 0);
  EXPECT_NE(h_.check(), "");
  repair();
  look_up_again();
  EXPECT_EQ(read(kBlock, 1), 0);
  EXPECT_EQ(h_.check(), "");
}

TEST_F(DamagedStreams, LoseABlobWhoseRowIsDamaged) {
  Batch batch;
  {
    const auto rows = h_.store().cursor(Family::names, {.lower = keys::blobs_begin(ino_), .upper = keys::blobs_end(ino_)});
    rows->seek("");
    ASSERT_TRUE(rows->valid());
    batch.put(Family::names, rows->key(), "nonsense");
  }
  ASSERT_TRUE(h_.store().commit(batch));
  h_.crash();
  look_up_again();
  EXPECT_EQ(read(kBlock, 1), EUCLEAN);
  EXPECT_NE(h_.check(), "");
  repair();
  look_up_again();
  EXPECT_EQ(read(kBlock, 1), 0);
  ASSERT_TRUE(tree().unlink(kRootIno, "file", Wait::yes));
  tree().forget(ino_, 1);
  ASSERT_TRUE(tree().sync());
  EXPECT_EQ(h_.check(), "");
  EXPECT_TRUE(h_.store().blobs().empty());
}

}  // namespace
}  // namespace lsmfs::test::streams_test

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/planted.h"
#include "kv/blob.h"
#include "kv/blob_index.h"
#include "kv/support.h"
#include "seed.h"
#include "volume/volume_decorator.h"

namespace lsmfs::blob_test {
namespace {

using kv::BlobIndex;
using kv_test::expect_ok;
using kv_test::Machine;
using kv_test::random_bytes;

// Blocks of which some compress.
std::string mixed(std::mt19937_64& random, std::size_t blocks) {
  std::string data;
  while (data.size() < blocks * kBlobBlock) {
    const std::size_t run = std::min<std::size_t>((1 + random() % 80) * kBlobBlock, blocks * kBlobBlock - data.size());
    data += random() % 2 ? random_bytes(random, run) : std::string(run, static_cast<char>('a' + random() % 26));
  }
  return data;
}

std::string read(const BlobReader& blob, std::uint64_t block, std::size_t blocks) {
  AlignedBuffer to(blocks * kBlobBlock);
  expect_ok(blob.read(block, to.bytes()));
  return std::string(as_text(to.bytes()));
}

std::unique_ptr<BlobWriter> create(Store& store, std::uint64_t number, std::uint64_t data) {
  auto writer = store.create_blob(number, ByteCount{data});
  EXPECT_TRUE(writer) << writer.error().message();
  return writer ? std::move(*writer) : nullptr;
}

std::unique_ptr<BlobReader> open(Store& store, std::uint64_t number, const BlobEnd& end) {
  auto reader = store.open_blob(number, end);
  EXPECT_TRUE(reader) << reader.error().message();
  return reader ? std::move(*reader) : nullptr;
}

BlobEnd end_of(BlobWriter& writer) {
  const auto end = writer.precede_commits();
  EXPECT_TRUE(end) << end.error().message();
  return end ? *end : BlobEnd{};
}

TEST(Blob, GivesWhatWasAppendedAsOfEachMoment) {
  std::mt19937_64 random(test::drawn_seed());
  Machine m = Machine::fresh();
  std::string data;
  std::vector<BlobEnd> ends;
  {
    const auto writer = create(*m.store, 7, 24 * MiB);
    while (const std::uint64_t room = writer->room()) {
      const std::string more = mixed(random, std::min<std::uint64_t>(room, 1 + random() % 600));
      expect_ok(writer->append(as_bytes(more)));
      data += more;
      if (random() % 3 == 0) ends.push_back(end_of(*writer));
      ASSERT_LE(data.size(), 256 * MiB);  // what compresses leaves room for more
      if (data.size() > 20 * MiB && random() % 4 == 0) break;
    }
    ends.push_back(end_of(*writer));
    EXPECT_EQ(ends.back().blocks, data.size() / kBlobBlock);
    EXPECT_EQ(end_of(*writer), ends.back()) << "nothing was added";
  }
  const auto check = [&] {
    for (const BlobEnd& end : ends) {
      const auto blob = open(*m.store, 7, end);
      ASSERT_TRUE(blob);
      ASSERT_EQ(blob->blocks(), end.blocks);
      EXPECT_GE(blob->memory(), 4 * end.blocks / 32);  // a checksum for each piece that is compressed
      EXPECT_LE(blob->memory(), 4096 + 40 * end.blocks) << "no more than for a piece and a checksum of each block";
      for (int i = 0; i < 20; ++i) {
        const std::uint64_t block = random() % end.blocks, n = 1 + random() % std::min<std::uint64_t>(end.blocks - block, 300);
        ASSERT_TRUE(read(*blob, block, n) == data.substr(block * kBlobBlock, n * kBlobBlock)) << block << ", " << n;
      }
      // To memory that is not aligned.
      std::string to(kBlobBlock + 1, '\0');
      expect_ok(blob->read(0, MutableBytes(reinterpret_cast<std::byte*>(to.data()) + 1, kBlobBlock)));
      EXPECT_TRUE(std::string_view(to).substr(1) == std::string_view(data).substr(0, kBlobBlock));
      EXPECT_EQ(blob->read(end.blocks, MutableBytes(reinterpret_cast<std::byte*>(to.data()), kBlobBlock)).error().code, EINVAL);
    }
  };
  check();
  expect_ok(m.store->sync());
  Batch batch;
  batch.put(Family::names, "the", "row");
  expect_ok(m.store->commit(batch));
  expect_ok(m.store->sync());
  m.stop();
  m.start();
  check();
}

TEST(Blob, TakesItsSpaceFirstAndGivesTheRestBack) {
  std::mt19937_64 random(test::drawn_seed());
  Machine m = Machine::fresh();
  const auto free = [&] { return m.volume->usage().table_free.v; };
  const std::uint64_t before = free();
  const auto too_large = m.store->create_blob(1, ByteCount{before + MiB});
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code, ENOSPC);
  EXPECT_EQ(free(), before);
  EXPECT_TRUE(m.store->blobs().empty());

  auto writer = create(*m.store, 2, 16 * MiB);
  EXPECT_LE(free(), before - 16 * MiB);
  EXPECT_GE(writer->room(), 16 * MiB / kBlobBlock);
  const std::string data = random_bytes(random, 3 * MiB);
  expect_ok(writer->append(as_bytes(data)));
  const BlobEnd end = end_of(*writer);
  writer.reset();
  EXPECT_GE(free(), before - 4 * MiB);
  EXPECT_EQ(m.store->blobs(), std::vector<std::uint64_t>{2});

  const auto blob = open(*m.store, 2, end);
  expect_ok(m.store->remove_blobs({2}));
  expect_ok(m.store->remove_blobs({2}));  // it is not there any more
  EXPECT_EQ(m.store->open_blob(2, end).error().code, ENOENT);
  expect_ok(m.volume->commit());
  EXPECT_TRUE(read(*blob, 100, 50) == data.substr(100 * kBlobBlock, 50 * kBlobBlock)) << "removed while it is open";
}

TEST(Blob, ItsSpaceIsBackOnceItIsRemoved) {
  Machine m = Machine::fresh();
  const std::uint64_t before = m.volume->usage().table_free.v;
  {
    const auto writer = create(*m.store, 2, 16 * MiB);
    expect_ok(writer->append(as_bytes(std::string(MiB, 'x'))));
    (void)end_of(*writer);
  }
  expect_ok(m.volume->commit());
  expect_ok(m.store->remove_blobs({2}));
  expect_ok(m.volume->commit());
  EXPECT_EQ(m.volume->usage().table_free.v, before);
}

TEST(Blob, ItsRoomIsEnoughWhateverTheData) {
  std::mt19937_64 random(test::drawn_seed());
  Machine m = Machine::fresh();
  for (std::uint64_t number = 1; number <= 20; ++number) {
    const std::uint64_t data = (1 + random() % 512) * kBlobBlock;
    const auto writer = create(*m.store, number, data);
    ASSERT_GE(writer->room(), data / kBlobBlock);
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t room = writer->room();
      if (room == 0) break;
      expect_ok(writer->append(as_bytes(mixed(random, 1 + random() % std::min<std::uint64_t>(room, 40)))));
      if (random() % 2 == 0) (void)end_of(*writer);
    }
    const BlobEnd end = end_of(*writer);
    EXPECT_EQ(open(*m.store, number, end)->blocks(), end.blocks);
  }
  expect_ok(m.store->sync());
}

// Each byte of the device under a blob.
TEST(Blob, DamageIsSaidAndCostsOnlyWhatItIsIn) {
  std::mt19937_64 random(test::drawn_seed());
  Machine m = Machine::fresh();
  const std::string data = random_bytes(random, 64 * kBlobBlock) + std::string(64 * kBlobBlock, 'x') + random_bytes(random, 8 * kBlobBlock);
  const auto writer = create(*m.store, 9, 8 * MiB);
  expect_ok(writer->append(as_bytes(data)));
  const BlobEnd end = end_of(*writer);
  expect_ok(m.volume->commit());
  const std::uint64_t place = kv_test::place_of(*m.disk, *m.volume, kv::blob_name(9));
  const std::uint64_t size = (*m.volume->open_reader(kv::blob_name(9)))->size().v;
  std::uint64_t lost = 0, unopened = 0;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t at = place + (i % 3 == 0 ? end.bytes - 1 - random() % kBlobBlock : random() % size);
    m.disk->flip(at);
    if (auto blob = m.store->open_blob(9, end)) {
      std::uint64_t bad = 0;
      for (std::uint64_t block = 0; block < end.blocks; ++block) {
        AlignedBuffer to(kBlobBlock);
        const auto got = (*blob)->read(block, to.bytes());
        if (!got) {
          ASSERT_EQ(got.error().code, EUCLEAN) << got.error().message();
          ++bad;
        } else {
          ASSERT_TRUE(as_text(to.bytes()) == std::string_view(data).substr(block * kBlobBlock, kBlobBlock)) << block;
        }
      }
      EXPECT_LE(bad, kv::kBlobPieceBlocks);
      lost += bad > 0;
    } else {
      EXPECT_EQ(blob.error().code, EUCLEAN);
      ++unopened;
    }
    m.disk->flip(at);
  }
  EXPECT_GT(lost, 100u);
  EXPECT_GT(unopened, 0u);
  // Another blob's number, or a place that is none.
  EXPECT_FALSE(m.store->open_blob(9, {end.blocks + 1, end.bytes}));
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, end.bytes - kBlobBlock, end.bytes + kBlobBlock, UINT64_MAX}) {
    EXPECT_FALSE(m.store->open_blob(9, {end.blocks, bytes})) << bytes;
  }
  EXPECT_FALSE(m.store->open_blob(8, end));
}

TEST(Blob, AFailedWriteStopsTheStore) {
  Machine m = Machine::fresh();
  std::mt19937_64 random(test::drawn_seed());
  const auto writer = create(*m.store, 3, 8 * MiB);
  m.disk->fail_writes_from = 1;
  Result<void> appended;
  for (int i = 0; i < 4 && appended; ++i) appended = writer->append(as_bytes(random_bytes(random, MiB)));
  const auto end = writer->precede_commits();
  EXPECT_FALSE(appended && end);
  Batch batch;
  batch.put(Family::names, "a", "row");
  EXPECT_FALSE(m.store->commit(batch) && m.store->sync());
  EXPECT_FALSE(m.store->create_blob(4, ByteCount{MiB}));
}

TEST(Blob, ItsNamesAreItsOwn) {
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xdeadbeef}, UINT64_MAX}) {
    EXPECT_EQ(kv::blob_number(kv::blob_name(number)), number);
  }
  for (const char* other : {"", "blob-", "blob-x", "blob-01", "blob-A", "blob-1 ", "blob-10000000000000000", "000007.sst", "CURRENT"}) {
    EXPECT_EQ(kv::blob_number(other), std::nullopt) << other;
  }
}

TEST(BlobIndex, IsReadAsItWasWrittenAndNotOtherwise) {
  std::mt19937_64 random(test::drawn_seed());
  BlobIndex index;
  index.add({.first = 5, .blocks = 3, .at = 0}, {1, 2, 3});
  index.add({.first = 8, .blocks = 32, .stored = 1000, .at = 3 * kBlobBlock}, {4});
  const std::string encoded = index.encode(1, 4096, {77, 88});
  EXPECT_EQ(encoded.size(), BlobIndex::encoded_size(2, 4));
  const auto decoded = BlobIndex::decode(encoded, 1, 4096);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->index.first(), 5u);
  EXPECT_EQ(decoded->index.end(), 40u);
  EXPECT_EQ(decoded->index.sums, index.sums);
  EXPECT_EQ(decoded->before.at, 77u);
  EXPECT_EQ(decoded->before.size, 88u);
  EXPECT_EQ(decoded->index.piece_of(8).stored, 1000u);
  EXPECT_EQ(decoded->index.piece_of(7).first, 5u);
  EXPECT_FALSE(BlobIndex::decode(encoded, 2, 4096));
  EXPECT_FALSE(BlobIndex::decode(encoded, 1, 8192));
  for (std::size_t i = 0; i < encoded.size() * 8; ++i) {
    std::string other = encoded;
    other[i / 8] = static_cast<char>(other[i / 8] ^ 1 << i % 8);
    EXPECT_FALSE(BlobIndex::decode(other, 1, 4096)) << i;
  }
  for (std::size_t n = 0; n < encoded.size(); ++n) EXPECT_FALSE(BlobIndex::decode(std::string_view(encoded).substr(0, n), 1, 4096));
}

TEST(BlobFooter, IsReadAsItWasWrittenAndNotOtherwise) {
  const BlobIndex::Place last{4096, 100};
  const std::string footer = kv::blob_footer(last, 1, 8192);
  EXPECT_EQ(kv::read_blob_footer(footer, 1, 8192), last);
  EXPECT_FALSE(kv::read_blob_footer(footer, 2, 8192));
  EXPECT_FALSE(kv::read_blob_footer(footer, 1, 4096));
  EXPECT_FALSE(kv::read_blob_footer(kv::blob_footer({8192, 100}, 1, 8192), 1, 8192)) << "beyond the end";
  for (std::size_t i = 0; i < footer.size() * 8; ++i) {
    std::string other = footer;
    other[i / 8] = static_cast<char>(other[i / 8] ^ 1 << i % 8);
    EXPECT_FALSE(kv::read_blob_footer(other, 1, 8192)) << i;
  }
}

// ---- power cuts: what a row says of a blob is there whenever the row is

std::string encode(const BlobEnd& end) {
  std::string row;
  for (const std::uint64_t number : {end.blocks, end.bytes}) put_varint(row, number);
  return row;
}

std::string contents(std::uint64_t number, std::uint64_t blocks) {
  std::mt19937_64 random(number);
  return random_bytes(random, blocks * kBlobBlock);
}

constexpr std::uint64_t kMost = 256;  // blocks of a blob

using Decorate = Machine::Decorate;

void live_and_crash(std::uint64_t seed, const Decorate& decorate = [](auto volume) { return volume; }) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto disk = std::make_unique<kv_test::Disk>(512 * MiB);
  expect_ok(disk->format());
  std::uint64_t number = 0;
  for (int life = 0; life < 4; ++life) {
    disk->watch_flushes();
    Machine m;
    m.disk = std::move(disk);
    m.start(kv_test::quiet_options(), decorate);
    ASSERT_TRUE(m.store);
    struct Growing {
      std::unique_ptr<BlobWriter> writer;
      std::string all;
      std::uint64_t blocks = 0;  // that were appended
    };
    std::map<std::uint64_t, Growing> writers;
    std::vector<std::uint64_t> gone;  // their rows are erased, which is not durable yet
    const std::uint64_t steps = 10 + random() % 60;
    for (std::uint64_t i = 0; i < steps; ++i) {
      if (writers.size() < 3) {
        ++number;
        writers[number] = {create(*m.store, number, kMost * kBlobBlock), contents(number, kMost)};
        ASSERT_TRUE(writers[number].writer);
      }
      const auto at = std::next(writers.begin(), static_cast<long>(random() % writers.size()));
      auto& [writer, all, blocks] = at->second;
      const std::uint64_t n = std::min(1 + random() % 80, kMost - blocks);
      expect_ok(writer->append(as_bytes(all).subspan(blocks * kBlobBlock, n * kBlobBlock)));
      blocks += n;
      Batch batch;
      if (random() % 3 == 0) batch.put(Family::names, kv_test::number_key(at->first), encode(end_of(*writer)));
      batch.put(Family::blocks, "filler", random_bytes(random, random() % 2 ? 100 : 300 * KiB));
      expect_ok(m.store->commit(batch));
      if (blocks == kMost) {
        batch.clear();
        if (random() % 2 == 0) {
          batch.erase(Family::names, kv_test::number_key(at->first));
          gone.push_back(at->first);
        } else {
          batch.put(Family::names, kv_test::number_key(at->first), encode(end_of(*writer)));
        }
        expect_ok(m.store->commit(batch));
        writers.erase(at);
      }
      if (random() % 10 == 0) {
        expect_ok(m.store->sync());
        expect_ok(m.store->remove_blobs(gone));
        gone.clear();
      }
      if (random() % 40 == 0) expect_ok(m.store->flush());
    }
    disk = m.disk->crashed_copy(random);
    writers.clear();
    m.drop();

    Machine after = Machine::on(disk->copy());
    ASSERT_TRUE(after.store);
    auto cursor = after.store->cursor(Family::names, {});
    std::vector<std::uint64_t> named;
    for (cursor->seek("k"); cursor->valid() && cursor->key().starts_with("k"); cursor->next()) {
      Reader key(cursor->key().substr(1)), row(cursor->value());
      const std::uint64_t blob = key.be64();
      BlobEnd end;
      end.blocks = row.varint();
      end.bytes = row.varint();
      auto reader = after.store->open_blob(blob, end);
      ASSERT_TRUE(reader) << "blob " << blob << ": " << reader.error().message();
      ASSERT_TRUE(read(**reader, 0, end.blocks) == contents(blob, end.blocks)) << "blob " << blob;
      named.push_back(blob);
    }
    expect_ok(cursor->status());
    cursor.reset();
    for (const std::uint64_t blob : after.store->blobs()) {
      if (std::ranges::find(named, blob) == named.end()) expect_ok(after.store->remove_blobs({blob}));
    }
    after.stop();
    disk = after.disk->copy();
    if (test::complained()) return;
  }
}

TEST(BlobCrash, WhatARowNamesIsThere) { live_and_crash(test::drawn_seed()); }

// A blob is not flushed before the log that names it.
class PrecedesNothing : public test::VolumeDecorator {
 public:
  using VolumeDecorator::VolumeDecorator;
  Result<std::unique_ptr<FileWriter>> create(std::string_view name, FileKind kind) override {
    LSMFS_ASSIGN(auto writer, inner().create(name, kind));
    return std::unique_ptr<FileWriter>(std::make_unique<Writer>(std::move(writer)));
  }

 private:
  class Writer final : public test::WriterDecorator {
   public:
    using WriterDecorator::WriterDecorator;
    Result<void> precede_logs() override { return {}; }
  };
};

TEST(BlobCrashPlanted, ABlobThatPrecedesNothingIsFound) {
  std::string said;
  for (std::uint64_t seed = 1; seed <= 10 && said.empty(); ++seed) {
    said = test::complaints_of([&] { live_and_crash(seed, [](auto volume) { return std::make_unique<PrecedesNothing>(std::move(volume)); }); });
  }
  EXPECT_NE(said.find("blob"), said.npos) << said;
}

}  // namespace
}  // namespace lsmfs::blob_test

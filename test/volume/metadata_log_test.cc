#include "volume/metadata_log.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "fuzz/seals.h"
#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::metadata_log_test {
namespace {

using test::ok;
using test::PowerCut;
using test::SparseDevice;
using test::SparseImage;
using test::Survivors;

// The state these logs keep is a list of numbers; a delta adds one, a snapshot is the last few.
class MetadataLogTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 128 * MiB;

  MetadataLogTest() {
    superblock_.layout = *plan_layout(kSize);
    superblock_.info.uuid = Uuid::random();
  }

  static std::string delta(std::uint64_t n, std::size_t filler) {
    std::string s;
    put_varint(s, n);
    put_string(s, std::string(filler, static_cast<char>('a' + n % 26)));
    return s;
  }

  // The last number in the log; what is read must be an unbroken count.
  Result<std::uint64_t> load(Device& device, std::optional<MetadataLog>* log = nullptr, const VolumeOptions& options = {}) {
    std::uint64_t last = 0;
    bool first = true;
    auto loaded = MetadataLog::load(device, superblock_, [&](std::string_view payload) -> Result<void> {
      Reader in(payload);
      while (!in.at_end()) {
        const std::uint64_t n = in.varint();
        in.string();
        if (!in.ok() || (!first && n != last + 1)) return make_error(EUCLEAN, "broken count");
        last = n;
        first = false;
      }
      return {};
    }, options);
    if (!loaded) return std::move(loaded.error());
    if (log) log->emplace(std::move(*loaded));
    return last;
  }

  // A new log, which holds 0.
  void make(Device& device, std::optional<MetadataLog>& log, std::size_t filler = 0) {
    ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, filler))));
    ASSERT_TRUE(ok(load(device, &log)));
  }

  void append(MetadataLog& log, std::uint64_t n, std::size_t filler) {
    ASSERT_TRUE(ok(log.append(delta(n, filler), [&] { return delta(n, 100); })));
  }

  void damage(Device& device, std::uint64_t at) {
    AlignedBuffer block(kDeviceBlock);
    ASSERT_TRUE(ok(device.read(ByteOffset{at}, block.bytes())));
    block.data()[8] ^= std::byte{1};  // in the header, or in the payload
    ASSERT_TRUE(ok(device.write(ByteOffset{at}, block.bytes())));
  }
  std::uint64_t block_of_area(int area, std::uint64_t block) const {
    return superblock_.layout.metadata[area].start + block * kDeviceBlock;
  }
  // Blocks of area 0 that cannot be read.
  std::unique_ptr<Device> with_bad_blocks(Device& device, const std::set<std::uint64_t>& bad) const {
    return hooked_device(device, [this, bad](const DeviceEvent& event, Bytes) -> Result<void> {
      if (event.kind != DeviceEvent::Kind::read) return {};
      for (const std::uint64_t block : bad) {
        const std::uint64_t at = block_of_area(0, block);
        if (event.offset.v <= at && at < event.offset.v + event.length.v) return make_error(EIO, "a bad sector");
      }
      return {};
    });
  }
  // Of a sound record, which stays sound.
  void set_generation(MutableBytes record, std::uint64_t generation, format::RecordKind kind = format::RecordKind::snapshot) {
    format::RecordHeader header;
    std::memcpy(&header, record.data(), sizeof header);
    header.generation = generation;
    header.kind = static_cast<std::uint16_t>(kind);
    std::memcpy(record.data(), &header, sizeof header);
    fuzz::seal_record(record, superblock_.seed);
  }
  // One copy of a sound record of generation 1, in an area that is empty behind it.
  void put_record(Device& device, std::uint64_t block, format::RecordKind kind, std::uint64_t sequence, std::string_view payload) {
    AlignedBuffer rest(superblock_.layout.metadata[0].length - block * kDeviceBlock);
    format::RecordHeader header{};
    header.magic = format::kRecordMagic;
    header.version = kFormatVersion;
    header.kind = static_cast<std::uint16_t>(kind);
    header.generation = 1;
    header.sequence = sequence;
    header.payload_length = payload.size();
    std::memcpy(rest.data(), &header, sizeof header);
    ASSERT_LE(sizeof header + payload.size(), rest.size());
    std::memcpy(rest.data() + sizeof header, payload.data(), payload.size());
    fuzz::seal_record(rest.bytes(), superblock_.seed);
    ASSERT_TRUE(ok(device.write(ByteOffset{block_of_area(0, block)}, rest.bytes())));
  }

  SuperblockInfo superblock_;
};

TEST_F(MetadataLogTest, ReplaysThroughManySwitchesOfTheArea) {
  SparseDevice device{SparseImage(kSize)};
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  std::mt19937_64 random(5);
  std::optional<MetadataLog> log;
  ASSERT_EQ(*load(device, &log), 0u);
  for (std::uint64_t n = 1; n < 3000; ++n) {
    append(*log, n, random() % 9000);
    if (n % 37 == 0) {
      auto last = load(device, &log);
      ASSERT_TRUE(ok(last));
      ASSERT_EQ(*last, n);
    }
  }
  EXPECT_GT(log->generation(), 8u);
}

TEST_F(MetadataLogTest, LosesOnlyTheRecordThatWasNotFlushedWhereverThePowerIsCut) {
  std::mt19937_64 random(test::drawn_seed());
  const SparseImage empty(kSize);
  SparseDevice device{empty};
  device.record();
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  ASSERT_TRUE(ok(device.flush()));
  std::optional<MetadataLog> log;
  ASSERT_TRUE(ok(load(device, &log)));
  std::vector<std::size_t> flushed_at = {device.events()};  // by number
  for (std::uint64_t n = 1; n < 40; ++n) {
    append(*log, n, 1 + random() % 130000);
    ASSERT_TRUE(ok(device.flush()));
    flushed_at.push_back(device.events());
  }
  ASSERT_GT(log->generation(), 2u);
  const auto trace = device.trace();
  PowerCut power(empty, trace);
  while (power.advance()) {
    const std::size_t events = power.events();
    if (events < flushed_at[0]) continue;
    for (Survivors which : {Survivors::all, Survivors::none, Survivors::random_torn, Survivors::random_torn}) {
      SparseDevice cut{power.image(which, random)};
      std::uint64_t durable = 0;
      while (durable + 1 < flushed_at.size() && flushed_at[durable + 1] <= events) ++durable;
      std::optional<MetadataLog> recovered;
      auto last = load(cut, &recovered);
      ASSERT_TRUE(ok(last)) << "after event " << events;
      ASSERT_GE(*last, durable);
      ASSERT_LE(*last, durable + 1);
      // And it goes on from there.
      append(*recovered, *last + 1, 5000);
      ASSERT_EQ(*load(cut), *last + 1);
    }
  }
}

TEST_F(MetadataLogTest, TakesASnapshotOfWhichOnlyTheSecondCopyCameToLieBehindAnOlderOne) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  std::uint64_t n = 0;
  SparseImage before = device.image();
  while (log->generation() < 3) {  // it is in the area of the first
    before = device.image();
    append(*log, ++n, 60000);
  }
  SparseDevice older{before};
  AlignedBuffer block(kDeviceBlock);
  ASSERT_TRUE(ok(older.read(ByteOffset{block_of_area(0, 0)}, block.bytes())));
  ASSERT_TRUE(ok(device.write(ByteOffset{block_of_area(0, 0)}, block.bytes())));
  const auto last = load(device, &log);
  ASSERT_TRUE(ok(last));
  EXPECT_EQ(*last, n);
  EXPECT_FALSE(log->whole());
}

TEST_F(MetadataLogTest, EndsAtARecordOfWhichBothCopiesAreTorn) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  append(*log, 1, 100);
  append(*log, 2, 50000);  // 13 blocks, twice
  const std::uint64_t start = block_of_area(0, 4);
  const SparseImage whole = device.image();
  const AlignedBuffer zeros(kDeviceBlock);
  for (std::uint64_t block = 0; block < 26; ++block) {
    SparseDevice torn{whole};
    ASSERT_TRUE(ok(torn.write(ByteOffset{start + block * kDeviceBlock}, zeros.bytes())));
    std::string notices;
    const auto last = load(torn, &log, {.notice = [&](std::string_view line) { notices += line; }});
    ASSERT_TRUE(ok(last));
    EXPECT_EQ(*last, 2u) << "block " << block;
    EXPECT_FALSE(log->whole());
    EXPECT_EQ(notices, "") << "it is the last one: a crash may have torn it";
    ASSERT_TRUE(ok(torn.write(ByteOffset{start + (block + 13) % 26 * kDeviceBlock}, zeros.bytes())));
    EXPECT_EQ(*load(torn), 1u) << "block " << block;
  }
}

// A crash may have torn it, or it was durable: who could read it would know.
TEST_F(MetadataLogTest, DoesNotEndBeforeARecordThatCannotBeRead) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  append(*log, 1, 10);
  append(*log, 2, 6000);  // 2 blocks, twice
  constexpr std::uint64_t kFirst = 4, kBehind = kFirst + 4;
  for (const std::set<std::uint64_t>& bad : std::vector<std::set<std::uint64_t>>{
           {kFirst, kFirst + 2}, {kFirst, kFirst + 3}, {kFirst + 1, kFirst + 2}, {kFirst + 1, kFirst + 3}, {kFirst + 1}, {kBehind + 1}}) {
    const auto last = load(*with_bad_blocks(device, bad));
    if (bad.size() > 1) {
      EXPECT_EQ(last ? 0 : last.error().code, EIO) << *bad.begin() << " and " << *bad.rbegin();
    } else {
      ASSERT_TRUE(ok(last)) << *bad.begin();
      EXPECT_EQ(*last, 2u) << *bad.begin();
    }
  }
}

TEST_F(MetadataLogTest, DoesNotFallBackBeforeASnapshotThatCannotBeRead) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log, 20'000));  // 5 blocks, twice
  std::uint64_t n = 0;
  while (log->generation() < 3) {  // it is in the area of the first, of which the second copy is still there
    ++n;
    ASSERT_TRUE(ok(log->append(delta(n, 60'000), [&] { return delta(n, 6000); })));  // 2 blocks, twice
  }
  for (const std::set<std::uint64_t>& bad :
       std::vector<std::set<std::uint64_t>>{{0, 2}, {0, 3}, {1, 2}, {1, 3}, {0}, {1}, {2}, {3}, {100, 101}}) {
    const auto last = load(*with_bad_blocks(device, bad));
    const bool lost = *bad.begin() < 4 && bad.size() > 1;
    EXPECT_EQ(last ? 0 : last.error().code, lost ? EIO : 0) << *bad.begin() << " and " << *bad.rbegin();
    EXPECT_TRUE(!last || *last == n) << *bad.begin();
  }
}

TEST_F(MetadataLogTest, OneDamagedCopyOfAnyRecordLosesNothingAndIsMendedByTheNext) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  for (std::uint64_t n = 1; n < 10; ++n) append(*log, n, n * 1000);
  const SparseImage whole = device.image();
  const std::uint64_t blocks = 2 * (1 + 4 * 1 + 4 * 2 + 3);  // the last record takes 3, twice
  for (std::uint64_t block = 0; block < blocks; ++block) {
    SparseDevice damaged{whole};
    damage(damaged, block_of_area(0, block));
    std::string notices;
    const auto last = load(damaged, &log, {.notice = [&](std::string_view line) { notices += line; }});
    ASSERT_TRUE(ok(last)) << "block " << block;
    EXPECT_EQ(*last, 9u);
    EXPECT_FALSE(log->whole()) << "block " << block;
    EXPECT_EQ(notices.find("using its second copy") != notices.npos, block < blocks - 6) << notices;
    append(*log, 10, 10);
    notices.clear();
    EXPECT_EQ(*load(damaged, &log, {.notice = [&](std::string_view line) { notices += line; }}), 10u);
    EXPECT_TRUE(log->whole());
    EXPECT_EQ(notices, "");
  }
}

TEST_F(MetadataLogTest, ReportsADamagedRecordThatLaterOnesProve) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  for (std::uint64_t n = 1; n < 10; ++n) append(*log, n, 10);
  damage(device, block_of_area(0, 8));
  damage(device, block_of_area(0, 9));
  EXPECT_EQ(load(device).error().code, EUCLEAN);

  std::string lost;
  const VolumeOptions salvage{.salvage = [&](std::string_view line) { lost += line; }};
  EXPECT_EQ(*load(device, &log, salvage), 3u);
  EXPECT_NE(lost.find("record 4"), lost.npos) << lost;
  append(*log, 4, 10);
  EXPECT_EQ(*load(device), 4u) << "records after the damaged one must not count again";
}

// Another time it may be read: nothing may be given up for it.
TEST_F(MetadataLogTest, ADeviceThatCannotBeReachedIsNoDamage) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  for (std::uint64_t n = 1; n < 10; ++n) append(*log, n, 10);
  int code = 0;
  const auto failing = hooked_device(device, [&](const DeviceEvent& event, Bytes) -> Result<void> {
    const std::uint64_t from = block_of_area(0, 8), to = block_of_area(0, 10);  // both copies of record 4
    const bool there = event.offset.v < to && from < event.offset.v + event.length.v;
    return there && event.kind == DeviceEvent::Kind::read ? Result<void>(make_error(code, "no")) : Result<void>();
  });
  std::string lost;
  const VolumeOptions salvage{.salvage = [&](std::string_view line) { lost += line; }};
  code = ETIMEDOUT;
  EXPECT_EQ(load(*failing).error().code, ETIMEDOUT);
  EXPECT_EQ(load(*failing, nullptr, salvage).error().code, ETIMEDOUT);
  EXPECT_EQ(lost, "");
  code = EIO;
  EXPECT_EQ(load(*failing).error().code, EUCLEAN) << "later records prove that it was durable";
  EXPECT_EQ(*load(*failing, nullptr, salvage), 3u);
  EXPECT_NE(lost, "");
}

TEST_F(MetadataLogTest, ReportsADamagedSnapshotInsteadOfFallingBackToAnOldOne) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  std::uint64_t n = 1;
  while (log->generation() == 1) append(*log, n++, 30000);
  append(*log, n++, 10);
  damage(device, block_of_area(1, 0));
  EXPECT_EQ(*load(device), n - 1);
  damage(device, block_of_area(1, 1));
  EXPECT_EQ(load(device).error().code, EUCLEAN);

  std::string lost;
  const VolumeOptions salvage{.salvage = [&](std::string_view line) { lost += line; }};
  const auto last = load(device, &log, salvage);
  ASSERT_TRUE(ok(last));
  EXPECT_EQ(*last, n - 3);
  EXPECT_NE(lost.find("newest snapshot"), lost.npos) << lost;
  append(*log, n - 2, 10);
  EXPECT_EQ(*load(device), n - 2);
}

TEST_F(MetadataLogTest, RefusesTheLastGenerationAfterWhichNoneCanCome) {
  SparseDevice device{SparseImage(kSize)};
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  AlignedBuffer block(kDeviceBlock);
  const ByteOffset at{superblock_.layout.metadata[0].start};
  ASSERT_TRUE(ok(device.read(at, block.bytes())));
  for (const std::uint64_t generation : {UINT64_MAX - 1, UINT64_MAX}) {
    set_generation(block.bytes(), generation);
    ASSERT_TRUE(ok(device.write(at, block.bytes())));
    const auto loaded = load(device);
    EXPECT_EQ(loaded ? 0 : loaded.error().code, generation == UINT64_MAX ? EUCLEAN : 0);
  }
}

TEST_F(MetadataLogTest, WritesNoGenerationThatIsNotRead) {
  SparseDevice device{SparseImage(kSize)};
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  AlignedBuffer block(kDeviceBlock);
  for (const std::uint64_t number : {0, 1}) {  // both copies
    const ByteOffset at{block_of_area(0, number)};
    ASSERT_TRUE(ok(device.read(at, block.bytes())));
    set_generation(block.bytes(), UINT64_MAX - 1);
    ASSERT_TRUE(ok(device.write(at, block.bytes())));
  }
  std::optional<MetadataLog> log;
  ASSERT_TRUE(ok(load(device, &log)));
  std::uint64_t n = 0;
  Result<void> appended;
  while (n < 3000 && (appended = log->append(delta(n + 1, 3000), [&] { return delta(n + 1, 100); }))) ++n;
  EXPECT_GT(n, 0u);
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, ENOSPC);
  const auto last = load(device);
  ASSERT_TRUE(ok(last));
  EXPECT_EQ(*last, n);
}

// The first one has generation 1, so that one of generation 0 cannot be told from none.
TEST_F(MetadataLogTest, ASnapshotOfGenerationZeroIsNone) {
  for (const int area : {0, 1}) {
    SparseDevice device{SparseImage(kSize)};
    ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
    AlignedBuffer block(kDeviceBlock), zeros(kDeviceBlock);
    ASSERT_TRUE(ok(device.read(ByteOffset{block_of_area(0, 0)}, block.bytes())));
    set_generation(block.bytes(), 0);
    for (const std::uint64_t number : {0, 1}) {
      ASSERT_TRUE(ok(device.write(ByteOffset{block_of_area(0, number)}, zeros.bytes())));
      ASSERT_TRUE(ok(device.write(ByteOffset{block_of_area(area, number)}, block.bytes())));
    }
    const auto loaded = load(device);
    EXPECT_EQ(loaded ? 0 : loaded.error().code, EUCLEAN) << area;
  }
}

// It would be accepted now, and refused as the trace of a lost snapshot when the other area is in use. A snapshot there is the
// newest one.
TEST_F(MetadataLogTest, ReportsARecordOfALaterGenerationInItsOwnArea) {
  SparseDevice device{SparseImage(kSize)};
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  AlignedBuffer block(kDeviceBlock);
  const std::uint64_t area = superblock_.layout.metadata[0].start;
  ASSERT_TRUE(ok(device.read(ByteOffset{area}, block.bytes())));
  for (const std::uint64_t generation : {0, 1, 2}) {
    set_generation(block.bytes(), generation, format::RecordKind::delta);
    ASSERT_TRUE(ok(device.write(ByteOffset{area + 3 * kDeviceBlock}, block.bytes())));
    const auto loaded = load(device);
    EXPECT_EQ(loaded ? 0 : loaded.error().code, generation > 1 ? EUCLEAN : 0) << generation;
  }
}

// What counts of it would end behind the area, and so would what a scrub reads.
TEST_F(MetadataLogTest, ARecordWhoseSecondCopyHasNoRoomIsNone) {
  const std::uint64_t longest = MetadataLog::capacity(superblock_.layout);
  for (const std::uint64_t size : {longest, longest + 1}) {
    SparseDevice device{SparseImage(kSize)};
    const std::string payload = delta(0, size - delta(0, size).size() + size);
    ASSERT_EQ(payload.size(), size);
    put_record(device, 0, format::RecordKind::snapshot, 0, payload);
    const auto loaded = load(device);
    EXPECT_EQ(loaded ? 0 : loaded.error().code, size > longest ? EUCLEAN : 0) << size;
  }

  SparseDevice device{SparseImage(kSize)};
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  put_record(device, 2, format::RecordKind::delta, 1, delta(1, longest));
  std::optional<MetadataLog> log;
  const auto last = load(device, &log);
  ASSERT_TRUE(ok(last));
  EXPECT_EQ(*last, 0u);
  MetadataLog::Image image(superblock_.layout);
  while (log->read_on(image)) continue;
  EXPECT_EQ(image.size, 2 * kDeviceBlock);
  EXPECT_EQ(MetadataLog::damage(image, superblock_), std::vector<std::string>{});
}

// To sum each of them up would take time that grows with the square of the area, which has up to 65,536 blocks.
TEST_F(MetadataLogTest, RefusesAnAreaOfWhichEachBlockBeginsARecordThatReachesToItsEnd) {
  const Extent area = superblock_.layout.metadata[1];
  const std::uint64_t blocks = area.length / kDeviceBlock;
  for (const std::uint64_t headers : {std::uint64_t{16}, std::uint64_t{17}, blocks}) {  // of 15.5, 16.5 and 128 times the area
    SparseDevice device{SparseImage(kSize)};
    ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
    AlignedBuffer block(kDeviceBlock);
    format::RecordHeader header{};
    header.magic = format::kRecordMagic;
    header.version = kFormatVersion;
    for (std::uint64_t n = 0; n < headers; ++n) {
      header.payload_length = area.length - n * kDeviceBlock - sizeof header;
      std::memcpy(block.data(), &header, sizeof header);
      ASSERT_TRUE(ok(device.write(ByteOffset{block_of_area(1, n)}, block.bytes())));
    }
    const auto loaded = load(device);
    EXPECT_EQ(loaded ? 0 : loaded.error().code, headers > 16 ? EUCLEAN : 0) << headers;
  }
}

TEST_F(MetadataLogTest, IgnoresRecordsOfAnotherVolume) {
  SparseDevice device{SparseImage(kSize)};
  ASSERT_TRUE(ok(MetadataLog::format(device, superblock_, delta(0, 0))));
  superblock_.seed = seed_for(Uuid::random());
  EXPECT_EQ(load(device).error().code, EUCLEAN);
}

TEST_F(MetadataLogTest, RefusesASnapshotThatDoesNotFitAndKeepsWhatThereIs) {
  SparseDevice device{SparseImage(kSize)};
  std::optional<MetadataLog> log;
  ASSERT_NO_FATAL_FAILURE(make(device, log));
  append(*log, 1, 10);
  const std::string huge = delta(2, 2 * MiB);
  EXPECT_EQ(log->append(huge, [&] { return huge; }).error().code, ENOSPC);
  EXPECT_EQ(*load(device), 1u);
}

}  // namespace
}  // namespace lsmfs::metadata_log_test

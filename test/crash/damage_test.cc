// Damage at rest, in each structure on the device: a bit that flips, a sector that is lost or cannot be read any more. What
// is read then is right or an error, never wrong; and a repair makes what is left usable, and says what is not there.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <random>
#include <set>

#include "crash/lies.h"
#include "crash/workloads.h"
#include "fuzz/rocksdb_seals.h"
#include "tree/harness.h"
#include "tree/model.h"
#include "volume/catalog.h"
#include "volume/metadata_log.h"
#include "volume/superblock.h"

namespace lsmfs::test {
namespace {

using Block = std::array<std::byte, kDeviceBlock>;

// Blocks of one structure in which there is something.
struct Places {
  const char* name;
  std::vector<std::uint64_t> blocks;
};

std::vector<Places> places(const SparseImage& image) {
  const Layout layout = *plan_layout(image.size());
  const auto used = [&](const char* name, const std::vector<Extent>& extents) {
    Places found{name, {}};
    alignas(8) Block block;
    for (const Extent& extent : extents) {
      for (std::uint64_t at = extent.start; at < extent.end(); at += kDeviceBlock) {
        image.read(at, block);
        // All the same: never written, or discarded.
        if (std::ranges::any_of(block, [&](std::byte byte) { return byte != block[0]; })) found.blocks.push_back(at);
      }
    }
    return found;
  };
  return {used("superblocks", {{0, kDeviceBlock}, {layout.second_superblock, kDeviceBlock}}),
          used("metadata log", {layout.metadata[0], layout.metadata[1]}), used("logs", {layout.fixed}), used("tables", {layout.table})};
}

// On it: everything in tables; or in the log, synced, the last sync noted elsewhere, as a crash leaves it.
std::vector<Start> starts() {
  std::vector<Start> all;
  {
    Trial trial(start_in_tables());
    trial.write("A/foo", 100'000, 200'000);
    trial.flush();
    trial.compact();
    trial.rename("A/C", "B/C");
    trial.flush();
    all.push_back(trial.close());
  }
  Trial trial(start_in_log());
  trial.write("foo", 50'000, 100'000);
  trial.sync();
  trial.rename("foo", "B/bar");
  trial.sync();
  trial.note_synced();
  all.push_back(trial.cut());
  return all;
}

struct Verdict {
  bool detected = false;
  std::string problem;
};

// Whoever mounts it and reads everything.
Verdict read(Device& device, const Model& model) {
  auto stack = Stack::mount(device);
  if (!stack) {
    const int code = stack.error().code;
    return {true, code == EUCLEAN || code == EIO ? "" : "does not mount, for another reason: " + stack.error().message()};
  }
  std::set<std::string> failed;
  const std::string found = dump(*stack->tree, &failed);
  return {!failed.empty(), lies(found, model.dump(), failed)};
}

Result<std::vector<std::string>> repair(Device& device) {
  std::vector<std::string> said;
  const auto salvaged = salvaging_device(device, [&](ByteOffset at) { said.push_back(fmt::format("cannot read {}", at.v)); });
  LSMFS_TRY(Volume::repair(*salvaged, [&](std::string_view line) { said.emplace_back(line); }));
  LSMFS_ASSIGN(const auto volume, Volume::open(*salvaged));
  LSMFS_ASSIGN(const StoreRepair tables, Store::repair(*volume, {.cache = ByteCount{32 * MiB}}));
  said.insert(said.end(), tables.lines.begin(), tables.lines.end());
  LSMFS_ASSIGN(const auto store, Store::open(*volume, {.cache = ByteCount{32 * MiB}}));
  LSMFS_ASSIGN(const RepairReport rows, repair_tree(*store));
  said.insert(said.end(), rows.lines.begin(), rows.lines.end());
  if (!rows.left.clean()) return make_error(EUCLEAN, "not sound after the repair: " + rows.left.problems.front());
  LSMFS_TRY(store->close());
  return said;
}

class Damage : public testing::Test {
 protected:
  Damage() { RecordProperty("seed", std::to_string(seed_)); }

  // Where the next damage is: each structure as often as the others.
  std::uint64_t choose(const std::vector<Places>& all) {
    const Places* one = nullptr;
    do one = &all[random_() % all.size()];
    while (one->blocks.empty());
    ++tried_[one->name];
    return one->blocks[random_() % one->blocks.size()];
  }
  void tell(const char* what) const {
    for (const auto& [name, count] : tried_) std::printf("%s: %zu in the %s\n", what, count, name.c_str());
  }

  const std::uint64_t seed_ = number_from("LSMFS_SEED", std::random_device{}());
  std::mt19937_64 random_{seed_};
  std::map<std::string, std::size_t> tried_;
};

TEST_F(Damage, AFlippedBitIsFoundOrChangesNothing) {
  const int rounds = everything() ? 5000 : 100;
  std::size_t detected = 0, harmless = 0;
  for (const Start& start : starts()) {
    const auto all = places(start.image);
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t at = choose(all), bit = random_() % (kDeviceBlock * 8);
      SparseImage image = start.image;
      alignas(8) Block block;
      image.read(at, block);
      block[bit / 8] ^= std::byte(1 << bit % 8);
      image.write(at, block);
      SparseDevice device{image};
      const Verdict verdict = read(device, start.model);
      ++(verdict.detected ? detected : harmless);
      ASSERT_EQ(verdict.problem, "") << "seed " << seed_ << ", round " << round << ", bit " << bit << " of the block at " << at;
    }
  }
  tell("bits flipped");
  std::printf("%zu detected, %zu harmless\n", detected, harmless);
  EXPECT_GT(detected, 0u);
}

TEST_F(Damage, AfterTheLossOfASectorItCanBeRepairedAndNothingIsMissingSilently) {
  const int rounds = everything() ? 2000 : 60;
  std::size_t beyond_repair = 0, total = 0;
  for (const Start& start : starts()) {
    const auto all = places(start.image);
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t at = choose(all) + random_() % (kDeviceBlock / kSector) * kSector;
      const int how = static_cast<int>(random_() % 3);
      SCOPED_TRACE(fmt::format("seed {}, round {}, sector at {} {}", seed_, round, at, how == 0 ? "zeros" : how == 1 ? "garbage" : "unreadable"));
      SparseImage image = start.image;
      std::array<std::byte, kSector> sector{};
      for (std::byte& byte : sector) byte = how == 1 ? std::byte(random_()) : std::byte{0};
      if (how < 2) image.write_sectors(at, sector);
      SparseDevice device{image};
      const std::uint64_t bad = round_down(at, kDeviceBlock);
      bool rewritten = false;
      const auto failing = hooked_device(device, [&](const DeviceEvent& event, Bytes) -> Result<void> {
        const bool touched = event.offset.v <= bad && bad < event.offset.v + event.length.v;
        if (touched && event.kind == DeviceEvent::Kind::write) rewritten = true;
        if (how == 2 && touched && !rewritten && event.kind == DeviceEvent::Kind::read) return make_error(EIO, "bad sector");
        return {};
      });
      const Verdict verdict = read(*failing, start.model);
      ASSERT_EQ(verdict.problem, "");
      ++total;
      // As lsmfs fsck does: what a repair writes may come to lie beside what is bad.
      auto said = repair(*failing);
      for (int attempt = 1; said && attempt < 3 && !Stack::mount(*failing); ++attempt) said = repair(*failing);
      if (!said) {
        ++beyond_repair;
        EXPECT_TRUE(said.error().code == EUCLEAN || said.error().code == EIO) << said.error().message();
        std::printf("beyond repair: the sector at %llu: %s\n", static_cast<unsigned long long>(at), said.error().message().c_str());
        continue;
      }
      auto stack = Stack::mount(*failing);
      ASSERT_TRUE(stack) << stack.error().message();
      const std::string found = dump(*stack->tree);
      EXPECT_TRUE(found == start.model.dump() || !said->empty()) << "something is lost and nothing was said";
      const auto report = check_tree(*stack->store);
      ASSERT_TRUE(report);
      EXPECT_TRUE(report->clean()) << testing::PrintToString(report->problems);
    }
  }
  tell("sectors lost");
  std::printf("%zu of %zu beyond repair\n", beyond_repair, total);
  EXPECT_LE(beyond_repair, total / 20);
}

// What a flipped bit would do that no checksum covers.
TEST_F(Damage, WrongDataWithRightChecksumsWouldBeNoticed) {
  const Start start = starts()[0];
  SparseDevice device{start.image};
  {
    const auto volume = Volume::open(device);
    ASSERT_TRUE(volume);
    const auto store = Store::open(**volume, {});
    ASSERT_TRUE(store);
    const auto cursor = (*store)->cursor(Family::blocks, {});
    cursor->seek("");
    ASSERT_TRUE(cursor->valid());
    std::string value(cursor->value());
    value[value.size() / 2] ^= 1;
    Batch batch;
    batch.put(Family::blocks, cursor->key(), value);
    ASSERT_TRUE((*store)->commit(batch));
    ASSERT_TRUE((*store)->sync());
  }
  const Verdict verdict = read(device, start.model);
  EXPECT_FALSE(verdict.detected);
  EXPECT_NE(verdict.problem.find("a wrong line"), std::string::npos) << verdict.problem;
}

// ---- a checksum that is not checked does the same as one that is right whatever lies under it

std::string bytes_at(const SparseImage& image, std::uint64_t at, std::uint64_t length) {
  AlignedBuffer blocks(round_up(at % kDeviceBlock + length, kDeviceBlock));
  image.read(round_down(at, kDeviceBlock), blocks.bytes());
  return std::string(as_text(blocks.bytes()).substr(at % kDeviceBlock, length));
}

void put_bytes(SparseImage& image, std::uint64_t at, std::string_view bytes) {
  const std::uint64_t start = round_down(at, kDeviceBlock);
  AlignedBuffer blocks(round_up(at - start + bytes.size(), kDeviceBlock));
  image.read(start, blocks.bytes());
  std::memcpy(blocks.data() + (at - start), bytes.data(), bytes.size());
  image.write(start, blocks.bytes());
}

// The blocks of all tables, as (place on the device, bytes that the checksum behind them covers).
std::vector<std::pair<std::uint64_t, std::uint64_t>> table_blocks(const SparseImage& image) {
  SparseDevice device(image, false);
  const auto superblock = read_superblock(device, {});
  if (!superblock) return {};
  Catalog catalog(superblock->layout);
  if (!MetadataLog::load(device, *superblock, [&](std::string_view payload) { return catalog.apply(payload); })) return {};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (const auto& [id, file] : catalog.files()) {
    if (file.kind != FileKind::table || file.extents.size() != 1) continue;
    const std::uint64_t start = file.extents.front().start;
    for (const auto& [at, size] : fuzz::blocks_of(bytes_at(image, start, file.size))) found.emplace_back(start + at, size);
  }
  return found;
}

TEST_F(Damage, AChecksumThatIsNotCheckedIsNoticed) {
  const Start start = starts()[0];
  const std::string& data = start.model.root->entries.at("A")->entries.at("foo")->data;
  const auto blocks = table_blocks(start.image);
  ASSERT_FALSE(blocks.empty());
  int tried = 0;
  for (int round = 0; round < 1000 && tried < 20; ++round) {
    // A bit of file data, wherever it lies: changes of what RocksDB keeps beside it are another matter (docs/limits.md).
    const std::string_view some = std::string_view(data).substr(random_() % (data.size() - 64), 64);
    for (const auto& [at, size] : blocks) {
      std::string bytes = bytes_at(start.image, at, size);
      const std::size_t place = bytes.find(some);
      if (place == bytes.npos || some.find_first_not_of('\0') == some.npos) continue;
      bytes[place + 30] ^= static_cast<char>(1 << random_() % 8);
      SparseImage image = start.image;
      put_bytes(image, at, bytes);
      SparseDevice checked{image};
      const Verdict right = read(checked, start.model);
      EXPECT_TRUE(right.detected);
      EXPECT_EQ(right.problem, "");
      std::string sum;
      put_le32(sum, fuzz::block_checksum(bytes));
      put_bytes(image, at + size, sum);
      SparseDevice unchecked{image};
      const Verdict wrong = read(unchecked, start.model);
      EXPECT_FALSE(wrong.detected);
      EXPECT_NE(wrong.problem.find("a wrong line"), std::string::npos) << wrong.problem;
      ++tried;
      break;
    }
  }
  EXPECT_EQ(tried, 20) << "too little of the file's data lies in tables as it is";
}

}  // namespace
}  // namespace lsmfs::test

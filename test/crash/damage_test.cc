// Damage at rest, in each structure on the device: a bit that flips, a sector that is lost or cannot be read any more. What
// is read then is right or an error, never wrong; and a repair makes what is left usable, and says what is not there.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <functional>
#include <random>
#include <set>

#include "crash/lies.h"
#include "crash/workloads.h"
#include "fuzz/rocksdb_seals.h"
#include "kv/store_decorator.h"
#include "seed.h"
#include "tree/harness.h"
#include "tree/model.h"
#include "tree/record.h"
#include "volume/catalog.h"
#include "volume/frames.h"
#include "volume/metadata_log.h"
#include "volume/superblock.h"
#include "volume/support.h"

namespace lsmfs::test::damage_test {
namespace {

using Block = std::array<std::byte, kDeviceBlock>;

// ---- what is damaged: a sound file system

struct Sound {
  SparseImage image{0};
  Past past;
  std::string data;  // of A/foo
  int one_in = 1;    // of the rounds is made with it: to read a full one takes longer
  bool clones = false;  // some of it lies where others have it, so that what is said of it may name these
  const std::string& tree() const { return past.moments.back(); }
};

// Makes a tree, and notes what it is after each operation.
class Maker : public Harness {
 public:
  explicit Maker(ByteCount size = ByteCount{kDeviceMin}, const TreeOptions& how = {.sync_interval_ms = 0}) : Harness(size, how) {
    note();
    a = dir(kRootIno, "A");
    b = dir(kRootIno, "B");
    const Ino c = dir(a, "C");
    foo = file(kRootIno, "foo", 9'000);
    a_foo = file(a, "foo", 14'000);
    file(c, "x", 5'000);
    set(foo, "user.small", 20);
    set(a_foo, "user.large", 6'000);
    set(b, "user.large", 5'000);
    make(b, "link", S_IFLNK | 0777, "../foo");
    note();
    EXPECT_TRUE(tree().sync());
  }

  void write(Ino ino, std::uint64_t at, std::size_t size) {
    Harness::write(ino, at, pattern(size, ++seed_));
    note();
  }
  // At the end of A/`name`, in pieces of which each is a part of its blob. `same`: of the first bytes of each, so that zstd makes them smaller.
  Ino stream(std::string_view name, int pieces, std::size_t same) {
    const Ino made = file(a, name, 10'000);
    for (int i = 0; i < pieces; ++i) {
      Harness::write(made, attr(made).size, std::string(same, static_cast<char>('a' + i)) + pattern(70'000 - same, ++seed_));
      note();
      EXPECT_TRUE(tree().sync());
    }
    return made;
  }
  // Files that leave room for next to nothing, and then are written over, so that their tables have rows of which there are newer ones.
  void fill_up() {
    std::vector<Ino> files;
    while (store().room().v > 4 * MiB) files.push_back(file(kRootIno, fmt::format("full{}", files.size()), MiB));
    for (std::size_t i = 0; i < files.size(); i += 7) write(files[i], 100'000, MiB - 100'000);
  }
  void cut(Ino ino, std::uint64_t size) {
    EXPECT_TRUE(tree().setattr(ino, {.size = size}, Wait::yes));
    note();
  }
  void rename(Ino from, std::string_view name, Ino to, std::string_view new_name) {
    EXPECT_TRUE(tree().rename(from, name, to, new_name, 0, Wait::yes));
    note();
  }
  void clone(std::string_view path, std::string_view name) {
    EXPECT_TRUE(tree().clone(walk(path), kRootIno, name, Wait::yes));
    note();
  }
  void write_at(std::string_view path, std::uint64_t at, std::size_t size) { write(walk(path), at, size); }
  // Names for several blocks of a table.
  void fill(Ino parent, int names) {
    for (int i = 0; i < names; ++i) {
      const Ino made = make(parent, fmt::format("name {}", i), S_IFREG | 0644);
      EXPECT_TRUE(tree().setxattr(made, "user.note", pattern(100, ++seed_), 0, Wait::yes));
    }
    note();
  }
  void flush() { EXPECT_TRUE(tree().sync() && store().flush()); }
  void compact() {
    for (const Family family : {Family::names, Family::blocks}) EXPECT_TRUE(store().compact(family, "", ""));
  }

  Sound take() {
    SparseImage image(device().size().v);
    AlignedBuffer piece(MiB);
    for (std::uint64_t at = 0; at < image.size(); at += piece.size()) {
      EXPECT_TRUE(device().read(ByteOffset{at}, piece.bytes()));
      for (std::uint64_t block = 0; block < piece.size(); block += kDeviceBlock) {
        const Bytes bytes = Bytes(piece.bytes()).subspan(block, kDeviceBlock);
        if (std::ranges::any_of(bytes, [](std::byte byte) { return byte != std::byte{0}; })) image.write(at + block, bytes);
      }
    }
    return {.image = std::move(image), .past = past, .data = data};
  }

  Ino a, b, foo, a_foo;
  Past past;
  std::string data;

 private:
  void note() { past.moments.push_back(dump(tree())); }
  Ino dir(Ino parent, std::string_view name) {
    const Ino made = mkdir(parent, name);
    note();
    return made;
  }
  Ino file(Ino parent, std::string_view name, std::size_t size) {
    const Ino made = make(parent, name, S_IFREG | 0644);
    note();
    write(made, 0, size);
    return made;
  }
  void set(Ino ino, std::string_view name, std::size_t size) {
    EXPECT_TRUE(tree().setxattr(ino, name, pattern(size, ++seed_), 0, Wait::yes));
    note();
  }

  std::uint64_t seed_ = 0;
};

// All of it in tables, some of which lie over others.
Sound in_tables() {
  Maker maker;
  maker.fill(maker.b, 500);
  maker.flush();
  maker.write(maker.a_foo, 100'000, 200'000);
  maker.flush();
  maker.compact();
  maker.rename(maker.a, "C", maker.b, "C");
  maker.past.renamed["/B/C"] = "/A/C";
  maker.write(maker.foo, 4'000, 3'000);
  maker.data = maker.read_path("A/foo");
  maker.unmount();
  return maker.take();
}

// In the log, synced, the last sync noted elsewhere, as a crash leaves it.
Sound in_log() {
  Maker maker;
  maker.write(maker.foo, 50'000, 100'000);
  EXPECT_TRUE(maker.tree().sync());
  maker.rename(kRootIno, "foo", maker.b, "bar");
  EXPECT_TRUE(maker.tree().sync() && maker.store().note_synced());
  return maker.take();
}

// There is next to no space for what a repair writes.
Sound nearly_full() {
  Maker maker;
  maker.fill_up();
  maker.flush();
  maker.unmount();
  Sound sound = maker.take();
  sound.one_in = 8;
  return sound;
}

// Most of what there is lies in blobs; of one some has been written over, and of one its end was cut off.
Sound in_blobs() {
  Maker maker(ByteCount{GiB}, {.sync_interval_ms = 0, .stream_from = ByteCount{kBlockSize}});
  const Ino over = maker.stream("over", 8, 0);
  maker.stream("smaller", 6, 50'000);
  const Ino shorter = maker.stream("shorter", 4, 0);
  EXPECT_GE(maker.store().blobs().size(), 3U);
  maker.write(over, 100'000, 50'000);
  maker.cut(shorter, 123'456);
  maker.rename(maker.a, "shorter", maker.b, "moved");
  maker.flush();
  maker.unmount();
  return maker.take();
}

// Two directories show the same; of one of them something has been changed, and of a third.
Sound of_clones() {
  Maker maker;
  maker.fill(maker.b, 300);
  maker.write(maker.a_foo, 100'000, 200'000);
  maker.rename(kRootIno, "B", maker.a, "B");
  maker.clone("A", "shown");
  maker.clone("A", "changed");
  maker.flush();
  maker.write_at("changed/C/x", 1'000, 9'000);
  maker.write_at("changed/foo", 50'000, 9'000);
  maker.clone("changed", "twice");
  maker.write_at("A/foo", 0, 5'000);
  maker.flush();
  maker.compact();
  maker.unmount();
  Sound sound = maker.take();
  sound.clones = true;
  sound.one_in = 2;
  return sound;
}

// Where faults are planted: the others take seconds to make.
const Sound& planted_start() {
  static const Sound sound = in_tables();
  return sound;
}

std::vector<Sound> starts() {
  std::vector<Sound> made;
  made.push_back(planted_start());
  made.push_back(in_log());
  made.push_back(nearly_full());
  made.push_back(in_blobs());
  made.push_back(of_clones());
  return made;
}

// ---- where the damage is

// Blocks of one structure.
struct Places {
  const char* name;
  std::vector<std::uint64_t> blocks;
};

// Those in which there is something, also what has been removed or is a copy.
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

std::vector<FileRecord> files_on(const SparseImage& image) {
  SparseDevice device(image, false);
  const auto superblock = read_superblock(device, {});
  if (!superblock) return {};
  Catalog catalog(superblock->layout);
  if (!MetadataLog::load(device, *superblock, [&](std::string_view payload) { return catalog.apply(payload); })) return {};
  std::vector<FileRecord> files;
  for (const auto& [id, file] : catalog.files()) files.push_back(file);
  return files;
}

// Those of files that are there, and there once.
std::vector<Places> live_places(const SparseImage& image) {
  Places tables{"live tables", {}}, frames{"live frames", {}};
  const auto add = [](Places& to, std::uint64_t at, std::uint64_t length) {
    for (std::uint64_t block = 0; block < length; block += kDeviceBlock) to.blocks.push_back(at + block);
  };
  for (const FileRecord& file : files_on(image)) {
    std::uint64_t left = file.size;
    for (const Extent& extent : file.extents) {
      if (file.kind == FileKind::table) add(tables, extent.start, std::min(left, extent.length));
      left -= std::min(left, extent.length);
      for (std::uint64_t at = extent.start; file.kind == FileKind::log && at < extent.end();) {
        alignas(8) Block block;
        format::FrameHeader header;
        image.read(at, block);
        std::memcpy(&header, block.data(), sizeof header);
        if (header.magic != format::kFrameMagic || header.file_id != file.id) break;
        add(frames, at, frame_length(header.payload_length));
        at += frame_length(header.payload_length);
      }
    }
  }
  return {tables, frames};
}

struct Verdict {
  bool detected = false;
  std::string problem;
};

// Whoever mounts it and reads everything.
Verdict read(Device& device, const Sound& sound) {
  auto stack = Stack::mount(device);
  if (!stack) {
    const int code = stack.error().code;
    return {true, code == EUCLEAN || code == EIO ? "" : "does not mount, for another reason: " + stack.error().message()};
  }
  const Reads reads = read_everything(*stack->tree, sound.tree());
  return {reads.failed, reads.lie};
}

// As lsmfs fsck does it.
Result<void> repair(Device& device, Said& said) {
  const auto salvaged = salvaging_device(device, [&](ByteOffset at) { said.lines.push_back(fmt::format("cannot read {}", at.v)); });
  LSMFS_TRY(Volume::repair(*salvaged, [&](std::string_view line) { said.lines.emplace_back(line); }));
  LSMFS_ASSIGN(const auto volume, Volume::open(*salvaged));
  LSMFS_ASSIGN(const StoreRepair tables, Store::repair(*volume, {.cache = ByteCount{32 * MiB}}));
  said.lines.insert(said.lines.end(), tables.lines.begin(), tables.lines.end());
  said.lost.insert(said.lost.end(), tables.lost.begin(), tables.lost.end());
  LSMFS_ASSIGN(const auto store, Store::open(*volume, {.cache = ByteCount{32 * MiB}}));
  LSMFS_ASSIGN(const RepairReport rows, repair_tree(*store));
  said.lines.insert(said.lines.end(), rows.lines.begin(), rows.lines.end());
  if (!rows.left.clean()) return make_error(EUCLEAN, "not sound after the repair: " + rows.left.problems.front());
  return store->close();
}

// All that was said, for people.
std::string text_of(const Said& said) {
  std::string text;
  for (const std::string& line : said.lines) text += line + "\n";
  for (const auto& lost : said.lost) text += rows_between(lost.family, lost.after, lost.before) + (lost.aged ? ": aged\n" : ": lost\n");
  return text;
}

// What is wrong after a repair; "": nothing.
std::string judge_repaired(Device& device, const Sound& sound, const Said& said) {
  auto stack = Stack::mount(device);
  if (!stack) return "does not mount: " + stack.error().message();
  std::set<std::string> failed;
  const std::string found = dump(*stack->tree, &failed);
  if (!failed.empty()) return "cannot be read: " + *failed.begin();
  const auto report = check_tree(*stack->store);
  if (!report || !report->clean()) return "is not sound: " + (report ? report->problems.front() : report.error().message());
  if (sound.clones) return found == sound.tree() || !said.lines.empty() || !said.lost.empty() ? "" : "nothing was said of what has changed";
  return unsaid(found, sound.past, said);
}

class Damage : public testing::Test {
 protected:
  Damage() { RecordProperty("seed", std::to_string(seed_)); }

  // Where the next damage is: half of it in what counts, and each structure as often as the others.
  std::uint64_t choose(const std::vector<Places>& all, const std::vector<Places>& live) {
    const std::vector<Places>& some = random_() % 2 ? live : all;
    const Places* one = nullptr;
    do one = &some[random_() % some.size()];
    while (one->blocks.empty());
    ++tried_[one->name];
    return one->blocks[random_() % one->blocks.size()];
  }
  void tell(const char* what) const {
    for (const auto& [name, count] : tried_) std::printf("%s: %zu in the %s\n", what, count, name.c_str());
  }

  const std::uint64_t seed_ = drawn_seed();
  std::mt19937_64 random_{seed_};
  std::map<std::string, std::size_t> tried_;
};

TEST_F(Damage, AFlippedBitIsFoundOrChangesNothing) {
  const int rounds = everything() ? 5000 : 100;
  std::size_t detected = 0, harmless = 0;
  for (const Sound& start : starts()) {
    const auto all = places(start.image), live = live_places(start.image);
    for (int round = 0; round < rounds / start.one_in; ++round) {
      const std::uint64_t at = choose(all, live), bit = random_() % (kDeviceBlock * 8);
      SparseImage image = start.image;
      alignas(8) Block block;
      image.read(at, block);
      block[bit / 8] ^= std::byte(1 << bit % 8);
      image.write(at, block);
      SparseDevice device{image};
      const Verdict verdict = read(device, start);
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
  for (const Sound& start : starts()) {
    const auto all = places(start.image), live = live_places(start.image);
    for (int round = 0; round < rounds / start.one_in; ++round) {
      const std::uint64_t at = choose(all, live) + random_() % (kDeviceBlock / kSector) * kSector;
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
      const Verdict verdict = read(*failing, start);
      ASSERT_EQ(verdict.problem, "");
      ++total;
      // A log that a repair or a mount writes may come to end right before what is bad and has not been read yet. The next
      // mount cannot know that the log ends there, so it fails; one more repair makes that block readable, for good.
      Said said;
      Result<void> repaired;
      std::string wrong;
      const auto repair_and_mount_twice = [&] {
        repaired = repair(*failing, said);
        if (repaired) wrong = judge_repaired(*failing, start, said);
        if (repaired && wrong.empty()) wrong = judge_repaired(*failing, start, said);
      };
      repair_and_mount_twice();
      if (how == 2 && !rewritten && wrong.starts_with("does not mount")) repair_and_mount_twice();
      if (!repaired) {
        ++beyond_repair;
        EXPECT_TRUE(repaired.error().code == EUCLEAN || repaired.error().code == EIO) << repaired.error().message();
        std::printf("beyond repair: the sector at %llu: %s\n", static_cast<unsigned long long>(at), repaired.error().message().c_str());
        continue;
      }
      EXPECT_EQ(wrong, "") << text_of(said);
    }
  }
  tell("sectors lost");
  std::printf("%zu of %zu beyond repair\n", beyond_repair, total);
  EXPECT_LE(beyond_repair, total / 20);
}

// ---- planted

// Changes rows past all that keeps them sound.
void change_rows(Device& device, const std::function<void(Store&, Batch&)>& how) {
  const auto volume = Volume::open(device);
  ASSERT_TRUE(volume);
  const auto store = Store::open(**volume, {});
  ASSERT_TRUE(store);
  Batch batch;
  how(**store, batch);
  ASSERT_TRUE((*store)->commit(batch));
  ASSERT_TRUE((*store)->close());
}

// The first row of a family whose key holds `part`.
std::pair<std::string, std::string> row_with(Store& store, Family family, std::string_view part) {
  const auto cursor = store.cursor(family, {});
  for (cursor->seek(""); cursor->valid(); cursor->next()) {
    if (cursor->key().find(part) != std::string_view::npos) return {std::string(cursor->key()), std::string(cursor->value())};
  }
  ADD_FAILURE() << "no row with " << part;
  return {};
}

// What a flipped bit would do that no checksum covers.
TEST_F(Damage, WrongDataWithRightChecksumsWouldBeNoticed) {
  SparseDevice device{planted_start().image};
  change_rows(device, [](Store& store, Batch& batch) {
    auto [key, value] = row_with(store, Family::blocks, "");
    value[value.size() / 2] ^= 1;
    batch.put(Family::blocks, key, value);
  });
  const Verdict verdict = read(device, planted_start());
  EXPECT_FALSE(verdict.detected);
  EXPECT_TRUE(verdict.problem.starts_with("wrong data: ")) << verdict.problem;
}

// Large extended attributes cannot be read.
class LosesAttributes : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    if (key.ends_with("user.large")) return make_error(EIO, "planted");
    return inner().get(family, key, wait);
  }
};

TEST_F(Damage, AnErrorOfOneCallHidesNoOtherLie) {
  const Sound& start = planted_start();
  const auto read_with = [&](const std::function<void(Store&, Batch&)>& how) {
    SparseDevice device{start.image};
    change_rows(device, how);
    auto stack = Stack::mount(device, {.sync_interval_ms = 0}, {.store = [](auto inner) { return std::make_unique<LosesAttributes>(std::move(inner)); }});
    return stack ? read_everything(*stack->tree, start.tree()) : Reads{false, stack.error().message()};
  };
  const Reads nothing = read_with([](Store&, Batch&) {});
  EXPECT_TRUE(nothing.failed);
  EXPECT_EQ(nothing.lie, "");
  const Reads mode = read_with([](Store& store, Batch& batch) {
    const auto [key, value] = row_with(store, Family::names, std::string_view("\0B", 2));
    auto record = decode_record(value);
    ASSERT_TRUE(record);
    record->mode ^= 0111;
    batch.put(Family::names, key, encode(*record));
  });
  EXPECT_TRUE(mode.failed);
  EXPECT_TRUE(mode.lie.starts_with("wrong attributes: /B ")) << mode.lie;
  const Reads missing = read_with([](Store& store, Batch& batch) { batch.erase(Family::names, row_with(store, Family::names, "name 77").first); });
  EXPECT_TRUE(missing.failed);
  EXPECT_EQ(missing.lie, "silently missing: /B/name 77");
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
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (const FileRecord& file : files_on(image)) {
    if (file.kind != FileKind::table || file.extents.size() != 1) continue;
    const std::uint64_t start = file.extents.front().start;
    for (const auto& [at, size] : fuzz::blocks_of(bytes_at(image, start, file.size))) found.emplace_back(start + at, size);
  }
  return found;
}

TEST_F(Damage, AChecksumThatIsNotCheckedIsNoticed) {
  const Sound& start = planted_start();
  const auto blocks = table_blocks(start.image);
  ASSERT_FALSE(blocks.empty());
  int tried = 0;
  for (int round = 0; round < 1000 && tried < 20; ++round) {
    // A bit of file data, wherever it lies: changes of what RocksDB keeps beside it are another matter (docs/limits.md).
    const std::string_view some = std::string_view(start.data).substr(random_() % (start.data.size() - 64), 64);
    for (const auto& [at, size] : blocks) {
      std::string bytes = bytes_at(start.image, at, size);
      const std::size_t place = bytes.find(some);
      if (place == bytes.npos || some.find_first_not_of('\0') == some.npos) continue;
      bytes[place + 30] ^= static_cast<char>(1 << random_() % 8);
      SparseImage image = start.image;
      put_bytes(image, at, bytes);
      SparseDevice checked{image};
      const Verdict right = read(checked, start);
      EXPECT_TRUE(right.detected);
      EXPECT_EQ(right.problem, "");
      std::string sum;
      put_le32(sum, fuzz::block_checksum(bytes));
      put_bytes(image, at + size, sum);
      SparseDevice unchecked{image};
      const Verdict wrong = read(unchecked, start);
      EXPECT_FALSE(wrong.detected);
      EXPECT_EQ(wrong.problem, "wrong data: /A/foo");
      ++tried;
      break;
    }
  }
  EXPECT_EQ(tried, 20) << "too little of the file's data lies in tables as it is";
}

// ---- a repair that loses more than it says

TEST_F(Damage, ARepairThatZeroesAnotherFileIsNoticed) {
  const Sound& start = planted_start();
  SparseImage image = start.image;
  for (const auto& [at, size] : table_blocks(start.image)) {
    const std::size_t place = bytes_at(start.image, at, size).find(start.data.substr(200'000, 64));
    if (place != std::string::npos) put_bytes(image, at + place, std::string(kSector, '\0'));
  }
  SparseDevice device{image};
  Said said;
  ASSERT_TRUE(repair(device, said));
  EXPECT_EQ(judge_repaired(device, start, said), "") << text_of(said);
  EXPECT_NE(text_of(said).find("/A/foo"), std::string::npos) << text_of(said);
  change_rows(device, [](Store& store, Batch& batch) {
    const auto [key, value] = row_with(store, Family::blocks, std::string_view("x\0", 2));
    batch.put(Family::blocks, key, std::string(value.size(), '\0'));
  });
  const std::string problem = judge_repaired(device, start, said);
  EXPECT_TRUE(problem.starts_with("nothing was said of /B/C/x ")) << problem;
}

// A dump with other data in one line, or without that line.
std::string with_other_data(std::string dump, const std::string& path) {
  const std::size_t line = dump.find("\n" + path + " ino=");
  return dump.insert(dump.find(" data=", line) + 6, "0");
}
std::string without(std::string dump, const std::string& path) {
  const std::size_t line = dump.find("\n" + path + " ino=");
  return dump.erase(line, dump.find('\n', line + 1) - line);
}

TEST_F(Damage, WhatARepairSaysExcusesThatAndNothingElse) {
  const Past& past = planted_start().past;
  const std::string& right = past.moments.back();
  const std::string& earlier = past.moments[past.moments.size() - 2];
  EXPECT_EQ(unsaid(right, past, {}), "");
  const Said copies{{"cannot read 4096", "one of the two superblocks was damaged: written again"}, {}};
  for (const std::string& found : {with_other_data(right, "/foo"), without(right, "/B/name 7"), earlier}) {
    EXPECT_NE(unsaid(found, past, {}), "");
    EXPECT_NE(unsaid(found, past, copies), "");
  }
  const Said foo{{"/foo: 1 of its 3 blocks of 4096 bytes are lost and read as zeros"}, {}};
  EXPECT_EQ(unsaid(with_other_data(right, "/foo"), past, foo), "");
  EXPECT_NE(unsaid(with_other_data(right, "/A/foo"), past, foo), "");
  EXPECT_NE(unsaid(with_other_data(with_other_data(right, "/foo"), "/B/C/x"), past, foo), "");
  EXPECT_EQ(unsaid(with_other_data(right, "/B/C/x"), past, {{"/A/C/x: 1 of its 2 blocks of 4096 bytes are lost and read as zeros"}, {}}), "");
  const Said entries{{"/B: 1 of its 502 entries are lost"}, {}};
  EXPECT_EQ(unsaid(without(right, "/B/name 7"), past, entries), "");
  EXPECT_NE(unsaid(without(right, "/A/foo"), past, entries), "");
  const Said log{{"log file 000012.log is damaged: frame 3 was synced and cannot be read"}, {}};
  EXPECT_EQ(unsaid(earlier, past, log), "");
  EXPECT_NE(unsaid(without(earlier, "/B/name 7"), past, log), "");
  const Said files{{"record 7 of the metadata log is damaged: files are as they were before it"}, {}};
  EXPECT_EQ(unsaid(earlier, past, files), "");
  EXPECT_NE(unsaid(with_other_data(earlier, "/foo"), past, files), "");
}

}  // namespace
}  // namespace lsmfs::test::damage_test

// What snapshots refer to, and what comes back if one of them goes: as foreseen, and as it is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <future>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "seed.h"
#include "tree/clone_fixture.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::test::snapshot_sizes_test {
namespace {

const Stop kNever = [] { return false; };

class SnapshotSizing : public CloneFixture {
 protected:
  explicit SnapshotSizing(ByteCount size = ByteCount{kDeviceMin}) : CloneFixture(size) {}

  static std::string at(const std::string& name) { return fmt::format("{}/{}", kSnapshotsName, name); }
  void snapshot(const std::string& of, const std::string& name) { ASSERT_EQ(clone(of, at(name)), 0) << name; }
  SnapshotSizes sizes(const std::string& name) {
    const auto found = tree().snapshot_sizes(ino(at(name)), kNever);
    EXPECT_TRUE(found) << name << ": " << found.error().message();
    return found ? *found : SnapshotSizes();
  }
  // Bytes of blocks, in rows and in blobs, that somebody wants.
  std::uint64_t live() {
    std::uint64_t all = blocks();
    const auto parts = h_.store().cursor(Family::names, {.lower = std::string(keys::kBlobPrefix), .upper = keys::prefix_end(keys::kBlobPrefix)});
    for (parts->seek(keys::kBlobPrefix); parts->valid(); parts->next()) {
      const auto part = FileBlobs::decode(keys::parse_blob(parts->key())->first.v, parts->value());
      if (!part->shared()) all += part->live();
    }
    return all * kBlockSize;
  }
  // As du(1) adds it up.
  std::uint64_t walked(const std::string& path) {
    std::uint64_t bytes = 0;
    std::set<Ino> met;
    walk(ino(path), "", [&](const std::string&, const Attr& attr) { bytes += met.insert(attr.ino).second ? attr.blocks * 512 : 0; });
    return bytes;
  }
  void refers_to_what_is_there(const std::string& name) { EXPECT_EQ(sizes(name).refers.v, walked(at(name))) << name; }
  // Removes it. Gives what came back.
  std::uint64_t gives_back_what_was_foreseen(const std::string& name) {
    forget_all();
    settle();
    const std::uint64_t before = live(), alone = sizes(name).alone.v;
    remove_tree(at(name));
    forget_all();
    settle();
    EXPECT_EQ(before - live(), alone) << name;
    return alone;
  }
};

TEST_F(SnapshotSizing, NothingComesBackThatOthersHave) {
  populate("d");
  snapshot("d", "s");
  EXPECT_EQ(sizes("s").alone.v, 0u);
  EXPECT_EQ(sizes("s").refers.v, walked("d"));
  snapshot("d", "t");
  remove_tree("d");
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, 0u) << "the other one has it";
  EXPECT_EQ(gives_back_what_was_foreseen("t"), 0u);
  EXPECT_EQ(sizes("s").alone, sizes("s").refers) << "nobody else has it any more";
  const std::uint64_t all = live();
  EXPECT_EQ(sizes("s").alone.v, all);
  refers_to_what_is_there("s");
  EXPECT_EQ(gives_back_what_was_foreseen("s"), all);
  EXPECT_EQ(live(), 0u);
}

TEST_F(SnapshotSizing, WhatWasWrittenSinceComesBack) {
  populate("d");
  snapshot("d", "s");
  write("d/small", 0, "x");
  EXPECT_EQ(sizes("s").alone.v, kSmall) << "a small file is copied as a whole";
  write("d/large", 10 * kBlockSize, noise(5 * kBlockSize, 1));
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, kSmall + 5 * kBlockSize) << "of a large one the blocks that were written";
  unlink("d/sub/deep/file");
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, kSmall + 6 * kBlockSize);
  refers_to_what_is_there("s");
  EXPECT_EQ(gives_back_what_was_foreseen("s"), kSmall + 6 * kBlockSize);
}

// What two snapshots have and nobody else comes back with the last of them.
TEST_F(SnapshotSizing, OfNeighbours) {
  populate("d");
  snapshot("d", "s");
  create("d/new", noise(kSmall, 9));
  snapshot("d", "t");
  remove_tree("d");
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, 0u);
  EXPECT_EQ(sizes("t").alone.v, kSmall);
  EXPECT_EQ(sizes("t").refers.v, sizes("s").refers.v + kSmall);
  EXPECT_EQ(gives_back_what_was_foreseen("t"), kSmall);
  EXPECT_EQ(sizes("s").alone, sizes("s").refers);
}

TEST_F(SnapshotSizing, FilesOfSeveralNamesCountOnce) {
  populate("d");
  create("d/two", noise(kLarge, 8));
  link("d/two", "d/sub/two");
  create("d/outside", noise(kLarge, 7));
  link("d/outside", "d-outside");
  snapshot("d", "s");
  const std::uint64_t all = sizes("s").refers.v;
  EXPECT_EQ(all, walked("d"));
  refers_to_what_is_there("s");
  EXPECT_EQ(sizes("s").alone.v, 0u);
  remove_tree("d");
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, all - round_up(kLarge, kBlockSize)) << "one of them has a name elsewhere";
  gives_back_what_was_foreseen("s");
  EXPECT_EQ(live(), round_up(kLarge, kBlockSize));
}

TEST_F(SnapshotSizing, WhatIsShownTwiceCountsTwice) {
  populate("d");
  mkdir("all");
  for (const char* copy : {"all/a", "all/b", "all/c"}) ASSERT_EQ(clone("d", copy), 0);
  ASSERT_EQ(clone("all", "all-again"), 0);
  rename("all-again", "all/again");
  const std::uint64_t of_one = walked("d");
  snapshot("all", "s");
  EXPECT_EQ(sizes("s").refers.v, 6 * of_one) << "as du adds it up";
  refers_to_what_is_there("s");
  for (const char* each : {"d", "all"}) remove_tree(each);
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, of_one) << "and comes back once";
  EXPECT_EQ(gives_back_what_was_foreseen("s"), of_one);
}

TEST_F(SnapshotSizing, OfManyEntries) {
  mkdir("d");
  for (int i = 0; i < 3000; ++i) create(fmt::format("d/{}", i), i % 3 == 0 ? "x" : "");
  snapshot("d", "s");
  EXPECT_EQ(sizes("s").refers.v, 1000 * kBlockSize);
  for (int i = 0; i < 3000; i += 6) unlink(fmt::format("d/{}", i));
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, 500 * kBlockSize);
  EXPECT_EQ(gives_back_what_was_foreseen("s"), 500 * kBlockSize);
}

// A base of very many users is not trimmed.
TEST_F(SnapshotSizing, OfAFileThatManyHaveSomeOf) {
  mkdir("d");
  create("d/large", noise(kLarge, 1));
  snapshot("d", "s");
  for (int i = 0; i < 70; ++i) {
    create(fmt::format("copy{}", i));
    copy("d/large", fmt::format("copy{}", i));
    write(fmt::format("copy{}", i), 0, noise(kBlockSize, 2));
  }
  write("d/large", 0, noise(kBlockSize, 3));
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, 0u) << "the first block stays, though nobody sees it";
  for (int i = 0; i < 20; ++i) unlink(fmt::format("copy{}", i));
  forget_all();
  settle();
  EXPECT_EQ(sizes("s").alone.v, kBlockSize);
  EXPECT_EQ(gives_back_what_was_foreseen("s"), kBlockSize);
}

TEST_F(SnapshotSizing, NothingIsInAnEmptyOne) {
  mkdir("d");
  snapshot("d", "s");
  make("d/link", S_IFLNK | 0777, "target");
  mkdir("d/e");
  snapshot("d", "t");
  for (const char* name : {"s", "t"}) {
    EXPECT_EQ(sizes(name).alone.v, 0u);
    EXPECT_EQ(sizes(name).refers.v, 0u);
  }
}

TEST_F(SnapshotSizing, AreOfSnapshotsAlone) {
  populate("d");
  snapshot("d", "s");
  const auto code_of = [&](Ino of) { return code(tree().snapshot_sizes(of, kNever)); };
  for (const std::string& path : {std::string(), std::string("d"), std::string(kSnapshotsName), at("s") + "/sub"}) EXPECT_EQ(code_of(ino(path)), EINVAL) << path;
  EXPECT_EQ(code_of(ino("d/small")), ENOTDIR);
  EXPECT_EQ(code_of(Ino{12345}), ESTALE);
  const Ino s = ino(at("s"));
  rename(at("s"), at("t"));
  EXPECT_EQ(code_of(s), 0);
  remove_tree(at("t"));
  EXPECT_EQ(code_of(s), ENOENT);
}

TEST_F(SnapshotSizing, OfATreeThatIsReadOnly) {
  populate("d");
  snapshot("d", "s");
  write("d/small", 0, "x");
  const SnapshotSizes before = sizes("s");
  EXPECT_EQ(before.alone.v, kSmall);
  h_.options.read_only = true;
  remount();
  EXPECT_EQ(sizes("s").alone, before.alone);
  EXPECT_EQ(sizes("s").refers, before.refers);
  h_.options.read_only = false;
  remount();
}

TEST_F(SnapshotSizing, EndWhenNobodyWantsThemAnyMore) {
  mkdir("d");
  for (int i = 0; i < 300; ++i) create(fmt::format("d/{}", i));
  snapshot("d", "s");
  const Ino s = ino(at("s"));
  int looks = 0;
  for (int most = 1; most < 4; ++most) {
    looks = 0;
    EXPECT_EQ(code(tree().snapshot_sizes(s, [&] { return ++looks == most; })), EINTR);
  }
  EXPECT_EQ(code(tree().snapshot_sizes(s, kNever)), 0);
}

TEST_F(SnapshotSizing, AreLookedForByOneAtATime) {
  populate("d");
  snapshot("d", "s");
  const Ino s = ino(at("s"));
  int others = 0;
  EXPECT_EQ(code(tree().snapshot_sizes(s, [&] {
    others = std::async(std::launch::async, [&] { return code(tree().snapshot_sizes(s, kNever)); }).get();
    create("while others look");  // which holds nobody up
    unlink("while others look");
    return false;
  })), 0);
  EXPECT_EQ(others, EBUSY);
  EXPECT_EQ(code(tree().snapshot_sizes(s, kNever)), 0);
}

TEST_F(SnapshotSizing, OfWhatIsDamagedAreNotKnown) {
  populate("d");
  snapshot("d", "s");
  damage_entries("small");
  EXPECT_EQ(code(tree().snapshot_sizes(ino(at("s")), kNever)), EUCLEAN);
}

// Whatever has been done, and whichever goes next.
class RandomSizing : public SnapshotSizing, public testing::WithParamInterface<bool> {
 protected:
  RandomSizing() : SnapshotSizing(ByteCount{GetParam() ? GiB : kDeviceMin}) {}  // of small volumes nothing lies in blobs

  // In order, as large files are.
  void create_large(const std::string& path, std::uint64_t seed) {
    const Ino file = create(path);
    const std::string data = noise(kLarge, seed);
    constexpr std::uint64_t kAtOnce = 10 * kBlockSize;
    for (std::uint64_t from = 0; from < kLarge; from += kAtOnce) h_.write(file, from, std::string_view(data).substr(from, kAtOnce));
  }
};

TEST_P(RandomSizing, IsWhatComesBack) {
  if (GetParam()) {
    h_.options.stream_from = ByteCount{kBlockSize};
    remount();
  }
  std::mt19937_64 random(drawn_seed());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const auto one_of = [&](const auto& all) { return *std::next(all.begin(), static_cast<std::ptrdiff_t>(below(all.size()))); };
  populate("d");
  unlink("d/large");
  create_large("d/large", 2);
  create_large("d/linked", 20);
  if (below(2) == 0) link("d/linked", "d/sub/linked");
  std::set<std::string> kept, clones;
  bool in_blobs = false;
  std::uint64_t alone = 0;
  const auto change = [&](const std::string& top) {
    const std::string path = fmt::format("{}/sub/{}", top, below(8));
    const std::string large = fmt::format("{}/large{}", top, below(3));
    if (find(path) == Ino{}) create(path, noise(1 + below(kSmall), random()));
    else if (below(3) == 0) unlink(path);
    else write(path, below(kSmall), noise(100, random()));
    if (find(large) == Ino{}) create_large(large, random());
    switch (below(8)) {
      case 0: unlink(large); break;
      case 1: copy(top + "/large", large); break;
      case 2: set(large, {.size = below(2 * kLarge)}); break;
      case 3: fallocate(large, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, below(kLarge), 1 + below(kLarge)); break;
      case 4: write(top + "/large", below(kLarge - 30'000), noise(1 + below(30'000), random())); break;
      case 5: rename(top + "/large", large), create_large(top + "/large", random()); break;
      default: write(large, below(kLarge), noise(1 + below(100'000), random())); break;
    }
    if (below(6) == 0) rename(top + "/sub/deep", top + "/deep"), rename(top + "/deep", top + "/sub/deep");
    if (below(8) == 0 && find(top + "/linked again") == Ino{}) link(top + "/linked", top + "/linked again");
  };
  for (int i = 0; i < 30; ++i) {
    const std::string name = std::to_string(i);
    const std::string from = below(4) == 0 ? "" : clones.empty() || below(2) == 0 ? "d" : one_of(clones);
    snapshot(from, name);
    kept.insert(name);
    if (below(4) == 0 && clones.size() < 4) {
      const std::string of = below(2) == 0 ? "d" : at(one_of(kept)), to = fmt::format("clone{}", i);
      if (find(of + "/large") != Ino{}) {
        ASSERT_EQ(clone(of, to), 0);
        clones.insert(to);
      }
    }
    for (std::uint64_t n = below(4); n > 0; --n) change("d");
    if (!clones.empty()) change(one_of(clones));
    if (!clones.empty() && below(5) == 0) {
      const std::string victim = one_of(clones);
      remove_tree(victim);
      clones.erase(victim);
    }
    in_blobs |= !h_.store().blobs().empty();
    if (below(3) == 0) refers_to_what_is_there(one_of(kept));
    if (below(4) == 0) crash();
    if (kept.size() > 6 || below(3) == 0) {
      const std::string victim = one_of(kept);
      alone += gives_back_what_was_foreseen(victim);
      kept.erase(victim);
    }
  }
  sound();
  for (const std::string& name : kept) refers_to_what_is_there(name);
  if (below(2) == 0) remove_tree("d");
  for (const std::string& each : clones) remove_tree(each);
  while (!kept.empty()) {
    const std::string victim = one_of(kept);
    alone += gives_back_what_was_foreseen(victim);
    kept.erase(victim);
  }
  EXPECT_GT(alone, 0u);
  EXPECT_EQ(in_blobs, GetParam());
  sound();
}

INSTANTIATE_TEST_SUITE_P(Files, RandomSizing, testing::Bool(), [](const auto& files) { return files.param ? "InBlobs" : "InRows"; });

}  // namespace
}  // namespace lsmfs::test::snapshot_sizes_test

// The log of changes: that each kind of operation is told, who is told that everything may have changed, and that nothing is ever missing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "clock.h"
#include "lsmfs/import.h"
#include "seed.h"
#include "tree/change_log.h"
#include "tree/clone_fixture.h"
#include "tree/harness.h"
#include "tree/keys.h"

namespace lsmfs::test::changes_test {
namespace {

const Stop kNever = [] { return false; };
using Paths = std::vector<std::string>;
const Paths kEverything{"everything"};

// What is on a device at a moment, by MiB. Its rest is zeros.
using Image = std::map<std::uint64_t, std::string>;

Image image_of(Device& device) {
  Image image;
  AlignedBuffer buffer(MiB);
  for (std::uint64_t at = 0; at < device.size().v; at += MiB) {
    EXPECT_TRUE(device.read(ByteOffset{at}, buffer.bytes()));
    const std::string_view bytes = as_text(buffer.bytes());
    if (bytes.find_first_not_of('\0') != bytes.npos) image[at] = bytes;
  }
  return image;
}

void put_image(Device& device, const Image& image) {
  for (std::uint64_t at = 0; at < device.size().v; at += MiB) {
    AlignedBuffer buffer(MiB);
    const auto found = image.find(at);
    if (found != image.end()) std::ranges::copy(as_bytes(found->second), buffer.bytes().begin());
    EXPECT_TRUE(device.write(ByteOffset{at}, buffer.bytes()));
  }
  EXPECT_TRUE(device.flush());
}

class LogOfChanges : public CloneFixture {
 protected:
  explicit LogOfChanges(ByteCount size = ByteCount{kDeviceMin}) : CloneFixture(size) {}

  Result<Changes> find_all(const std::string& dir, const std::optional<ChangesToken>& since, std::size_t room = ChangesAsked().room) {
    const Ino in = ino(dir);
    return find_changes([&](const ChangesAsked& asked) -> Result<ChangesStep> {
      auto sent = decode_changes_asked(encode(asked));
      sent->room = room;
      LSMFS_ASSIGN(const ChangesStep step, tree().changes(in, *sent, kNever));
      ++steps_;
      const std::string encoded = encode(step);
      EXPECT_LE(encoded.size(), room);
      return *decode_changes_step(encoded);
    }, since);
  }
  ChangesToken token(const std::string& dir = "") {
    const auto found = find_all(dir, std::nullopt);
    EXPECT_TRUE(found) << found.error().message();
    EXPECT_TRUE(found->everything);
    return found ? found->now : ChangesToken{};
  }
  Paths since(const ChangesToken& token, const std::string& dir = "", std::size_t room = ChangesAsked().room) {
    const auto found = find_all(dir, token, room);
    EXPECT_TRUE(found) << found.error().message();
    if (!found) return {"?"};
    return found->everything ? kEverything : found->paths;
  }
  std::uint64_t rows() { return h_.rows(Family::names, keys::kChanges); }
  // As a power cut, after which it is as it was then.
  void go_back_to(const Image& image) {
    h_.unmount();
    held_.clear();
    put_image(h_.device(), image);
    h_.mount();
  }
  void commit() { must(tree().sync()); }

  int steps_ = 0;
};

TEST_F(LogOfChanges, CostsNothingUntilSomebodyAsks) {
  populate("d");
  EXPECT_EQ(rows(), 0u);
  token();
  EXPECT_EQ(rows(), 1u);
  create("new");
  EXPECT_EQ(rows(), 2u);
  sound();
}

TEST_F(LogOfChanges, TellsNothingWhenNothingHasChanged) {
  populate("d");
  const ChangesToken t = token();
  EXPECT_EQ(since(t), Paths{});
  EXPECT_EQ(read("d/sub/file").size(), 5000u);  // an access time is none
  EXPECT_EQ(since(t), Paths{});
  remount();
  EXPECT_EQ(since(t), Paths{});
  EXPECT_EQ(token(), t);
}

TEST_F(LogOfChanges, EachKindIsTold) {
  populate("d");
  const auto told = [&](const auto& change) {
    const ChangesToken t = token();
    change();
    return since(t);
  };
  EXPECT_EQ(told([&] { create("d/new"); }), Paths{"d/new"});
  EXPECT_EQ(told([&] { mkdir("d/directory"); }), Paths{"d/directory"});
  EXPECT_EQ(told([&] { make("d/link", S_IFLNK | 0777, "x"); }), Paths{"d/link"});
  EXPECT_EQ(told([&] { write("d/small", 5, "x"); }), Paths{"d/small"});
  EXPECT_EQ(told([&] { write("d/large", 5, "x"); }), Paths{"d/large"});
  EXPECT_EQ(told([&] { set("d/sub/file", {.size = 3}); }), Paths{"d/sub/file"});
  EXPECT_EQ(told([&] { set("d/sub", {.mode = 0700}); }), Paths{"d/sub"});
  EXPECT_EQ(told([&] { setxattr("d/sub/file", "user.x", "y"); }), Paths{"d/sub/file"});
  EXPECT_EQ(told([&] { must(both_ways([&](Wait w) { return tree().removexattr(ino("d/sub/file"), "user.x", w); })); }), Paths{"d/sub/file"});
  EXPECT_EQ(told([&] { fallocate("d/sparse", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 20000); }), Paths{"d/sparse"});
  EXPECT_EQ(told([&] { copy("d/large", "d/new"); }), Paths{"d/new"});
  EXPECT_EQ(told([&] { unlink("d/empty"); }), Paths{"d/empty"});
  EXPECT_EQ(told([&] { rmdir("d/nothing"); }), Paths{"d/nothing"});
  EXPECT_EQ(told([&] { rename("d/small", "d/sub/moved"); }), (Paths{"d/small", "d/sub/moved"}));
  EXPECT_EQ(told([&] { rename("d/sub/moved", "d/sub/file"); }), (Paths{"d/sub/file", "d/sub/moved"}));
  EXPECT_EQ(told([&] { rename("d/large", "d/sub/file", RENAME_EXCHANGE); }), (Paths{"d/large", "d/sub/file"}));
  EXPECT_EQ(told([&] { rename("d/sub", "d/other"); }), (Paths{"d/other/", "d/sub/"}));
  EXPECT_EQ(told([&] { rename("d/other", "d/directory", RENAME_EXCHANGE); }), (Paths{"d/directory/", "d/other/"}));
  EXPECT_EQ(told([&] { ASSERT_EQ(clone("d", "c"), 0); }), Paths{"c/"});
  EXPECT_EQ(told([&] { write("c/large", 1, "x"); }), Paths{"c/large"});
  EXPECT_EQ(told([&] { remove_tree("c"); }), Paths{"c/"});
  EXPECT_EQ(told([&] { sweep(); }), Paths{});
  EXPECT_EQ(told([&] { ASSERT_EQ(clone("d", fmt::format("{}/s", kSnapshotsName)), 0); }), Paths{});
  EXPECT_EQ(told([&] { must(both_ways([&](Wait w) { return tree().roll_back(ino("d"), ino(fmt::format("{}/s", kSnapshotsName)), w); })); }), Paths{"d/"});
  EXPECT_EQ(told([&] { set("", {.mode = 0700}); }), kEverything);
  sound();
}

TEST_F(LogOfChanges, TellsOfADirectoryFromItOn) {
  populate("d");
  mkdir("e");
  const ChangesToken t = token();
  create("d/sub/new");
  create("e/new");
  create("de");
  set("d/sub", {.mode = 0700});
  EXPECT_EQ(since(t, "d"), (Paths{"sub", "sub/new"}));
  EXPECT_EQ(since(t, "d/sub"), (Paths{"", "new"}));
  EXPECT_EQ(since(t, "d/sub/deep"), Paths{});
  EXPECT_EQ(since(t, "e"), Paths{"new"});
}

TEST_F(LogOfChanges, WhoIsMovedIsNewToAll) {
  populate("d");
  mkdir("e");
  ChangesToken t = token();
  write("d/sub/file", 0, "x");
  rename("d", "e/d");
  EXPECT_EQ(since(t, "e/d"), kEverything);
  EXPECT_EQ(since(t, "e/d/sub"), kEverything);
  EXPECT_EQ(since(t, "e"), Paths{"d/"});
  EXPECT_EQ(since(t), (Paths{"d/", "e/d/"}));
  t = token();
  write("e/d/sub/file", 0, "y");
  EXPECT_EQ(since(t, "e/d"), Paths{"sub/file"});
  // Told by the path of that moment, in one group.
  create("e/d/before");
  rename("e/d", "e/f");
  create("e/f/after");
  rename("e/f", "e/d");
  EXPECT_EQ(since(t, "e"), (Paths{"d/", "f/"}));
}

TEST_F(LogOfChanges, FilesOfSeveralNames) {
  mkdir("d");
  mkdir("e");
  create("d/a", "x");
  ChangesToken t = token();
  link("d/a", "e/b");
  EXPECT_EQ(since(t), Paths{"e/b"});
  t = token();
  write("d/a", 0, "y");
  EXPECT_EQ(since(t), (Paths{"d/a", "e/b"}));
  remount();
  t = token();
  write("d/a", 0, "z");  // nobody knows its other name
  EXPECT_EQ(since(t, "e"), kEverything);
  EXPECT_EQ(since(t), kEverything);
}

TEST_F(LogOfChanges, AFileWithoutANameIsTold) {
  mkdir("d");
  const ChangesToken t = token();
  const auto made = both_ways([&](Wait w) { return tree().make_unnamed(ino("d"), {.mode = S_IFREG | 0600}, w); });
  must(made);
  h_.write(made->ino, 0, "x");
  EXPECT_EQ(since(t), Paths{});
  must(both_ways([&](Wait w) { return tree().link(made->ino, ino("d"), "named", w); }));
  EXPECT_EQ(since(t), Paths{"d/named"});
}

TEST_F(LogOfChanges, ASnapshotDoesNotChange) {
  populate("d");
  const std::string s = fmt::format("{}/s", kSnapshotsName);
  ASSERT_EQ(clone("d", s), 0);
  const ChangesToken t = token(s);
  write("d/small", 0, "x");
  EXPECT_EQ(since(t, s), Paths{});
  remove_tree(s);
  ASSERT_EQ(clone("d", s), 0);  // another one
  EXPECT_EQ(since(t, s), kEverything);
  EXPECT_EQ(since(t), Paths{"d/small"});
}

TEST_F(LogOfChanges, WorksInClones) {
  populate("d");
  const ChangesToken t = token("d");
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(since(t, "c"), kEverything);
  EXPECT_EQ(since(t, "d"), Paths{});
  const ChangesToken later = token("c");
  write("c/sub/file", 0, "x");
  write("d/sub/deep/file", 0, "x");
  EXPECT_EQ(since(later, "c"), Paths{"sub/file"});
  EXPECT_EQ(since(later, "d"), Paths{"sub/deep/file"});
}

TEST_F(LogOfChanges, GoesOnAfterRemountsAndCrashes) {
  populate("d");
  const ChangesToken t = token();
  create("a");
  remount();
  create("b");
  crash();
  create("c");
  remount();
  remount();
  EXPECT_EQ(since(t), (Paths{"a", "b", "c"}));
  sound();
}

TEST_F(LogOfChanges, WhatACrashHasUndoneIsNotKnown) {
  populate("d");
  const ChangesToken t = token();
  commit();
  const Image durable = image_of(h_.device());
  create("a");
  const ChangesToken undone = token();
  go_back_to(durable);
  EXPECT_EQ(find("a"), Ino{});
  EXPECT_EQ(since(undone), kEverything);
  EXPECT_EQ(since(t), Paths{});
  for (const char* name : {"b", "c", "e"}) {
    create(name);
    commit();
  }
  EXPECT_EQ(since(undone), kEverything);
  EXPECT_EQ(since(t), (Paths{"b", "c", "e"}));
}

TEST_F(LogOfChanges, TokensOfOthersAreNotKnown) {
  const ChangesToken t = token();
  EXPECT_EQ(since({t.log + 1, t.position}), kEverything);
  EXPECT_EQ(since({t.log, t.position + 1}), kEverything);
  EXPECT_EQ(since({t.log, UINT64_MAX}), kEverything);
  EXPECT_EQ(since({0, 0}), kEverything);
}

// An image that is copied goes on twice.
TEST(TwoHistories, DoNotTakeEachOthersTokens) {
  const auto image = memory_device(ByteCount{kDeviceMin});
  ASSERT_TRUE(Stack::format(*image));
  const auto ask = [](Tree& tree, const std::optional<ChangesToken>& since) {
    return *find_changes([&](const ChangesAsked& asked) { return tree.changes(kRootIno, asked, kNever); }, since);
  };
  const auto create = [](Tree& tree, const std::string& name) {
    ASSERT_TRUE(both_ways([&](Wait w) { return tree.make(kRootIno, name, {.mode = S_IFREG | 0600}, w); }));
    ASSERT_TRUE(tree.sync());
  };
  ChangesToken common;
  {
    auto stack = Stack::mount(*image);
    common = ask(*stack->tree, std::nullopt).now;
    create(*stack->tree, "both");
    ASSERT_TRUE(stack->close());
  }
  const auto copied = memory_device(ByteCount{kDeviceMin});
  put_image(*copied, image_of(*image));
  auto one = Stack::mount(*image), other = Stack::mount(*copied);
  EXPECT_EQ(ask(*one->tree, common).paths, Paths{"both"});
  EXPECT_EQ(ask(*other->tree, common).paths, Paths{"both"});
  const ChangesToken before = ask(*one->tree, std::nullopt).now;
  create(*one->tree, "one");
  create(*other->tree, "other");
  const ChangesToken of_one = ask(*one->tree, std::nullopt).now, of_other = ask(*other->tree, std::nullopt).now;
  EXPECT_EQ(of_one.position, of_other.position);
  EXPECT_EQ(ask(*one->tree, before).paths, Paths{"one"});
  EXPECT_EQ(ask(*other->tree, before).paths, Paths{"other"});
  EXPECT_TRUE(ask(*one->tree, of_other).everything);
  EXPECT_TRUE(ask(*other->tree, of_one).everything);
  ASSERT_TRUE(one->close());
  ASSERT_TRUE(other->close());
}

TEST_F(LogOfChanges, ComesInSteps) {
  mkdir("d");
  const ChangesToken t = token();
  Paths expected;
  for (int i = 0; i < 300; ++i) {
    const std::string name = fmt::format("d/{:03}{}", i, std::string(static_cast<std::size_t>(i) % 200, 'x'));
    create(name);
    expected.push_back(name);
    if (i % 17 == 0) commit();
  }
  steps_ = 0;
  EXPECT_EQ(since(t, "", 1000), expected);
  EXPECT_GT(steps_, 30);
}

TEST_F(LogOfChanges, WhoIsMovedBetweenStepsIsNewToAll) {
  mkdir("d");
  const ChangesToken t = token();
  for (int i = 0; i < 100; ++i) create(fmt::format("d/{:03}", i));
  const Ino in = ino("d");
  int steps = 0;
  const auto found = find_changes([&](const ChangesAsked& asked) -> Result<ChangesStep> {
    ChangesAsked little = asked;
    little.room = 500;
    if (++steps == 3) rename("d", "e");
    return tree().changes(in, little, kNever);
  }, t);
  must(found);
  EXPECT_TRUE(found->everything);
  EXPECT_EQ(since(found->now, "e"), Paths{});
}

TEST_F(LogOfChanges, MuchInOneGroupIsEverything) {
  const ChangesToken t = token();
  const auto many = [&] {
    for (int i = 0; i < 400; ++i) create(fmt::format("{:03}", i));
  };
  many();
  EXPECT_EQ(since(t).size(), 400u);
  ChangeNotes notes;
  for (std::size_t i = 0; i < 2 * ChangeNotes::kBytesMost / 255; ++i) {
    ChangedNames* const known = notes.known(Ino{5});
    notes.add(known ? *known : notes.at(Ino{5}, "d"), fmt::format("{:0255}", i));
  }
  EXPECT_LT(notes.bytes(), ChangeNotes::kBytesMost + 4096);
  const ChangedPaths taken = notes.take();
  ASSERT_TRUE(taken.contains(""));
  EXPECT_TRUE(taken.at("").all);
  EXPECT_TRUE(notes.empty());
}

TEST_F(LogOfChanges, WhatLiesTooDeepIsToldWithAllBelow) {
  const ChangesToken t = token();
  Ino at = kRootIno;
  std::string path;
  const std::string name(250, 'n');
  for (int i = 0; i < 20; ++i) {
    at = h_.mkdir(at, name);
    held_.insert(at);
    path += (i == 0 ? "" : "/") + name;
  }
  commit();
  h_.create(at, "file");
  const Paths told = since(t, name);
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(told.back().ends_with('/')) << told.back();
  EXPECT_LE(told.back().size(), ChangeRow::kPathMost);
  EXPECT_EQ(since(t, path), kEverything);
}

TEST_F(LogOfChanges, IsErasedWhenNobodyAsksForLong) {
  SteppedClock clock;
  h_.options.clock = &clock;
  remount();
  const ChangesToken t = token();
  clock.advance(std::chrono::hours(24 * 20));
  create("a");
  EXPECT_EQ(since(t), Paths{"a"});
  clock.advance(std::chrono::hours(24 * 29));
  create("b");
  EXPECT_EQ(rows(), 3u);
  clock.advance(std::chrono::hours(24 * 2));
  create("c");
  EXPECT_EQ(rows(), 0u);
  EXPECT_EQ(since(t), kEverything);
  EXPECT_EQ(rows(), 1u);
  sound();
  h_.unmount();
  h_.options.clock = &system_clock();
  held_.clear();
  h_.mount();
}

// The store's part of a mount: what is put is committed at once.
class KeptLog : public LogOfChanges {
 protected:
  void put(ChangeLog& log, const std::string& name, const ChangeLog::Conditions& conditions) {
    log.notes().add(log.notes().at(kRootIno, ""), name);
    Batch batch;
    log.put(batch, conditions);
    must(h_.store().commit(batch));
  }
  void begin(ChangeLog& log) {
    Batch batch;
    log.begin(batch, 0);
    must(h_.store().commit(batch));
  }
};

TEST_F(KeptLog, ItsOldestRowsGo) {
  ChangeLog log;
  begin(log);
  constexpr std::uint64_t kMost = 16384;
  std::vector<ChangesToken> tokens;
  for (int i = 0; i < 1000; ++i) {
    tokens.push_back(log.now());
    put(log, fmt::format("{:0100}", i), {.now = 0, .volume = kMost * ChangeLog::kShare});
    ChangeLog again;
    must(again.load(h_.store(), [](std::string_view line) { ADD_FAILURE() << line; }));
    for (const int back : {0, 1, 50, 200, i}) {
      if (back > i) continue;
      ASSERT_EQ(again.knows(tokens[static_cast<std::size_t>(i - back)]), log.knows(tokens[static_cast<std::size_t>(i - back)])) << i << ' ' << back;
    }
    EXPECT_TRUE(log.knows(tokens.back()));
  }
  EXPECT_FALSE(log.knows(tokens.front()));
  EXPECT_TRUE(log.knows(tokens[950]));
  EXPECT_FALSE(log.knows(tokens[800]));
  EXPECT_LE(rows(), kMost / 150);
  EXPECT_GE(rows(), 50u);
  sound();
}

TEST_F(KeptLog, ItsOldestRowsGoAfterAMountToo) {
  constexpr std::uint64_t kMost = 4 * MiB;
  const ChangeLog::Conditions conditions{.now = 0, .volume = kMost * ChangeLog::kShare};
  ChangeLog log;
  begin(log);
  std::vector<ChangesToken> tokens;
  const std::string name(200, 'n');
  while (tokens.empty() || log.knows(tokens.front())) {  // until it has begun to drop some
    tokens.push_back(log.now());
    put(log, fmt::format("{}{}", tokens.size(), name), conditions);
  }
  const std::uint64_t before = rows();
  ChangeLog again;
  must(again.load(h_.store(), [](std::string_view line) { ADD_FAILURE() << line; }));
  for (int i = 0; i < 2000; ++i) put(again, fmt::format("{}again{}", i, name), conditions);
  EXPECT_GT(rows(), before * 3 / 4);
  sound();
}

TEST_F(KeptLog, HasNoRowsWhereThereIsLittleRoom) {
  ChangeLog log;
  begin(log);
  const ChangeLog::Conditions plenty{.now = 0, .volume = GiB}, little{.now = 0, .volume = GiB, .little_room = true};
  const ChangesToken first = log.now();
  put(log, "a", plenty);
  EXPECT_EQ(rows(), 2u);
  put(log, "b", little);
  EXPECT_EQ(rows(), 1u);
  EXPECT_FALSE(log.knows(first));
  const ChangesToken second = log.now();
  EXPECT_TRUE(log.knows(second));
  put(log, "c", little);
  EXPECT_FALSE(log.knows(second));
  put(log, "d", little);
  const ChangesToken third = log.now();
  put(log, "e", plenty);
  EXPECT_TRUE(log.knows(third));
  EXPECT_NE(log.now(), third);
  EXPECT_EQ(rows(), 2u);
  sound();
}

TEST_F(KeptLog, WithLittleRoomWhatACrashHasUndoneIsNotKnown) {
  ChangeLog log;
  begin(log);
  const ChangeLog::Conditions little{.now = 0, .volume = GiB, .little_room = true};
  put(log, "a", little);
  ChangeLog undone;  // as of this moment
  must(undone.load(h_.store(), [](std::string_view line) { ADD_FAILURE() << line; }));
  EXPECT_TRUE(undone.knows(log.now()));
  put(log, "b", little);
  EXPECT_FALSE(undone.knows(log.now()));
  sound();
}

TEST_F(KeptLog, KnowsSomeMountsOnly) {
  std::vector<ChangesToken> tokens;
  {
    ChangeLog log;
    begin(log);
    tokens.push_back(log.now());
  }
  for (std::size_t i = 0; i <= ChangeHead::kLogsMost; ++i) {
    ChangeLog log;
    must(log.load(h_.store(), [](std::string_view line) { ADD_FAILURE() << line; }));
    EXPECT_TRUE(log.knows(tokens.back()));
    put(log, "a", {.now = 0, .volume = GiB});
    tokens.push_back(log.now());
    EXPECT_NE(tokens.back().log, tokens[tokens.size() - 2].log);
  }
  ChangeLog log;
  must(log.load(h_.store(), [](std::string_view line) { ADD_FAILURE() << line; }));
  EXPECT_FALSE(log.knows(tokens[0]));
  EXPECT_FALSE(log.knows(tokens[1]));
  EXPECT_TRUE(log.knows(tokens[2]));
}

TEST_F(LogOfChanges, WhatIsDamagedIsEverything) {
  enum class Damage { head, newest, middle, missing };
  for (const Damage damage : {Damage::head, Damage::newest, Damage::middle, Damage::missing}) {
    SCOPED_TRACE(static_cast<int>(damage));
    const ChangesToken t = token();
    for (const char* name : {"a", "b", "c"}) {
      find(name) == Ino{} ? (void)create(name) : write(name, 0, "x");
      commit();
    }
    EXPECT_EQ(since(t), (Paths{"a", "b", "c"}));
    const std::uint64_t last = token().position;
    h_.unmount();
    held_.clear();
    h_.mount();
    Batch batch;
    switch (damage) {
      case Damage::head: batch.put(Family::names, keys::kChanges, "?"); break;
      case Damage::newest: batch.put(Family::names, keys::change(last), "?"); break;
      case Damage::middle: batch.put(Family::names, keys::change(last - 1), "?"); break;
      case Damage::missing: batch.erase(Family::names, keys::change(last - 1)); break;
    }
    must(h_.store().commit(batch));
    EXPECT_NE(h_.check(), "");
    h_.crash();  // the head and the newest row are read by a mount
    EXPECT_EQ(since(t), kEverything);
    const ChangesToken after = token();
    write("a", 0, "y");
    EXPECT_EQ(since(after), Paths{"a"});
    if (damage != Damage::middle && damage != Damage::missing) {
      sound();
    } else {
      EXPECT_NE(h_.repair(), "");
      held_.clear();
      EXPECT_EQ(since(after), kEverything);
    }
  }
  EXPECT_EQ(read("a"), "y");
}

// A sector that cannot be read once may be read by the next mount: what changed in between must not be missing then.
TEST_F(LogOfChanges, WhatCannotBeReadOnceIsGone) {
  create("a");
  const ChangesToken t = token();
  commit();
  std::string head;
  {
    const auto row = h_.store().get(Family::names, keys::kChanges, Wait::yes);
    ASSERT_TRUE(row && *row);
    head = **row;
  }
  Batch batch;
  batch.put(Family::names, keys::kChanges, "?");
  must(h_.store().commit(batch));
  h_.crash();
  held_.clear();
  write("a", 0, "x");  // and nobody asks
  commit();
  EXPECT_EQ(rows(), 0u);
  h_.remount();
  held_.clear();
  EXPECT_EQ(since(t), kEverything);
  EXPECT_EQ(read("a"), "x");
}

TEST_F(LogOfChanges, WhatIsMadeBeforeItHasANameIsToldWithIt) {
  create("beside");
  const ChangesToken t = token();
  const auto staged = tree().stage(kRootIno, "d", {.mode = S_IFDIR | 0755}, Wait::yes);
  ASSERT_TRUE(staged);
  std::string stream;
  put_record(stream, ImportedInode{.path = "a", .mode = S_IFDIR | 0755});
  put_record(stream, ImportedInode{.path = "a/f", .mode = S_IFREG | 0644, .size = 4});
  put_record(stream, 0, "data");
  ImportedInode name;
  name.path = "g";
  name.target = "a/f";
  name.is_link = true;
  put_record(stream, name);
  {
    Importer importer(tree(), staged->ino, {.as_root = true, .uid = 0, .gid = 0});
    must(importer.feed(as_bytes(stream)));
    commit();
    EXPECT_EQ(since(t), Paths{});
    ASSERT_TRUE(importer.finish());
  }
  ASSERT_TRUE(tree().link(staged->ino, kRootIno, "d", Wait::yes));
  tree().forget(staged->ino, 2);
  EXPECT_EQ(since(t), Paths{"d/"});
  const ChangesToken later = token();
  const auto given_up = tree().stage(kRootIno, "e", {.mode = S_IFDIR | 0755}, Wait::yes);
  ASSERT_TRUE(given_up);
  ASSERT_TRUE(tree().make(given_up->ino, "f", {.mode = S_IFREG | 0644}, Wait::yes));
  tree().forget(given_up->ino, 1);
  while (*tree().sweep()) {}
  EXPECT_EQ(since(later), Paths{});
  sound();
}

TEST_F(LogOfChanges, WhoeverGoesOnChangingIsAskedOnlySoOften) {
  int asked = 0;
  const auto changes = find_changes([&](const ChangesAsked&) -> Result<ChangesStep> {
    ChangesStep step;
    step.now = {1, static_cast<std::uint64_t>(++asked)};
    step.paths = {"a"};
    step.ended = asked % 2 == 0;
    step.before = static_cast<std::uint64_t>(1000 - asked);
    return step;
  }, ChangesToken{1, 0});
  ASSERT_TRUE(changes);
  EXPECT_TRUE(changes->everything);
  EXPECT_LT(asked, 100);
}

TEST_F(LogOfChanges, ARepairIsEverything) {
  populate("d");
  const ChangesToken t = token();
  commit();
  EXPECT_NE(h_.repair(), "");
  held_.clear();
  EXPECT_EQ(rows(), 0u);
  EXPECT_EQ(since(t), kEverything);
}

TEST_F(LogOfChanges, AMountThatChangesNothingAnswers) {
  const ChangesToken t = token();
  create("a");
  h_.unmount();
  h_.options.read_only = true;
  h_.mount();
  held_.clear();
  EXPECT_EQ(since(t), Paths{"a"});
  EXPECT_EQ(since(token()), Paths{});
  h_.unmount();
  h_.options.read_only = false;
  h_.mount();
  EXPECT_EQ(since(t), Paths{"a"});
}

TEST_F(LogOfChanges, AMountThatChangesNothingDoesNotBegin) {
  h_.unmount();
  h_.options.read_only = true;
  h_.mount();
  held_.clear();
  EXPECT_EQ(code(find_all("", std::nullopt)), EROFS);
  h_.unmount();
  h_.options.read_only = false;
  h_.mount();
}

TEST_F(LogOfChanges, TakesNoRoomThatIsNeeded) {
  mkdir("d");
  const ChangesToken first = token();
  for (int round = 0; round < 3; ++round) {
    int made = 0, code = 0;
    for (; code == 0; ++made) {
      const std::string name = fmt::format("{:0200}", made);
      const auto file = both_ways([&](Wait w) { return tree().make(ino("d"), name, {.mode = S_IFREG | 0600}, w); });
      code = test::code(file);
      if (code != 0) break;
      held_.insert(file->ino);
      const std::string data = noise(200'000, static_cast<std::uint64_t>(made));
      code = test::code(both_ways([&](Wait w) { return tree().write(file->ino, ByteOffset{0}, as_bytes(data), w); }));
      if (made % 10 == 0) token();
    }
    EXPECT_EQ(code, ENOSPC);
    for (const std::uint64_t small : {20'000, 1}) {  // and now all that is left, as far as it goes
      for (int n = 0; n < 2000; ++n) {
        const auto file = both_ways([&](Wait w) { return tree().make(ino("d"), fmt::format("{}-{:0200}", small, n), {.mode = S_IFREG | 0600}, w); });
        if (!file) break;
        held_.insert(file->ino);
        const std::string data = noise(small, static_cast<std::uint64_t>(n));
        if (!both_ways([&](Wait w) { return tree().write(file->ino, ByteOffset{0}, as_bytes(data), w); })) break;
        if (n % 50 == 0) token();
      }
    }
    EXPECT_EQ(since(first), kEverything);
    forget_all();
    for (const std::string& name : h_.list(ino("d"))) unlink("d/" + name);
    forget_all();
    must(tree().sync());
    EXPECT_FALSE(tree().read_only());
    sound();
  }
  remount();
  const ChangesToken last = token();
  create("d/new");
  EXPECT_EQ(since(last), Paths{"d/new"});
}

TEST_F(LogOfChanges, OfWhatIsNoDirectory) {
  create("file");
  const Ino gone = mkdir("gone");
  rmdir("gone");
  EXPECT_EQ(code(find_all("file", std::nullopt)), ENOTDIR);
  EXPECT_EQ(code(tree().changes(gone, {}, kNever)), ESTALE);
  const ChangesToken t = token();
  create("new");
  EXPECT_EQ(code(tree().changes(kRootIno, {.since = t}, [] { return true; })), EINTR);
}

// ---- what goes from one to the other

TEST(TokensOfChanges, AreTextWithACheck) {
  const ChangesToken token{0x0123456789abcdef, 0x2a};
  const std::string text = text_of(token);
  EXPECT_TRUE(text.starts_with("lsmfs1-0123456789abcdef-2a-")) << text;
  EXPECT_EQ(token_of(text), token);
  EXPECT_EQ(token_of(text_of({UINT64_MAX, UINT64_MAX})), (ChangesToken{UINT64_MAX, UINT64_MAX}));
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'0', '1', 'f', '-', 'x', '\n'}) {
      std::string other = text;
      other[i] = c;
      if (other == text) continue;
      EXPECT_EQ(token_of(other), std::nullopt) << other;
    }
    EXPECT_EQ(token_of(text.substr(0, i)), std::nullopt);
    EXPECT_EQ(token_of(text.substr(i + 1)), std::nullopt);
  }
  for (const char* other : {"", "-", "--", "lsmfs1", "lsmfs1-", "lsmfs1--", "lsmfs1---", "1700000000000000000", "builtin:0.1:2:3"}) EXPECT_EQ(token_of(other), std::nullopt) << other;
}

TEST(PathsOfChanges, EachIsToldOnce) {
  const auto told = [](std::vector<std::string> paths) {
    return find_changes([&](const ChangesAsked&) -> Result<ChangesStep> {
      ChangesStep step;
      step.ended = true;
      step.paths = paths;
      return step;
    }, ChangesToken{})->paths;
  };
  EXPECT_EQ(told({"b", "a", "b", "a/x"}), (Paths{"a", "a/x", "b"}));
  EXPECT_EQ(told({"a", "a/", "a/x", "a/b/", "a.c", "aa", "a/b/c", "b/c/", "b"}), (Paths{"a.c", "a/", "aa", "b", "b/c/"}));
}

TEST(RowsOfChanges, WhatIsDamagedIsRefused) {
  const ChangeRow row{.bytes = 7, .paths = {{"", {.all = false, .names = {"a", "b"}}}, {"d/e", {.all = true, .names = {}}}}};
  const ChangeHead head{.asked = -5, .dropped = 3, .dropped_bytes = 700, .logs = {{9, 1}, {8, 4}}};
  EXPECT_EQ(decode_change_row(encode(row)), row);
  EXPECT_EQ(decode_change_head(encode(head)), head);
  EXPECT_EQ(decode_change_row(""), std::nullopt);
  EXPECT_EQ(decode_change_head(""), std::nullopt);
  EXPECT_EQ(decode_change_row(encode(row) + "x"), std::nullopt);
  EXPECT_EQ(decode_change_head(encode(head) + "x"), std::nullopt);
  const auto refused = [](const ChangedPaths& paths) { return !decode_change_row(encode(ChangeRow{.bytes = 1, .paths = paths})); };
  const ChangedNames all{.all = true, .names = {}};
  for (const char* path : {"/", "/a", "a/", "a//b", "..", "a/.."}) EXPECT_TRUE(refused({{path, all}})) << path;
  for (const char* name : {".", "..", "a/b"}) EXPECT_TRUE(refused({{"", {.all = false, .names = {name}}}})) << name;
  EXPECT_TRUE(refused({{std::string(5000, 'a'), all}}));
  EXPECT_TRUE(refused({}));
}

// ---- random operations

// All that is told of a path, without what is not.
class RandomChanges : public LogOfChanges {
 protected:
  using Picture = std::map<std::string, std::string>;
  Picture picture_of(const std::string& dir) {
    Picture out;
    visit(ino(dir), "", [&](const std::string& path, const Attr& attr) {
      std::string& line = out[path];
      line = fmt::format("{:o} {} {} {}", attr.mode, attr.uid, attr.gid, attr.rdev);
      if (!S_ISDIR(attr.mode)) line += fmt::format(" {} {}.{}", attr.size, attr.mtime.seconds, attr.mtime.nanoseconds);
      if (S_ISREG(attr.mode)) line += h_.read(attr.ino);
      if (S_ISLNK(attr.mode)) line += *both_ways([&](Wait w) { return tree().readlink(attr.ino, w); });
      const auto value = both_ways([&](Wait w) { return tree().getxattr(attr.ino, "user.x", w); });
      if (value) line += *value;
    });
    return out;
  }
  // By names, since a listing may have an entry of which it only knows the number.
  template <class Visit>
  void visit(Ino at, const std::string& path, const Visit& each) {
    const Attr attr = h_.attr(at);
    each(path, attr);
    if (!S_ISDIR(attr.mode)) return;
    for (const std::string& name : h_.list(at)) {
      const auto found = both_ways([&](Wait w) { return tree().lookup(at, name, w); });
      ASSERT_TRUE(found && *found) << path << " has no " << name;
      visit((*found)->ino, in(path, name), each);
      tree().forget((*found)->ino, 1);
    }
  }
  struct Moment {
    ChangesToken token;
    Picture all;
    int step = 0;
  };
  // What lies below a directory of a picture, and what it is itself.
  static Picture below(const Picture& all, const std::string& dir) {
    if (dir.empty()) return all;
    Picture out;
    for (const auto& [path, line] : all) {
      if (path == dir) out[""] = line;
      else if (path.starts_with(dir + "/")) out[path.substr(dir.size() + 1)] = line;
    }
    return out;
  }
  static bool is_told(const Paths& told, const std::string& path) {
    for (const std::string& each : told) {
      if (each == path || (each.ends_with('/') && (path + "/").starts_with(each))) return true;
    }
    return false;
  }

  std::string any(const std::vector<std::string>& of) { return of.empty() ? "" : of[number(of.size())]; }
  std::size_t number(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random_); }
  std::string in(const std::string& dir, const std::string& name) { return dir.empty() ? name : dir + "/" + name; }
  static bool within(const std::string& path, const std::string& dir) { return dir.empty() || path == dir || path.starts_with(dir + "/"); }

  void change() {
    std::vector<std::string> directories{""}, files, all;
    for (const auto& [path, line] : now_) {
      if (path.empty()) continue;
      all.push_back(path);
      (line.starts_with("4") ? directories : files).push_back(path);
    }
    const std::string to = in(any(directories), fmt::format("{}", number(6)));
    const bool is_free = !now_.contains(to);
    const std::string file = any(files), dir = any(directories), one = any(all);
    const auto is_directory = [&](const std::string& path) { return now_.contains(path) && now_[path].starts_with("4"); };
    switch (number(18)) {
      case 0: case 1: if (is_free) mkdir(to); break;
      case 2: case 3: if (is_free) create(to, noise(number(20000), number(1000))); break;
      case 4: if (is_free) make(to, S_IFLNK | 0777, fmt::format("{}", number(100))); break;
      case 5: case 6: if (!file.empty() && now_[file].starts_with("100")) write(file, number(9000), noise(1 + number(3000), number(1000))); break;
      case 7: if (!file.empty() && now_[file].starts_with("100")) set(file, {.size = number(9000)}); break;
      case 8: if (!one.empty()) set(one, {.mode = 0600 + static_cast<std::uint32_t>(number(64))}); break;
      case 9: if (!one.empty()) setxattr(one, "user.x", fmt::format("{}", number(1000))); break;
      case 10: if (is_free && !file.empty()) link(file, to); break;
      case 11: if (!file.empty()) unlink(file); break;
      case 12: case 13:
        if (one.empty() || within(to, one)) break;
        if (is_free) rename(one, to);
        else if (!within(one, to)) rename(one, to, RENAME_EXCHANGE);
        else break;
        break;
      case 14: if (number(3) == 0 && !dir.empty()) remove_tree(dir); break;
      case 15:
        if (!is_free || within(to, dir) || now_.size() > 60) break;
        EXPECT_EQ(clone(dir, to), 0) << dir << " " << to;
        break;
      case 16:
        if (dir.empty() || number(3) > 0) break;
        if (!snapshot_) {
          EXPECT_EQ(clone(dir, fmt::format("{}/s", kSnapshotsName)), 0);
        } else {
          must(both_ways([&](Wait w) { return tree().roll_back(ino(dir), ino(fmt::format("{}/s", kSnapshotsName)), w); }));
          remove_tree(fmt::format("{}/s", kSnapshotsName));
        }
        snapshot_ = !snapshot_;
        break;
      case 17:
        if (is_directory(dir) && !dir.empty() && below(now_, dir).size() == 1) rmdir(dir);
        break;
    }
  }

  std::mt19937_64 random_;
  Picture now_;
  bool snapshot_ = false;
};

TEST_F(RandomChanges, NothingIsMissing) {
  random_.seed(drawn_seed());
  std::vector<Moment> moments;
  std::size_t told_exactly = 0;
  Image durable;
  for (int step = 0; step < 600 && !HasFailure(); ++step) {
    now_ = picture_of("");
    for (std::size_t n = number(6); n > 0; --n) {
      change();
      now_ = picture_of("");
    }
    switch (number(12)) {
      case 0: settle(); break;
      case 1: remount(); break;
      case 2: forget_all(); break;
      case 3: commit(); break;
      case 4:
        held_.clear();
        h_.crash();
        break;
      case 5:  // is it undone by a power cut, or is it what lasts?
        if (number(8) == 0) durable = image_of(h_.device());
        else if (!durable.empty() && number(3) == 0) go_back_to(std::exchange(durable, {}));
        break;
      default: break;
    }
    snapshot_ = find(fmt::format("{}/s", kSnapshotsName)) != Ino{};
    now_ = picture_of("");
    if (number(4) == 0) moments.push_back({token(), now_, step});
    if (moments.size() > 6) moments.erase(moments.begin() + static_cast<std::ptrdiff_t>(number(moments.size())));
    if (number(3) > 0) continue;
    std::vector<std::string> directories;
    for (const auto& [path, line] : now_) {
      if (line.starts_with("4")) directories.push_back(path);
    }
    for (const Moment& moment : moments) {
      const std::string dir = any(directories);
      const Paths told = since(moment.token, dir);
      if (told == kEverything) continue;
      ++told_exactly;
      const Picture before = below(moment.all, dir), after = below(now_, dir);
      for (const Picture* side : {&before, &after}) {
        for (const auto& [path, line] : *side) {
          const auto other = (side == &before ? after : before).find(path);
          const bool same = other != (side == &before ? after : before).end() && other->second == line;
          EXPECT_TRUE(same || is_told(told, path)) << "step " << step << ", since " << moment.step << ", of \"" << dir << "\": \"" << path << "\" is missing";
        }
      }
    }
  }
  EXPECT_GT(told_exactly, 50u);
  forget_all();
  sound();
}

}  // namespace
}  // namespace lsmfs::test::changes_test

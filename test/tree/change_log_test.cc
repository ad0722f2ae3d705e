// The log of changes itself: what mounts, crashes, repairs and little room make of it, which tokens it knows, and its rows.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "clock.h"
#include "tree/changes_fixture.h"

namespace lsmfs::test::change_log_test {
namespace {

using namespace changes;

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

}  // namespace
}  // namespace lsmfs::test::change_log_test

#include <gtest/gtest.h>

#include <stdio.h>

#include "kv/store_decorator.h"
#include "tree/harness.h"
#include "tree/keys.h"

namespace lsmfs::test::names_test {
namespace {

TEST(Names, ARemountShowsEveryKindOfInodeAsItWas) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "file", "hello");
  h.make(d, "link", S_IFLNK | 0777, "../d/file");
  h.make(d, "fifo", S_IFIFO | 0600);
  ASSERT_TRUE(h.tree().make(d, "null", {.mode = S_IFCHR | 0666, .uid = 1, .gid = 2, .rdev = 0x103}, Wait::yes));
  h.remount();
  EXPECT_EQ(h.read_path("d/file"), "hello");
  EXPECT_EQ(*h.tree().readlink(h.walk("d/link"), Wait::yes), "../d/file");
  const Attr null = h.attr(h.walk("d/null"));
  EXPECT_EQ(null.mode, S_IFCHR | 0666u);
  EXPECT_EQ(null.rdev, 0x103u);
  EXPECT_EQ(null.uid, 1u);
  EXPECT_EQ(h.list(h.walk("d")), (std::vector<std::string>{"fifo", "file", "link", "null"}));
  const TreeCounts c = h.tree().counts();
  EXPECT_EQ(c.regular, 1u);
  EXPECT_EQ(c.directories, 2u);
  EXPECT_EQ(c.symlinks, 1u);
  EXPECT_EQ(c.others, 2u);
}

TEST(Names, InodeNumbersAreNeverUsedAgain) {
  Harness h;
  const Ino first = h.create(kRootIno, "a");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "a", Wait::yes));
  h.remount();
  EXPECT_GT(h.create(kRootIno, "a"), first);
}

TEST(Names, BadNamesAreRefused) {
  Harness h;
  auto make = [&](std::string_view name) {
    return code(h.tree().make(kRootIno, name, {.mode = S_IFREG | 0644}, Wait::yes));
  };
  EXPECT_EQ(make(std::string(256, 'x')), ENAMETOOLONG);
  EXPECT_EQ(make(std::string(255, 'x')), 0);
  EXPECT_EQ(make(""), EINVAL);
  EXPECT_EQ(make("a/b"), EINVAL);
  EXPECT_EQ(make(std::string_view("a\0b", 3)), EINVAL);
  EXPECT_EQ(code(h.tree().make(kRootIno, "l", {.mode = S_IFLNK | 0777, .symlink = std::string(4096, 'x')}, Wait::yes)),
            ENAMETOOLONG);
}

TEST(Names, ASetGroupIdDirectoryGivesItsGroupOn) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_TRUE(h.tree().setattr(d, {.mode = 02775, .gid = 55}, Wait::yes));
  const Attr file = *h.tree().make(d, "f", {.mode = S_IFREG | 0644, .gid = 1}, Wait::yes);
  const Attr dir = *h.tree().make(d, "s", {.mode = S_IFDIR | 0755, .gid = 1}, Wait::yes);
  EXPECT_EQ(file.gid, 55u);
  EXPECT_EQ(dir.gid, 55u);
  EXPECT_EQ(dir.mode, S_IFDIR | 02755u);
}

TEST(Names, HardLinksShareOneInodeUntilTheLastIsGone) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino f = h.create(kRootIno, "f", "shared");
  ASSERT_TRUE(h.tree().link(f, d, "g", Wait::yes));
  EXPECT_EQ(h.attr(f).nlink, 2u);
  h.remount();
  EXPECT_EQ(h.walk("f"), h.walk("d/g"));
  h.write(h.walk("f"), 0, "SHARED");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  h.remount();
  EXPECT_EQ(h.read_path("d/g"), "SHARED");
  EXPECT_EQ(h.attr(h.walk("d/g")).nlink, 1u);
  ASSERT_TRUE(h.tree().unlink(h.walk("d"), "g", Wait::yes));
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), 0u);
}

// Else a listing would look for it elsewhere. git gives each of its objects a second name and takes the first away.
TEST(Names, TheRecordOfAFileWithOneNameLeftIsInItsEntryAgain) {
  Harness h;
  const auto linked_rows = [&h] {
    EXPECT_TRUE(h.tree().sync());
    EXPECT_EQ(h.check(), "");
    return h.rows(Family::names, keys::kLinkedPrefix);
  };
  const Ino a = h.mkdir(kRootIno, "a"), b = h.mkdir(kRootIno, "b");
  const auto link = [&h](Ino ino, Ino dir, std::string_view name) { EXPECT_TRUE(h.tree().link(ino, dir, name, Wait::yes)); };
  const auto unlink = [&h](Ino dir, std::string_view name) { EXPECT_TRUE(h.tree().unlink(dir, name, Wait::yes)); };

  const Ino object = h.create(a, "temporary", "object");  // in one group
  link(object, b, "object");
  unlink(a, "temporary");
  const Ino late = h.create(a, "late", "late");  // each in a group of its own
  EXPECT_TRUE(h.tree().sync());
  link(late, a, "second");
  EXPECT_EQ(linked_rows(), 1u);
  unlink(a, "late");
  EXPECT_EQ(linked_rows(), 0u);
  const Ino three = h.create(a, "one", "three");
  link(three, a, "two");
  link(three, b, "three");
  unlink(a, "one");
  EXPECT_EQ(linked_rows(), 1u);
  unlink(a, "two");
  EXPECT_EQ(linked_rows(), 0u);
  const Ino empty = h.create(a, "empty");
  link(empty, b, "still empty");
  unlink(a, "empty");
  h.write(empty, 0, "no more");
  EXPECT_TRUE(h.tree().rename(kRootIno, "b", kRootIno, "renamed", 0, Wait::yes));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(linked_rows(), 0u);
    EXPECT_EQ(h.list(a), std::vector<std::string>{"second"});
    EXPECT_EQ(h.list(b), (std::vector<std::string>{"object", "still empty", "three"}));
    EXPECT_EQ(h.read_path("renamed/object"), "object");
    EXPECT_EQ(h.read_path("renamed/three"), "three");
    EXPECT_EQ(h.read_path("renamed/still empty"), "no more");
    EXPECT_EQ(h.read_path("a/second"), "late");
    EXPECT_EQ(h.attr(h.walk("renamed/three")).nlink, 1u);
    h.remount();
    EXPECT_EQ(h.walk("a"), a);
    EXPECT_EQ(h.walk("renamed"), b);
  }
}

// Which name is left is not known when the others were made before the mount. Whoever finds it knows.
TEST(Names, TheOnlyNameOfAFileIsKnownWhenItIsFound) {
  Harness h;
  const Ino dir = h.mkdir(kRootIno, "dir");
  const Ino ino = h.create(dir, "one", "data");
  ASSERT_TRUE(h.tree().link(ino, dir, "two", Wait::yes));
  h.remount();
  h.walk("dir");
  ASSERT_TRUE(h.tree().unlink(dir, "one", Wait::yes));
  h.remount();
  EXPECT_EQ(h.rows(Family::names, keys::kLinkedPrefix), 1u);
  EXPECT_EQ(h.check(), "");
  ASSERT_EQ(h.walk("dir/two"), ino);
  ASSERT_TRUE(h.tree().rename(dir, "two", kRootIno, "moved", 0, Wait::yes));
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::names, keys::kLinkedPrefix), 0u);
  EXPECT_EQ(h.check(), "");
  ASSERT_TRUE(h.tree().link(ino, dir, "again", Wait::yes));
  ASSERT_TRUE(h.tree().unlink(kRootIno, "moved", Wait::yes));
  h.crash();
  EXPECT_EQ(h.read_path("moved"), "data");
  EXPECT_EQ(h.walk("dir/again"), Ino{});
  EXPECT_EQ(h.check(), "");
}

// As git makes objects: a second name, and away with the first; and as others do with O_TMPFILE.
TEST(Names, TheBlocksOfASmallFileThatGotANewNameLieWhereThatSays) {
  Harness h;
  const Ino a = h.mkdir(kRootIno, "a"), b = h.mkdir(kRootIno, "b");
  const std::string home_a = keys::child_home("", "a", a), home_b = keys::child_home("", "b", b);
  const auto rows = [&h](const std::string& dir_home, std::string_view name, Ino ino) {
    EXPECT_TRUE(h.tree().sync());
    EXPECT_EQ(h.check(), "");
    return h.rows(Family::blocks, keys::child_home(dir_home, name, ino));
  };
  const auto link = [&h](Ino ino, Ino dir, std::string_view name) { EXPECT_TRUE(h.tree().link(ino, dir, name, Wait::yes)); };
  const auto unlink = [&h](Ino dir, std::string_view name) { EXPECT_TRUE(h.tree().unlink(dir, name, Wait::yes)); };

  const std::string data(10'000, 'd');
  for (const bool written : {false, true}) {
    const std::string name = written ? "written" : "at once", target = name + " target";
    const Ino ino = h.create(a, name, data);
    if (written) {
      EXPECT_EQ(rows(home_a, name, ino), 3u);
    }
    link(ino, b, target);
    unlink(a, name);
    EXPECT_EQ(rows(home_b, target, ino), written ? 0u : 3u) << "what is written stays: that is how old copies are removed";
    EXPECT_EQ(rows(home_a, name, ino), written ? 3u : 0u);
    h.write(ino, 9'999, "and more");
    EXPECT_EQ(rows(home_b, target, ino), written ? 0u : 3u);
  }
  const Ino three = h.create(a, "one", data);
  link(three, a, "two");
  link(three, b, "three");
  unlink(a, "two");
  unlink(a, "one");
  EXPECT_EQ(rows(home_b, "three", three), 3u);

  const Ino again = h.create(a, "first", data);  // and once more before its record is in the entry
  link(again, a, "second");
  unlink(a, "first");
  link(again, b, "third");
  unlink(a, "second");
  EXPECT_EQ(rows(home_b, "third", again), 3u);

  const Ino large = h.create(a, "large", std::string(300 * KiB, 'l'));
  link(large, b, "large");
  unlink(a, "large");
  EXPECT_EQ(rows(home_a, "large", large), 75u);

  const auto unnamed = h.tree().make_unnamed(a, {.mode = S_IFREG | 0600}, Wait::yes);
  ASSERT_TRUE(unnamed);
  h.write(unnamed->ino, 0, data);
  link(unnamed->ino, b, "named");
  EXPECT_EQ(rows(home_b, "named", unnamed->ino), 3u);

  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(h.read_path("b/at once target"), data.substr(0, 9'999) + "and more");
    EXPECT_EQ(h.read_path("b/written target"), data.substr(0, 9'999) + "and more");
    for (const std::string name : {"three", "third", "named"}) EXPECT_EQ(h.read_path("b/" + name), data) << name;
    EXPECT_EQ(h.read_path("b/large"), std::string(300 * KiB, 'l'));
    EXPECT_EQ(h.rows(Family::names, keys::kLinkedPrefix), 0u);
    h.remount();
  }
}

TEST(Names, DirectoriesCountTheirSubdirectoriesInNlink) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.mkdir(d, "a");
  h.mkdir(d, "b");
  EXPECT_EQ(h.attr(d).nlink, 4u);
  ASSERT_TRUE(h.tree().rmdir(d, "a", Wait::yes));
  EXPECT_EQ(h.attr(d).nlink, 3u);
  EXPECT_EQ(code(h.tree().rmdir(kRootIno, "d", Wait::yes)), ENOTEMPTY);
}

TEST(Names, NothingCanBeMadeInARemovedDirectory) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_TRUE(h.tree().rmdir(kRootIno, "d", Wait::yes));
  EXPECT_EQ(code(h.tree().make(d, "x", {.mode = S_IFREG | 0644}, Wait::yes)), ENOENT);
  EXPECT_EQ(h.attr(d).nlink, 0u);
}

TEST(Names, ReadOnlyTreesRefuseEveryChange) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  (void)f;
  h.options.read_only = true;
  h.remount();
  EXPECT_EQ(code(h.tree().make(kRootIno, "g", {.mode = S_IFREG}, Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().unlink(kRootIno, "f", Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().write(h.walk("f"), ByteOffset{0}, as_bytes("y"), Wait::yes)), EROFS);
  EXPECT_EQ(h.read_path("f"), "x");
}

// A store that counts the rows it is asked for.
class CountingStore final : public StoreDecorator {
 public:
  CountingStore(std::unique_ptr<Store> inner, std::size_t& gets) : StoreDecorator(std::move(inner)), gets_(gets) {}
  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    ++gets_;
    return StoreDecorator::get(family, key, wait);
  }

 private:
  std::size_t& gets_;
};

TEST(Names, ThatAreKnownAreFoundWithoutReadingARow) {
  std::size_t gets = 0;
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0}, {.store = [&](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> {
              return std::make_unique<CountingStore>(std::move(inner), gets);
            }});
  for (const char* name : {"a", "b", "c", "d"}) h.create(h.mkdir(kRootIno, name), "file", "data");
  h.remount();
  Ino dirs[4];
  for (int i = 0; i < 4; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    dirs[i] = h.walk(name);
    ASSERT_TRUE(h.tree().lookup(dirs[i], "file", Wait::yes)->has_value());
  }
  const auto is = [&](Ino dir, std::string_view name) {
    const auto found = h.tree().lookup(dir, name, Wait::yes);
    return found->has_value() ? (*found)->ino : Ino{};
  };
  const Ino file_a = is(dirs[0], "file"), file_b = is(dirs[1], "file"), file_c = is(dirs[2], "file");
  gets = 0;
  Tree& tree = h.tree();
  ASSERT_TRUE(tree.unlink(dirs[3], "file", Wait::yes));
  ASSERT_TRUE(tree.rmdir(kRootIno, "d", Wait::yes));
  ASSERT_TRUE(tree.rename(dirs[0], "file", dirs[1], "file", RENAME_EXCHANGE, Wait::yes));
  EXPECT_EQ(is(dirs[0], "file"), file_b);
  EXPECT_EQ(is(dirs[1], "file"), file_a);
  ASSERT_TRUE(tree.rename(dirs[2], "file", dirs[0], "file", 0, Wait::yes));
  EXPECT_EQ(is(dirs[0], "file"), file_c);
  EXPECT_EQ(gets, 0u);
  // Names that are gone, or are one of several.
  EXPECT_EQ(is(dirs[2], "file"), Ino{});
  EXPECT_EQ(is(kRootIno, "d"), Ino{});
  ASSERT_TRUE(tree.link(file_a, dirs[2], "second", Wait::yes));
  EXPECT_EQ(is(dirs[2], "second"), file_a);
  EXPECT_EQ(is(dirs[1], "file"), file_a);
  ASSERT_TRUE(tree.unlink(dirs[1], "file", Wait::yes));
  EXPECT_EQ(is(dirs[1], "file"), Ino{});
  EXPECT_EQ(is(dirs[2], "second"), file_a);
}

}  // namespace
}  // namespace lsmfs::test::names_test

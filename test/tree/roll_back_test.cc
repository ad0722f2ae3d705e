// Rollbacks: a directory has what a snapshot has, and stays the inode that it is.
#include <gtest/gtest.h>
#include <linux/fs.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "seed.h"
#include "tree/clone_fixture.h"
#include "tree/harness.h"

namespace lsmfs::test::roll_back_test {
namespace {

class RollBack : public CloneFixture {
 protected:
  static std::string at(const std::string& name) { return fmt::format("{}/{}", kSnapshotsName, name); }
  int snapshot(const std::string& of, const std::string& name) { return clone(of, at(name)); }
  int roll_back(const std::string& dir, const std::string& snapshot) {
    const Ino to = ino(dir), from = ino(snapshot);
    auto gone = both_ways([&](Wait w) { return tree().roll_back(to, from, w); });
    if (gone) gone_ = *std::move(gone);
    return code(gone);
  }
  // Without the line of the directory itself.
  std::string contents(const std::string& path) {
    const std::string all = picture(path);
    return all.substr(all.find('\n') + 1);
  }
  void change(const std::string& d) {
    write(d + "/small", 5, "changed");
    write(d + "/large", 70'000, "changed");
    unlink(d + "/sub/file");
    create(d + "/sub/new", noise(kSmall, 9));
    rename(d + "/sub/deep", d + "/moved");
    set(d + "/moved/file", {.mode = 0600});
    mkdir(d + "/more");
    create(d + "/more/file", noise(kLarge, 8));
  }
  void remove_snapshots() {
    for (const std::string& name : h_.list(kSnapshotsIno)) remove_tree(at(name));
    forget_all();
    settle();
  }
  std::set<std::string> names_gone() const {
    std::set<std::string> names;
    for (const SweptEntry& entry : gone_) names.insert(entry.name);
    return names;
  }

  std::vector<SweptEntry> gone_;
};

TEST_F(RollBack, GivesADirectoryWhatTheSnapshotHas) {
  for (const bool linked : {false, true}) {
    for (const bool remounts : {false, true}) {
      populate("d");
      if (linked) add_links("d");
      create("beside", noise(kSmall, 7));
      ASSERT_EQ(snapshot("d", "s"), 0);
      const std::string was = contents(at("s"));
      change("d");
      const Ino d = ino("d");
      if (remounts) remount();
      ASSERT_EQ(roll_back("d", at("s")), 0);
      EXPECT_EQ(ino("d"), d);
      EXPECT_EQ(difference(contents("d"), was), "");
      EXPECT_EQ(difference(contents(at("s")), was), "");
      sound();
      sweep();  // by which files lose the names that they had below
      numbers();
      sound();
      // It can be changed, and be rolled back again.
      change("d");
      EXPECT_EQ(difference(contents(at("s")), was), "");
      ASSERT_EQ(roll_back("d", at("s")), 0);
      forget_all();
      settle();
      sound();
      crash();
      EXPECT_EQ(ino("d"), d);
      EXPECT_EQ(difference(contents("d"), was), "");
      numbers();
      remove_tree("d");
      unlink("beside");
      if (linked) unlink("d-outside");
      remove_snapshots();
      sound();
      EXPECT_EQ(blocks(), 0u);
      EXPECT_EQ(names(), 3u) << "the root, the state, and the directory of snapshots";
    }
  }
}

// It has left what it had to the snapshot, and may have been changed in parts or not at all since.
TEST_F(RollBack, OfWhatIsShown) {
  for (const int changes : {0, 1, 2}) {
    populate("d");
    ASSERT_EQ(snapshot("d", "one"), 0);
    if (changes > 0) create("d/sub/new");
    ASSERT_EQ(snapshot("d", "two"), 0);
    if (changes > 1) unlink("d/small");
    const std::string one = contents(at("one")), two = contents(at("two"));
    const Ino file = ino("d/sub/deep/file");
    for (const auto& [name, was] : {std::pair("one", one), std::pair("two", two), std::pair("one", one)}) {
      ASSERT_EQ(roll_back("d", at(name)), 0);
      EXPECT_EQ(difference(contents("d"), was), "");
      numbers();
    }
    EXPECT_EQ(h_.read(file), noise(300, 4));
    EXPECT_NE(ino("d/sub/deep/file"), file);
    // What is written there now makes entries of what nobody finds any more.
    h_.write(file, 0, "changed");
    sweep();
    EXPECT_EQ(h_.read(file).substr(0, 7), "changed");
    EXPECT_EQ(h_.read(ino("d/sub/deep/file")), noise(300, 4));
    sound();
    forget_all();
    settle();
    sound();
    remove_tree("d");
    remove_snapshots();
    EXPECT_EQ(blocks(), 0u);
    EXPECT_EQ(names(), 3u);
    sound();
  }
}

TEST_F(RollBack, OfTheRoot) {
  const std::string value = noise(5000, 1), other = noise(6000, 2);
  must(tree().setxattr(kRootIno, "user.large", value, 0, Wait::yes));
  for (const bool linked : {false, true}) {
    populate("d");
    if (linked) add_links("d");
    create("file", noise(kSmall, 1));
    ASSERT_EQ(snapshot("", "s"), 0);
    const std::string was = contents(at("s"));
    for (int i = 0; i < 3; ++i) {
      change("d");
      unlink("file");
      mkdir("new");
      create("new/file", noise(kLarge, 3));
      must(tree().setxattr(kRootIno, "user.large", other, 0, Wait::yes));
      must(tree().setxattr(kRootIno, "user.other", other, 0, Wait::yes));
      const Ino file = ino("new/file");
      if (i == 1) remount();
      ASSERT_EQ(roll_back("", at("s")), 0);
      EXPECT_EQ(difference(contents(""), was), "");
      EXPECT_EQ(*tree().getxattr(kRootIno, "user.large", Wait::yes), value);
      EXPECT_EQ(code(tree().getxattr(kRootIno, "user.other", Wait::yes)), ENODATA);
      EXPECT_EQ(find(std::string(kSnapshotsName)), kSnapshotsIno);
      if (i != 1) {
        EXPECT_EQ(h_.read(file), noise(kLarge, 3));
      }
      numbers();
      sound();
    }
    crash();
    EXPECT_EQ(difference(contents(""), was), "");
    settle();
    sound();
    remove_tree("d");
    unlink("file");
    if (linked) unlink("d-outside");
    remove_snapshots();
    must(tree().sync());
    sound();
    EXPECT_EQ(blocks(), 0u);
    EXPECT_EQ(names(), 4u) << "and an attribute of the root";
  }
}

// With the home that it has at first, which no orphan can have.
class RollBackOfAFirstRoot : public RollBack, public testing::WithParamInterface<std::tuple<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(All, RollBackOfAFirstRoot, testing::Combine(testing::Bool(), testing::Bool()));

TEST_P(RollBackOfAFirstRoot, LeavesNothing) {
  const auto [linked, in_use] = GetParam();
  mkdir("of");
  create("of/file", "of");
  ASSERT_EQ(snapshot("of", "s"), 0);
  populate("d");
  if (linked) add_links("d");
  if (linked) link("d/small", "small");
  create("file", noise(kSmall, 1));
  mkdir("nothing");
  rename("d/sub", "elsewhere");
  setxattr("nothing", "user.large", noise(5000, 6));
  must(tree().setxattr(kRootIno, "user.large", noise(5000, 1), 0, Wait::yes));
  const Ino file = ino("d/large"), deep = ino("elsewhere/deep/file"), top = ino("file");
  if (!in_use) remount();
  ASSERT_EQ(roll_back("", at("s")), 0);
  EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>{"file"});
  EXPECT_EQ(read("file"), "of");
  EXPECT_EQ(code(tree().getxattr(kRootIno, "user.large", Wait::yes)), ENODATA);
  sound();
  if (in_use) {
    EXPECT_EQ(names_gone(), linked ? (std::set<std::string>{"d", "d-outside", "elsewhere", "file", "nothing", "of", "small"})
                                   : (std::set<std::string>{"d", "elsewhere", "file", "nothing", "of"}));
    sweep();
    EXPECT_EQ(h_.read(file), noise(kLarge, 2));
    EXPECT_EQ(h_.read(deep), noise(300, 4));
    EXPECT_EQ(h_.read(top), noise(kSmall, 1));
    EXPECT_EQ(h_.attr(top).nlink, 0u);
  }
  crash();
  settle();
  EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>{"file"});
  sound();
  unlink("file");
  remove_snapshots();
  EXPECT_EQ(blocks(), 0u);
  EXPECT_EQ(names(), 3u);
  sound();
}

TEST_F(RollBack, TakesWhatADirectoryIsButNotWhatItIsCalled) {
  mkdir("d");
  const std::string value = noise(5000, 1);
  setxattr("d", "user.large", value);
  setxattr("d", "user.small", "s");
  setxattr("d", "system.posix_acl_default", acl_);
  set("d", {.mode = 0710, .uid = 3, .gid = 4, .mtime = Time{5, 6}, .flags = FS_NODUMP_FL});
  ASSERT_EQ(snapshot("d", "s"), 0);
  const Attr was = h_.attr(ino("d"));
  set("d", {.mode = 0777, .uid = 0, .gid = 0, .flags = 0});
  setxattr("d", "user.large", "x");
  setxattr("d", "user.new", noise(6000, 2));
  rename("d", "e");
  ASSERT_EQ(roll_back("e", at("s")), 0);
  for (int i = 0; i < 2; ++i) {
    const Attr is = h_.attr(ino("e"));
    EXPECT_EQ(is.ino, was.ino);
    EXPECT_EQ(std::tie(is.mode, is.uid, is.gid, is.mtime, is.atime, is.btime, is.flags, is.nlink),
              std::tie(was.mode, was.uid, was.gid, was.mtime, was.atime, was.btime, was.flags, was.nlink));
    EXPECT_GT(is.ctime, was.ctime);
    EXPECT_EQ(*tree().getxattr(is.ino, "user.large", Wait::yes), value);
    EXPECT_EQ(*tree().getxattr(is.ino, "user.small", Wait::yes), "s");
    EXPECT_EQ(*tree().getxattr(is.ino, "system.posix_acl_default", Wait::yes), acl_);
    EXPECT_EQ(code(tree().getxattr(is.ino, "user.new", Wait::yes)), ENODATA);
    sound();
    crash();
  }
  remove_tree("e");
  remove_snapshots();
  EXPECT_EQ(names(), 3u);
}

// Who works in it, or has something below it open.
TEST_F(RollBack, LeavesWhatIsInUse) {
  for (const bool shown : {false, true}) {
    for (const bool linked : {false, true}) {
      populate("d");
      if (linked) add_links("d");
      ASSERT_EQ(snapshot("d", "s"), 0);
      if (!shown) change("d");
      const Ino d = ino("d"), file = ino("d/large"), sub = ino("d/sub"), two = linked ? ino("d/two") : Ino{};
      const std::string data = h_.read(file);
      const std::size_t of_d = h_.list(d).size();
      forget_all();
      for (const char* path : {"d", "d/large", "d/sub"}) (void)find(path);
      if (linked) (void)find("d/two");
      gone_.clear();
      ASSERT_EQ(roll_back("d", at("s")), 0);
      std::set<std::string> expected{"large", "sub"};
      if (linked) expected.insert("two");
      EXPECT_EQ(names_gone(), expected);
      for (const SweptEntry& entry : gone_) EXPECT_EQ(entry.dir, d);
      EXPECT_EQ(h_.read(file), data);
      h_.write(file, 3, "more");
      EXPECT_EQ(h_.read(file).substr(3, 4), "more");
      EXPECT_EQ(code(tree().make(sub, "x", {.mode = S_IFREG | 0600}, Wait::yes)), ENOENT) << "nothing is made where no path leads";
      EXPECT_EQ(code(tree().lookup(sub, "deep", Wait::yes)), ENOENT);
      EXPECT_EQ(h_.list(sub), std::vector<std::string>{});
      EXPECT_EQ(h_.list(d).size(), shown ? of_d : h_.list(ino(at("s"))).size());
      EXPECT_NE(ino("d/sub"), sub);
      const Ino made = create("d/made", "made");
      std::map<Ino, SweptEntry> told;
      tree().on_swept([&](std::vector<SweptEntry> entries) {
        for (auto& entry : entries) told[entry.ino] = std::move(entry);
      });
      sweep();
      tree().on_swept({});
      EXPECT_TRUE(told.contains(file));
      EXPECT_TRUE(told.contains(sub));
      EXPECT_FALSE(told.contains(made));
      EXPECT_EQ(h_.attr(file).nlink, 0u);
      EXPECT_EQ(h_.attr(sub).nlink, 0u);
      if (linked) {
        EXPECT_EQ(h_.read(two), "two names");
      }
      EXPECT_EQ(h_.read(file).substr(3, 4), "more");
      sound();
      unlink("d/made");
      remove_tree("d");
      if (linked) unlink("d-outside");
      remove_snapshots();
      EXPECT_EQ(blocks(), 0u);
      EXPECT_EQ(names(), 3u);
      sound();
    }
  }
}

TEST_F(RollBack, AListingGoesOnWithWhatIsThere) {
  mkdir("d");
  for (int i = 0; i < 40; ++i) create(fmt::format("d/{:02}", i));
  ASSERT_EQ(snapshot("d", "s"), 0);
  for (int i = 0; i < 40; i += 2) unlink(fmt::format("d/{:02}", i));
  for (int i = 40; i < 60; ++i) create(fmt::format("d/{:02}", i));
  const Ino d = ino("d");
  std::vector<std::string> listed;
  std::uint64_t cookie = 0;
  const auto list = [&](std::size_t most) {
    must(tree().readdir(d, cookie, AttrsOf::none, [&](const DirEntry& e) {
      if (listed.size() == most) return false;
      cookie = e.next_cookie;
      listed.emplace_back(e.name);
      return true;
    }, Wait::yes));
  };
  list(12);
  EXPECT_EQ(listed.back(), "19");
  ASSERT_EQ(roll_back("d", at("s")), 0);
  list(1000);
  std::vector<std::string> rest(listed.begin() + 12, listed.end());
  std::erase(rest, ".");
  std::vector<std::string> expected;
  for (int i = 20; i < 40; ++i) expected.push_back(fmt::format("{:02}", i));
  EXPECT_EQ(rest, expected);
}

// A name that was absent, and one that an entry not yet committed has.
TEST_F(RollBack, FindsWhatIsThereAtOnce) {
  mkdir("d");
  create("d/kept");
  ASSERT_EQ(snapshot("d", "s"), 0);
  unlink("d/kept");
  const Ino d = ino("d"), from = ino(at("s"));
  EXPECT_EQ(find("d/kept"), Ino{});
  create("d/new");
  must(tree().roll_back(d, from, Wait::yes));
  EXPECT_NE(find("d/kept"), Ino{});
  EXPECT_EQ(find("d/new"), Ino{});
  create("d/new", "again");
  EXPECT_EQ(read("d/new"), "again");
  sound();
}

TEST_F(RollBack, OfALargeDirectoryWhoseEntriesAreBeingPutBeside) {
  for (int i = 0; i < 5000; ++i) h_.create(kRootIno, fmt::format("{:04}", i));
  ASSERT_EQ(snapshot("", "s"), 0);
  // The first call wants all entries, and the second one finds what has become of them.
  EXPECT_EQ(code(tree().unlink(kRootIno, "0000", Wait::no)), EAGAIN);
  ASSERT_EQ(roll_back("", at("s")), 0);
  unlink("0001");
  EXPECT_EQ(h_.list(kRootIno).size(), 4999u);
  ASSERT_EQ(roll_back("", at("s")), 0);
  EXPECT_EQ(h_.list(kRootIno).size(), 5000u);
  settle();
  sound();
}

TEST_F(RollBack, OfADirectoryInAClone) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  ASSERT_EQ(clone("c", "cc"), 0);
  mkdir("other");
  create("other/file", "other");
  ASSERT_EQ(snapshot("other", "s"), 0);
  ASSERT_EQ(snapshot("cc/sub", "sub"), 0);
  const std::string was = picture("d");
  ASSERT_EQ(roll_back("c/sub", at("s")), 0);
  EXPECT_EQ(read("c/sub/file"), "other");
  ASSERT_EQ(roll_back("cc/sub/deep", at("s")), 0);
  EXPECT_EQ(read("cc/sub/deep/file"), "other");
  EXPECT_EQ(difference(picture("d"), was), "");
  numbers();
  ASSERT_EQ(roll_back("c/sub", at("sub")), 0);
  EXPECT_EQ(difference(contents("c/sub"), contents("d/sub")), "");
  numbers();
  crash();
  settle();
  sound();
  EXPECT_EQ(read("cc/sub/deep/file"), "other");
  for (const char* path : {"d", "c", "cc", "other"}) remove_tree(path);
  remove_snapshots();
  EXPECT_EQ(blocks(), 0u);
  EXPECT_EQ(names(), 3u);
  sound();
}

TEST_F(RollBack, IsRefused) {
  populate("d");
  create("file");
  ASSERT_EQ(snapshot("d", "s"), 0);
  ASSERT_EQ(snapshot("d", "gone"), 0);
  mkdir("removed");
  const std::string was = picture("");
  Tree& t = tree();
  const Ino d = ino("d"), s = ino(at("s")), removed = ino("removed"), removed_snapshot = ino(at("gone"));
  EXPECT_EQ(code(t.roll_back(ino("file"), s, Wait::yes)), ENOTDIR);
  EXPECT_EQ(code(t.roll_back(d, ino("file"), Wait::yes)), ENOTDIR);
  for (const Ino none : {d, kRootIno, kSnapshotsIno, ino(at("s") + "/sub")}) EXPECT_EQ(code(t.roll_back(d, none, Wait::yes)), EINVAL) << none.v;
  for (const Ino kept : {s, kSnapshotsIno, ino(at("s") + "/sub"), removed_snapshot}) EXPECT_EQ(code(t.roll_back(kept, s, Wait::yes)), EROFS) << kept.v;
  EXPECT_EQ(difference(picture(""), was), "");
  rmdir("removed");
  EXPECT_EQ(code(t.roll_back(removed, s, Wait::yes)), ENOENT);
  remove_tree(at("gone"));
  EXPECT_EQ(code(t.roll_back(d, removed_snapshot, Wait::yes)), ENOENT);
  sound();
}

TEST_F(RollBack, IsRefusedWhereSomethingBelowIsImmutable) {
  populate("d");
  add_links("d");
  ASSERT_EQ(snapshot("d", "s"), 0);
  for (const std::string path : {"d", "d/small", "d/two", "d/sub/deep", "d/sub/deep/file"}) {
    for (const std::uint32_t flag : {FS_IMMUTABLE_FL, FS_APPEND_FL}) {
      set(path, {.flags = flag});
      const std::string was = picture("d");
      EXPECT_EQ(code(tree().roll_back(ino("d"), ino(at("s")), Wait::yes)), EPERM) << path;
      EXPECT_EQ(difference(picture("d"), was), "");
      set(path, {.flags = 0});
    }
  }
  create("beside");
  set("beside", {.flags = FS_IMMUTABLE_FL});
  EXPECT_EQ(roll_back("d", at("s")), 0) << "it is elsewhere";
  // What was immutable is so again.
  set("d/small", {.flags = FS_IMMUTABLE_FL});
  ASSERT_EQ(snapshot("d", "fixed"), 0);
  set("d/small", {.flags = 0});
  set("d", {.flags = 0});
  EXPECT_EQ(roll_back("d", at("fixed")), 0);
  EXPECT_EQ(h_.attr(ino("d/small")).flags, static_cast<std::uint32_t>(FS_IMMUTABLE_FL));
  EXPECT_EQ(code(tree().roll_back(ino("d"), ino(at("s")), Wait::yes)), EPERM);
  settle();
  sound();
}

// Many times, with changes between.
TEST_F(RollBack, AgainAndAgain) {
  std::mt19937_64 random(drawn_seed());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  populate("d");
  mkdir("d/sub/e");
  for (int i = 0; i < 10; ++i) create(fmt::format("d/sub/e/{}", i), noise(kSmall, i));
  const std::vector<std::string> dirs{"", "d", "d/sub", "d/sub/e"};
  std::map<std::string, std::string> kept;
  std::map<std::string, std::string> of;
  for (int i = 0; i < 60; ++i) {
    const std::string dir = dirs[below(dirs.size())];
    if (below(2) == 0) {
      const std::string name = std::to_string(i);
      ASSERT_EQ(snapshot(dir, name), 0);
      kept[name] = contents(at(name));
      of[name] = dir;
    } else if (!kept.empty()) {
      const auto chosen = std::next(kept.begin(), static_cast<std::ptrdiff_t>(below(kept.size())));
      ASSERT_EQ(roll_back(of[chosen->first], at(chosen->first)), 0);
      EXPECT_EQ(difference(contents(of[chosen->first]), chosen->second), "");
    }
    write(fmt::format("d/sub/e/{}", below(10)), below(kSmall), noise(100, random()));
    if (below(3) == 0) create(fmt::format("d/sub/new {}", i), noise(1 + below(kSmall), random()));
    if (below(4) == 0) create(fmt::format("new {}", i), "x");
    if (below(6) == 0) link("d/sub/e/1", fmt::format("d/link {}", i));
    if (below(6) == 0) link("d/sub/e/2", fmt::format("d/sub/e/link {}", i));
    if (kept.size() > 6) {
      remove_tree(at(kept.begin()->first));
      kept.erase(kept.begin());
    }
    if (below(3) == 0) settle();
    if (below(3) == 0) forget_all();
    if (below(6) == 0) crash();
    if (below(6) == 0) remount();
    if (below(6) == 0) sweep(), numbers();
  }
  for (const auto& [name, was] : kept) EXPECT_EQ(difference(contents(at(name)), was), "") << name;
  sound();
  forget_all();
  settle();
  sound();
}

}  // namespace
}  // namespace lsmfs::test::roll_back_test

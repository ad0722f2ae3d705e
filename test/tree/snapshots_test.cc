// Snapshots: what does not change any more, whatever becomes of its source.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/xattr.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "seed.h"
#include "tree/clone_fixture.h"
#include "tree/cold_store.h"
#include "tree/harness.h"
#include "tree/keys.h"

namespace lsmfs::test::snapshots_test {
namespace {

class Snapshots : public CloneFixture {
 protected:
  static std::string at(const std::string& name) { return fmt::format("{}/{}", kSnapshotsName, name); }
  int snapshot(const std::string& of, const std::string& name) { return clone(of, at(name)); }
  // Without the times of the directory itself, of which one is that of the snapshot.
  std::string contents(const std::string& path) {
    const std::string all = picture(path);
    return all.substr(all.find('\n') + 1);
  }
  std::vector<std::string> snapshots() { return h_.list(kSnapshotsIno); }
  void remove_snapshots() {
    for (const std::string& name : snapshots()) remove_tree(at(name));
    forget_all();
    settle();
  }
};

TEST_F(Snapshots, AreWhatWasThere) {
  for (const bool linked : {false, true}) {
    const std::string d = linked ? "linked" : "d";
    populate(d);
    if (linked) add_links(d);
    const std::string before = contents(d);
    ASSERT_EQ(snapshot(d, "of " + d), 0);
    const std::string was = contents(at("of " + d));
    if (!linked) {  // else it has less names of a file
      EXPECT_EQ(difference(was, before), "");
    }
    write(d + "/small", 5, "changed");
    write(d + "/large", 70'000, "changed");
    unlink(d + "/sub/file");
    create(d + "/sub/new");
    rename(d + "/sub/deep", d + "/moved");
    set(d + "/moved/file", {.mode = 0600});
    EXPECT_EQ(difference(contents(at("of " + d)), was), "");
    remount();
    EXPECT_EQ(difference(contents(at("of " + d)), was), "");
    remove_tree(d);
    settle();
    crash();
    EXPECT_EQ(difference(contents(at("of " + d)), was), "");
    sound();
  }
  unlink("linked-outside");
  remove_snapshots();
  sound();
  EXPECT_EQ(blocks(), 0u);
  EXPECT_EQ(names(), 3u) << "the root, the state, and the directory of snapshots";
}

TEST_F(Snapshots, OfTheRoot) {
  populate("d");
  create("file", noise(kSmall, 1));
  const std::string value = noise(5000, 1);
  ASSERT_TRUE(tree().setxattr(kRootIno, "user.large", value, 0, Wait::yes));
  std::map<std::string, std::string> kept;
  for (int i = 0; i < 6; ++i) {
    const std::string name = std::to_string(i), was = contents("");
    ASSERT_EQ(snapshot("", name), 0);
    EXPECT_EQ(difference(contents(""), was), "");
    kept[name] = was;
    if (i % 2 == 0) remount();
    // Not each of them changes the root.
    if (i != 3) create("new " + name, noise(300, 1));
    write("d/small", static_cast<std::uint64_t>(i), name);
    if (i == 4) remove_tree("d/sub");
    for (const auto& [snapshot_of_it, picture_of_it] : kept) EXPECT_EQ(difference(contents(at(snapshot_of_it)), picture_of_it), "") << snapshot_of_it;
    EXPECT_EQ(*tree().getxattr(kRootIno, "user.large", Wait::yes), value);
    sound();
  }
  numbers();
  crash();
  for (const auto& [name, was] : kept) EXPECT_EQ(difference(contents(at(name)), was), "") << name;
  const std::string now = picture("");
  while (!kept.empty()) {
    const auto victim = std::next(kept.begin(), static_cast<std::ptrdiff_t>(kept.size() / 2));
    remove_tree(at(victim->first));
    kept.erase(victim);
    forget_all();
    settle();
    for (const auto& [name, was] : kept) EXPECT_EQ(difference(contents(at(name)), was), "") << name;
    EXPECT_EQ(difference(picture(""), now), "");
    sound();
  }
  for (const std::string& name : h_.list(kRootIno)) S_ISDIR(h_.attr(ino(name)).mode) ? remove_tree(name) : unlink(name);
  ASSERT_TRUE(tree().removexattr(kRootIno, "user.large", Wait::yes));
  forget_all();
  settle();
  EXPECT_EQ(blocks(), 0u);
  EXPECT_EQ(names(), 3u);
  sound();
  remount();
  EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>());
  populate("again");
  sound();
}

TEST_F(Snapshots, OfAnEmptyRoot) {
  ASSERT_EQ(snapshot("", "nothing"), 0);
  create("file");
  remount();
  EXPECT_EQ(h_.list(ino(at("nothing"))), std::vector<std::string>());
  EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>{"file"});
  sound();
}

TEST_F(Snapshots, SayWhatTheyAreOf) {
  populate("d");
  const Time before = h_.attr(kRootIno).ctime;
  ASSERT_EQ(snapshot("d/sub", "sub"), 0);
  ASSERT_EQ(snapshot("", "all"), 0);
  ASSERT_EQ(snapshot(at("all") + "/d", "of a snapshot"), 0);
  rename("d/sub", "d/renamed");
  for (int i = 0; i < 2; ++i) {
    const auto of = [&](const std::string& name) { return tree().snapshot_info(ino(at(name)), Wait::yes); };
    EXPECT_EQ(of("sub")->of, "/d/sub");
    EXPECT_GE(of("sub")->made, before);
    EXPECT_LE(of("sub")->made, of("all")->made);
    EXPECT_EQ(of("all")->of, "/");
    EXPECT_EQ(of("of a snapshot")->of, "/.snapshots/all/d");
    for (const std::string& other : {at("all") + "/d", std::string("d"), std::string(kSnapshotsName), std::string()}) {
      EXPECT_EQ(code(tree().snapshot_info(ino(other), Wait::yes)), EINVAL) << other;
    }
    EXPECT_EQ(code(tree().snapshot_info(ino("d/small"), Wait::yes)), ENOTDIR);
    remount();
  }
  ASSERT_EQ(clone(at("sub"), "d/clone"), 0);
  EXPECT_EQ(code(tree().snapshot_info(ino("d/clone"), Wait::yes)), EINVAL);
  sound();
}

TEST_F(Snapshots, DoNotChange) {
  populate("d");
  add_links("d");
  ASSERT_EQ(snapshot("d", "s"), 0);
  ASSERT_EQ(snapshot("d/sub/deep", "shown"), 0);
  create("outside", "data");
  mkdir("empty");
  const std::string was = picture(at("s"));
  for (const bool again : {false, true}) {
    if (again) remount();
    const Ino s = ino(at("s")), small = ino(at("s") + "/small"), two = ino(at("s") + "/two"), sub = ino(at("s") + "/sub"), deep = ino(at("s") + "/sub/deep");
    const Ino other = ino("outside"), empty = ino("empty"), top = ino(std::string(kSnapshotsName));
    const std::vector<std::byte> bytes(5000);
    const auto expect = [&](const char* what, const std::function<Result<void>(Wait)>& change) { EXPECT_EQ(code(both_ways(change)), EROFS) << what; };
    Tree& t = tree();
    for (const Ino file : {small, two}) {
      expect("write", [&](Wait w) { return t.write(file, ByteOffset{0}, bytes, w); });
      expect("truncate", [&](Wait w) { return discard(t.setattr(file, {.size = 0}, w)); });
      expect("fallocate", [&](Wait w) { return t.fallocate(file, 0, ByteOffset{0}, ByteCount{100'000}, w); });
      expect("punch", [&](Wait w) { return t.fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{0}, ByteCount{4096}, w); });
      expect("copy", [&](Wait w) { return discard(t.copy_range(other, ByteOffset{0}, file, ByteOffset{0}, ByteCount{4}, w)); });
      expect("link", [&](Wait w) { return discard(t.link(file, kRootIno, "linked", w)); });
    }
    for (const Ino each : {s, small, two, sub, deep}) {
      expect("chmod", [&](Wait w) { return discard(t.setattr(each, {.mode = 0700}, w)); });
      expect("chown", [&](Wait w) { return discard(t.setattr(each, {.uid = 5}, w)); });
      expect("utimes", [&](Wait w) { return discard(t.setattr(each, {.mtime = Time{}}, w)); });
      expect("chattr", [&](Wait w) { return discard(t.setattr(each, {.flags = FS_IMMUTABLE_FL}, w)); });
      expect("setxattr", [&](Wait w) { return t.setxattr(each, "user.x", "x", 0, w); });
    }
    expect("removexattr", [&](Wait w) { return t.removexattr(ino(at("s") + "/attributed"), "user.small", w); });
    for (const Ino dir : {s, sub, deep, top}) {
      expect("create", [&](Wait w) { return forgotten(t.make(dir, "new", {.mode = S_IFREG | 0644}, w)); });
      expect("mkdir", [&](Wait w) { return forgotten(t.make(dir, "new", {.mode = S_IFDIR | 0755}, w)); });
      expect("tmpfile", [&](Wait w) { return forgotten(t.make_unnamed(dir, {.mode = S_IFREG | 0600}, w)); });
      expect("link into", [&](Wait w) { return discard(t.link(other, dir, "new", w)); });
      expect("rename into", [&](Wait w) { return t.rename(kRootIno, "outside", dir, "new", 0, w); });
      expect("rename into", [&](Wait w) { return t.rename(kRootIno, "empty", dir, "new", 0, w); });
      if (dir != top) expect("clone into", [&](Wait w) { return t.clone(empty, dir, "new", w); });
    }
    expect("unlink", [&](Wait w) { return t.unlink(s, "small", w); });
    expect("unlink", [&](Wait w) { return t.unlink(s, "two", w); });
    expect("rmdir", [&](Wait w) { return t.rmdir(s, "nothing", w); });
    expect("remove_tree", [&](Wait w) { return discard(t.remove_tree(sub, s, w)); });
    expect("rename", [&](Wait w) { return t.rename(s, "small", s, "other", 0, w); });
    expect("rename out", [&](Wait w) { return t.rename(s, "sub", kRootIno, "sub", 0, w); });
    expect("rename onto", [&](Wait w) { return t.rename(kRootIno, "outside", s, "small", 0, w); });
    expect("exchange", [&](Wait w) { return t.rename(kRootIno, "outside", s, "small", RENAME_EXCHANGE, w); });
    expect("rename a snapshot out", [&](Wait w) { return t.rename(top, "s", kRootIno, "s", 0, w); });
    expect("exchange a snapshot", [&](Wait w) { return t.rename(top, "s", kRootIno, "empty", RENAME_EXCHANGE, w); });
    expect("leave a whiteout", [&](Wait w) { return t.rename(top, "s", top, "other", RENAME_WHITEOUT, w, {}); });
    EXPECT_EQ(h_.read(small), noise(kSmall, 1));
  }
  EXPECT_EQ(difference(picture(at("s")), was), "");
  EXPECT_EQ(snapshots(), (std::vector<std::string>{"s", "shown"}));
  sound();
}

TEST_F(Snapshots, ReadingThemWritesNothing) {
  populate("d");
  add_links("d");
  ASSERT_EQ(snapshot("d", "s"), 0);
  remount();
  must(tree().sync());
  const std::uint64_t group = h_.rows(Family::names);
  const std::string was = picture(at("s"));
  must(tree().sync());
  EXPECT_EQ(h_.rows(Family::names), group);
  remount();
  EXPECT_EQ(difference(picture(at("s")), was), "") << "times of access, too";
}

TEST_F(Snapshots, TheirDirectoryIsAlwaysThere) {
  populate("d");
  const auto name = std::string(kSnapshotsName);
  for (int i = 0; i < 2; ++i) {
    Tree& t = tree();
    const Ino top = ino(name), d = ino("d");
    EXPECT_EQ(top, kSnapshotsIno);
    EXPECT_EQ(h_.attr(top).mode, S_IFDIR | 0755u);
    EXPECT_EQ(h_.attr(top).nlink, 2u);
    EXPECT_EQ(*t.directory_of(top, Wait::yes), kRootIno);
    EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>{"d"});
    EXPECT_EQ(h_.attr(kRootIno).nlink, 3u);
    EXPECT_EQ(code(t.make(kRootIno, name, {.mode = S_IFDIR | 0755}, Wait::yes)), EEXIST);
    EXPECT_EQ(code(t.rmdir(kRootIno, name, Wait::yes)), EBUSY);
    EXPECT_EQ(code(t.rename(kRootIno, name, kRootIno, "other", 0, Wait::yes)), EBUSY);
    EXPECT_EQ(code(t.rename(kRootIno, "d", kRootIno, name, 0, Wait::yes)), EBUSY);
    EXPECT_EQ(code(t.rename(kRootIno, "d", kRootIno, name, RENAME_EXCHANGE, Wait::yes)), EBUSY);
    EXPECT_EQ(code(t.remove_tree(top, kRootIno, Wait::yes)), EBUSY);
    EXPECT_EQ(code(t.clone(d, kRootIno, name, Wait::yes)), EEXIST);
    EXPECT_EQ(code(t.clone(top, d, "clone", Wait::yes)), EINVAL);
    EXPECT_EQ(code(t.clone(top, top, "clone", Wait::yes)), EINVAL);
    const auto below = t.lookup(d, name, Wait::yes);
    ASSERT_TRUE(below);
    EXPECT_FALSE(*below) << "there is one for all";
    t.forget(top, 1'000'000);
    EXPECT_EQ(h_.list(top), std::vector<std::string>());
    if (i == 0) remount();
  }
  // Owners, modes and attributes are an administrator's matter.
  set(name, {.mode = 01777, .uid = 5});
  setxattr(name, "user.large", noise(5000, 1));
  crash();
  EXPECT_EQ(h_.attr(kSnapshotsIno).mode, S_IFDIR | 01777u);
  EXPECT_EQ(*tree().getxattr(kSnapshotsIno, "user.large", Wait::yes), noise(5000, 1));
  sound();
}

TEST_F(Snapshots, HaveNamesOfTheirOwn) {
  populate("d");
  const std::string was = contents("d");
  ASSERT_EQ(snapshot("d", "one"), 0);
  ASSERT_EQ(snapshot("d", "two"), 0);
  EXPECT_EQ(snapshot("d", "two"), EEXIST);
  EXPECT_EQ(snapshot("d", std::string(256, 'x')), ENAMETOOLONG);
  rename(at("one"), at("renamed"));
  rename(at("renamed"), at("two"), RENAME_EXCHANGE);
  EXPECT_EQ(code(tree().rename(kSnapshotsIno, "renamed", kSnapshotsIno, "two", 0, Wait::yes)), ENOTEMPTY);
  EXPECT_EQ(snapshots(), (std::vector<std::string>{"renamed", "two"}));
  crash();
  for (const std::string& name : snapshots()) EXPECT_EQ(difference(contents(at(name)), was), "") << name;
  EXPECT_EQ(code(tree().setattr(ino(at("two") + "/sub"), {.mode = 0700}, Wait::yes)), EROFS);
  sound();
}

TEST_F(Snapshots, MayBeClonedAndTheCloneChanges) {
  populate("d");
  add_links("d");
  ASSERT_EQ(snapshot("d", "s"), 0);
  const std::string was = contents(at("s"));
  remove_tree("d");
  ASSERT_EQ(clone(at("s"), "back"), 0);
  ASSERT_EQ(clone(at("s") + "/sub", "part"), 0);
  EXPECT_EQ(difference(contents("back"), was), "");
  write("back/small", 0, "changed");
  create("back/new");
  unlink("back/sub/two");
  write("part/file", 0, "changed");
  remove_tree("back/sub/deep");
  EXPECT_EQ(difference(contents(at("s")), was), "");
  forget_all();
  settle();
  crash();
  EXPECT_EQ(difference(contents(at("s")), was), "");
  EXPECT_EQ(read("back/small").substr(0, 7), "changed");
  sound();
  remove_snapshots();
  EXPECT_EQ(read("back/large"), noise(kLarge, 2));
  sound();
}

TEST_F(Snapshots, MayBeRemovedWithWhatIsImmutableInThem) {
  populate("d");
  add_links("d");
  for (const char* const path : {"d/small", "d/two", "d/sub/file", "d"}) set(path, {.flags = FS_IMMUTABLE_FL});
  set("d/large", {.flags = FS_APPEND_FL});
  ASSERT_EQ(snapshot("d", "s"), 0);
  EXPECT_EQ(code(tree().remove_tree(ino("d"), kRootIno, Wait::yes)), EPERM);
  remove_snapshots();
  EXPECT_EQ(snapshots(), std::vector<std::string>());
  EXPECT_EQ(tree().counts().fixed, 5u);
  sound();
}

// Of a directory below which files have several names, each entry is copied. The first to use one of its files comes right after that.
TEST_F(Snapshots, OfFilesThatAreNotInMemory) {
  for (const bool listed : {false, true}) {
    populate("d");
    add_links("d");
    const std::string small = noise(kSmall, 1);
    must(tree().sync());
    forget_all();
    ASSERT_EQ(snapshot("d", "s"), 0);
    if (listed) (void)h_.list(ino("d"));
    write("d/small", 0, "changed");
    write("d-outside", 0, "CUT");
    unlink("d/large");
    unlink("d/sub/file");
    forget_all();
    settle();
    EXPECT_EQ(read(at("s") + "/small"), small);
    EXPECT_EQ(read(at("s") + "/large"), noise(kLarge, 2));
    EXPECT_EQ(read(at("s") + "/sub/file"), noise(5000, 3));
    EXPECT_EQ(read(at("s") + "/inside and outside"), "cut");
    sound();
    remove_tree("d");
    unlink("d-outside");
    remove_snapshots();
    sound();
  }
}

// Who is in use below one that is removed stays usable.
TEST_F(Snapshots, MayBeRemovedWhileTheyAreInUse) {
  populate("d");
  ASSERT_EQ(snapshot("d", "s"), 0);
  remove_tree("d");
  const Ino file = ino(at("s") + "/sub/file");
  remove_tree(at("s"));
  settle();
  EXPECT_EQ(h_.read(file), noise(5000, 3));
  EXPECT_EQ(code(tree().write(file, ByteOffset{0}, std::vector<std::byte>(10), Wait::yes)), EROFS);
  EXPECT_EQ(snapshots(), std::vector<std::string>());
  forget_all();
  settle();
  EXPECT_EQ(blocks(), 0u);
  sound();
}

// As an hourly one of everything, with changes between.
TEST_F(Snapshots, ComeAndGo) {
  std::mt19937_64 random(drawn_seed());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  populate("d");
  for (int i = 0; i < 10; ++i) create(fmt::format("d/sub/{}", i), noise(kSmall, i));
  std::map<std::string, std::string> kept;
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i);
    const bool whole = below(3) > 0;
    ASSERT_EQ(snapshot(whole ? "" : "d", name), 0);
    kept[name] = contents(at(name));
    write(fmt::format("d/sub/{}", below(10)), below(kSmall), noise(100, random()));
    write("d/large", below(kLarge - 30'000), noise(1 + below(30'000), random()));
    if (below(3) == 0) create("file " + name, "x");
    if (below(3) == 0) rename("d", "e"), rename("e", "d");
    if (kept.size() > 5 || below(4) == 0) {
      const auto victim = std::next(kept.begin(), static_cast<std::ptrdiff_t>(below(kept.size())));
      remove_tree(at(victim->first));
      kept.erase(victim);
    }
    if (below(3) == 0) settle();
    if (below(3) == 0) forget_all();
    if (below(5) == 0) crash();
    if (below(5) == 0) remount();
  }
  for (const auto& [name, was] : kept) EXPECT_EQ(difference(contents(at(name)), was), "") << name;
  sound();
  const std::string was = picture("");
  remove_snapshots();
  EXPECT_EQ(difference(picture(""), was), "");
  sound();
  std::uint64_t alone = 0;
  walk(kRootIno, "", [&](const std::string&, const Attr& attr) { alone += attr.blocks / 8; });
  EXPECT_EQ(blocks(), alone);
}

TEST_F(Snapshots, OfADirectoryWithManyEntriesThenOneMore) {
  for (int i = 0; i < 5000; ++i) h_.create(kRootIno, fmt::format("{:04}", i));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(snapshot("", std::to_string(i)), 0);
    create(fmt::format("more {}", i));
    EXPECT_EQ(h_.list(ino(at(std::to_string(i)))).size(), 5000u + static_cast<unsigned>(i));
    EXPECT_EQ(h_.list(kRootIno).size(), 5001u + static_cast<unsigned>(i));
    if (i == 1) crash();
  }
  settle();
  sound();
}

// A store whose rows are never in memory. Of what the thread asks that made it, it counts whether something is in memory, and calls back when
// that begins to wait for the records of files of several names.
class NeverInMemory final : public ColdStore {
 public:
  struct Seen {
    Weather weather{.cold = false};
    std::size_t asked = 0;
    std::function<void()> on_wait;
  };
  NeverInMemory(std::unique_ptr<Store> inner, Seen& seen) : ColdStore(std::move(inner), seen.weather), seen_(seen) {}
  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    if (is_watched()) seen_.asked += wait == Wait::no;
    return ColdStore::get(family, key, wait);
  }
  std::unique_ptr<lsmfs::Cursor> cursor(Family family, const CursorOptions& options) override {
    auto made = ColdStore::cursor(family, options);
    if (!is_watched()) return made;
    seen_.asked += options.wait == Wait::no;
    const bool of_records = options.lower.starts_with(keys::kLinkedPrefix) && options.lower.size() > keys::kLinkedPrefix.size();
    if (of_records && options.wait == Wait::yes && seen_.on_wait) std::exchange(seen_.on_wait, nullptr)();
    return made;
  }

 private:
  bool is_watched() const { return std::this_thread::get_id() == thread_; }
  Seen& seen_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

class SnapshotsOfLinks : public Snapshots {
 protected:
  static constexpr int kDirectories = 40, kLinks = 10;

  // Each file has a name in a directory below `d` and one elsewhere.
  void SetUp() override {
    h_.between.store = [this](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> { return std::make_unique<NeverInMemory>(std::move(inner), seen_); };
    mkdir("store");
    mkdir("d");
    for (int i = 0; i < kDirectories; ++i) {
      const std::string dir = fmt::format("d/{}", i);
      mkdir(dir);
      for (int j = 0; j < kLinks; ++j) {
        create(fmt::format("store/{}-{}", i, j), "data");
        link(fmt::format("store/{}-{}", i, j), fmt::format("{}/{}", dir, j));
      }
    }
    create("d/plain", "data");
    setxattr("d/plain", "user.large", noise(5000, 3));
    remount();
    d_ = ino("d");
    seen_.weather.cold = true;
    seen_.asked = 0;
  }
  void check() {
    seen_.weather.cold = false;
    for (int i = 0; i < kDirectories; ++i) EXPECT_EQ(h_.list(ino(fmt::format("{}/{}", at("s"), i))).size(), std::size_t{kLinks});
    EXPECT_EQ(h_.attr(ino(at("s") + "/17/3")).nlink, 1u);
    EXPECT_EQ(h_.attr(ino("d/17/3")).nlink, 2u);
    EXPECT_EQ(read(at("s") + "/17/3"), "data");
    EXPECT_EQ(*tree().getxattr(ino(at("s") + "/plain"), "user.large", Wait::yes), noise(5000, 3));
    sound();
  }

  NeverInMemory::Seen seen_;
  Ino d_{};
};

// A snapshot begins again for what is not in memory. So it reads all at once, however many directories and files there are. Only the large
// attribute is found to be missing when some rows have been put.
TEST_F(SnapshotsOfLinks, ThatAreNeverInMemory) {
  must(tree().clone(d_, kSnapshotsIno, "s", Wait::yes));
  EXPECT_LT(seen_.asked, 60u);
  check();
}

// What was read is not used when something was committed meanwhile.
TEST_F(SnapshotsOfLinks, WhileOneOfThemIsRead) {
  seen_.weather.cold = false;
  const Ino file = ino("d/17/3");
  seen_.weather.cold = true;
  const Time before = h_.attr(file).atime;
  Time after;
  seen_.on_wait = [&] {
    std::byte to[4];
    must(tree().read(file, ByteOffset{0}, to, Wait::yes));
    must(tree().sync());
    after = h_.attr(file).atime;
    tree().forget(file, UINT64_MAX);
  };
  must(tree().clone(d_, kSnapshotsIno, "s", Wait::yes));
  EXPECT_NE(after, before);
  EXPECT_EQ(h_.attr(ino("d/17/3")).atime, after);
  check();
  EXPECT_EQ(h_.attr(ino(at("s") + "/17/3")).atime, after);
}

}  // namespace
}  // namespace lsmfs::test::snapshots_test

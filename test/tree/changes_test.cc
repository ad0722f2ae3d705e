// What the log of changes tells: that each kind of operation is told, who is told that everything may have changed, and that nothing is ever missing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lsmfs/import.h"
#include "seed.h"
#include "tree/changes_fixture.h"

namespace lsmfs::test::changes_test {
namespace {

using namespace changes;

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

TEST_F(LogOfChanges, AWhiteoutIsToldWhereItIsLeft) {
  populate("d");
  mkdir("e");
  const auto told = [&](const std::string& from, const std::string& to) {
    const ChangesToken t = token();
    rename(from, to, RENAME_WHITEOUT);
    return since(t);
  };
  EXPECT_EQ(told("d/small", "e/moved"), (Paths{"d/small", "e/moved"}));
  EXPECT_EQ(told("d/large", "e/moved"), (Paths{"d/large", "e/moved"})) << "over a file";
  EXPECT_EQ(told("d/empty", "d/small"), (Paths{"d/empty", "d/small"})) << "over a whiteout";
  EXPECT_EQ(told("d/sub", "e/sub"), (Paths{"d/sub/", "e/sub/"}));
  ChangesToken t = token();
  unlink("d/sub");
  EXPECT_EQ(since(t), Paths{"d/sub"});
  t = token();
  remount();
  mkdir("d/sub");
  rename("d/large", "d/sub/large", RENAME_WHITEOUT);
  EXPECT_EQ(since(t), (Paths{"d/large", "d/sub", "d/sub/large"}));
  EXPECT_EQ(since(t, "d/sub"), (Paths{"", "large"}));
  sound();
}

TEST_F(LogOfChanges, FlagsAreTold) {
  populate("d");
  const auto told = [&](const std::string& path, std::uint32_t flags) {
    const ChangesToken t = token();
    set(path, {.flags = flags});
    return since(t);
  };
  for (const std::uint32_t flags : {FS_NODUMP_FL, FS_NOATIME_FL, FS_APPEND_FL, FS_IMMUTABLE_FL}) {
    for (const std::string path : {"d/small", "d/large", "d/sub"}) {
      EXPECT_EQ(told(path, flags), Paths{path}) << flags;
      EXPECT_EQ(told(path, 0), Paths{path}) << flags;
    }
  }
  set("d/sub", {.flags = FS_NODUMP_FL});
  ChangesToken t = token();
  create("d/sub/inherits");
  EXPECT_EQ(since(t), Paths{"d/sub/inherits"});
  t = token();
  set("d/small", {.flags = FS_IMMUTABLE_FL});
  remount();
  set("d/small", {.flags = 0});
  EXPECT_EQ(since(t, "d"), Paths{"small"});
  EXPECT_EQ(told("", FS_NODUMP_FL), kEverything);
  sound();
}

TEST_F(LogOfChanges, AccessControlListsAreTold) {
  populate("d");
  const auto told = [&](const auto& change) {
    const ChangesToken t = token();
    change();
    return since(t);
  };
  for (const char* const name : {"system.posix_acl_default", "system.posix_acl_access"}) {
    EXPECT_EQ(told([&] { setxattr("d/sub", name, acl_); }), Paths{"d/sub"}) << name;
    EXPECT_EQ(told([&] { must(both_ways([&](Wait w) { return tree().removexattr(ino("d/sub"), name, w); })); }), Paths{"d/sub"}) << name;
  }
  setxattr("d/sub", "system.posix_acl_default", acl_);
  EXPECT_EQ(told([&] { create("d/sub/inherits"); }), Paths{"d/sub/inherits"});
  EXPECT_EQ(told([&] { mkdir("d/sub/inherits too"); }), Paths{"d/sub/inherits too"});
  EXPECT_EQ(told([&] { set("d/sub/inherits too", {.mode = 0700}); }), Paths{"d/sub/inherits too"}) << "the mask of its list";
  EXPECT_EQ(told([&] { setxattr("d/small", "system.posix_acl_access", acl_); }), Paths{"d/small"});
  EXPECT_EQ(told([&] { setxattr("", "system.posix_acl_default", acl_); }), kEverything);
  sound();
}

TEST_F(LogOfChanges, WhatIsAllocatedPunchedOrZeroedIsTold) {
  populate("d");
  struct Kind {
    int mode;
    std::uint64_t at, length;
  };
  for (const char* const path : {"d/small", "d/large", "d/sparse", "d/empty"}) {
    for (const Kind& kind : {Kind{0, 600'000, 5000}, Kind{FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192}, Kind{FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5, 100},
                             Kind{FALLOC_FL_ZERO_RANGE, 100, 9000}, Kind{FALLOC_FL_ZERO_RANGE, 700'000, 9000}}) {
      write(path, 0, noise(20'000, 1));
      const std::string before = read(path);
      const ChangesToken t = token();
      fallocate(path, kind.mode, kind.at, kind.length);
      ASSERT_NE(read(path), before);
      EXPECT_EQ(since(t), Paths{path}) << kind.mode;
    }
    const ChangesToken t = token();
    set(path, {.size = 2'000'000});
    set(path, {.size = 3});
    EXPECT_EQ(since(t), Paths{path});
  }
  sound();
}

class ChangesOfBlobs : public LogOfChanges {
 protected:
  ChangesOfBlobs() : LogOfChanges(ByteCount{GiB}) {}
  void create_in_blobs(const std::string& path) {
    const Ino file = create(path);
    const std::string data = noise(MiB, 1);
    for (std::uint64_t at = 0; at < 20 * MiB; at += data.size()) h_.write(file, at, data);
    commit();
    EXPECT_FALSE(h_.store().blobs().empty());
  }
};

TEST_F(ChangesOfBlobs, EachKindIsTold) {
  mkdir("d");
  ChangesToken t = token();
  create_in_blobs("d/a");
  EXPECT_EQ(since(t), Paths{"d/a"});
  for (const bool again : {false, true}) {
    const auto told = [&](const auto& change) {
      t = token();
      if (again) remount();  // what it has in blobs is not known yet
      change();
      return since(t);
    };
    constexpr std::uint64_t kIn = 12 * MiB;
    EXPECT_EQ(told([&] { write("d/a", kIn, "x"); }), Paths{"d/a"});
    EXPECT_EQ(told([&] { write("d/a", kIn + 1, noise(3 * MiB, 2)); }), Paths{"d/a"});
    EXPECT_EQ(told([&] { write("d/a", h_.attr(ino("d/a")).size, noise(9 * MiB, 3)); }), Paths{"d/a"});
    EXPECT_EQ(told([&] { fallocate("d/a", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kIn, MiB + 5); }), Paths{"d/a"});
    EXPECT_EQ(told([&] { fallocate("d/a", FALLOC_FL_ZERO_RANGE, kIn + 2 * MiB, MiB); }), Paths{"d/a"});
    EXPECT_EQ(told([&] { set("d/a", {.size = kIn + 5}); }), Paths{"d/a"});
    EXPECT_EQ(told([&] { set("d/a", {.mode = again ? 0600u : 0640u}); }), Paths{"d/a"});
    create(again ? "d/b" : "d/c");
    EXPECT_EQ(told([&] { copy("d/a", again ? "d/b" : "d/c"); }), Paths{again ? "d/b" : "d/c"});
    EXPECT_EQ(told([&] { settle(); }), Paths{});  // where the bytes lie is nobody's concern
    EXPECT_EQ(told([&] { rename("d/a", "d/e"); }), (Paths{"d/a", "d/e"}));
    EXPECT_EQ(told([&] { rename("d/e", "d/a"); }), (Paths{"d/a", "d/e"}));
  }
  ASSERT_EQ(clone("d", "f"), 0);
  t = token();
  write("f/a", 11 * MiB, "x");
  EXPECT_EQ(since(t), Paths{"f/a"});
  t = token();
  unlink("d/a");
  crash();
  unlink("f/b");
  EXPECT_EQ(since(t), (Paths{"d/a", "f/b"}));
  forget_all();
  sound();
}

TEST_F(LogOfChanges, AMountThatChangesNothingLosesNothing) {
  populate("d");
  const auto mount = [&](bool read_only) {
    h_.unmount();
    h_.options.read_only = read_only;
    h_.mount();
    held_.clear();
  };
  const ChangesToken first = token();
  write("d/small", 0, "x");
  mount(true);
  EXPECT_EQ(since(first), Paths{"d/small"});
  const ChangesToken between = token();
  mount(true);
  EXPECT_EQ(since(between), Paths{});
  mount(false);
  EXPECT_EQ(since(between), Paths{});
  create("d/new");
  set("d/sub", {.mode = 0700});
  EXPECT_EQ(since(between), (Paths{"d/new", "d/sub"}));
  EXPECT_EQ(since(first), (Paths{"d/new", "d/small", "d/sub"}));
  const ChangesToken last = token();
  h_.crash();  // and what a crash leaves is mounted so
  mount(true);
  const Paths told = since(last);
  EXPECT_EQ(told, find("d/new") != Ino{} ? Paths{} : kEverything);
  mount(false);
  create("d/newer");
  for (const ChangesToken& token : {first, between}) {
    const Paths all = since(token);
    EXPECT_TRUE(std::ranges::find(all, "d/newer") != all.end()) << all.size();
  }
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
      if (attr.flags != 0) line += fmt::format(" {:x}", attr.flags);
      for (const char* const name : {"user.x", "system.posix_acl_access", "system.posix_acl_default"}) {
        const auto value = both_ways([&](Wait w) { return tree().getxattr(attr.ino, name, w); });
        if (value) line += fmt::format(" {} {}", name, *value);
      }
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

  void mount_without_changes() {
    h_.unmount();
    h_.options.read_only = true;
    h_.mount();
    held_.clear();
    EXPECT_EQ(picture_of(""), now_);
    forget_all();
    h_.unmount();
    h_.options.read_only = false;
    h_.mount();
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
    const bool is_plain = !file.empty() && now_[file].starts_with("100");
    switch (number(23)) {
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
      case 18:
        if (!one.empty() && is_free && !within(to, one)) rename(one, to, RENAME_WHITEOUT);
        break;
      case 19: if (!one.empty() && (is_plain || is_directory(one)) && !now_[one].starts_with("120")) set(one, {.flags = number(2) == 0 ? 0u : FS_NODUMP_FL}); break;
      case 20: if (!dir.empty()) setxattr(dir, number(2) == 0 ? "system.posix_acl_default" : "system.posix_acl_access", acl_); break;
      case 21: if (is_plain) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, number(20000), 1 + number(9000)); break;
      case 22: if (is_plain) fallocate(file, number(2) == 0 ? 0 : FALLOC_FL_ZERO_RANGE, number(20000), 1 + number(9000)); break;
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
    switch (number(13)) {
      case 0: settle(); break;
      case 12: mount_without_changes(); break;
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

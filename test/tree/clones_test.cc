// Clones: a directory shows what another one has, until one of them changes. What each side sees then, what it costs, and when the space
// of what nobody sees any more is free.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/posix_acl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "seed.h"
#include "tree/acl.h"
#include "tree/clone_fixture.h"
#include "tree/cold_store.h"
#include "tree/file_blobs.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "until.h"

namespace lsmfs::test::clones_test {
namespace {

class Clones : public CloneFixture {
 protected:
  using CloneFixture::CloneFixture;
};

// ---- what is seen

// Calls it by a thread that has so much of a stack.
void call_on_stack_of(std::size_t bytes, std::function<void()> call) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* { return (*static_cast<std::function<void()>*>(argument))(), nullptr; };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &call), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

// What is copied by entries takes no piece of the stack for each level.
TEST_F(Clones, OfThousandsOfLevelsWithALinkAtTheirEnd) {
  mkdir("d");
  Ino last = ino("d");
  std::string below;
  for (int i = 0; i < 2'000; ++i) {
    last = h_.make(last, "x", S_IFDIR | 0755);
    below += "/x";
  }
  const Ino file = h_.make(last, "file", S_IFREG | 0644);
  must(tree().link(file, kRootIno, "elsewhere", Wait::yes));
  const Ino d = ino("d");
  call_on_stack_of(512 * KiB, [&] { must(tree().clone(d, kRootIno, "c", Wait::yes)); });
  EXPECT_EQ(h_.attr(ino("c" + below + "/file")).nlink, 1u);
  EXPECT_EQ(h_.attr(file).nlink, 2u);
  sound();
}

TEST_F(Clones, AreDeepCopies) {
  for (const bool synced : {false, true}) {
    populate("d");
    add_links("d");
    if (synced) remount();
    const std::string before = picture("d");
    ASSERT_EQ(clone("d", "c"), 0);
    const auto expect = [&] {
      std::string cut = before;  // as the name outside does not belong to it
      const auto line = cut.find("/inside and outside");
      cut.replace(cut.find("nlink=2", line), 7, "nlink=1");
      EXPECT_EQ(difference(picture("d"), before), "");
      EXPECT_EQ(difference(picture("c"), cut), "");
    };
    expect();
    const auto known = numbers();
    remount();
    expect();
    EXPECT_EQ(numbers(), known);
    crash();
    expect();
    EXPECT_EQ(numbers(), known);
    sound();
    remove_all();
  }
}

TEST_F(Clones, TheirParentChangesAndTheirSourceDoesNot) {
  const Ino d = mkdir("d"), to = mkdir("to");
  create("d/file");
  const Attr source = h_.attr(d), before = h_.attr(to), file = h_.attr(ino("d/file"));
  ASSERT_EQ(clone("d", "to/c"), 0);
  const Attr after = h_.attr(to);
  EXPECT_EQ(after.nlink, before.nlink + 1);
  EXPECT_GT(after.mtime, before.mtime);
  EXPECT_EQ(after.ctime, after.mtime);
  for (const Attr& now : {h_.attr(d), h_.attr(ino("to/c"))}) {
    EXPECT_EQ(now.mtime, source.mtime);
    EXPECT_EQ(now.ctime, source.ctime);
    EXPECT_EQ(now.btime, source.btime);
    EXPECT_EQ(now.nlink, source.nlink);
  }
  EXPECT_EQ(h_.attr(ino("to/c/file")).mtime, file.mtime);
  EXPECT_EQ(h_.attr(d).ino, d);
  EXPECT_EQ(ino("d/file"), file.ino);
  const auto directory = both_ways([&](Wait w) { return tree().directory_of(ino("to/c/file"), w); });
  ASSERT_TRUE(directory);
  EXPECT_EQ(*directory, ino("to/c"));
  remove_all();
}

TEST_F(Clones, AreRefused) {
  mkdir("d");
  mkdir("d/sub");
  create("d/file");
  mkdir("to");
  EXPECT_EQ(clone("d", "d/c"), EINVAL);
  EXPECT_EQ(clone("d", "d/sub/c"), EINVAL);
  EXPECT_EQ(code(tree().clone(kRootIno, ino("to"), "c", Wait::yes)), EINVAL);
  EXPECT_EQ(code(tree().clone(kRootIno, kRootIno, "c", Wait::yes)), EINVAL);
  EXPECT_EQ(clone("d/file", "c"), ENOTDIR);
  EXPECT_EQ(clone("d", "d/file/c"), ENOTDIR);
  EXPECT_EQ(clone("d", "to"), EEXIST);
  EXPECT_EQ(clone("d", "d"), EEXIST);
  EXPECT_EQ(clone("d/sub", "d/file"), EEXIST);
  EXPECT_EQ(clone("d", std::string(kNameMax + 1, 'n')), ENAMETOOLONG);
  set("to", {.flags = FS_IMMUTABLE_FL});
  EXPECT_EQ(clone("d", "to/c"), EPERM);
  set("to", {.flags = 0});
  EXPECT_EQ(clone("d/sub", "d/c"), 0) << "beside itself";
  EXPECT_EQ(clone("d/sub", "c"), 0) << "above itself";
  const Ino d = ino("d"), to = ino("to");
  rmdir("to");
  EXPECT_EQ(code(tree().clone(d, to, "c", Wait::yes)), ENOENT);
  remove_tree("d");
  EXPECT_EQ(code(tree().clone(d, kRootIno, "again", Wait::yes)), ENOENT);
  EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>{"c"});
  sound();
  remove_all();
}

TEST_F(Clones, OfAReadOnlyTreeAreRefused) {
  populate("d");
  must(tree().reconfigure({.read_only = true}));
  EXPECT_EQ(clone("d", "c"), EROFS);
  must(tree().reconfigure({.read_only = false}));
  EXPECT_EQ(clone("d", "c"), 0);
  const std::string was = picture("c");
  must(tree().reconfigure({.read_only = true}));
  EXPECT_EQ(difference(picture("c"), was), "");
  must(tree().reconfigure({.read_only = false}));
  remove_all();
}

TEST_F(Clones, OfEmptyDirectories) {
  mkdir("d");
  set("d", {.mode = 0711, .uid = 5});
  setxattr("d", "user.large", noise(5000, 1));
  const std::string was = picture("d");
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(difference(picture("c"), was), "");
  create("c/file", "x");
  EXPECT_EQ(difference(picture("d"), was), "");
  remount();
  EXPECT_EQ(difference(picture("d"), was), "");
  EXPECT_EQ(read("c/file"), "x");
  sound();
  unlink("c/file");
  rmdir("c");
  rmdir("d");
  nothing_is_left();
}

// Nobody has looked at the copy when its number is asked for by a listing, and it has it for good.
TEST_F(Clones, NumbersStayThroughChangesAndRemounts) {
  populate("d");
  add_links("d");
  ASSERT_EQ(clone("d", "c"), 0);
  ASSERT_EQ(clone("c", "e"), 0);
  auto known = numbers();
  forget_all();
  // A change copies what is on its way.
  for (const std::string top : {"c", "d", "e"}) {
    write(top + "/sub/deep/file", 5, "changed");
    set(top + "/small", {.mode = 0600});
    EXPECT_EQ(numbers(), known);
  }
  remount();
  EXPECT_EQ(numbers(), known);
  // And so does a move.
  rename("c/sub", "moved");
  remount();
  const auto now = numbers();
  EXPECT_EQ(now.at("/moved/deep/other"), known.at("/c/sub/deep/other"));
  EXPECT_EQ(now.at("/moved"), known.at("/c/sub"));
  sound();
  unlink("d-outside");
  remove_all();
}

TEST_F(Clones, ANewFileHasANumberOfItsOwn) {
  mkdir("d");
  for (int i = 0; i < 20; ++i) create(fmt::format("d/{}", i), "x");
  ASSERT_EQ(clone("d", "c"), 0);
  ASSERT_EQ(clone("c", "d/inside"), 0);
  for (const std::string top : {"c", "d", "d/inside"}) {
    for (int i = 20; i < 30; ++i) create(fmt::format("{}/{}", top, i), "y");
  }
  const auto known = numbers();
  crash();
  EXPECT_EQ(numbers(), known);
  create("last");
  numbers();
  sound();
  remove_all();
}

// ---- what one side changes

struct Change {
  const char* what;
  std::function<void(const std::string& top)> make;
};

// The side that is changed is as a plain directory to which the same was done, and the other one as before.
class ClonesThatChange : public Clones {
 protected:
  std::vector<Change> changes() {
    const auto in = [this](const char* name, auto call) { return [this, name, call](const std::string& top) { (void)this, call(top + "/" + name); }; };
    return {
        {"write a small file", in("small", [&](const std::string& path) { write(path, 100, "changed"); })},
        {"write a large file", in("large", [&](const std::string& path) { write(path, 300'001, noise(9000, 20)); })},
        {"write over a block of a large file", in("large", [&](const std::string& path) { write(path, 20 * kBlockSize, noise(kBlockSize, 21)); })},
        {"append", in("sub/file", [&](const std::string& path) { write(path, 5000, noise(9000, 22)); })},
        {"append to a large file", in("large", [&](const std::string& path) { write(path, kLarge, noise(9000, 22)); })},
        {"write into an empty file", in("empty", [&](const std::string& path) { write(path, 5, "x"); })},
        {"truncate", in("small", [&](const std::string& path) { set(path, {.size = 5000}); })},
        {"truncate to nothing", in("sub/deep/file", [&](const std::string& path) { set(path, {.size = 0}); })},
        {"truncate a large file", in("large", [&](const std::string& path) { set(path, {.size = 300'000}); })},
        {"truncate, and extend", in("large", [&](const std::string& path) {
          set(path, {.size = 300'000});
          set(path, {.size = kLarge});
        })},
        {"extend", in("small", [&](const std::string& path) { set(path, {.size = 50'000}); })},
        {"punch", in("large", [&](const std::string& path) { fallocate(path, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10'000, 400'000); })},
        {"punch a small file", in("small", [&](const std::string& path) { fallocate(path, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1000, 8000); })},
        {"zero", in("sub/file", [&](const std::string& path) { fallocate(path, FALLOC_FL_ZERO_RANGE, 1000, 8000); })},
        {"write into a hole", in("sparse", [&](const std::string& path) { write(path, 70 * kBlockSize, "x"); })},
        {"write beside a hole", in("sparse", [&](const std::string& path) { write(path, 3 * kBlockSize + 9, "x"); })},
        {"set an attribute", in("small", [&](const std::string& path) { setxattr(path, "user.new", "new"); })},
        {"set a large attribute", in("attributed", [&](const std::string& path) { setxattr(path, "user.large", noise(7000, 23)); })},
        {"remove a large attribute", in("attributed", [&](const std::string& path) { must(tree().removexattr(ino(path), "user.large", Wait::yes)); })},
        {"set an attribute of a directory", in("sub", [&](const std::string& path) { setxattr(path, "user.large", "little"); })},
        {"set a large attribute of the top", [&](const std::string& top) { setxattr(top, "user.large", noise(5000, 24)); }},
        {"chmod", in("sub/deep/file", [&](const std::string& path) { set(path, {.mode = 0600}); })},
        {"chown a directory", in("sub", [&](const std::string& path) { set(path, {.uid = 9, .gid = 10}); })},
        {"chmod the top", [&](const std::string& top) { set(top, {.mode = 0700}); }},
        {"chattr", in("sub/file", [&](const std::string& path) { set(path, {.flags = FS_NODUMP_FL}); })},
        {"create in the top", in("new", [&](const std::string& path) { create(path, noise(6000, 25)); })},
        {"create below", in("sub/deep/new", [&](const std::string& path) { create(path, "new"); })},
        {"mkdir below", in("sub/deep/new", [&](const std::string& path) { mkdir(path), create(path + "/file", "x"); })},
        {"create in an empty directory", in("nothing/new", [&](const std::string& path) { create(path, "new"); })},
        {"unlink a small file", in("small", [&](const std::string& path) { unlink(path); })},
        {"unlink a large file", in("large", [&](const std::string& path) { unlink(path); })},
        {"unlink an attributed file", in("attributed", [&](const std::string& path) { unlink(path); })},
        {"unlink a symbolic link", in("symlink", [&](const std::string& path) { unlink(path); })},
        {"unlink one of two names", in("two", [&](const std::string& path) { unlink(path); })},
        {"write by one of two names", in("sub/two", [&](const std::string& path) { write(path, 3, "changed"); })},
        {"rmdir", in("nothing", [&](const std::string& path) { rmdir(path); })},
        {"rm -r", in("sub", [&](const std::string& path) { remove_tree(path), sweep(); })},
        {"rename a small file", [&](const std::string& top) { rename(top + "/small", top + "/renamed"); }},
        {"move a small file down", [&](const std::string& top) { rename(top + "/small", top + "/sub/deep/moved"); }},
        {"move a small file up", [&](const std::string& top) { rename(top + "/sub/deep/other", top + "/moved"); }},
        {"move a small file, and write", [&](const std::string& top) {
          rename(top + "/sub/deep/other", top + "/moved");
          write(top + "/moved", 10, "changed");
        }},
        {"move a large file", [&](const std::string& top) { rename(top + "/large", top + "/sub/deep/moved"); }},
        {"move an attributed file", [&](const std::string& top) { rename(top + "/attributed", top + "/nothing/moved"); }},
        {"rename over a file", [&](const std::string& top) { rename(top + "/small", top + "/sub/file"); }},
        {"rename over a large file", [&](const std::string& top) { rename(top + "/sub/file", top + "/large"); }},
        {"rename a directory", [&](const std::string& top) { rename(top + "/sub", top + "/renamed"); }},
        {"move a directory", [&](const std::string& top) { rename(top + "/sub/deep", top + "/nothing/moved"); }},
        {"move a directory over another", [&](const std::string& top) { rename(top + "/sub", top + "/nothing"); }},
        {"exchange", [&](const std::string& top) { rename(top + "/sub/deep", top + "/large", RENAME_EXCHANGE); }},
        {"rename with a whiteout", [&](const std::string& top) { rename(top + "/sub/file", top + "/moved", RENAME_WHITEOUT); }},
        {"link", [&](const std::string& top) { link(top + "/small", top + "/sub/deep/link"); }},
        {"link a large file", [&](const std::string& top) { link(top + "/large", top + "/link"), write(top + "/link", 9, "changed"); }},
        {"copy", [&](const std::string& top) { create(top + "/copy"), copy(top + "/large", top + "/copy"); }},
        {"copy, and write both", [&](const std::string& top) {
          create(top + "/copy");
          copy(top + "/large", top + "/copy");
          write(top + "/copy", 100'000, noise(5000, 26));
          write(top + "/large", 200'000, noise(5000, 27));
        }},
        {"copy over a file", [&](const std::string& top) { copy(top + "/large", top + "/small"); }},
        {"a file without a name gets one", [&](const std::string& top) {
          const auto made = tree().make_unnamed(ino(top + "/sub"), {.mode = S_IFREG | 0600}, Wait::yes);
          must(made);
          h_.write(made->ino, 0, "unnamed");
          must(tree().link(made->ino, ino(top + "/sub"), "named", Wait::yes));
          tree().forget(made->ino, 2);
        }},
        {"empty it", [&](const std::string& top) { remove_all_below(top); }},
        {"empty it, and fill it", [&](const std::string& top) {
          remove_all_below(top);
          create(top + "/small", "another");
        }},
        {"clone what is below", [&](const std::string& top) {
          const std::string was = picture(top + "/sub/deep");
          ASSERT_EQ(clone(top + "/sub/deep", top + "/again"), 0);
          EXPECT_EQ(difference(picture(top + "/again"), was), "");
          write(top + "/again/file", 1, "X");
          EXPECT_EQ(difference(picture(top + "/sub/deep"), was), "");
        }},
    };
  }

  // What the inodes are in before the change: in memory and not committed, in memory, or in tables only.
  enum class When { at_once, synced, cold };

  // LSMFS_LONG=1: all of them.
  void try_all(bool of_source, When when) {
    std::uint64_t turn = drawn_seed();
    for (const Change& change : changes()) {
      if (turn++ % 3 != 0 && !std::getenv("LSMFS_LONG")) continue;
      SCOPED_TRACE(fmt::format("{} in the {}, {}", change.what, of_source ? "source" : "clone", static_cast<int>(when)));
      populate("plain");
      create("plain/two", "two names");
      link("plain/two", "plain/sub/two");
      populate("d");
      create("d/two", "two names");
      link("d/two", "d/sub/two");
      if (when == When::cold) remount();
      const std::string was = picture("d");
      ASSERT_EQ(clone("d", "c"), 0);
      if (when != When::at_once) must(tree().sync());
      if (when == When::cold) must(tree().drop_caches()), remount();
      const std::string changed = of_source ? "d" : "c", other = of_source ? "c" : "d";
      change.make(changed);
      const std::string is = picture(changed);
      EXPECT_EQ(difference(picture(other), was), "");
      change.make("plain");
      EXPECT_EQ(difference(picture(changed, Times::without), picture("plain", Times::without)), "");
      const auto known = numbers();
      sound();
      if (when == When::at_once) {
        settle();
        EXPECT_EQ(difference(picture(changed), is), "");
        EXPECT_EQ(difference(picture(other), was), "");
        forget_all();
        settle();
      }
      crash();
      EXPECT_EQ(difference(picture(changed), is), "");
      EXPECT_EQ(difference(picture(other), was), "");
      EXPECT_EQ(numbers(), known);
      sound();
      remove_tree(when == When::synced ? changed : other);
      settle();
      EXPECT_EQ(difference(picture(when == When::synced ? other : changed), when == When::synced ? was : is), "");
      sound();
      remove_all();
      if (HasFailure()) return;
    }
  }
};

TEST_F(ClonesThatChange, AtOnceLeaveTheSourceAsItWas) { try_all(false, When::at_once); }
TEST_F(ClonesThatChange, LeaveTheSourceAsItWas) { try_all(false, When::synced); }
TEST_F(ClonesThatChange, AfterARemountLeaveTheSourceAsItWas) { try_all(false, When::cold); }
TEST_F(ClonesThatChange, ASourceThatDoesSoAtOnceLeavesTheCloneAsItWas) { try_all(true, When::at_once); }
TEST_F(ClonesThatChange, ASourceThatDoesSoLeavesTheCloneAsItWas) { try_all(true, When::synced); }
TEST_F(ClonesThatChange, ASourceThatDoesSoAfterARemountLeavesTheCloneAsItWas) { try_all(true, When::cold); }

// ---- what it costs

TEST_F(Clones, MakeAFewRowsHoweverMuchThereIs) {
  populate("d");
  for (int i = 0; i < 300; ++i) create(fmt::format("d/sub/{}", i), "x");
  remount();
  const std::uint64_t names_before = names(), blocks_before = blocks();
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_LE(names(), names_before + 4);  // the copy, the node, and two users
  ASSERT_EQ(clone("d", "d2"), 0);
  ASSERT_EQ(clone("c", "c2"), 0);
  EXPECT_LE(names(), names_before + 8);
  ASSERT_EQ(clone("c2/sub", "c3"), 0);
  EXPECT_LE(names(), names_before + 70) << "the top of the one from which it was taken";
  EXPECT_EQ(blocks(), blocks_before);
  sound();
  remove_all();
}

TEST_F(Clones, ReadingWritesNothing) {
  populate("d");
  for (int i = 0; i < 100; ++i) create(fmt::format("d/sub/{}", i), "x");
  ASSERT_EQ(clone("d", "c"), 0);
  remount();
  const std::uint64_t names_before = names();
  for (const std::string top : {"c", "d"}) {
    (void)picture(top);
    std::string byte(1, '?');
    for (const std::string file : {"/small", "/sub/7"}) {
      must(tree().read(ino(top + file), ByteOffset{0}, {reinterpret_cast<std::byte*>(byte.data()), 1}, Wait::yes, AccessTime::now));
    }
  }
  EXPECT_EQ(names(), names_before);
  remove_all();
}

TEST_F(Clones, AChangeMakesRowsOnItsWayOnly) {
  mkdir("d");
  for (int i = 0; i < 8; ++i) {
    mkdir(fmt::format("d/{}", i));
    for (int k = 0; k < 20; ++k) create(fmt::format("d/{}/{}", i, k), noise(kSmall, 100));
    mkdir(fmt::format("d/{}/below", i));
    for (int k = 0; k < 20; ++k) create(fmt::format("d/{}/below/{}", i, k), noise(kSmall, 100));
  }
  ASSERT_EQ(clone("d", "c"), 0);
  remount();
  const std::uint64_t names_before = names(), blocks_before = blocks();
  write("c/3/7", 0, "x");
  // An entry and a user for each of the 8 and of the 21 on the way, and some for the file.
  EXPECT_LE(names(), names_before + 2 * (8 + 21) + 4);
  EXPECT_LE(blocks(), blocks_before + kSmall / kBlockSize);
  const std::uint64_t names_between = names();
  write("c/3/8", 0, "x");
  create("c/3/new");
  EXPECT_LE(names(), names_between + 4) << "they have been copied before";
  sound();
  remove_all();
}

TEST_F(Clones, ChownWritesNoBlocks) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const std::string was = picture("d");
  const std::uint64_t before = blocks();
  std::vector<std::string> paths;
  walk(ino("c"), "c", [&](const std::string& path, const Attr&) { paths.push_back(path); });
  for (const std::string& path : paths) set(path, {.uid = 77, .gid = 78});
  EXPECT_EQ(blocks(), before);
  walk(ino("c"), "c", [&](const std::string& path, const Attr& attr) { EXPECT_EQ(attr.uid, 77u) << path; });
  EXPECT_EQ(difference(picture("d"), was), "");
  sound();
  crash();
  EXPECT_EQ(difference(picture("d"), was), "");
  EXPECT_EQ(read("c/large"), noise(kLarge, 2));
  EXPECT_EQ(blocks(), before);
  sound();
  remove_all();
}

TEST_F(Clones, AWriteIntoALargeFileMakesFewRows) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const std::uint64_t before = blocks();
  write("c/large", 50 * kBlockSize + 5, "x");
  EXPECT_EQ(blocks(), before + 1);
  write("d/large", 50 * kBlockSize + 5, "y");
  EXPECT_EQ(blocks(), before + 2);
  write("c/small", 5, "x");
  EXPECT_EQ(blocks(), before + 2 + kSmall / kBlockSize);
  sound();
  remove_all();
}

// ---- what is in use

TEST_F(Clones, DoNotHaveWhatHasNoName) {
  populate("d");
  const Ino open = ino("d/small");
  unlink("d/small");
  const auto unnamed = tree().make_unnamed(ino("d/sub"), {.mode = S_IFREG | 0600}, Wait::yes);
  must(unnamed);
  h_.write(unnamed->ino, 0, "unnamed");
  const std::string was = picture("d");
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(difference(picture("c"), was), "");
  EXPECT_EQ(h_.read(open), noise(kSmall, 1));
  h_.write(open, 0, "changed");
  h_.write(unnamed->ino, 7, " and written");
  // It may get a name on both sides.
  must(tree().link(unnamed->ino, ino("c/sub"), "named", Wait::yes));
  must(tree().link(unnamed->ino, ino("d/sub"), "named", Wait::yes));
  EXPECT_EQ(read("c/sub/named"), "unnamed and written");
  EXPECT_EQ(h_.attr(unnamed->ino).nlink, 2u);
  unlink("c/sub/named");
  unlink("d/sub/named");
  tree().forget(unnamed->ino, 3);
  set("d/sub", {.mtime = h_.attr(ino("c/sub")).mtime});
  must(tree().sync());
  EXPECT_EQ(h_.read(open).substr(0, 7), "changed");
  sound();
  crash();
  EXPECT_EQ(find("c/small"), Ino{});
  sound();
  remove_all();
}

// A file without a name lies below a directory that others show now. It goes when it is forgotten, and nothing else.
TEST_F(Clones, FilesThatAreRemovedWhileTheyAreOpen) {
  for (const bool crashes : {true, false}) {
    for (const bool before : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", crashes, before));
      populate("d");
      std::vector<Ino> open;
      const auto unlink_open = [&](const std::string& path) {
        open.push_back(ino(path));
        unlink(path);
      };
      if (before) unlink_open("d/sub/file");
      const std::string was = picture("d");
      ASSERT_EQ(clone("d", "c"), 0);
      for (const char* path : {"c/small", "d/large", "c/attributed", "d/sub/deep/other", "d/sparse"}) unlink_open(path);
      EXPECT_EQ(h_.read(open.back()).size(), 101 * kBlockSize);
      must(tree().sync());
      h_.write(open.back(), 0, "written");
      const std::string of_c = picture("c"), of_d = picture("d");
      sound();
      if (crashes) {
        crash();
      } else {
        for (const Ino ino : open) tree().forget(ino, 1'000'000);
        forget_all();
        settle();
      }
      EXPECT_EQ(difference(picture("c"), of_c), "");
      EXPECT_EQ(difference(picture("d"), of_d), "");
      EXPECT_EQ(read("d/small"), noise(kSmall, 1));
      EXPECT_EQ(read("c/large"), noise(kLarge, 2));
      EXPECT_EQ(read("c/sub/deep/other"), noise(kSmall, 5));
      sound();
      remove_all();
    }
  }
}

TEST_F(Clones, WhatIsInUseBelowASideThatIsRemoved) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const std::string was = picture("d");
  for (const std::string top : {"c", "d"}) {
    const Ino dir = ino(top + "/sub/deep"), file = ino(top + "/sub/deep/other"), large = ino(top + "/large");
    remove_tree(top);
    sweep();
    EXPECT_EQ(code(tree().lookup(dir, "other", Wait::yes)), ENOENT);
    EXPECT_EQ(h_.attr(file).nlink, 0u);
    EXPECT_EQ(h_.read(file), noise(kSmall, 5));
    EXPECT_EQ(h_.read(large), noise(kLarge, 2));
    h_.write(large, 200'000, "written");
    EXPECT_EQ(h_.read(large, 200'000, 7), "written");
    if (top == "c") {
      EXPECT_EQ(difference(picture("d"), was), "");
    }
    sound();
  }
  nothing_is_left();
}

// A walk that has begun goes on when the directory is frozen, is expanded, or is removed.
TEST_F(Clones, ListingsGoOn) {
  mkdir("d");
  for (int i = 0; i < 300; ++i) create(fmt::format("d/{:03}", i));
  remount();
  ASSERT_EQ(clone("d", "c"), 0);
  std::map<std::string, std::pair<std::uint64_t, std::vector<std::string>>> walks;
  const auto go_on = [&](const std::string& path, std::size_t n) {
    auto& [cookie, seen] = walks[path];
    const std::size_t begun = seen.size();
    must(both_ways([&](Wait w) {
      return tree().readdir(ino(path), cookie, AttrsOf::none, [&, &cookie = cookie, &seen = seen](const DirEntry& e) {
        if (seen.size() == begun + n) return false;
        cookie = e.next_cookie;
        seen.emplace_back(e.name);
        return true;
      }, w);
    }));
  };
  go_on("c", 100);
  go_on("d", 100);
  ASSERT_EQ(clone("c", "c2"), 0);
  ASSERT_EQ(clone("d", "d2"), 0);
  go_on("c", 20);
  go_on("d", 20);
  write("c/200", 0, "x");  // which expands it
  create("d/new");
  unlink("d/250");
  go_on("c", 20);
  go_on("d", 20);
  must(tree().drop_caches());
  for (int i = 0; i < 30; ++i) go_on("c", 20), go_on("d", 20);
  std::vector<std::string> expected{".", ".."};
  for (int i = 0; i < 300; ++i) expected.push_back(fmt::format("{:03}", i));
  EXPECT_EQ(walks["c"].second, expected);
  std::erase(expected, "250");
  std::erase(walks["d"].second, "new");
  EXPECT_EQ(walks["d"].second, expected);
  remove_all();
}

TEST_F(Clones, AWriteThatIsNotCommittedIsPartOfIt) {
  mkdir("d");
  mkdir("d/sub");
  const Ino a = create("d/a", noise(kSmall, 1)), b = create("d/sub/b", noise(kLarge, 2));
  must(tree().sync());
  h_.write(a, 5, "before");
  h_.write(b, 300'000, "before");
  create("d/sub/new", "new");
  unlink("d/a");
  create("d/a", "another");
  setxattr("d/sub/new", "user.large", noise(5000, 3));
  ASSERT_EQ(clone("d", "c"), 0);
  h_.write(b, 300'000, "after ");
  write("d/a", 0, "ANOTHER");
  unlink("d/sub/new");
  EXPECT_EQ(read("c/a"), "another");
  EXPECT_EQ(h_.read(ino("c/sub/b"), 300'000, 6), "before");
  EXPECT_EQ(read("c/sub/new"), "new");
  const std::string of_c = picture("c"), of_d = picture("d");
  crash();
  EXPECT_EQ(difference(picture("c"), of_c), "");
  EXPECT_EQ(difference(picture("d"), of_d), "");
  sound();
  remove_all();
}

// ---- what moves

TEST_F(Clones, OfWhatIsRenamedAndRelocated) {
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE(stage);
    populate("d");
    mkdir("elsewhere");
    rename("d/sub", "elsewhere/sub");
    rename("d/large", "elsewhere/large");
    rename("d", "elsewhere/d");
    rename("elsewhere/sub", "elsewhere/d/sub");
    if (stage > 0) remount();
    for (int i = 1; i < stage; ++i) must(tree().relocate());
    const std::string was = picture("elsewhere"), of_d = picture("elsewhere/d", Times::without);  // a rename changes some
    ASSERT_EQ(clone("elsewhere", "c"), 0);
    ASSERT_EQ(clone("c/d", "c2"), 0);
    if (stage % 2 == 1) must(tree().relocate());
    rename("c/d", "c/renamed");
    rename("c/renamed/sub", "c/sub");
    settle();
    EXPECT_EQ(difference(picture("elsewhere"), was), "");
    EXPECT_EQ(difference(picture("c2", Times::without), of_d), "");
    write("c/renamed/small", 0, "X");
    write("c/sub/deep/file", 0, "X");
    rename("elsewhere/d", "d");
    forget_all();
    settle();
    crash();
    EXPECT_EQ(difference(picture("c2", Times::without), of_d), "");
    EXPECT_EQ(difference(picture("d", Times::without), of_d), "");
    EXPECT_EQ(read("c/sub/deep/file")[0], 'X');
    sound();
    remove_all();
  }
}

TEST_F(Clones, ASubtreeThatWasMovedOutStays) {
  for (const bool of_source : {true, false}) {
    for (const bool cold : {true, false}) {
      populate("d");
      ASSERT_EQ(clone("d", "c"), 0);
      ASSERT_EQ(clone("c", "e"), 0);
      const std::string was = picture("d/sub", Times::without);
      const std::string from = of_source ? "d" : "c";
      rename(from + "/sub", "moved");
      rename(from + "/large", "large");
      if (cold) remount();
      for (const std::string top : {"d", "c", "e"}) {
        remove_tree(top);
        forget_all();
        settle();
        EXPECT_EQ(difference(picture("moved", Times::without), was), "");
        sound();
      }
      crash();
      EXPECT_EQ(difference(picture("moved", Times::without), was), "");
      EXPECT_EQ(read("large"), noise(kLarge, 2));
      write("moved/deep/other", 3, "changed");
      write("large", 3, "changed");
      sound();
      remove_all();
    }
  }
}

TEST_F(Clones, FromOneSideToTheOther) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const std::string was = picture("d/sub", Times::without);
  write("c/small", 0, "changed");
  rename("c/small", "d/small");
  rename("d/large", "c/large");
  rename("c/sub", "d/sub/deep/again");
  rename("d/sub/file", "c/nothing/file");
  link("d/attributed", "c/link");
  EXPECT_EQ(read("d/small").substr(0, 7), "changed");
  EXPECT_EQ(difference(picture("d/sub/deep/again", Times::without), was), "");
  EXPECT_EQ(h_.attr(ino("c/link")).nlink, 2u);
  EXPECT_EQ(h_.attr(ino("c/attributed")).nlink, 1u);
  const auto known = numbers();
  const std::string of_c = picture("c", Times::without), of_d = picture("d", Times::without);
  crash();
  EXPECT_EQ(numbers(), known);
  rename("c", "d", RENAME_EXCHANGE);
  EXPECT_EQ(difference(picture("c", Times::without), of_d), "");
  EXPECT_EQ(difference(picture("d", Times::without), of_c), "");
  settle();
  crash();
  EXPECT_EQ(difference(picture("c", Times::without), of_d), "");
  EXPECT_EQ(difference(picture("d", Times::without), of_c), "");
  sound();
  remove_all();
}

// ---- where they are

TEST_F(Clones, OfClonesAndInClones) {
  populate("d");
  const std::string was = picture("d"), sub = picture("d/sub");
  ASSERT_EQ(clone("d", "c"), 0);
  ASSERT_EQ(clone("c", "e"), 0);
  ASSERT_EQ(clone("d", "c/inside"), 0);
  ASSERT_EQ(clone("c", "e/inside"), 0);  // with the one that is in it
  ASSERT_EQ(clone("e/inside/inside/sub", "e/sub/sub"), 0);
  ASSERT_EQ(clone("e/sub/deep", "e/sub/deeper"), 0);
  for (const std::string path : {"d", "c/inside", "e/inside/inside"}) EXPECT_EQ(difference(picture(path), was), "") << path;
  for (const std::string path : {"c/sub", "e/sub/sub", "e/inside/sub"}) EXPECT_EQ(difference(picture(path), sub), "") << path;
  const auto known = numbers();
  crash();
  EXPECT_EQ(numbers(), known);
  for (const std::string path : {"d", "c/inside", "e/inside/inside"}) EXPECT_EQ(difference(picture(path), was), "") << path;
  sound();
  write("e/inside/inside/sub/deep/file", 0, "X");
  write("e/sub/sub/deep/file", 0, "Y");
  write("d/sub/deep/file", 0, "Z");
  EXPECT_EQ(difference(picture("c/inside"), was), "");
  EXPECT_EQ(read("e/inside/inside/sub/deep/file")[0], 'X');
  EXPECT_EQ(read("e/sub/sub/deep/file")[0], 'Y');
  EXPECT_EQ(read("d/sub/deep/file")[0], 'Z');
  remove_tree("d");
  remove_tree("c/sub");
  forget_all();
  settle();
  EXPECT_EQ(difference(picture("c/inside"), was), "");
  EXPECT_EQ(difference(picture("e/inside/sub"), sub), "");
  sound();
  remove_all();
}

TEST_F(Clones, WhereHomesAreAsLongAsTheyMayBe) {
  const std::string part(200, 'p');
  const std::size_t most = keys::kPathHomeMax / part.size();
  mkdir("d");
  mkdir("d/x");
  create("d/x/file", noise(kSmall, 1));
  std::string at = "deep", middle;
  mkdir(at);
  for (std::size_t i = 0; i < most + 10; ++i) {
    at += "/" + part;
    if (i == most / 2) middle = at;
    mkdir(at);
    if (i + 6 > most) create(at + "/file", noise(kSmall, i));
  }
  const std::string was = picture("deep");
  ASSERT_EQ(clone("deep", "c"), 0);          // of what is deep
  ASSERT_EQ(clone("d", at + "/c"), 0);       // to where it is deep
  EXPECT_EQ(difference(picture("c"), was), "");
  const auto in_clone = [](const std::string& path) { return "c" + path.substr(4); };
  ASSERT_EQ(clone(in_clone(middle), at + "-middle"), 0) << "and both";
  write(in_clone(at) + "/file", 0, "X");
  write(at + "/c/x/file", 0, "Y");
  write(at + "/file", 0, "Z");
  const auto known = numbers();
  crash();
  EXPECT_EQ(numbers(), known);
  EXPECT_EQ(read(in_clone(at) + "/file")[0], 'X');
  EXPECT_EQ(read(at + "/c/x/file")[0], 'Y');
  EXPECT_EQ(read(at + "/file")[0], 'Z');
  rename(in_clone(middle), "moved");
  settle();
  EXPECT_EQ(read("d/x/file"), noise(kSmall, 1));
  sound();
  remove_all();
}

TEST_F(Clones, NewFilesInThemInheritAsInTheirSource) {
  mkdir("d");
  mkdir("d/sub");
  setxattr("d/sub", "system.posix_acl_default", acl_);
  set("d/sub", {.mode = 02770, .gid = 44});
  ASSERT_EQ(clone("d", "c"), 0);
  remount();
  for (const std::string top : {"c", "d"}) {
    create(top + "/sub/file");
    mkdir(top + "/sub/dir");
    const auto list = [&](const std::string& path, const char* name) { return both_ways([&](Wait w) { return tree().getxattr(ino(top + path), name, w); }); };
    must(list("/sub/file", "system.posix_acl_access"));
    EXPECT_EQ(*list("/sub/dir", "system.posix_acl_default"), acl_);
    EXPECT_EQ(h_.attr(ino(top + "/sub/file")).gid, 44u);
  }
  EXPECT_EQ(difference(picture("c", Times::without), picture("d", Times::without)), "");
  remove_all();
}

TEST_F(Clones, HolesAreWhereTheyWere) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const auto places = [&](const std::string& path) {
    std::vector<std::uint64_t> found;
    const Ino file = ino(path);
    for (std::uint64_t at = 0;;) {
      const auto next = both_ways([&](Wait w) { return tree().seek(file, ByteOffset{at}, found.size() % 2 == 0 ? SEEK_DATA : SEEK_HOLE, w); });
      if (!next) return found;
      found.push_back(at = next->v);
    }
  };
  const std::vector<std::uint64_t> expected = places("d/sparse");
  ASSERT_EQ(expected.size(), 6u);
  EXPECT_EQ(places("c/sparse"), expected);
  write("d/sparse", 60 * kBlockSize, "x");
  EXPECT_EQ(places("c/sparse"), expected);
  write("c/small", 0, "x");
  EXPECT_EQ(places("c/sparse"), expected) << "has a record of its own";
  EXPECT_EQ(h_.attr(ino("c/sparse")).blocks, 4 * 8u);
  remove_all();
}

// ---- names of one file

TEST_F(Clones, LinksInsideAcrossAndInPart) {
  for (const bool cold : {false, true}) {
    mkdir("d");
    mkdir("d/a");
    mkdir("d/b");
    mkdir("d/plain");
    create("d/plain/file", "plain");
    create("d/inside", noise(kSmall, 1));
    link("d/inside", "d/a/inside");
    link("d/inside", "d/a/more");
    create("d/a/part", noise(kLarge, 2));
    link("d/a/part", "d/b/part");
    link("d/a/part", "outside");
    create("d/b/once", "once");
    link("d/b/once", "outside too");
    setxattr("d/inside", "user.large", noise(5000, 3));
    if (cold) remount();
    ASSERT_EQ(clone("d", "c"), 0);
    ASSERT_EQ(clone("d/a", "c/b/again"), 0);
    const auto links = [&](const std::string& path) { return h_.attr(ino(path)).nlink; };
    const auto expect = [&] {
      EXPECT_EQ(links("d/inside"), 3u);
      EXPECT_EQ(links("d/a/part"), 3u);
      EXPECT_EQ(links("d/b/once"), 2u);
      EXPECT_EQ(links("c/inside"), 3u);
      EXPECT_EQ(links("c/a/part"), 2u);
      EXPECT_EQ(links("c/b/once"), 1u);
      EXPECT_EQ(links("c/b/again/more"), 2u);
      EXPECT_EQ(links("c/b/again/part"), 1u);
      EXPECT_EQ(ino("c/inside"), ino("c/a/more"));
      EXPECT_EQ(ino("c/a/part"), ino("c/b/part"));
      EXPECT_NE(ino("c/a/part"), ino("outside"));
      numbers();
    };
    expect();
    sound();
    crash();
    expect();
    // Names go one by one, on both sides.
    write("c/a/more", 0, "changed");
    EXPECT_EQ(read("c/inside").substr(0, 7), "changed");
    EXPECT_EQ(read("d/inside"), noise(kSmall, 1));
    write("outside", 7, "changed");
    EXPECT_EQ(read("c/a/part"), noise(kLarge, 2));
    unlink("c/inside");
    EXPECT_EQ(links("c/a/inside"), 2u);
    unlink("c/a/inside");
    EXPECT_EQ(links("c/a/more"), 1u);
    unlink("d/a/part");
    unlink("outside");
    EXPECT_EQ(links("d/b/part"), 1u);
    EXPECT_EQ(links("c/b/part"), 2u);
    link("c/b/once", "c/a/twice");
    EXPECT_EQ(links("c/a/twice"), 2u);
    EXPECT_EQ(links("outside too"), 2u);
    numbers();
    sound();
    settle();
    crash();
    numbers();
    EXPECT_EQ(read("c/a/more").substr(0, 7), "changed");
    EXPECT_EQ(*tree().getxattr(ino("c/a/more"), "user.large", Wait::yes), noise(5000, 3));
    EXPECT_EQ(read("c/b/again/more"), noise(kSmall, 1));
    EXPECT_EQ(read("c/b/again/part"), noise(kLarge, 2));
    EXPECT_EQ(read("d/b/part").substr(7, 7), "changed");
    sound();
    remove_all();
  }
}

TEST_F(Clones, ALinkIntoAClone) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  // A file that is only shown gets a second name, outside and inside.
  link("c/sub/deep/other", "outside");
  link("c/small", "c/sub/small");
  EXPECT_EQ(h_.attr(ino("c/sub/deep/other")).nlink, 2u);
  EXPECT_EQ(h_.attr(ino("d/sub/deep/other")).nlink, 1u);
  write("outside", 0, "changed");
  EXPECT_EQ(read("c/sub/deep/other").substr(0, 7), "changed");
  EXPECT_EQ(read("d/sub/deep/other"), noise(kSmall, 5));
  ASSERT_EQ(clone("c", "e"), 0);
  EXPECT_EQ(h_.attr(ino("e/sub/deep/other")).nlink, 1u);
  EXPECT_EQ(h_.attr(ino("e/small")).nlink, 2u);
  numbers();
  crash();
  numbers();
  unlink("e/small");
  EXPECT_EQ(h_.attr(ino("e/sub/small")).nlink, 1u);
  EXPECT_EQ(h_.attr(ino("c/sub/small")).nlink, 2u);
  sound();
  remove_all();
}

// ---- flags

TEST_F(Clones, OfImmutableFiles) {
  populate("d");
  set("d/small", {.flags = FS_IMMUTABLE_FL});
  set("d/sub/deep", {.flags = FS_APPEND_FL});
  const std::string was = picture("d");
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(difference(picture("c"), was), "");
  const auto refused = [&](const std::string& top) {
    EXPECT_EQ(code(tree().write(ino(top + "/small"), ByteOffset{0}, as_bytes(std::string_view("x")), Wait::yes)), EPERM);
    EXPECT_EQ(code(tree().unlink(ino(top), "small", Wait::yes)), EPERM);
    EXPECT_EQ(code(tree().unlink(ino(top + "/sub/deep"), "file", Wait::yes)), EPERM);
    EXPECT_EQ(code(tree().remove_tree(ino(top), kRootIno, Wait::yes)), EPERM);
    EXPECT_EQ(code(tree().remove_tree(ino(top + "/sub"), ino(top), Wait::yes)), EPERM);
  };
  refused("c");
  refused("d");
  remount();
  refused("c");
  refused("d");
  EXPECT_EQ(difference(picture("c"), was), "");
  set("d/small", {.flags = 0});
  set("d/sub/deep", {.flags = 0});
  refused("c");
  ASSERT_EQ(clone("c", "e"), 0);
  set("c/small", {.flags = 0});
  set("c/sub/deep", {.flags = 0});
  refused("e");
  remove_tree("c");
  set("e/small", {.flags = 0});
  set("e/sub/deep", {.flags = 0});
  sound();
  remove_all();
}

// ---- when they go

TEST_F(Clones, GoInAnyOrderAndLeaveNothing) {
  for (const bool changed : {false, true}) {
    std::vector<std::string> order{"d", "c", "e", "f"};
    std::ranges::shuffle(order, std::mt19937_64(drawn_seed()));
    for (const bool crashes : {false, true}) {
      populate("d");
      add_links("d");
      unlink("d-outside");
      ASSERT_EQ(clone("d", "c"), 0);
      ASSERT_EQ(clone("c", "e"), 0);
      if (changed) write("e/large", 200'000, noise(20'000, 9)), write("e/sub/file", 2, "x");
      ASSERT_EQ(clone("e", "f"), 0);
      if (changed) unlink("c/small"), rename("f/sub/deep", "f/moved"), write("d/sub/two", 0, "x");
      std::map<std::string, std::string> pictures;
      for (const std::string& top : order) pictures[top] = picture(top);
      for (const std::string& top : order) {
        remove_tree(top);
        pictures.erase(top);
        if (crashes) {
          // Somewhere between two steps.
          crash();
          for (std::size_t steps = pictures.size() * 2; steps > 0; --steps) must(tree().sweep()), must(tree().relocate());
          sound();
          crash();
        }
        forget_all();
        settle();
        for (const auto& [left, was] : pictures) EXPECT_EQ(difference(picture(left), was), "") << left << " without " << top;
        sound();
      }
      nothing_is_left();
    }
  }
}

TEST_F(Clones, EntryByEntry) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const std::string was = picture("d");
  remove_all_below("c");
  EXPECT_EQ(h_.attr(ino("c")).nlink, 2u);
  remount();
  EXPECT_TRUE(h_.list(ino("c")).empty());
  EXPECT_EQ(difference(picture("d"), was), "");
  sound();
  rmdir("c");
  settle();
  EXPECT_EQ(difference(picture("d"), was), "");
  remove_all_below("d");
  rmdir("d");
  nothing_is_left();
}

// What is left of a large directory that nobody shows any more goes in steps.
// The source knows already that others share its blocks, and all of these have gone. The next one is not committed yet when it is written.
TEST_F(Clones, OfLinkedDirectoriesOnceMoreAndThenAWrite) {
  for (const bool known : {false, true}) {
    const std::string d = known ? "known" : "unknown";
    mkdir(d);
    create(d + "/large", noise(kLarge, 1));
    create(d + "/two", noise(kLarge, 2));
    link(d + "/two", d + "/names");
    ASSERT_EQ(clone(d, d + "-clone"), 0);
    const std::string was = picture(d + "-clone");
    remove_tree(d + "-clone");
    forget_all();
    settle();
    if (known) find(d + "/large"), find(d + "/two");
    ASSERT_EQ(clone(d, d + "-clone"), 0);
    for (const char* file : {"/large", "/two"}) write(d + file, 5000, "changed");
    EXPECT_EQ(difference(picture(d + "-clone"), was), "") << d;
    sound();
  }
}

TEST_F(Clones, AreDroppedInSteps) {
  mkdir("d");
  for (int i = 0; i < 3000; ++i) create(fmt::format("d/{}", i), i % 10 == 0 ? "x" : "");
  ASSERT_EQ(clone("d", "c"), 0);
  remount();
  for (const char* top : {"c", "d"}) remove_tree(top);
  sweep();
  forget_all();
  for (int i = 0; i < 2; ++i) {
    must(tree().relocate());
    crash();
    sound();
  }
  nothing_is_left();
}

// As by a backup that is taken again and again: copies of what changes meanwhile, which go in any order.
TEST_F(Clones, ManyGenerations) {
  std::mt19937_64 random(drawn_seed());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  populate("d");
  for (int i = 0; i < 20; ++i) create(fmt::format("d/sub/{}", i), noise(kSmall, i));
  std::map<std::string, std::string> kept;
  const auto change = [&](const std::string& top) {
    for (int i = 0; i < 3; ++i) {
      const std::string path = fmt::format("{}/sub/{}", top, below(20));
      if (find(path) == Ino{}) {
        create(path, noise(kSmall, random()));
      } else if (below(3) == 0) {
        unlink(path);
      } else {
        write(path, below(kSmall), noise(100, random()));
      }
    }
    write(top + "/large", below(kLarge - 30'000), noise(1 + below(30'000), random()));
    if (below(4) == 0) {
      mkdir(top + "/moving");
      rename(top + "/sub/deep", top + "/moving/deep");
      rename(top + "/moving/deep", top + "/sub/deep");
      rmdir(top + "/moving");
    }
  };
  for (int i = 0; i < 24; ++i) {
    const std::string copy = fmt::format("copy{}", i);
    const std::string from = kept.empty() || below(3) > 0 ? "d" : std::next(kept.begin(), static_cast<std::ptrdiff_t>(below(kept.size())))->first;
    ASSERT_EQ(clone(from, copy), 0);
    if (below(3) == 0) change(copy);
    kept[copy] = picture(copy);
    change("d");
    if (kept.size() > 6 || below(4) == 0) {
      const auto victim = std::next(kept.begin(), static_cast<std::ptrdiff_t>(below(kept.size())));
      remove_tree(victim->first);
      kept.erase(victim);
    }
    if (below(3) == 0) settle();
    if (below(5) == 0) crash();
    if (below(2) == 0) forget_all();
  }
  for (const auto& [copy, was] : kept) EXPECT_EQ(difference(picture(copy), was), "") << copy;
  sound();
  numbers();
  const std::string was = picture("d");
  while (!kept.empty()) {
    const auto victim = std::next(kept.begin(), static_cast<std::ptrdiff_t>(below(kept.size())));
    remove_tree(victim->first);
    kept.erase(victim);
    forget_all();
    settle();
    for (const auto& [copy, picture_of_it] : kept) EXPECT_EQ(difference(picture(copy), picture_of_it), "") << copy;
  }
  EXPECT_EQ(difference(picture("d"), was), "");
  sound();
  // The data that are left take as much as if there had never been others. What they lie in, and the way there, has rows of its own: a
  // base that only one has left is not merged with it.
  std::uint64_t files = 0, alone = 0, large = 0, of_large = 0;
  walk(ino("d"), "", [&](const std::string&, const Attr& attr) {
    ++files;
    alone += attr.blocks / 8;
    if (attr.size <= kSmall) return;
    ++large;
    of_large += attr.blocks / 8;
  });
  EXPECT_EQ(blocks(), alone);
  const auto rows = [&](std::string_view prefix) { return h_.rows(Family::names, prefix); };
  const std::uint64_t nodes = rows(keys::kNodePrefix), parts = rows(keys::kBlobPrefix), users = rows(keys::kUserPrefix);
  const std::uint64_t others = 4;  // the root, the state, and two large attributes
  EXPECT_EQ(names(), files + others + nodes + parts + users);
  EXPECT_LE(nodes, files + FileBlobs::kDepthMost * large);
  EXPECT_LE(parts, FileBlobs::kDepthMost * of_large);
  EXPECT_LE(users, nodes + parts);
  remove_all();
}

// ---- others at the same time

TEST_F(Clones, ReadersSeeOneMoment) {
  populate("d");
  for (int i = 0; i < 50; ++i) create(fmt::format("d/sub/{}", i), noise(kSmall, 1));
  ASSERT_EQ(clone("d", "c"), 0);
  remount();
  std::atomic<bool> stop = false, wrong = false;
  const Ino large = ino("c/large"), small = ino("c/sub/7"), dir = ino("c/sub");
  const std::string of_large = noise(kLarge, 2), of_small = noise(kSmall, 1);
  const std::size_t entries = h_.list(dir).size();
  std::jthread reader([&] {
    while (!stop) {
      for (const auto& [file, expected] : {std::pair(large, &of_large), {small, &of_small}}) {
        std::string got(expected->size(), '?');
        const auto n = tree().read(file, ByteOffset{0}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes);
        if (!n || got != *expected) wrong = true;
      }
      std::size_t seen = 0;
      std::uint64_t cookie = 0;
      for (bool more = true; more;) {
        more = false;
        const auto listed = tree().readdir(dir, cookie, AttrsOf::none, [&](const DirEntry& e) {
          more = true;
          cookie = e.next_cookie;
          seen += e.name != "." && e.name != "..";
          return true;
        }, Wait::yes);
        if (!listed) wrong = true;
      }
      if (seen != entries) wrong = true;
    }
  });
  for (int i = 0; i < 20 && !wrong; ++i) {
    ASSERT_EQ(clone(i % 2 == 0 ? "c" : "d", "e"), 0);
    write("d/large", static_cast<std::uint64_t>(i) * 10'000, noise(5000, 1));
    write("d/sub/7", 10, "changed");
    set("c/sub/9", {.mode = 0600u + static_cast<unsigned>(i)});
    if (i % 5 == 4) set("c/large", {.mode = 0600});
    write(i % 3 == 0 ? "e/large" : "e/sub/7", 100, "changed");
    const Ino e = ino("e");
    remove_tree("e");
    tree().forget(e, 1'000'000);
    settle();
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(wrong);
  sound();
  remove_all();
}

// ---- what is not in memory

class ColdClones : public Clones {
 protected:
  ColdClones() {
    h_.between.store = [this](std::unique_ptr<Store> inner) { return std::make_unique<ColdStore>(std::move(inner), weather_); };
  }
  ColdStore::Weather weather_{.cold = false};
};

// Each file lies elsewhere, since another generation has changed it. Who reads one after the other is read ahead for by names.
TEST_F(ColdClones, OfManyGenerationsAreReadAheadByNames) {
  constexpr int kFiles = 60, kGenerations = 12;
  const auto path = [](int generation, int file) { return fmt::format("g{}/sub{}/{}", generation, file % 3, file); };
  std::map<std::string, std::string> wanted;
  mkdir("g0");
  for (int i = 0; i < 3; ++i) mkdir(fmt::format("g0/sub{}", i));
  for (int i = 0; i < kFiles; ++i) create(path(0, i), wanted[path(kGenerations, i)] = noise(kSmall, static_cast<std::uint64_t>(i)));
  for (int g = 1; g <= kGenerations; ++g) {
    ASSERT_EQ(clone(fmt::format("g{}", g - 1), fmt::format("g{}", g)), 0);
    for (int i = g % 5; i < kFiles; i += 5) {
      write(path(g, i), 0, std::to_string(g));
      wanted[path(kGenerations, i)].replace(0, std::to_string(g).size(), std::to_string(g));
    }
  }
  remount();
  weather_.cold = true;
  for (const auto& [file, data] : wanted) EXPECT_TRUE(read(file) == data) << file;
  // A thread gets its name a little later.
  EXPECT_TRUE(until([] {
    return std::ranges::any_of(std::filesystem::directory_iterator("/proc/self/task"), [](const auto& task) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      return name == "lsmfs-files";
    });
  }));
}

// Nothing that can be seen has changed where an operation has to begin again.
TEST_F(ColdClones, AreAsBeforeWhenSomethingIsNotThere) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  ASSERT_EQ(clone("d/sub", "c/sub2"), 0);
  int waited = 0;
  // Gives the error, and whether it had to wait.
  const auto try_to = [&](const char* what, auto call) {
    remount();
    const std::vector<std::pair<std::string, Ino>> used = {{"c", ino("c")}, {"d", ino("d")}, {"c/sub", ino("c/sub")}, {"c/small", ino("c/small")},
                                                           {"c/large", ino("c/large")}, {"c/sub/deep", ino("c/sub/deep")}, {"", kRootIno}};
    const std::map<std::string, Ino> by_path(used.begin(), used.end());
    const auto at = [&](const char* path) { return by_path.at(path); };
    must(tree().sync());
    const std::string was = picture("c") + picture("d");
    const std::uint64_t blocks_before = blocks(), inodes = tree().activity().inodes;
    weather_.cold = true;
    const int now = code(call(at, Wait::no));
    EXPECT_TRUE(now == 0 || now == EAGAIN) << what << " " << now;
    if (now == EAGAIN) {
      ++waited;
      EXPECT_EQ(tree().activity().inodes, inodes) << what;
      weather_.cold = false;
      EXPECT_EQ(blocks(), blocks_before) << what;
      EXPECT_EQ(difference(picture("c") + picture("d"), was), "") << what;
      weather_.cold = true;
      EXPECT_EQ(code(call(at, Wait::yes)), 0) << what;
    }
    weather_.cold = false;
    const std::string is = picture("c");
    crash();
    EXPECT_EQ(difference(picture("c"), is), "") << what;
    sweep();
    numbers();
    sound();
  };
  try_to("chmod", [&](auto at, Wait w) { return discard(tree().setattr(at("c/small"), {.mode = 0600}, w)); });
  try_to("write", [&](auto at, Wait w) { return tree().write(at("c/small"), ByteOffset{10}, as_bytes(std::string_view("written")), w); });
  try_to("write into a large one", [&](auto at, Wait w) { return tree().write(at("c/large"), ByteOffset{10}, as_bytes(std::string_view("written")), w); });
  try_to("truncate", [&](auto at, Wait w) { return discard(tree().setattr(at("c/large"), {.size = 300'001}, w)); });
  try_to("punch", [&](auto at, Wait w) {
    return tree().fallocate(at("c/large"), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{1000}, ByteCount{20'000}, w);
  });
  try_to("make", [&](auto at, Wait w) { return forgotten(tree().make(at("c/sub/deep"), "new", {.mode = S_IFREG | 0600}, w)); });
  try_to("link", [&](auto at, Wait w) { return forgotten(tree().link(at("c/small"), at("c/sub"), "link", w)); });
  try_to("rename", [&](auto at, Wait w) { return tree().rename(at("c/sub"), "file", at("c"), "moved", 0, w); });
  try_to("rename of a directory", [&](auto at, Wait w) { return tree().rename(at("c"), "nothing", at("c/sub"), "moved", 0, w); });
  try_to("unlink", [&](auto at, Wait w) { return tree().unlink(at("c/sub/deep"), "file", w); });
  try_to("setxattr", [&](auto at, Wait w) { return tree().setxattr(at("c/sub"), "user.large", noise(7000, 1), 0, w); });
  try_to("clone", [&](auto at, Wait w) { return tree().clone(at("c/sub"), at("c"), "again", w); });
  try_to("clone of a clone", [&](auto at, Wait w) { return tree().clone(at("c"), at(""), "e", w); });
  try_to("remove_tree", [&](auto at, Wait w) { return discard(tree().remove_tree(at("c/sub"), at("c"), w)); });
  EXPECT_GT(waited, 5);
  remove_all();
}

// ---- large files, which lie in blobs

class StreamClones : public Clones {
 protected:
  static constexpr std::uint64_t kBytes = 12 * MiB + 100;

  StreamClones() : Clones(ByteCount{GiB}) {}
  std::string append(const std::string& path, std::uint64_t from, std::uint64_t to) {
    std::string data = noise(to - from, to);
    for (std::uint64_t at = 0; at < data.size(); at += 128 * KiB) write(path, from + at, data.substr(at, 128 * KiB));
    return data;
  }
};

TEST_F(StreamClones, ShareTheirBlobs) {
  mkdir("d");
  mkdir("d/sub");
  create("d/sub/stream");
  std::string data = append("d/sub/stream", 0, kBytes);
  must(tree().sync());
  must(tree().drop_caches());  // and it is a stream no more
  for (const std::uint64_t block : {1500, 1501, 1540}) {
    write("d/sub/stream", block * kBlockSize + 50, "patched");
    data.replace(block * kBlockSize + 50, 7, "patched");
  }
  must(tree().sync());
  ASSERT_EQ(h_.rows(Family::names, keys::kBlobPatchPrefix), 3u);
  const auto blobs = h_.store().blobs();
  ASSERT_FALSE(blobs.empty());
  const std::uint64_t before = blocks();
  ASSERT_EQ(clone("d", "c"), 0);
  ASSERT_EQ(clone("c", "e"), 0);
  remount();
  EXPECT_EQ(h_.store().blobs(), blobs);
  EXPECT_TRUE(read("c/sub/stream") == data);
  std::string of_c = data, of_d = data;
  const auto change = [&](const std::string& path, std::string& bytes, std::uint64_t at, const std::string& more) {
    write(path, at, more);
    bytes.resize(std::max<std::size_t>(bytes.size(), at + more.size()));
    bytes.replace(at, more.size(), more);
  };
  change("c/sub/stream", of_c, 1500 * kBlockSize + 53, "over it");
  change("d/sub/stream", of_d, 1501 * kBlockSize + 60, "on the other side");
  EXPECT_EQ(blocks(), before + 2);
  change("c/sub/stream", of_c, 8 * MiB + 5, noise(10'000, 1));
  change("d/sub/stream", of_d, kBytes, noise(300'000, 2));
  set("e/sub/stream", {.size = 5 * MiB});
  EXPECT_TRUE(read("c/sub/stream") == of_c);
  EXPECT_TRUE(read("d/sub/stream") == of_d);
  EXPECT_TRUE(read("e/sub/stream") == data.substr(0, 5 * MiB));
  sound();
  crash();
  EXPECT_TRUE(read("c/sub/stream") == of_c);
  EXPECT_TRUE(read("d/sub/stream") == of_d);
  sound();
  for (const char* top : {"d", "c"}) {
    remove_tree(top);
    forget_all();
    settle();
    EXPECT_TRUE(read("e/sub/stream") == data.substr(0, 5 * MiB));
    sound();
  }
  EXPECT_LT(h_.store().blobs().size(), blobs.size());
  remove_all();
}

TEST_F(StreamClones, OfAStreamThatIsStillWritten) {
  mkdir("d");
  create("d/stream");
  std::string data = append("d/stream", 0, kBytes);
  ASSERT_EQ(clone("d", "c"), 0);
  const std::string more = append("d/stream", kBytes, kBytes + MiB);
  ASSERT_EQ(clone("d", "c2"), 0);
  append("c2/stream", kBytes + MiB, kBytes + 2 * MiB);
  EXPECT_TRUE(read("c/stream") == data);
  EXPECT_TRUE(read("d/stream") == data + more);
  crash();
  EXPECT_TRUE(read("c/stream") == data);
  EXPECT_TRUE(read("d/stream") == data + more);
  EXPECT_TRUE(read("c2/stream").substr(0, kBytes + MiB) == data + more);
  sound();
  remove_all();
}

// ---- large directories, whose entries are put beside in steps

class StepClones : public Clones {
 protected:
  StepClones() {
    h_.options.expand_at_once = 20;
    h_.remount();
  }
  void many(const std::string& d) {
    mkdir(d);
    for (int i = 0; i < 1500; ++i) create(fmt::format("{}/{:04}", d, i), i % 100 == 0 ? noise(kSmall, i) : "");
    mkdir(d + "/sub");
    for (int i = 0; i < 100; ++i) create(fmt::format("{}/sub/{:04}", d, i), "x");
    setxattr(d + "/0007", "user.large", noise(5000, 1));
  }
};

TEST_F(StepClones, AreAsOthers) {
  for (const bool cold : {false, true}) {
    many("d");
    const std::string was = picture("d");
    ASSERT_EQ(clone("d", "c"), 0);
    if (cold) remount();
    const auto known = numbers();
    const Ino held = ino("c/0100"), below = ino("c/sub/0001");
    create("c/new", "new");
    write("d/0200", 5, "changed");
    EXPECT_EQ(h_.read(held), noise(kSmall, 100));
    h_.write(below, 0, "y");
    unlink("c/new");
    EXPECT_EQ(read("c/sub/0001"), "y");
    EXPECT_EQ(read("d/sub/0001"), "x");
    EXPECT_EQ(numbers(), known);
    sound();
    crash();
    EXPECT_EQ(numbers(), known);
    EXPECT_EQ(read("d/0200").substr(5, 7), "changed");
    EXPECT_EQ(read("c/0200"), noise(kSmall, 200));
    sound();
    remove_tree("c");
    forget_all();
    settle();
    EXPECT_EQ(h_.list(ino("d")).size(), 1501u);
    remove_all();
  }
}

TEST_F(StepClones, KeepTheirOwnAttributes) {
  many("d");
  setxattr("d", "user.large", noise(5000, 2));
  ASSERT_EQ(clone("d", "c"), 0);
  setxattr("c", "user.too", noise(6000, 3));
  for (const std::string top : {"c", "d"}) {
    write(top + "/0100", 0, "changed");
    sound();
  }
  crash();
  EXPECT_EQ(*tree().getxattr(ino("c"), "user.large", Wait::yes), noise(5000, 2));
  EXPECT_EQ(*tree().getxattr(ino("c"), "user.too", Wait::yes), noise(6000, 3));
  EXPECT_EQ(*tree().getxattr(ino("d"), "user.large", Wait::yes), noise(5000, 2));
  ASSERT_EQ(clone("c", "e"), 0);
  sound();
  remove_all();
}

// What was put beside is not needed any more: the directory goes meanwhile, or somebody clones it.
TEST_F(StepClones, OthersGoOnMeanwhile) {
  many("d");
  const std::string was = picture("d");
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(clone("d", "c"), 0);
    const Ino c = ino("c"), file = ino("c/0100");
    std::atomic<bool> begun = false;
    std::jthread writer([&] {
      begun = true;
      (void)tree().setattr(file, {.mode = 0600}, Wait::yes);
    });
    while (!begun) std::this_thread::yield();
    if (i % 3 == 0) {
      EXPECT_EQ(code(both_ways([&](Wait w) { return tree().rename(kRootIno, "c", kRootIno, "moved", 0, w); })), 0);
    } else if (i % 3 == 1) {
      EXPECT_EQ(code(both_ways([&](Wait w) { return tree().clone(c, kRootIno, "moved", w); })), 0);
    }
    if (i % 3 != 0) must(both_ways([&](Wait w) { return tree().remove_tree(c, kRootIno, w); }));
    writer.join();
    sound();
    if (i % 3 != 2) remove_tree("moved");
    forget_all();
    settle();
    EXPECT_EQ(difference(picture("d"), was), "");
    sound();
  }
  remove_all();
}

// To remove something there, the directories on its way get entries of their own, although they grow by that.
TEST_F(Clones, OnAFullDiskWhatIsInThemCanBeRemoved) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  std::string target = noise(kSymlinkMax, 9);
  std::ranges::replace(target, '\0', '0');
  const auto fill = [&](int i) {
    const NewInode what{.mode = S_IFLNK | 0777, .symlink = target};
    std::string name = fmt::format("{:08}", i);
    target.replace(i % 16 * 8, name.size(), name);
    return code(both_ways([&](Wait w) { return tree().make(kRootIno, name, what, w); }));
  };
  int made = 0, error = 0;
  for (; !error; ++made) error = fill(made);
  ASSERT_EQ(error, ENOSPC);
  const Ino deep = find("c/sub/deep");
  EXPECT_EQ(code(both_ways([&](Wait w) { return tree().unlink(deep, "file", w); })), 0);
  EXPECT_EQ(find("c/sub/deep/file"), Ino{});
  EXPECT_NE(find("d/sub/deep/file"), Ino{});
  EXPECT_EQ(h_.check(), "");
}

}  // namespace
}  // namespace lsmfs::test::clones_test

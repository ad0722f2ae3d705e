// What two directories do not have in common: as told, and as a walk over both finds it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kv/store_decorator.h"
#include "seed.h"
#include "tree/clone_fixture.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::test::differences_test {
namespace {

using Kind = Difference::Kind;
const Stop kNever = [] { return false; };

// Counts the rows that cursors over all names come to: others, of the background, are in a range.
class CountsRows : public StoreDecorator {
 public:
  CountsRows(std::unique_ptr<Store> inner, std::uint64_t& rows) : StoreDecorator(std::move(inner)), rows_(rows) {}
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    auto cursor = inner().cursor(family, options);
    if (family != Family::names || !options.lower.empty() || !options.upper.empty()) return cursor;
    return std::make_unique<Counting>(std::move(cursor), rows_);
  }

 private:
  class Counting : public Cursor {
   public:
    Counting(std::unique_ptr<Cursor> inner, std::uint64_t& rows) : inner_(std::move(inner)), rows_(rows) {}
    void seek(std::string_view key) override { ++rows_, inner_->seek(key); }
    void next() override { ++rows_, inner_->next(); }
    bool valid() const override { return inner_->valid(); }
    std::string_view key() const override { return inner_->key(); }
    std::string_view value() const override { return inner_->value(); }
    Result<void> status() const override { return inner_->status(); }

   private:
    std::unique_ptr<Cursor> inner_;
    std::uint64_t& rows_;
  };
  std::uint64_t& rows_;
};

// As the command prints it.
std::string line(const Difference& each) {
  const std::string slash = each.is_directory ? "/" : "";
  const std::string path = each.path.empty() ? "./" : each.path + slash;
  switch (each.kind) {
    case Kind::added: return "+ " + path;
    case Kind::removed: return "- " + path;
    case Kind::contents: return "M " + path;
    case Kind::attributes: return "m " + path;
    case Kind::renamed: return "R " + each.old + slash + " -> " + path;
  }
  return "?";
}

using Lines = std::vector<std::string>;

class Differing : public CloneFixture {
 protected:
  explicit Differing(ByteCount size = ByteCount{kDeviceMin}) : CloneFixture(size, {.store = [this](std::unique_ptr<Store> store) { return std::make_unique<CountsRows>(std::move(store), rows_); }}) {}

  static std::string at(const std::string& name) { return fmt::format("{}/{}", kSnapshotsName, name); }
  void snapshot(const std::string& of, const std::string& name) { ASSERT_EQ(clone(of, at(name)), 0) << name; }
  Result<std::vector<Difference>> find_all(const std::string& a, const std::string& b, OneSided one_sided, const DifferencesMost& most = {}) {
    const Ino in_a = ino(a), in_b = ino(b);
    return find_differences([&](const DifferencesAsked& asked) -> Result<DifferencesStep> {
      auto with_most = decode_asked(encode(asked));
      with_most->most = most;
      LSMFS_ASSIGN(const DifferencesStep step, tree().differences(in_a, in_b, *with_most, kNever));
      const std::string encoded = encode(step);
      EXPECT_LE(encoded.size(), most.room);
      ++steps_;
      return *decode_step(encoded);
    }, one_sided);
  }
  std::vector<Difference> differences(const std::string& a, const std::string& b, OneSided one_sided = OneSided::as_one, const DifferencesMost& most = {}) {
    auto found = find_all(a, b, one_sided, most);
    EXPECT_TRUE(found) << found.error().message();
    return found ? *std::move(found) : std::vector<Difference>();
  }
  Lines lines(const std::string& a, const std::string& b, OneSided one_sided = OneSided::as_one) {
    Lines out;
    for (const Difference& each : differences(a, b, one_sided)) out.push_back(line(each));
    return out;
  }
  Lines all_lines(const std::string& a, const std::string& b) { return lines(a, b, OneSided::all); }

  // All of it, in blocks.
  void share(const std::string& from, const std::string& to) {
    create(to);
    const Ino source = ino(from), target = ino(to);
    const std::uint64_t size = h_.attr(source).size;
    for (std::uint64_t done = 0; done < size;) {
      const auto n = both_ways([&](Wait w) { return tree().copy_range(source, ByteOffset{done}, target, ByteOffset{done}, ByteCount{size - done}, w); });
      ASSERT_TRUE(n) << n.error().message();
      done += n->v;
    }
    set(to, {.mtime = h_.attr(source).mtime});
  }

  std::uint64_t rows_ = 0;
  int steps_ = 0;
};

TEST_F(Differing, NothingDiffersInAClone) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  snapshot("d", "s");
  for (const char* a : {"d", "c", ".snapshots/s"}) {
    for (const char* b : {"d", "c", ".snapshots/s"}) EXPECT_EQ(lines(a, b), Lines{}) << a << ' ' << b;
  }
  EXPECT_EQ(lines("d/sub", "c/sub"), Lines{});
}

TEST_F(Differing, EachKindIsTold) {
  populate("d");
  snapshot("d", "s");
  create("d/a new file", "x");
  unlink("d/empty");
  write("d/small", 5, "written");
  set("d/large", {.mode = 0600});
  setxattr("d/sub/file", "user.new", "x");
  mkdir("d/made");
  create("d/made/file");
  mkdir("d/made/deeper");
  remove_tree("d/nothing");
  rename("d/sub/deep/file", "d/moved");
  unlink("d/symlink");
  make("d/symlink", S_IFLNK | 0777, "elsewhere");
  const Lines expected{"+ a new file", "- empty", "m large", "+ made/", "R sub/deep/file -> moved", "- nothing/", "M small", "m sub/file", "M symlink"};
  EXPECT_EQ(lines(at("s"), "d"), expected);
  const Lines all{"+ a new file", "- empty", "m large", "+ made/", "+ made/deeper/", "+ made/file", "R sub/deep/file -> moved", "- nothing/", "M small", "m sub/file", "M symlink"};
  EXPECT_EQ(all_lines(at("s"), "d"), all);
  const Lines back{"- a new file", "+ empty", "m large", "- made/", "+ nothing/", "M small", "R moved -> sub/deep/file", "m sub/file", "M symlink"};
  EXPECT_EQ(lines("d", at("s")), back);
  remount();
  EXPECT_EQ(lines(at("s"), "d"), expected);
  EXPECT_EQ(lines(at("s") + "/sub", "d/sub"), (Lines{"- deep/file", "m file"}));
}

TEST_F(Differing, AttributesOfTheTwoThemselves) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  set("c", {.mode = 0700});
  EXPECT_EQ(lines("d", "c"), Lines{"m ./"});
  set("d", {.mode = 0700});
  EXPECT_EQ(lines("d", "c"), Lines{});
  setxattr("c", "user.large", noise(5000, 1));
  EXPECT_EQ(lines("d", "c"), Lines{"m ./"});
  setxattr("d", "user.large", noise(5000, 2));
  EXPECT_EQ(lines("d", "c"), Lines{"m ./"}) << "of equal size";
  setxattr("d", "user.large", noise(5000, 1));
  EXPECT_EQ(lines("d", "c"), Lines{});
}

// Of many the last ones have rows of their own.
TEST_F(Differing, AttributesAreTheSameInWhateverOrderTheyWereSet) {
  mkdir("d");
  ASSERT_EQ(clone("d", "c"), 0);
  for (int i = 0; i < 6; ++i) {
    for (const auto& [top, number] : {std::pair("d", i), {"c", 5 - i}}) setxattr(top, fmt::format("user.{}", number), noise(kXattrInlineMax, static_cast<std::uint64_t>(number)));
  }
  EXPECT_EQ(lines("d", "c"), Lines{});
  setxattr("c", "user.0", noise(kXattrInlineMax, 9));
  EXPECT_EQ(lines("d", "c"), Lines{"m ./"});
}

TEST_F(Differing, TimesThatAreNoDifference) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  create("c/sub/new");
  unlink("c/sub/new");
  set("c/small", {.atime = Time{1, 0}});
  set("c/large", {.ctime = Time{1, 0}});
  set("c/sub", {.mtime = Time{1, 0}});
  EXPECT_EQ(lines("d", "c"), Lines{});
  set("c/small", {.mtime = Time{1, 0}});
  set("c/symlink", {.mtime = Time{1, 0}});
  EXPECT_EQ(lines("d", "c"), (Lines{"m small", "m symlink"}));
}

TEST_F(Differing, AnotherTypeIsADifferenceOfContents) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  unlink("c/pipe");
  mkdir("c/pipe");
  create("c/pipe/in it");
  remove_tree("c/sub");
  create("c/sub", "no directory");
  EXPECT_EQ(lines("d", "c"), (Lines{"M pipe/", "M sub"}));
  EXPECT_EQ(all_lines("d", "c"), (Lines{"M pipe/", "+ pipe/in it", "M sub", "- sub/deep/", "- sub/deep/file", "- sub/deep/other", "- sub/file"}));
  EXPECT_EQ(all_lines("c", "d"), (Lines{"M pipe", "- pipe/in it", "M sub/", "+ sub/deep/", "+ sub/deep/file", "+ sub/deep/other", "+ sub/file"}));
}

// What counts is whether data is in common.
TEST_F(Differing, TheSameBytesWrittenAgainDiffer) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  write("c/small", 0, noise(kSmall, 1));
  write("c/large", 0, noise(kBlockSize, 9));
  write("c/large", 0, noise(kLarge, 2).substr(0, kBlockSize));
  EXPECT_EQ(h_.read(ino("c/large")), h_.read(ino("d/large")));
  EXPECT_EQ(lines("d", "c"), (Lines{"M large", "M small"}));
}

TEST_F(Differing, CopiesThatShareAllDoNotDiffer) {
  mkdir("d");
  mkdir("c");
  create("d/large", noise(kLarge, 2));
  const Ino sparse = create("d/sparse");
  for (const std::uint64_t block : {3, 400, 401, 1000}) h_.write(sparse, block * kBlockSize, noise(20 * kBlockSize, block));
  mkdir("e");
  for (const char* name : {"large", "sparse"}) share(fmt::format("d/{}", name), fmt::format("c/{}", name));
  EXPECT_EQ(lines("d", "c"), Lines{});
  for (const char* name : {"large", "sparse"}) share(fmt::format("c/{}", name), fmt::format("e/{}", name));
  EXPECT_EQ(lines("c", "e"), Lines{});
  write("d/large", 0, "a block of the first");
  EXPECT_EQ(lines("c", "e"), Lines{}) << "what has been left to them is the same";
  EXPECT_EQ(lines("d", "e"), Lines{"M large"});
  fallocate("e/sparse", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * kBlockSize);
  set("e/sparse", {.mtime = h_.attr(ino("c/sparse")).mtime});
  EXPECT_EQ(lines("c", "e"), Lines{}) << "a hole of a hole";
  fallocate("e/sparse", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 401 * kBlockSize, kBlockSize);
  EXPECT_EQ(lines("c", "e"), Lines{"M sparse"});
}

TEST_F(Differing, RenamesOfDirectories) {
  populate("d");
  for (int i = 0; i < 20; ++i) create(fmt::format("d/sub/{}", i), noise(2000, static_cast<std::uint64_t>(i)));
  snapshot("d", "s");
  rename("d/sub", "d/renamed");
  EXPECT_EQ(lines(at("s"), "d"), Lines{"R sub/ -> renamed/"});
  write("d/renamed/7", 0, "written");
  unlink("d/renamed/8");
  create("d/renamed/new");
  rename("d/renamed/deep", "d/deep");
  EXPECT_EQ(lines(at("s"), "d"), (Lines{"R sub/deep/ -> deep/", "R sub/ -> renamed/", "M renamed/7", "+ renamed/new", "- sub/8"}));
  EXPECT_EQ(lines("d", at("s")), (Lines{"- renamed/new", "R renamed/ -> sub/", "M sub/7", "+ sub/8", "R deep/ -> sub/deep/"}));
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(lines(at("s"), "c"), lines(at("s"), "d")) << "also of a clone of it";
}

TEST_F(Differing, WhatIsRenamedAndHasNoDataIsKnownByItsNumber) {
  populate("d");
  snapshot("d", "s");
  rename("d/empty", "d/sub/was empty");
  rename("d/symlink", "d/a link");
  rename("d/nothing", "d/still nothing");
  write("d/small", 0, "written");
  rename("d/small", "d/large too");
  EXPECT_EQ(lines(at("s"), "d"), (Lines{"R symlink -> a link", "R small -> large too", "M large too", "R nothing/ -> still nothing/", "R empty -> sub/was empty"}));
}

TEST_F(Differing, FilesOfSeveralNames) {
  populate("d");
  add_links("d");
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(lines("d", "c"), Lines{});
  write("c/two", 0, "TWO");
  EXPECT_EQ(lines("d", "c"), (Lines{"M sub/two", "M two"}));
  link("c/small", "c/small too");
  EXPECT_EQ(lines("d", "c"), (Lines{"+ small too", "M sub/two", "M two"}));
  unlink("c/small");
  EXPECT_EQ(lines("d", "c"), (Lines{"R small -> small too", "M sub/two", "M two"}));
}

TEST_F(Differing, AllThatIsComparedIfThatIsAsked) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const auto exact = [&] {
    auto told = tree().differences(ino("d"), ino("c"), {.a = "", .b = "", .from = {}, .exact = true}, kNever);
    EXPECT_TRUE(told);
    Lines paths;
    if (told) {
      for (const FoundDifference& each : told->found) paths.push_back(each.path);
    }
    return paths;
  };
  EXPECT_EQ(exact(), Lines{});
  set("c/sub", {.mtime = Time{5, 5}});
  set("c/large", {.atime = Time{6, 6}});
  EXPECT_EQ(lines("d", "c"), Lines{});
  EXPECT_EQ(exact(), (Lines{"large", "sub"}));
  link("c/small", "c/sub/small too");
  set("c/sub", {.mtime = Time{5, 5}});
  EXPECT_EQ(lines("d", "c"), (Lines{"+ sub/small too"}));
  EXPECT_EQ(exact(), (Lines{"large", "small", "sub", "sub/small too"}));
}

// Directories that show a base have none.
TEST_F(Differing, NamesOfFilesOfSeveral) {
  const auto linked = [&](const std::string& path, const std::string& below, const DifferencesMost& most = {}) {
    std::map<std::string, std::uint64_t> names;
    DifferencesAsked asked{.a = std::nullopt, .b = below, .from = {}, .only_linked = true, .most = most};
    for (rows_ = 0;;) {
      const auto told = tree().differences(ino(path), ino(path), asked, kNever);
      EXPECT_TRUE(told);
      if (!told) return names;
      for (const FoundDifference& each : told->found) names[each.path] = each.number.v;
      if (told->ended) return names;
      asked.from = told->next;
    }
  };
  populate("d");
  EXPECT_TRUE(linked("d", "").empty());
  add_links("d");
  snapshot("d", "s");
  for (const std::string& place : {std::string("d"), at("s")}) {
    const auto found = linked(place, "");
    ASSERT_TRUE(found.contains("two") && found.contains("sub/two")) << place;
    EXPECT_EQ(found.at("two"), found.at("sub/two"));
    EXPECT_EQ(linked(place, "", {.rows = 1}), found);
    EXPECT_EQ(linked(place, "sub").count("two"), 1u);
    for (const auto& [name, number] : found) EXPECT_GT(h_.attr(ino(place + "/" + name)).nlink, 1u) << name;
  }
  EXPECT_EQ(code(tree().differences(ino("d"), ino("d"), {.a = "", .b = "", .from = {}, .only_linked = true}, kNever)), EINVAL);
}

TEST_F(Differing, BlocksOfFilesThatAreTheSame) {
  mkdir("d");
  create("d/file");
  write("d/file", 0, std::string(2 * MiB, 'x'));
  snapshot("d", "s");
  const auto same = [&](const std::string& name, const DifferencesMost& most = {}) {
    std::vector<SameBlocks> all;
    DifferencesAsked asked{.a = name, .b = name, .from = {}, .only_data = true, .most = most};
    for (;;) {
      const auto told = tree().differences(ino(at("s")), ino("d"), asked, kNever);
      EXPECT_TRUE(told);
      if (!told) return all;
      const auto again = decode_step(encode(*told));
      EXPECT_TRUE(again);
      if (!again) return all;
      all.insert(all.end(), again->same.begin(), again->same.end());
      if (again->ended) return all;
      asked.from = again->next;
    }
  };
  EXPECT_EQ(same("file"), (std::vector<SameBlocks>{{BlockIndex{0}, 512}}));
  write("d/file", 100 * kBlockSize + 7, "changed");
  write("d/file", 300 * kBlockSize - 1, "in two");
  const std::vector<SameBlocks> expected{{BlockIndex{0}, 100}, {BlockIndex{101}, 198}, {BlockIndex{301}, 211}};
  EXPECT_EQ(same("file"), expected);
  EXPECT_EQ(same("file", {.room = 1}), expected) << "one after the other";
  EXPECT_EQ(code(tree().differences(ino(at("s")), ino("d"), {.a = "file", .b = "", .from = {}, .only_data = true}, kNever)), EINVAL);
  EXPECT_EQ(code(tree().differences(ino(at("s")), ino("d"), {.a = "file", .b = "file", .from = "no number", .only_data = true}, kNever)), EINVAL);
}

TEST_F(Differing, TreesThatHaveNothingInCommon) {
  populate("d");
  populate("e");
  const Lines differing{"M attributed", "M large", "M small", "M sparse", "M sub/deep/file", "M sub/deep/other", "M sub/file"};
  Lines contents = lines("d", "e");
  std::erase_if(contents, [](const std::string& each) { return each.starts_with("m "); });  // by the clock
  EXPECT_EQ(contents, differing);
  mkdir("none");
  EXPECT_EQ(lines("none", "d/sub"), (Lines{"m ./", "+ deep/", "+ file"}));
  EXPECT_EQ(lines("d/sub", "none"), (Lines{"m ./", "- deep/", "- file"}));
}

TEST_F(Differing, OneLiesInTheOther) {
  populate("d");
  EXPECT_EQ(lines("d", "d"), Lines{});
  EXPECT_EQ(lines("", ""), Lines{});
  ASSERT_EQ(clone("d", "c"), 0);
  rename("c", "d/c");
  EXPECT_EQ(lines("d/c", "d"), Lines{"+ c/"});
  snapshot("", "all");
  EXPECT_EQ(lines(at("all"), ""), Lines{});
  create("new");
  EXPECT_EQ(lines(at("all"), ""), Lines{"+ new"});
  EXPECT_EQ(lines(at("all") + "/d", "d"), Lines{});
}

TEST_F(Differing, AreToldInTheOrderOfAWalk) {
  mkdir("d");
  for (const char* name : {"a", "a b", "a-b", "a.b"}) {
    mkdir(fmt::format("d/{}", name));
    create(fmt::format("d/{}/x", name));
  }
  mkdir("e");
  EXPECT_EQ(all_lines("e", "d"), (Lines{"+ a/", "+ a/x", "+ a b/", "+ a b/x", "+ a-b/", "+ a-b/x", "+ a.b/", "+ a.b/x"}));
  snapshot("d", "s");
  for (const char* name : {"a", "a b", "a-b", "a.b"}) write(fmt::format("d/{}/x", name), 0, "x");
  EXPECT_EQ(lines(at("s"), "d"), (Lines{"M a/x", "M a b/x", "M a-b/x", "M a.b/x"}));
}

// However little a step may be.
TEST_F(Differing, InManySteps) {
  populate("d");
  mkdir("d/many");
  for (int i = 0; i < 400; ++i) create(fmt::format("d/many/{}", i));
  snapshot("d", "s");
  for (int i = 0; i < 400; i += 2) write(fmt::format("d/many/{}", i), 0, "x");
  for (int i = 1; i < 400; i += 4) unlink(fmt::format("d/many/{}", i));
  populate("d/sub/more");
  for (const OneSided one_sided : {OneSided::as_one, OneSided::all}) {
    const auto at_once = differences(at("s"), "d", one_sided);
    for (const DifferencesMost most : {DifferencesMost{.room = 900}, DifferencesMost{.rows = 1}, DifferencesMost{.rows = 200}}) {
      steps_ = 0;
      EXPECT_EQ(differences(at("s"), "d", one_sided, most), at_once);
      EXPECT_GT(steps_, 5);
    }
  }
}

// Each step is as of its own moment. None fails, and what stays as it is is told right.
TEST_F(Differing, WhileOthersChangeWhatIsCompared) {
  populate("d");
  for (int i = 0; i < 100; ++i) create(fmt::format("d/sub/{}", i), "x");
  snapshot("d", "s");
  write("d/small", 0, "y");
  const Ino d = ino("d"), sub = ino("d/sub");
  std::atomic<bool> ends = false;
  std::thread others([&] {
    for (int i = 0; !ends; ++i) {
      const std::string name = std::to_string(i % 100), elsewhere = fmt::format("moved {}", i % 100);
      for (const auto& [from, from_name, to, to_name] : {std::tuple(sub, name, d, elsewhere), {d, elsewhere, sub, name}}) {
        EXPECT_EQ(code(both_ways([&](Wait w) { return tree().rename(from, from_name, to, to_name, 0, w); })), 0);
      }
      const Ino made = h_.make(d, "made", S_IFDIR | 0755);
      EXPECT_EQ(code(both_ways([&](Wait w) { return tree().rmdir(d, "made", w); })), 0);
      tree().forget(made, 1);
    }
  });
  for (int i = 0; i < (std::getenv("LSMFS_LONG") ? 20 : 8); ++i) {  // each slower, by what the others leave
    const Lines told = [&] {
      Lines out;
      for (const Difference& each : differences(at("s"), "d", OneSided::all, {.rows = 40})) out.push_back(line(each));
      return out;
    }();
    EXPECT_TRUE(std::ranges::find(told, "M small") != told.end());
    for (const char* same : {"M large", "m large", "M sub/deep/file", "- large"}) EXPECT_TRUE(std::ranges::find(told, same) == told.end()) << same;
  }
  ends = true;
  others.join();
  EXPECT_EQ(lines(at("s"), "d"), Lines{"M small"});
}

TEST_F(Differing, CostWhatDiffers) {
  constexpr int kDirectories = 100, kFiles = 100;
  mkdir("d");
  for (int i = 0; i < kDirectories; ++i) {
    mkdir(fmt::format("d/{}", i));
    for (int j = 0; j < kFiles; ++j) create(fmt::format("d/{}/{}", i, j), "x");
    forget_all();
  }
  snapshot("d", "s");
  const auto cost = [&](std::size_t expected) {
    for (const char* top : {"d", ".snapshots/s"}) ino(top);
    must(tree().sync());
    rows_ = 0;
    EXPECT_EQ(differences(at("s"), "d").size(), expected);
    return rows_;
  };
  EXPECT_LT(cost(0), 10u) << "nothing is read";
  for (int i = 0; i < 10; ++i) {
    write(fmt::format("d/{}/{}", 10 * i, 7 * i), 0, "y");
    const auto most = static_cast<std::uint64_t>(2 * (kDirectories + (i + 1) * kFiles));
    const std::uint64_t rows = cost(static_cast<std::size_t>(i) + 1);
    RecordProperty(fmt::format("rows of {}", i + 1), static_cast<int>(rows));
    EXPECT_LT(rows, most + most / 5 + 20) << "the entries of directories on the way, on both sides";
    EXPECT_GT(rows, most / 2) << "or nothing has been counted";
  }
  ASSERT_EQ(clone("d", "c"), 0);
  EXPECT_EQ(lines("d", "c"), Lines{});
  rows_ = 0;
  EXPECT_EQ(differences(at("s"), "c").size(), 10u);
  EXPECT_LT(rows_, 2700u) << "of a clone as much as of what it was made of";
}

TEST_F(Differing, OfDirectoriesAlone) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  const Ino d = ino("d"), c = ino("c"), file = ino("d/small");
  const DifferencesAsked all{.a = "", .b = "", .from = {}};
  const auto code_of = [&](Ino a, Ino b, const DifferencesAsked& asked) { return code(tree().differences(a, b, asked, kNever)); };
  EXPECT_EQ(code_of(d, c, all), 0);
  EXPECT_EQ(code_of(d, file, all), ENOTDIR);
  EXPECT_EQ(code_of(file, d, all), ENOTDIR);
  EXPECT_EQ(code_of(d, Ino{12345}, all), ESTALE);
  EXPECT_EQ(code_of(d, c, {.a = "no such", .b = "", .from = {}}), ENOENT);
  EXPECT_EQ(code_of(d, c, {.a = "small/x", .b = "", .from = {}}), ENOENT);
  EXPECT_EQ(code_of(d, c, {.a = "small", .b = std::nullopt, .from = {}}), ENOTDIR);
  EXPECT_EQ(code_of(d, c, {.a = "small", .b = "large", .from = {}}), 0) << "two of what is asked may be anything";
  for (const char* from : {"/", "x", "x/", "sub", "sub/", "sub/deep/zzz", "small/", "small/x"}) {
    EXPECT_EQ(code_of(d, c, {.a = "", .b = "", .from = from}), 0) << from;
  }
  for (const char* path : {"//", "/sub", "sub//deep", "sub//", ".", "sub/.."}) {
    EXPECT_EQ(code_of(d, c, {.a = "", .b = "", .from = path}), EINVAL) << path;
    EXPECT_EQ(code_of(d, c, {.a = path, .b = "", .from = {}}), EINVAL) << path;
    EXPECT_EQ(code_of(d, c, {.a = std::nullopt, .b = path, .from = {}}), EINVAL) << path;
  }
  EXPECT_EQ(code_of(d, c, {.a = "sub/", .b = "", .from = {}}), EINVAL);
  remove_tree("c");
  EXPECT_EQ(code_of(d, c, all), ESTALE) << "and not ENOENT, which would be of a path";
}

TEST_F(Differing, EndWhenNobodyWantsThemAnyMore) {
  mkdir("d");
  for (int i = 0; i < 300; ++i) create(fmt::format("d/{}", i));
  mkdir("e");
  const Ino d = ino("d"), e = ino("e");
  for (int most = 1; most < 3; ++most) {
    int looks = 0;
    EXPECT_EQ(code(tree().differences(d, e, {.a = "", .b = "", .from = {}}, [&] { return ++looks == most; })), EINTR);
  }
}

TEST_F(Differing, PathsThatAreTooLongAreNotCut) {
  mkdir("d");
  mkdir("e");
  std::string path = "d";
  for (int i = 0; i < 40; ++i) {
    path += "/" + std::string(250, 'x');
    mkdir(path);
  }
  const auto found = find_all("e", "d", OneSided::all);
  EXPECT_EQ(code(found), ENAMETOOLONG);
  EXPECT_EQ(lines("e", "d"), Lines{"+ " + std::string(250, 'x') + "/"});
}

TEST_F(Differing, OfATreeThatIsReadOnly) {
  populate("d");
  snapshot("d", "s");
  write("d/small", 0, "x");
  h_.options.read_only = true;
  remount();
  EXPECT_EQ(lines(at("s"), "d"), Lines{"M small"});
  h_.options.read_only = false;
  remount();
}

TEST_F(Differing, OfWhatIsDamagedAreNotKnown) {
  populate("d");
  ASSERT_EQ(clone("d", "c"), 0);
  create("c/new");
  damage_entries("small");
  EXPECT_EQ(code(find_all("d", "c", OneSided::as_one)), EUCLEAN);
}

TEST(DifferencesForms, SurviveTheWay) {
  const DifferencesAsked asked{.a = "a/b", .b = std::nullopt, .from = "c/"};
  const auto again = decode_asked(encode(asked));
  ASSERT_TRUE(again);
  for (const bool which : {false, true}) {
    const auto more = decode_asked(encode(DifferencesAsked{.a = "", .b = std::nullopt, .from = {}, .exact = which, .only_data = !which, .only_linked = which}));
    ASSERT_TRUE(more);
    EXPECT_EQ(more->exact, which);
    EXPECT_EQ(more->only_linked, which);
    EXPECT_EQ(more->only_data, !which);
  }
  EXPECT_FALSE(again->exact || again->only_linked || again->only_data);
  EXPECT_EQ(again->a, asked.a);
  EXPECT_EQ(again->b, asked.b);
  EXPECT_EQ(again->from, asked.from);
  const DifferencesStep step{.found = {{.kind = FoundDifference::Kind::attributes, .was_directory = false, .is_directory = true, .path = "x", .number = Ino{7}, .data = Ino{8}}},
                             .shifts = {1, 1ull << 52},
                             .next = "y/",
                             .ended = true};
  const auto told = decode_step(encode(step));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->found, step.found);
  EXPECT_EQ(told->shifts, step.shifts);
  EXPECT_EQ(told->next, step.next);
  EXPECT_TRUE(told->ended);
}

TEST(DifferencesForms, ThatAreDamagedAreRefused) {
  const std::string asked = encode(DifferencesAsked{.a = "a/b", .b = "c", .from = "d"});
  const std::string step = encode(DifferencesStep{.found = {{}, {}}, .shifts = {1}, .next = "y", .ended = false});
  for (std::size_t size = 0; size < asked.size(); ++size) EXPECT_FALSE(decode_asked(asked.substr(0, size))) << size;
  EXPECT_FALSE(decode_asked(asked + "x"));
  EXPECT_FALSE(decode_asked(std::string("\0", 1) + asked.substr(1))) << "nothing is asked of";
  EXPECT_FALSE(decode_asked("\x04" + asked.substr(1)));
  for (const std::string& bytes : {std::string(), std::string("\0\0\5", 3), step + "\x7f", step.substr(0, step.size() - 1)}) EXPECT_FALSE(decode_step(bytes));
}

// Whatever has been done, against a walk over both.
class RandomDiffering : public Differing, public testing::WithParamInterface<bool> {
 protected:
  RandomDiffering() : Differing(ByteCount{GetParam() ? GiB : kDeviceMin}) {}  // of small volumes nothing lies in blobs

  struct Entry {
    Attr attr;
    std::string contents;  // of a file, or the target of a symbolic link
    std::map<std::string, std::string> xattrs;
    bool is_directory() const { return S_ISDIR(attr.mode); }
    bool same_contents(const Entry& other) const {
      return (attr.mode & S_IFMT) == (other.attr.mode & S_IFMT) && contents == other.contents && attr.rdev == other.attr.rdev;
    }
    bool same_attributes(const Entry& other) const {
      return attr.mode == other.attr.mode && attr.uid == other.attr.uid && attr.gid == other.attr.gid && attr.flags == other.attr.flags &&
             (is_directory() || attr.mtime == other.attr.mtime) && xattrs == other.xattrs;
    }
  };
  using Entries = std::map<std::string, Entry>;  // by path, "" the directory itself

  Entries all_of(const std::string& path) {
    Entries out;
    walk(ino(path), "", [&](const std::string& at_path, const Attr& attr) {
      Entry& entry = out[at_path.empty() ? "" : at_path.substr(1)];
      entry.attr = attr;
      if (S_ISREG(attr.mode)) entry.contents = h_.read(attr.ino);
      if (S_ISLNK(attr.mode)) entry.contents = *both_ways([&](Wait w) { return tree().readlink(attr.ino, w); });
      std::istringstream list(*both_ways([&](Wait w) { return tree().listxattr(attr.ino, w); }));
      for (std::string name; std::getline(list, name, '\0');) entry.xattrs[name] = *both_ways([&](Wait w) { return tree().getxattr(attr.ino, name, w); });
    });
    return out;
  }

  // All that differs is told, and nothing else.
  void are_right(const std::string& a, const std::string& b, const DifferencesMost& most) {
    SCOPED_TRACE(a + " " + b);
    const Entries in_a = all_of(a), in_b = all_of(b);
    const auto told = differences(a, b, OneSided::all, most);
    std::map<std::string, Kind> one_sided_b, differing;
    std::set<std::string> removed, used;
    std::map<std::string, std::string> renamed;  // from the second to the first
    for (const Difference& each : told) {
      SCOPED_TRACE(line(each));
      const bool is_removed = each.kind == Kind::removed;
      ASSERT_TRUE((is_removed ? in_a : in_b).contains(each.path));
      EXPECT_EQ((is_removed ? in_a : in_b).at(each.path).is_directory(), each.is_directory);
      if (is_removed) EXPECT_TRUE(removed.insert(each.path).second);
      else if (each.kind == Kind::added) EXPECT_TRUE(one_sided_b.emplace(each.path, each.kind).second);
      else if (each.kind == Kind::renamed) EXPECT_TRUE(renamed.emplace(each.path, each.old).second);
      else EXPECT_TRUE(differing.emplace(each.path, each.kind).second);
      ++told_[each.kind];
    }
    for (const auto& [path, entry] : in_b) {
      SCOPED_TRACE("+ or in both: " + path);
      if (one_sided_b.contains(path)) {
        EXPECT_FALSE(differing.contains(path) || renamed.contains(path));
        continue;
      }
      std::string old = path;
      for (std::string up = path;; up = above(up)) {
        if (const auto found = renamed.find(up); found != renamed.end()) {
          old = found->second + path.substr(up.size());
          break;
        }
        if (up.empty()) break;
      }
      const auto before = in_a.find(old);
      ASSERT_NE(before, in_a.end()) << "it was added";
      EXPECT_TRUE(used.insert(old).second) << old;
      const auto found = differing.find(path);
      const bool same_contents = before->second.same_contents(entry), same = same_contents && before->second.same_attributes(entry);
      EXPECT_EQ(found != differing.end(), !same) << "as a whole";
      EXPECT_EQ(found != differing.end() && found->second == Kind::contents, !same_contents) << "in its contents";
    }
    for (const auto& [path, entry] : in_a) EXPECT_NE(used.contains(path), removed.contains(path)) << "in the first: " << path;

    // The same, but for what is whole on one side.
    std::vector<Difference> as_one;
    for (const Difference& each : told) {
      const bool one_sided = each.kind == Kind::added || each.kind == Kind::removed;
      bool inside = false;
      for (std::string up = each.path; one_sided && !up.empty();) {
        up = above(up);
        inside |= each.kind == Kind::added ? one_sided_b.contains(up) : removed.contains(up);
        // Or the other side has something else there.
        const auto type = differing.find(up);
        inside |= type != differing.end() && type->second == Kind::contents && in_a.contains(up) && in_b.contains(up) && in_a.at(up).is_directory() != in_b.at(up).is_directory();
      }
      if (!inside) as_one.push_back(each);
    }
    EXPECT_EQ(differences(a, b), as_one);
  }

  std::map<Kind, int> told_;
};

TEST_P(RandomDiffering, AreThoseThatAWalkFinds) {
  if (GetParam()) {
    h_.options.stream_from = ByteCount{kBlockSize};
    remount();
  }
  std::mt19937_64 random(drawn_seed());
  const auto drawn = [&](std::uint64_t n) { return random() % n; };
  const auto one_of = [&](const auto& all) { return *std::next(all.begin(), static_cast<std::ptrdiff_t>(drawn(all.size()))); };
  populate("d");
  if (drawn(2) == 0) add_links("d");
  std::set<std::string> kept, tops{"d"};
  const auto change = [&](const std::string& top) {
    std::vector<std::string> files, directories{top};
    walk(ino(top), "", [&](const std::string& path, const Attr& attr) {
      if (path.empty()) return;
      (S_ISDIR(attr.mode) ? directories : files).push_back(top + path);
    });
    const std::string into = one_of(directories), fresh = fmt::format("{}/new{}", into, random() % 1000);
    const std::string file = files.empty() ? "" : one_of(files), directory = one_of(directories);
    const Attr attr = file.empty() ? Attr() : h_.attr(ino(file));
    const bool regular = S_ISREG(attr.mode), dense = regular && attr.size > kSmall && attr.blocks * 512 >= attr.size;
    if (find(fresh) != Ino{}) return;
    switch (drawn(22)) {
      case 0: create(fresh, noise(1 + drawn(kSmall), random())); break;
      case 1: mkdir(fresh); break;
      case 2: {
        const Ino large = create(fresh);  // in order
        const std::string data = noise(kLarge, random());
        for (std::size_t at = 0; at < kLarge; at += 10 * kBlockSize) h_.write(large, at, std::string_view(data).substr(at, 10 * kBlockSize));
        break;
      }
      case 3: make(fresh, S_IFLNK | 0777, fmt::format("to {}", random())); break;
      case 4: case 5: if (regular) write(file, drawn(2 * kSmall), noise(1 + drawn(50'000), random())); break;
      case 6: if (!file.empty()) unlink(file); break;
      case 7: if (!file.empty()) rename(file, drawn(4) == 0 ? one_of(files) : fresh); break;
      case 8: if (directory != top && !into.starts_with(directory)) rename(directory, fresh); break;
      case 9: if (!file.empty()) set(file, {.mode = static_cast<std::uint32_t>(drawn(0777))}); break;
      case 10: set(directory, {.uid = static_cast<std::uint32_t>(drawn(3))}); break;
      case 11: if (!file.empty()) set(file, {.mtime = Time{static_cast<std::int64_t>(drawn(3)), 0}}); break;
      case 12: setxattr(directory, "user.x", noise(drawn(2) == 0 ? 10 : 3000, drawn(3))); break;
      case 13: if (regular) setxattr(file, "user.y", noise(drawn(2) == 0 ? 10 : 3000, drawn(3))); break;
      case 14: if (regular) link(file, fresh); break;
      case 15: if (directory != top && drawn(3) == 0) remove_tree(directory); break;
      case 16: case 17: if (dense && attr.size > 200'000) share(file, fresh); break;  // of others some may be copied, and differ with the same bytes
      case 18: if (dense) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, drawn(attr.size), 1 + drawn(kLarge)); break;
      case 19: if (dense) set(file, {.size = drawn(attr.size)}); break;
      case 20: if (files.size() > 1) rename(file, one_of(files), RENAME_EXCHANGE); break;
      default: if (regular) set(file, {.size = attr.size + 1 + drawn(kLarge)}); break;
    }
  };
  const auto put_back = [&](const std::string& dir, const std::string& name) {
    auto gone = both_ways([&](Wait w) { return tree().roll_back(ino(dir), ino(at(name)), w); });
    ASSERT_TRUE(gone) << gone.error().message();
    held_.clear();
    h_.remount();
  };
  for (int i = 0; i < 100; ++i) {
    for (std::uint64_t n = drawn(6); n > 0; --n) change(one_of(tops));
    const std::string top = one_of(tops);
    switch (drawn(9)) {
      case 0: snapshot(top, std::to_string(i)); kept.insert(std::to_string(i)); break;
      case 1: {
        const std::string copy = fmt::format("clone{}", i);
        ASSERT_EQ(clone(!kept.empty() && drawn(2) == 0 ? at(one_of(kept)) : top, copy), 0);
        tops.insert(copy);
        break;
      }
      case 2: if (!kept.empty()) put_back(top, one_of(kept)); break;
      case 3: if (tops.size() > 2) remove_tree(top), tops.erase(top); break;
      case 4: if (kept.size() > 3) { const auto victim = one_of(kept); remove_tree(at(victim)); kept.erase(victim); } break;
      case 5: remount(); settle(); break;
      case 6: drawn(2) == 0 ? remount() : crash(); break;
      default: break;
    }
    std::vector<std::string> comparable(tops.begin(), tops.end());
    for (const std::string& name : kept) comparable.push_back(at(name));
    const DifferencesMost most{.room = drawn(3) == 0 ? std::size_t{2000} : std::size_t{16000}, .rows = drawn(3) == 0 ? 1 + drawn(300) : 65536};
    are_right(one_of(comparable), one_of(comparable), most);
    if (HasFailure()) return;
  }
  sound();
  EXPECT_GT(told_[Kind::added] + told_[Kind::removed], 0);
  EXPECT_GT(told_[Kind::contents] + told_[Kind::attributes], 0);
}

INSTANTIATE_TEST_SUITE_P(Files, RandomDiffering, testing::Bool(), [](const auto& files) { return files.param ? "InBlobs" : "InRows"; });

}  // namespace
}  // namespace lsmfs::test::differences_test

// check_tree() and repair_tree() of what clones show: each rule is broken once, found and mended; and rows are damaged at random.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tree/damaged_tree.h"
#include "tree/file_blobs.h"

namespace lsmfs::test::clone_check_test {
namespace {

// "d" and its clone "c", of which none has been changed. What lies below is the same.
class CheckClones : public DamagedTree {
 protected:
  CheckClones() {
    source_ = h_.mkdir(kRootIno, "d");
    const Ino sub = h_.mkdir(source_, "sub"), deep = h_.mkdir(sub, "deep");
    h_.create(source_, "file", data_);
    h_.create(sub, "inside", "something");
    h_.create(deep, "x", "something else");
    h_.mkdir(source_, "empty");
    h_.make(source_, "symlink", S_IFLNK | 0777, "target");
    must(h_.tree().setxattr(source_, "user.large", std::string(5000, 'd'), 0, Wait::yes));
    must(h_.tree().setxattr(sub, "user.large", std::string(5000, 's'), 0, Wait::yes));
    must(h_.tree().sync());
    before_ = value(keys::entry(root_, "d"));
    must(h_.tree().clone(source_, kRootIno, "c", Wait::yes));
    must(h_.tree().sync());
    clone_ = record("c").number();
    for (const char* side : {"c", "d"}) {
      files_[std::string(side) + "/file"] = data_;
      files_[std::string(side) + "/sub/inside"] = "something";
      files_[std::string(side) + "/sub/deep/x"] = "something else";
    }
  }
  // However it was broken: a repair makes it sound, and it can be used.
  void TearDown() override {
    if (HasFatalFailure()) return;
    const auto repaired = repair_tree(h_.store());
    ASSERT_TRUE(repaired) << repaired.error().message();
    EXPECT_TRUE(repaired->left.clean()) << testing::PrintToString(repaired->left.problems) << " after\n" << testing::PrintToString(repaired->lines);
    said_ = testing::PrintToString(repaired->lines);
    expect_clean();
    h_.crash();
    for (const auto& [path, data] : files_) {
      if (h_.walk(path).v == 0) ADD_FAILURE() << path << " is not there after\n" << said_;
      else EXPECT_EQ(h_.read_path(path), data) << path << " after\n" << said_;
    }
    for (const std::string& path : gone_) EXPECT_EQ(h_.walk(path).v, 0u) << path << " is there after\n" << said_;
    for (const char* side : {"c", "d"}) {
      if (const Ino dir = h_.walk(side); dir.v != 0) h_.create(dir, "after the repair", "data");
    }
    h_.remount();
    expect_clean();
  }
  void expect_clean() {
    const CheckReport report = check();
    EXPECT_TRUE(report.clean()) << testing::PrintToString(report.problems) << " after\n" << said_;
  }
  // What is there then, whatever the rest of a name is.
  void expect_some(const std::vector<std::vector<std::string>>& expected) {
    const CheckReport report = check();
    for (const auto& words : expected) {
      EXPECT_TRUE(std::ranges::any_of(report.problems, [&](const std::string& line) {
        return std::ranges::all_of(words, [&](const auto& word) { return line.find(word) != std::string::npos; });
      })) << testing::PrintToString(words) << " is not in\n" << testing::PrintToString(report.problems);
    }
  }
  void lost(const std::string& prefix) {
    std::erase_if(files_, [&](const auto& file) { return file.first.starts_with(prefix); });
  }
  void expand(const char* side) {
    h_.create(h_.walk(side), "new", "data");
    must(h_.tree().sync());
  }
  // Of an entry of the root, or of a directory below it.
  Record record(const std::string& name) { return *decode_record(value(keys::entry(root_, name))); }
  std::string home(const std::string& name) {
    const Record found = record(name);
    return found.home.empty() ? keys::child_home(root_, name, found.number()) : found.home;
  }
  std::string row_below(const std::string& dir, const std::string& name) { return keys::entry(home(dir), name); }
  std::string home_below(const std::string& dir, const std::string& name) {
    return keys::child_home(home(dir), name, decode_record(value(row_below(dir, name)))->number());
  }
  std::string base_home() { return keys::child_home(root_, "d", source_); }
  static std::string base(Ino number) { return fmt::format("base {}", number.v); }
  std::string base() { return base(source_); }
  Ino fresh() {
    const Ino number = next_ino();
    change_state([](State& state) { ++state.next_ino.v; });
    return number;
  }

  const std::string data_ = std::string(30'000, 'x');
  std::string before_, said_;  // the record of the source as it was before it had a clone
  Ino source_, clone_;         // numbers of homes: of what both show, and of the clone
  std::map<std::string, std::string> files_;  // that are there in the end, whatever was done
  std::set<std::string> gone_;                // and what is not
};

// ---- sound

TEST_F(CheckClones, AreCleanWhateverIsChangedInThem) {
  expect_clean();
  EXPECT_EQ(check().counts.directories, decode_state(value(std::string(keys::kState)))->counts.directories);
  h_.write(h_.walk("c/sub/deep/x"), 0, "changed so");
  must(h_.tree().sync());
  expect_clean();
  files_["c/sub/deep/x"] = "changed soelse";
  h_.create(h_.walk("d/sub"), "more", "data");  // what it shows has numbers that are in use again
  must(h_.tree().sync());
  expect_clean();
  must(h_.tree().clone(h_.walk("d"), h_.walk("c"), "once more", Wait::yes));
  must(h_.tree().clone(h_.walk("c"), kRootIno, "of both", Wait::yes));
  must(h_.tree().sync());
  expect_clean();
  h_.create(h_.walk("of both/once more/sub/deep"), "y", "data");
  must(h_.tree().sync());
  expect_clean();
  h_.crash();
  expect_clean();
}

TEST_F(CheckClones, AreCleanWhenTheyAreExpandedInSteps) {
  h_.options.expand_at_once = 2;
  h_.remount();
  for (const char* side : {"c", "d"}) {
    expand(side);
    expect_clean();
    EXPECT_EQ(*h_.tree().getxattr(h_.walk(side), "user.large", Wait::yes), std::string(5000, 'd'));
  }
  h_.crash();
  expect_clean();
}

// As if the last step had not come about.
TEST_F(CheckClones, AreCleanWhileOneIsExpandedInSteps) {
  const std::string beside = keys::child_home(root_, "c", fresh());
  Record entry = regular(fresh());
  entry.size = data_.size();
  entry.blocks = 8;
  const Record shown = *decode_record(value(keys::entry(base_home(), "file")));
  entry.base = keys::child_home(base_home(), "file", shown.number());
  put(keys::node(*keys::number_of(beside)), encode(lsmfs::Node{.home = beside, .directory = true}));
  put(keys::entry(beside, "file"), encode(entry));
  put(keys::user(shown.number(), entry.ino), std::string(keys::kWholeUser));
  change_state([](State& state) { ++state.counts.regular; });
  expect_clean();
}

TEST_F(CheckClones, AreCleanWhenOneSideIsRemoved) {
  must(h_.tree().remove_tree(h_.walk("d"), kRootIno, Wait::yes));
  must(h_.tree().sync());
  expect_clean();
  while (*h_.tree().sweep()) {
  }
  must(h_.tree().sync());
  expect_clean();
  lost("d/");
}

TEST_F(CheckClones, AreCleanWithLargeFilesAndThoseOfSeveralNames) {
  const std::string large(600 * KiB, 'l');
  const Ino dir = h_.mkdir(kRootIno, "e"), inner = h_.mkdir(dir, "inner");
  const Ino file = h_.create(inner, "large", large), other = h_.create(dir, "one", "of two");
  must(h_.tree().link(other, inner, "two", Wait::yes));
  must(h_.tree().clone(dir, kRootIno, "f", Wait::yes));
  must(h_.tree().sync());
  expect_clean();
  h_.write(file, 0, "changed");
  must(h_.tree().sync());
  expect_clean();
  files_["f/inner/large"] = large;
  files_["f/inner/two"] = files_["f/one"] = "of two";
}

// ---- users

TEST_F(CheckClones, ABaseThatDoesNotKnowWhoShowsIt) {
  erase(keys::user(source_, clone_));
  expect({{inode(clone_), "shows " + base(), "does not know it"}});
}

TEST_F(CheckClones, ABaseThatIsSaidToBeUsedInPart) {
  put(keys::user(source_, clone_), "");
  expect({{inode(clone_), "shows " + base(), "does not know it"}});
}

TEST_F(CheckClones, ADamagedUser) {
  put(keys::user(source_, clone_), "x");
  expect({{base(), "user", "damaged"}, {inode(clone_), "shows " + base(), "does not know it"}});
}

TEST_F(CheckClones, WhoDoesNotShowABase) {
  put(keys::user(source_, file_), std::string(keys::kWholeUser));
  expect({{base(), inode(file_), "does not share"}});
}

TEST_F(CheckClones, WhoSharesAPartAndIsSaidToShowAll) {
  const std::string data(300 * KiB, 's');
  const Ino from = h_.create(kRootIno, "from", data), to = h_.create(kRootIno, "to");
  must(h_.tree().copy_range(from, ByteOffset{0}, to, ByteOffset{0}, ByteCount{data.size()}, Wait::yes));
  must(h_.tree().sync());
  put(keys::user(from, to), std::string(keys::kWholeUser));
  expect({{base(from), inode(to), "does not show it"}});
  files_["to"] = data;
}

// ---- bases

TEST_F(CheckClones, ABaseWhoseRowIsLost) {
  erase(keys::node(source_));
  expect({{inode(clone_), "shows " + base(), "does not exist"}, {inode(source_) + " (home", "shows " + base(), "does not exist"},
          {"/d: 4 entries of a directory that does not exist"}});
}

TEST_F(CheckClones, ADamagedRowOfABase) {
  put(keys::node(source_), "x");
  expect_some({{"row of a base", "damaged"}, {inode(clone_), "shows " + base(), "does not exist"}});
}

TEST_F(CheckClones, ABaseThatIsLostWithItsEntries) {
  erase(keys::node(source_));
  for (const char* name : {"file", "sub", "empty", "symlink"}) erase(keys::entry(base_home(), name));
  expect_some({{inode(clone_), "shows " + base(), "does not exist"}, {"/d/sub: 2 entries of a directory that does not exist"}});
  files_.clear();
  gone_ = {"c/file", "d/sub"};
}

TEST_F(CheckClones, ABaseThatIsAFile) {
  put(keys::node(source_), encode(lsmfs::Node{base_home(), 0, 0, 0}));
  expect_some({{inode(clone_), "shows " + base(), "does not exist"}});
  files_.clear();  // a base is there, and it has none of these
}

TEST_F(CheckClones, ABaseThatItsDirectoryHasAgain) {
  put(keys::entry(root_, "d"), before_);
  expect_some({{base() + ": is left by its directory, and the directory has it"}});
}

// As if nothing of the clone but its record had been written.
TEST_F(CheckClones, ABaseInUse) {
  put(keys::entry(root_, "d"), before_);
  erase(keys::node(source_));
  expect_some({{inode(clone_), "shows " + base(), "is a directory in use"}});
}

TEST_F(CheckClones, ABaseThatShowsAnotherOne) {
  const Ino number = record("d").number();
  change(keys::entry(root_, "c"), [&](Record& record) { record.base = home("d"); });
  expect_some({{inode(clone_), "shows " + base(number), "has no entries of its own"}, {inode(clone_), "shows " + base(number), "does not know it"},
               {base(), inode(clone_), "does not share"}});
}

TEST_F(CheckClones, BasesThatShowEachOther) {
  const std::string of_c = home("c"), of_d = home("d");
  change(keys::entry(root_, "c"), [&](Record& record) { record.base = of_d; });
  change(keys::entry(root_, "d"), [&](Record& record) { record.base = of_c; });
  expect_some({{inode(clone_), "has no entries of its own"}});
  files_.clear();
}

TEST_F(CheckClones, ABaseInWhichItLiesItself) {
  Record loop = record("c");
  loop.ino = fresh();
  loop.base = base_home();
  put(keys::entry(base_home(), "loop"), encode(loop));
  put(keys::user(source_, loop.ino), std::string(keys::kWholeUser));
  expect_some({{inode(loop.ino), "shows " + base(), "in which it lies itself"}});
  change_state([](State& state) { ++state.counts.directories; });
  gone_ = {"c/loop/loop", "d/loop/sub"};
}

TEST_F(CheckClones, BasesInWhichTheOtherOnesLie) {
  const Ino other{h_.mkdir(kRootIno, "other")};
  h_.create(other, "file", "data");
  must(h_.tree().clone(other, kRootIno, "another", Wait::yes));
  must(h_.tree().sync());
  const std::string other_home = keys::child_home(root_, "other", other);
  const auto lies_in = [&](const std::string& home, Record record) {
    record.ino = fresh();
    record.shift += 1'000'000;
    record.home.clear();
    record.home_number = {};
    put(keys::entry(home, "loop"), encode(record));
  };
  const Record shows_d = record("c"), shows_other = record("another");
  lies_in(other_home, shows_d);
  lies_in(base_home(), shows_other);
  expect_some({{"in which it lies itself"}});
}

// ---- what is shown

TEST_F(CheckClones, ADirectoryWithAnotherNumberOfEntriesThanItsBase) {
  change(keys::entry(root_, "c"), [](Record& record) { record.size = 3; });
  expect({{inode(clone_), "directory of 4 entries", "says it has 3"}});
  change(keys::entry(root_, "c"), [](Record& record) { record.size = 5, record.nlink = 9; });
  expect({{inode(clone_), "directory of 4 entries", "says it has 5"}, {inode(clone_), "link count of 9 instead of 4"}});
}

TEST_F(CheckClones, EntriesOfADirectoryThatShowsABase) {
  const Ino own = fresh();
  put(row_below("c", "own"), encode(regular(own)));
  change_state([](State& state) { ++state.counts.regular; });
  expect({{"/c (" + inode(clone_), "1 entries of its own"}});
  files_[fmt::format("lost+found/#{}/own", clone_.v)] = "";
}

TEST_F(CheckClones, LargeAttributesGoAlongWithADirectoryThatShowsABase) {
  put(row_below("c", "own"), encode(regular(fresh())));
  EXPECT_NE(h_.repair(), "");
  EXPECT_EQ(*h_.tree().getxattr(h_.walk("c"), "user.large", Wait::yes), std::string(5000, 'd'));
  EXPECT_EQ(*h_.tree().getxattr(h_.walk("c/sub"), "user.large", Wait::yes), std::string(5000, 's'));
  EXPECT_EQ(*h_.tree().getxattr(h_.walk("d"), "user.large", Wait::yes), std::string(5000, 'd'));
}

TEST_F(CheckClones, DataOfAFileThatShowsABase) {
  expand("c");
  expect_clean();
  const Record file = *decode_record(value(row_below("c", "file")));
  put(keys::block(home_below("c", "file"), BlockIndex{0}), "own", Family::blocks);
  count_rows();
  expect({{"/c/file (", "1 rows of data of its own"}});
  files_[fmt::format("lost+found/#{}", file.number().v)] = "own";
}

TEST_F(CheckClones, PartsOfAFileThatShowsABase) {
  expand("c");
  const Record file = *decode_record(value(row_below("c", "file")));
  FileBlobs::Part part;
  part.base = *file.base;
  part.blocks = 2;
  put(keys::blob(file.number(), BlockIndex{0}), FileBlobs::encode(part));
  expect({{"(home", "2 blocks of data in blobs of its own"}});
  files_[fmt::format("lost+found/#{}", file.number().v)] = data_.substr(0, 2 * kBlockSize);
}

TEST_F(CheckClones, AFileWithOtherBlocksThanItsBase) {
  expand("c");
  const std::string key = row_below("c", "file");
  change(key, [](Record& record) { record.blocks = 7; });
  expect({{"has 7 rows and 0 other blocks", "has 8 and 0"}});
  change(key, [](Record& record) { record.blocks = 7, record.blob_blocks = 1; });
  expect({{"has 7 rows and 1 other blocks", "has 8 and 0"}});
  change(key, [](Record& record) { record.blocks = 8, record.blob_blocks = 0, record.size = 40'000; });
  expect({{"reaches past the end of"}});
}

TEST_F(CheckClones, AFileWhoseBaseIsLost) {
  expand("c");
  change(row_below("c", "file"), [&](Record& record) { record.base = keys::child_home(root_, "nothing", Ino{4}); });
  expect_some({{"shows base 4, which does not exist"}, {"does not share"}, {"does not know it"}});
  files_["c/file"] = std::string(data_.size(), '\0');
}

TEST_F(CheckClones, AFileWhoseBaseIsADirectory) {
  expand("c");
  change(row_below("c", "file"), [&](Record& record) { record.base = base_home(); });
  expect_some({{"shows " + base(), "does not exist"}});
  files_["c/file"] = std::string(data_.size(), '\0');
}

TEST_F(CheckClones, AFileWhoseBaseDoesNotKnowThatItIsOne) {
  const Ino dir = h_.mkdir(kRootIno, "e"), one = h_.create(dir, "one", data_);
  must(h_.tree().link(one, dir, "two", Wait::yes));
  must(h_.tree().clone(dir, kRootIno, "f", Wait::yes));
  must(h_.tree().sync());
  expect_clean();
  change(keys::linked(one), [](Record& record) { record.is_base = false; });
  expect({{"shows " + inode(one), "does not know it"}});
  files_["f/two"] = files_["f/one"] = files_["e/one"] = data_;
}

TEST_F(CheckClones, AFileThatHasAnotherOneShownAsItsPart) {
  expand("c");
  const std::string shown = home_below("c", "file");
  FileBlobs::Part part;
  part.base = shown;
  part.blocks = 3;
  put(keys::blob(sparse_, BlockIndex{0}), FileBlobs::encode(part));
  change(keys::entry(directory_home(), "sparse"), [](Record& record) { record.blob_blocks = 3; });
  put(keys::user(*keys::number_of(shown), sparse_), "");
  expect({{inode(sparse_), "shares data of base", "has none of its own"}});
}

// ---- what is frozen

TEST_F(CheckClones, ARowOfAnEntryThatIsLost) {
  erase(keys::entry(base_home(), "symlink"));
  change_state([](State& state) { --state.counts.symlinks; });
  expect({{inode(clone_), "directory of 3 entries"}, {inode(source_) + " (home", "directory of 3 entries"}});
}

TEST_F(CheckClones, ADamagedRowOfAnEntry) {
  put(keys::entry(base_home(), "sub"), "x");
  expect_some({{"/d/sub: its row is damaged"}, {"/d/sub: 2 entries of a directory that does not exist"}});
  lost("c/sub");
  lost("d/sub");
}

TEST_F(CheckClones, AnEntryThatIsLostAndShownByAnother) {
  expand("c");
  erase(keys::entry(base_home(), "sub"));
  expect_some({{"shows base", "does not exist"}, {"/d/sub: 2 entries of a directory that does not exist"}});
  lost("d/sub");  // the clone has another entry of that name
}

TEST_F(CheckClones, AFileThatIsLostAndShownByAnother) {
  expand("c");
  erase(keys::entry(base_home(), "file"));
  expect_some({{"shows base", "does not exist"}, {"/d/file: 8 rows of data of a file that does not exist"}});
  lost("d/file");
}

TEST_F(CheckClones, ANameOfAFileThatHasSeveral) {
  put(keys::entry(base_home(), "link"), encode(Link{linked_, S_IFREG}));
  expect({{"home " + std::to_string(source_.v), inode(linked_), "clones show what lies there"},
          {inode(clone_), "directory of 5 entries"}, {inode(source_) + " (home", "directory of 5 entries"}});
  gone_ = {"c/link"};
  files_["one"] = "of several names";
}

// ---- numbers

TEST_F(CheckClones, TwoOfOneInode) {
  change(keys::entry(root_, "c"), [&](Record& record) {
    record.home_number = record.ino;
    record.ino = file_;
  });
  expect({{fmt::format("inode {} (home {})", file_.v, clone_.v), "another one has that number"}});
}

TEST_F(CheckClones, TwoOfOneInodeThatAClonesShiftMadeMayBe) {
  expand("c");
  const Ino seen = decode_record(value(row_below("c", "empty")))->ino;
  EXPECT_GE(seen, kCountedMax);
  change(row_below("c", "symlink"), [&](Record& record) { record.ino = seen; });
  expect_clean();
}

TEST_F(CheckClones, TwoWithOneHome) {
  expand("c");
  const Ino number = decode_record(value(row_below("c", "symlink")))->number();
  change(row_below("c", "empty"), [&](Record& record) { record.home_number = number; });
  expect_some({{"has the home of another one"}});
  files_.emplace("c/new", "data");
}

TEST_F(CheckClones, TwoDirectoriesThatShowTheSameInodes) {
  change(keys::entry(root_, "c"), [](Record& record) { record.shift = 0; });
  expect_some({{"shows " + base(), "with the inode numbers of another directory"}});
}

TEST_F(CheckClones, ADirectoryThatShowsInodesThatOthersHave) {
  expand("d");
  change(keys::entry(root_, "c"), [](Record& record) { record.shift = 0; });
  expect_some({{inode(clone_), "shows " + base() + " with inode numbers that others have"}});
}

// Below what they show, that is.
TEST_F(CheckClones, DirectoriesThatShowTheSameInodesFurtherBelow) {
  expand("d");
  ASSERT_TRUE(decode_record(value(row_below("d", "sub")))->has_base());
  // None of its entries has the number of one that the clone shows.
  for (const char* name : {"empty", "file", "symlink", "sub"}) {
    change(row_below("d", name), [&](Record& record) {
      const Ino number = record.number();
      record.ino = fresh();
      record.home_number = number;
    });
  }
  change(keys::entry(root_, "c"), [](Record& record) { record.shift = 0; });
  expect_some({{"with inode numbers that others have"}});
}

TEST_F(CheckClones, NumbersThatWereNotGiven) {
  expand("c");
  const Ino number = decode_record(value(row_below("c", "symlink")))->number();
  change_state([&](State& state) { state.next_ino = number; });
  expect_some({{"the number of its home is not below " + std::to_string(number.v)}});
}

TEST_F(CheckClones, ARootWithAHomeThatIsNotItsOwn) {
  change(std::string(keys::kRoot), [&](Record& root) { root.home = home("d"); });
  expect_some({{"the root directory's record is damaged"}});
}

// ---- at random

// Some rows are lost, damaged, older than others, or those of others.
TEST_F(CheckClones, WhateverRowsAreDamagedARepairMendsThem) {
  using Rows = std::map<std::pair<Family, std::string>, std::string>;
  const auto rows_of = [](Store& store) {
    Rows rows;
    for (const Family family : {Family::names, Family::blocks}) {
      const auto cursor = store.cursor(family, {});
      for (cursor->seek(""); cursor->valid(); cursor->next()) rows[{family, std::string(cursor->key())}] = cursor->value();
    }
    return rows;
  };
  const auto all = [&] {
    must(h_.tree().sync());
    return rows_of(h_.store());
  };
  std::vector<Rows> past;
  past.push_back(all());
  h_.write(h_.walk("c/sub/deep/x"), 0, "changed");
  past.push_back(all());
  const Ino dir = h_.mkdir(h_.walk("d"), "e"), one = h_.create(dir, "one", std::string(100'000, '1'));
  must(h_.tree().link(one, h_.walk("c"), "two", Wait::yes));
  past.push_back(all());
  must(h_.tree().clone(h_.walk("d"), h_.walk("c"), "once more", Wait::yes));
  must(h_.tree().clone(h_.walk("c"), kRootIno, "of both", Wait::yes));
  past.push_back(all());
  h_.create(h_.walk("of both/once more/sub"), "y", "data");
  h_.create(h_.walk("d/sub"), "y", "data");
  must(h_.tree().remove_tree(h_.walk("c"), kRootIno, Wait::yes));
  must(h_.tree().sync());
  h_.unmount();  // nobody else changes rows
  auto volume = Volume::open(h_.device());
  ASSERT_TRUE(volume);
  auto store = Store::open(**volume, {});
  ASSERT_TRUE(store);
  const Rows last = rows_of(**store);
  past.push_back(last);
  std::vector<std::pair<Family, std::string>> keys;
  for (const auto& [key, value] : last) keys.push_back(key);
  std::set<std::pair<Family, std::string>> ever;
  for (const Rows& rows : past) {
    for (const auto& [key, value] : rows) ever.insert(key);
  }
  const std::vector<std::pair<Family, std::string>> known(ever.begin(), ever.end());

  unsigned mended = 0;
  for (unsigned seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    Rows rows = last;
    std::string story;
    for (std::size_t damages = 1 + below(4); damages > 0; --damages) {
      const auto& key = keys[below(keys.size())];
      switch (below(5)) {
        case 0:
          rows.erase(key);
          story += "lost ";
          break;
        case 1:
          if (const auto at = rows.find(key); at != rows.end() && !at->second.empty()) at->second[below(at->second.size())] ^= static_cast<char>(1 << below(8));
          story += "damaged ";
          break;
        case 2:
          if (const auto& other = keys[below(keys.size())]; other.first == key.first) rows[key] = last.at(other);
          story += "exchanged ";
          break;
        default: {  // as it was once
          const auto& old = known[below(known.size())];
          const Rows& then = past[below(past.size())];
          if (const auto was = then.find(old); was != then.end()) rows[old] = was->second;
          else rows.erase(old);
          story += fmt::format("of the past ({}) {} ", &then - past.data(), testing::PrintToString(old.second));
          continue;
        }
      }
      story += testing::PrintToString(key.second) + " ";
    }
    Batch batch;
    for (const auto& [key, value] : rows_of(**store)) {
      if (!rows.contains(key)) batch.erase(key.first, key.second);
    }
    for (const auto& [key, value] : rows) batch.put(key.first, key.second, value);
    must((*store)->commit(batch));
    const auto repaired = repair_tree(**store);
    ASSERT_TRUE(repaired) << repaired.error().message();
    mended += repaired->mended > 0;
    EXPECT_TRUE(repaired->left.clean()) << "seed " << seed << ": " << story << "\n"
                                        << testing::PrintToString(repaired->left.problems) << " after\n" << testing::PrintToString(repaired->lines);
  }
  EXPECT_GT(mended, 200u) << "there was hardly anything to be mended";
  must((*store)->close());
  store->reset();
  volume->reset();
  h_.mount();
  files_.clear();
}

}  // namespace
}  // namespace lsmfs::test::clone_check_test

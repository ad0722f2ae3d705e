// check_tree() and repair_tree() of a root that was left to a snapshot, and of the directory of snapshots: each rule is broken once.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "seed.h"
#include "tree/damaged_tree.h"

namespace lsmfs::test::snapshot_check_test {
namespace {

class CheckSnapshots : public DamagedTree {
 protected:
  CheckSnapshots() {
    must(h_.tree().unlink(kRootIno, "one", Wait::yes));  // names of one file of several are not left as a whole
    snapshot(kRootIno, "first");
    files_ = {{".snapshots/first/file", std::string(10'000, 'x')}, {".snapshots/first/directory/inner/deep", "data"}, {".snapshots/first/directory/two", "of several names"},
              {"file", std::string(10'000, 'x')}, {"directory/inner/deep", "data"}};
  }
  // However it was broken: a repair makes it sound, and it can be used.
  void TearDown() override {
    if (HasFatalFailure()) return;
    const auto repaired = repair_tree(h_.store());
    ASSERT_TRUE(repaired) << repaired.error().message();
    const std::string said = testing::PrintToString(repaired->lines);
    EXPECT_TRUE(repaired->left.clean()) << testing::PrintToString(repaired->left.problems) << " after\n" << said;
    EXPECT_TRUE(check().clean()) << testing::PrintToString(check().problems) << " after\n" << said;
    h_.crash();
    for (const auto& [path, data] : files_) {
      if (h_.walk(path).v == 0) ADD_FAILURE() << path << " is not there after\n" << said;
      else EXPECT_EQ(h_.read_path(path), data) << path << " after\n" << said;
    }
    h_.create(kRootIno, "after the repair", "data");
    snapshot(kRootIno, "after the repair");
    h_.remount();
    EXPECT_TRUE(check().clean()) << testing::PrintToString(check().problems) << " after\n" << said;
  }
  void snapshot(Ino of, const std::string& name) {
    must(h_.tree().clone(of, kSnapshotsIno, name, Wait::yes));
    must(h_.tree().sync());
  }
  void expand() {
    h_.create(kRootIno, "new", "more");
    must(h_.tree().sync());
    files_["new"] = "more";
  }
  void lost(const std::string& prefix) {
    std::erase_if(files_, [&](const auto& file) { return file.first.starts_with(prefix); });
  }
  void clean() { EXPECT_TRUE(check().clean()) << testing::PrintToString(check().problems); }
  void expect_some(const std::string& words) {
    const CheckReport report = check();
    EXPECT_TRUE(std::ranges::any_of(report.problems, [&](const std::string& line) { return line.find(words) != std::string::npos; }))
        << words << " is not in\n" << testing::PrintToString(report.problems);
  }
  Record root() { return *decode_record(value(std::string(keys::kRoot))); }
  static std::string top() { return std::string(keys::kRoot); }
  static std::string snapshots() { return std::string(keys::kSnapshots); }
  static std::string row_of(const std::string& name) { return keys::entry(keys::far_home(kSnapshotsIno), name); }

  std::map<std::string, std::string> files_;  // that are there in the end, whatever was done
};

TEST_F(CheckSnapshots, AreCleanWhateverChanges) {
  clean();
  EXPECT_TRUE(root().has_base());
  EXPECT_EQ(*root().base, "");
  expand();
  clean();
  EXPECT_FALSE(root().has_base());
  snapshot(kRootIno, "second");
  snapshot(directory_, "part");
  clean();
  must(h_.tree().remove_tree(h_.walk(".snapshots/second"), kSnapshotsIno, Wait::yes));
  h_.crash();
  clean();
}

TEST_F(CheckSnapshots, SomethingThatIsFoundComesToARootThatShowsABase) {
  put(keys::block(keys::child_home(root_, "gone", next_ino()), BlockIndex{0}), "x", Family::blocks);
  expect_some("data of a file that does not exist");
  files_[fmt::format("lost+found/#{}", next_ino().v)] = "x";
}

TEST_F(CheckSnapshots, TheRootsRecordIsLost) {
  expand();
  erase(top());
  expect_some("the root directory's record is missing");
  lost("file");
  lost("directory");
  lost("new");
}

TEST_F(CheckSnapshots, TheRootsRecordIsLostAndItShowedABase) {
  erase(top());
  expect_some("the root directory's record is missing");
  lost("file");
  lost("directory");
}

TEST_F(CheckSnapshots, TheRootsRecordIsOfBefore) {
  expand();
  change(top(), [](Record& record) {
    record.home.clear();
    record.home_number = {};
  });
  const CheckReport report = check();
  EXPECT_FALSE(report.clean());
  lost("new");  // is in lost+found
}

TEST_F(CheckSnapshots, TheRowOfTheBaseIsLost) {
  erase(keys::node(kRootIno));
  expect_some("shows base 1, which does not exist");
}

TEST_F(CheckSnapshots, TheRowOfTheBaseAndAllThatShowItAreLost) {
  expand();
  erase(keys::node(kRootIno));
  erase(row_of("first"));
  change(snapshots(), [](Record& record) { record.size = 0, record.nlink = 2; });
  EXPECT_FALSE(check().clean());
  lost(".snapshots");
}

TEST_F(CheckSnapshots, ADirectoryOfSnapshotsWithoutARecord) {
  expand();
  erase(snapshots());
  expect_some("entries of a directory that does not exist");
}

TEST_F(CheckSnapshots, ADirectoryOfSnapshotsWithADamagedRecord) {
  expand();
  change(snapshots(), [](Record& record) { record.home = keys::far_home(Ino{3}); });
  expect_some("the record of the directory of snapshots is damaged");
}

// Else it would be taken for what lies there.
TEST_F(CheckSnapshots, ADirectoryOfSnapshotsAtAnotherHomeIsNotMounted) {
  expand();
  change(snapshots(), [](Record& record) { record.home = keys::root_home(Ino{3}); });
  const auto opened = Tree::open(h_.store(), {.read_only = true});
  EXPECT_EQ(code(opened), EUCLEAN);
}

TEST_F(CheckSnapshots, ADirectoryOfSnapshotsThatMiscounts) {
  change(snapshots(), [](Record& record) { ++record.size, ++record.nlink; });
  expect_some("of 1 entries that says it has 2");
}

TEST_F(CheckSnapshots, ASnapshotThatIsElsewhere) {
  expand();
  change(keys::entry(root().home, "directory"), [](Record& record) { record.snapshot_of = "/"; });
  expect({{"/directory", "says that it is a snapshot"}});
}

TEST_F(CheckSnapshots, TheNumberOfTheDirectoryOfSnapshotsElsewhere) {
  expand();
  Record record = regular(kSnapshotsIno);
  put(keys::entry(root().home, "twin"), encode(record));
  change(top(), [](Record& r) { ++r.size; });
  expect_some("/twin: has the number of the directory of snapshots");
}

TEST_F(CheckSnapshots, ARootWithTheHomeOfAnother) {
  expand();
  change(top(), [](Record& record) { record.home = keys::child_home("", "x", record.number()); });
  expect_some("the root directory's record is damaged");
  for (const char* name : {"file", "directory", "new"}) lost(name);
}

// A rollback of it would have to move what is not its own.
TEST_F(CheckSnapshots, ARootWithTheFirstHomeThatShowsABase) {
  change(top(), [](Record& record) {
    record.home.clear();
    record.home_number = {};
  });
  EXPECT_EQ(code(Tree::open(h_.store(), {.read_only = true})), EUCLEAN);
  expect_some("the root directory's record is damaged");
  for (const char* name : {"file", "directory"}) lost(name);
}

// ---- at random

TEST_F(CheckSnapshots, WhateverRowsAreDamagedARepairMendsThem) {
  files_.clear();
  std::mt19937_64 random(drawn_seed());
  for (int round = 0; round < 60; ++round) {
    if (round % 3 == 0) {
      if (h_.walk("more").v == 0) h_.create(kRootIno, "more", "data");
      (void)h_.tree().clone(kRootIno, kSnapshotsIno, std::to_string(round), Wait::yes);
      must(h_.tree().sync());
    }
    std::vector<std::pair<std::string, std::string>> now;
    auto all = h_.store().cursor(Family::names, {});
    for (all->seek(""); all->valid(); all->next()) {
      if (all->key() != keys::kState) now.emplace_back(all->key(), all->value());
    }
    all.reset();
    for (int i = 0; i < 2; ++i) {
      const std::string& key = now[random() % now.size()].first;
      if (random() % 2 == 0) erase(key);
      else put(key, now[random() % now.size()].second);
    }
    const auto repaired = repair_tree(h_.store());
    ASSERT_TRUE(repaired) << repaired.error().message();
    ASSERT_TRUE(repaired->left.clean()) << testing::PrintToString(repaired->left.problems) << " after\n" << testing::PrintToString(repaired->lines);
    h_.crash();
  }
}

}  // namespace
}  // namespace lsmfs::test::snapshot_check_test

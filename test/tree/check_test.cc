// check_tree(): every rule is broken once, on purpose, and must be found; sound trees must be clean.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "noise.h"
#include "tree/damaged_tree.h"
#include "tree/file_blobs.h"

namespace lsmfs::test::check_test {
namespace {

class Check : public DamagedTree {
 protected:
  // However it was broken: a repair makes it sound, and it can be used.
  void TearDown() override {
    if (HasFatalFailure()) return;
    const auto repaired = repair_tree(h_.store());
    ASSERT_TRUE(repaired) << repaired.error().message();
    EXPECT_TRUE(repaired->left.clean()) << testing::PrintToString(repaired->left.problems) << " after\n" << testing::PrintToString(repaired->lines);
    EXPECT_TRUE(check().clean());
    h_.crash();
    h_.create(h_.mkdir(kRootIno, "after the repair"), "file", "data");
    h_.remount();
    EXPECT_TRUE(check().clean());
    EXPECT_EQ(h_.read_path("after the repair/file"), "data");
  }
};

TEST_F(Check, ASoundTreeIsCleanAndCounted) {
  std::uint64_t heard = 0;
  const auto report = check_tree(h_.store(), [&](std::uint64_t bytes) { heard = bytes; });
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->clean()) << report->problems.front();
  EXPECT_EQ(report->counts.regular, 6u);
  EXPECT_EQ(report->counts.directories, 4u);
  EXPECT_EQ(report->counts.symlinks, 1u);
  EXPECT_EQ(report->counts.others, 1u);
  EXPECT_EQ(report->block_rows, 7u);
  EXPECT_EQ(report->unused, 0u);
  h_.remount();
  EXPECT_TRUE(check().clean());
  Harness empty;
  EXPECT_TRUE(check_tree(empty.store())->clean());
}

TEST_F(Check, ATreeOfAnyDepthIsClean) {
  Ino deepest = kRootIno;
  for (std::size_t length = 0; length <= keys::kPathHomeMax + 2000; length += 200) deepest = h_.mkdir(deepest, std::string(200, 'd'));
  h_.create(deepest, "file", "data");
  must(h_.tree().setxattr(deepest, "user.large", std::string(5000, 'v'), 0, Wait::yes));
  must(h_.tree().sync());
  const CheckReport report = check();
  EXPECT_TRUE(report.clean()) << report.problems.front();
}

TEST_F(Check, RemovedFilesThatAreInUseAreNoProblem) {
  must(h_.tree().unlink(kRootIno, "file", Wait::yes));
  must(h_.tree().unlink(kRootIno, "attributed", Wait::yes));
  must(h_.tree().make_unnamed(directory_, {.mode = S_IFREG | 0600}, Wait::yes));
  const auto unnamed = h_.tree().make_unnamed(directory_, {.mode = S_IFREG | 0600}, Wait::yes);
  h_.write(unnamed->ino, 0, "data");
  must(h_.tree().sync());
  const CheckReport report = check();
  EXPECT_TRUE(report.clean()) << report.problems.front();
  EXPECT_EQ(report.unused, 3u);
}

TEST_F(Check, ProgressIsHeard) {
  for (int i = 0; i < 5000; ++i) h_.create(directory_, std::to_string(i));
  must(h_.tree().sync());
  std::uint64_t calls = 0, last = 0;
  must(check_tree(h_.store(), [&](std::uint64_t bytes) {
    EXPECT_GT(bytes, last);
    last = bytes;
    ++calls;
  }));
  EXPECT_GT(calls, 0u);
}

// ---- rows by themselves

TEST_F(Check, MalformedKeys) {
  put("no end", "x");
  put("name" + std::string("\0\x09", 2) + "123456789" + std::string("\0x", 2), "x");  // a number of nine bytes
  put(std::string("\0\0", 2), "x");                                                     // an attribute without a name
  put(keys::entry(root_, "a/b"), encode(regular(Ino{7000})));
  put("/x", "x");
  put("short", "x", Family::blocks);
  put(std::string(8, 'x'), "x", Family::blocks);
  count_rows();
  expect({{"malformed", "6e6f20656e64"}, {"malformed", "6e616d650009"}, {"malformed", "0000"}, {"malformed", "00612f62"},
          {"unknown", "2f78"}, {"file data", "malformed", "73686f7274"}, {"file data", "malformed", "7878787878787878"}});
}

TEST_F(Check, DamagedRecords) {
  put(keys::entry(directory_home(), "sparse"), "\x01 not a record");
  const auto report = check();
  EXPECT_EQ(report.problems.front(), "/directory/sparse: its row is damaged");
}

TEST_F(Check, ADamagedRootOrNone) {
  change(std::string(keys::kRoot), [](Record& record) { record.mode = S_IFREG; });
  EXPECT_NE(check().problems.front().find("inode 1: the root directory's record is damaged"), std::string::npos);
  erase(std::string(keys::kRoot));
  EXPECT_NE(check().problems.front().find("inode 1: the root directory's record is missing"), std::string::npos);
}

TEST_F(Check, ADamagedStateOrNone) {
  put(std::string(keys::kState), "x");
  expect({{"tree's state is damaged"}});
  erase(std::string(keys::kState));
  expect({{"tree's state is missing"}});
}

TEST_F(Check, DamagedRecordsOfTheirOwn) {
  const std::string row = value(keys::linked(linked_));
  put(keys::linked(linked_), "x");
  const auto report = check();
  EXPECT_EQ(report.problems.front(), inode(linked_) + ": its record is damaged");
  put(keys::linked(linked_), row);
  put(keys::linked(Ino{next_ino().v - 1000}), row);  // of another inode
  expect({{inode(Ino{next_ino().v - 1000}), "record is damaged"}});
}

// ---- inodes

TEST_F(Check, AnInodeNumberThatIsUsedTwice) {
  auto record = decode_record(value(file_row()));
  put(keys::entry(inner_home(), "copy"), encode(*record));
  change(keys::entry(directory_home(), "inner"), [](Record& r) { ++r.size; });
  expect({{inode(file_), "two records"}});
}

TEST_F(Check, AnInodeNumberThatWasNotGiven) {
  change_state([&](State& state) { state.next_ino = attributed_; });
  const auto report = check();
  EXPECT_FALSE(report.clean());
  for (const auto& line : report.problems) EXPECT_NE(line.find("is not below " + std::to_string(attributed_.v)), std::string::npos);
}

TEST_F(Check, AFileOfOneNameWithAnotherLinkCount) {
  change(file_row(), [](Record& record) { record.nlink = 2; });
  expect({{"/file (" + inode(file_) + ")", "link count of 2"}});
}

TEST_F(Check, AHomeThatIsNotItsOwn) {
  change(keys::entry(root_, "pipe"), [&](Record& record) { record.home = file_home(); });
  change_state([](State& state) { ++state.counts.displaced; });
  const Ino pipe = h_.walk("pipe");
  expect({{inode(pipe), "home"}});
}

TEST_F(Check, TheRootsNumberElsewhere) {
  Record root = *decode_record(value(std::string(keys::kRoot)));
  root.home = keys::child_home(root_, "root", kRootIno);
  put(keys::entry(root_, "root"), encode(root));
  put(keys::orphan(kRootIno), encode(root));
  put(keys::entry(root_, "link"), encode(Link{kRootIno, S_IFREG}));
  change(std::string(keys::kRoot), [](Record& record) { record.size += 2; });
  expect({{"/root", "number of the root directory"}, {"inode 1", "record is damaged"}, {"/link", "row is damaged"}});
  // It is no root's record when there is none.
  erase(std::string(keys::kRoot));
  const auto report = check();
  EXPECT_TRUE(std::ranges::count(report.problems, "inode 1: the root directory's record is missing")) << testing::PrintToString(report.problems);
}

TEST_F(Check, AHomeThatIsTooLong) {
  Record directory = regular(Ino{7000}), below = regular(Ino{7001});
  directory.mode = below.mode = S_IFDIR | 0755;
  directory.nlink = 3;
  below.nlink = 2;
  directory.size = below.size = 1;
  directory.home = longest_home(directory.ino);
  put(keys::entry(root_, "long"), encode(directory));
  put(keys::entry(directory.home, "below"), encode(below));
  const std::string lost = keys::entry(keys::child_home(directory.home, "below", below.ino), "lost");
  put(lost, encode(regular(Ino{7002})));
  ++directory.ino.v;
  directory.home = keys::child_home(directory.home, "x", directory.ino);
  put(keys::entry(root_, "longer"), encode(directory));
  const auto report = check();
  const auto is_there = [&](const std::string& line) {
    EXPECT_TRUE(std::ranges::count(report.problems, line)) << line << " is not in\n" << testing::PrintToString(report.problems);
  };
  is_there("inode 7001: its home is too long");
  is_there("/longer: its row is damaged");
  EXPECT_TRUE(std::ranges::any_of(report.problems, [](const auto& line) { return line.starts_with("a row of names has the malformed key "); }));
}

// ---- several names

TEST_F(Check, ALinkCountThatIsNotTheNumberOfNames) {
  change(keys::linked(linked_), [](Record& record) { record.nlink = 3; });
  expect({{inode(linked_), "has 2 names", "link count of 3"}});
}

TEST_F(Check, ANameThatLinksToNothing) {
  erase(keys::linked(linked_));
  change_state([](State& state) { --state.counts.regular; });
  expect({{inode(linked_), "2 names that link to a record that does not exist"}, {"/one", "does not exist"}});
}

TEST_F(Check, ARecordOfSeveralNamesThatHasNone) {
  erase(keys::entry(root_, "one"));
  erase(keys::entry(directory_home(), "two"));
  change(std::string(keys::kRoot), [](Record& record) { --record.size; });
  change(keys::entry(root_, "directory"), [](Record& record) { --record.size; });
  expect({{inode(linked_), "has 0 names", "link count of 2"}});
  change(keys::linked(linked_), [](Record& record) { record.nlink = 0; });
  expect({{inode(linked_), "has 0 names", "link count of 0"}});
}

TEST_F(Check, ANameThatSaysAnotherType) {
  put(keys::entry(root_, "one"), encode(Link{linked_, S_IFIFO}));
  put(keys::entry(directory_home(), "two"), encode(Link{linked_, S_IFIFO}));
  expect({{inode(linked_), "another type than its record"}});
  put(keys::entry(directory_home(), "two"), encode(Link{linked_, S_IFREG}));
  const auto report = check();
  EXPECT_FALSE(report.clean());
  EXPECT_NE(report.problems.front().find("another type than another name"), std::string::npos);
}

TEST_F(Check, ADirectoryOfSeveralNames) {
  put(keys::entry(root_, "again"), encode(Link{directory_, S_IFDIR}));
  change(std::string(keys::kRoot), [](Record& record) { ++record.size; });
  expect({{"/again", "second name of a directory"}, {inode(directory_), "does not exist"}});
  erase(keys::entry(root_, "again"));
  change(std::string(keys::kRoot), [](Record& record) { --record.size; });
  change(keys::linked(linked_), [](Record& record) {
    record.mode = S_IFDIR | 0755;
    record.blocks = 0;
    record.size = 0;
  });
  EXPECT_NE(check().problems.front().find("directory with the record of a file of several names"), std::string::npos);
}

TEST_F(Check, AnUnusedInodeWithALinkCount) {
  must(h_.tree().unlink(kRootIno, "file", Wait::yes));
  must(h_.tree().sync());
  change(keys::orphan(file_), [](Record& record) { record.nlink = 1; });
  expect({{inode(file_), "no name", "link count of 1"}});
}

// A sweep takes them away.
TEST_F(Check, ARemovedDirectoryWithEntriesIsNoProblem) {
  remove_name_of_directory();
  const CheckReport report = check();
  EXPECT_TRUE(report.clean()) << report.problems.front();
  EXPECT_EQ(report.removed_trees, 1u);
  EXPECT_EQ(report.unused, 0u);
}

TEST_F(Check, ARemovedDirectoryWithANumberThatIsStillToBeGiven) {
  remove_name_of_directory();
  change_state([&](State& state) { state.next_ino = directory_; });
  EXPECT_FALSE(check().clean());
  EXPECT_EQ(code(Tree::open(h_.store(), {.sync_interval_ms = 0})), EUCLEAN);
}

TEST_F(Check, AnUnusedDirectoryWithEntries) {
  remove_name_of_directory();
  change(keys::orphan(directory_), [](Record& record) { record.size = 0; });
  expect({{inode(directory_), "directory of 4 entries", "says it has 0"}});
}

TEST_F(Check, ARemovedDirectoryWithAnotherNumberOfEntries) {
  remove_name_of_directory();
  change(keys::orphan(directory_), [](Record& record) { record.size = 5; });
  expect({{inode(directory_), "directory of 4 entries", "says it has 5"}});
}

// ---- directories

TEST_F(Check, ADirectoryWithAnotherNumberOfEntries) {
  change(keys::entry(root_, "directory"), [](Record& record) { ++record.size; });
  expect({{inode(directory_), "directory of 4 entries", "says it has 5"}});
}

TEST_F(Check, ADirectoryWithoutEntriesThatSaysItHasSome) {
  const Ino empty = h_.mkdir(kRootIno, "empty");
  must(h_.tree().sync());
  change(keys::entry(root_, "empty"), [](Record& record) { record.size = 1; });
  expect({{inode(empty), "directory of 0 entries", "says it has 1"}});
}

TEST_F(Check, ADirectoryWithAnotherLinkCount) {
  change(keys::entry(root_, "directory"), [](Record& record) { record.nlink = 3; });
  expect({{inode(directory_), "link count of 3 instead of 4"}});
}

TEST_F(Check, EntriesOfADirectoryThatDoesNotExist) {
  const Ino missing{next_ino().v - 1};
  const std::string home = keys::child_home(root_, "gone", Ino{missing.v});
  change_state([](State& state) {
    ++state.next_ino.v;
    ++state.counts.regular;
  });
  put(keys::entry(home, "lost"), encode(regular(Ino{next_ino().v - 1})));
  expect({{"/gone", "1 entries of a directory that does not exist"}});
}

TEST_F(Check, EntriesUnderAnOldHomeOfADirectory) {
  const std::string other = keys::child_home(root_, "elsewhere", directory_);
  const std::string row = value(keys::entry(directory_home(), "sparse"));
  erase(keys::entry(directory_home(), "sparse"));
  put(keys::entry(other, "sparse"), row);
  const auto report = check();
  EXPECT_TRUE(std::any_of(report.problems.begin(), report.problems.end(), [](const std::string& line) {
    return line.starts_with("/elsewhere: 1 entries of a directory that does not exist");
  })) << testing::PrintToString(report.problems);
}

TEST_F(Check, ADirectoryThatCannotBeReached) {
  // "inner" becomes an entry of itself.
  auto record = *decode_record(value(keys::entry(directory_home(), "inner")));
  erase(keys::entry(directory_home(), "inner"));
  change(keys::entry(root_, "directory"), [](Record& r) {
    --r.size;
    --r.nlink;
  });
  record.home = inner_home();
  ++record.size;
  ++record.nlink;
  put(keys::entry(inner_home(), "inner"), encode(record));
  change_state([](State& state) { ++state.counts.displaced; });
  expect({{inode(inner_), "cannot be reached from the root"}});
  // And so does what lies below it.
  const Ino below{next_ino()};
  change_state([](State& state) {
    ++state.next_ino.v;
    ++state.counts.directories;
  });
  Record directory = regular(below);
  directory.mode = S_IFDIR | 0755;
  directory.nlink = 2;
  put(keys::entry(inner_home(), "below"), encode(directory));
  change(keys::entry(inner_home(), "inner"), [](Record& r) {
    ++r.size;
    ++r.nlink;
  });
  expect({{inode(inner_), "cannot be reached"}, {inode(below), "cannot be reached"}});
}

// ---- the tree's state

TEST_F(Check, CountsThatAreNotThoseOfTheInodes) {
  change_state([](State& state) {
    ++state.counts.regular;
    ++state.counts.directories;
    ++state.counts.symlinks;
    ++state.counts.others;
    ++state.counts.displaced;
    ++state.data_rows;
  });
  expect({{"counts 7 files, and there are 6"}, {"counts 5 directories, and there are 4"}, {"counts 2 symbolic links, and there are 1"},
          {"counts 2 devices, pipes and sockets, and there are 1"}, {"counts 2 files and directories that lie elsewhere", "and there are 1"}, {"rows of data, and there are"}});
}

// ---- extended attributes

TEST_F(Check, AnAttributeOfAnotherSizeOrNone) {
  const std::string key = keys::xattr(keys::child_home(root_, "attributed", attributed_), "user.large");
  const std::string row = value(key);
  put(key, "short");
  expect({{inode(attributed_), "extended attributes"}});
  erase(key);
  expect({{inode(attributed_), "extended attributes"}});
  put(keys::xattr(keys::child_home(root_, "old name", attributed_), "user.large"), row);
  expect({{inode(attributed_), "extended attributes are not those"}, {inode(attributed_), "belong to no record"}});
}

TEST_F(Check, AnAccessControlListThatIsNone) {
  change(file_row(), [](Record& record) { record.set_xattr({"system.posix_acl_access", "no list", 0}); });
  expect({{inode(file_), "system.posix_acl_access", "damaged"}});
  change(file_row(), [](Record& record) { record.xattrs = {{"system.posix_acl_access", "", 300}}; });
  put(keys::xattr(file_home(), "system.posix_acl_access"), std::string(300, 'x'));
  expect({{inode(file_), "system.posix_acl_access", "damaged"}});
}

TEST_F(Check, AnAttributeOfNobody) {
  put(keys::xattr(file_home(), "user.large"), "value");
  expect({{inode(file_), "1 extended attributes belong to no record"}});
}

// ---- file data

TEST_F(Check, DataOfAFileThatDoesNotExist) {
  put(keys::block(keys::child_home(root_, "gone", Ino{7000}), BlockIndex{0}), "x", Family::blocks);
  put(keys::block(keys::child_home(root_, "gone", Ino{7000}), BlockIndex{1}), "x", Family::blocks);
  put(keys::block(directory_home(), BlockIndex{0}), "x", Family::blocks);
  count_rows();
  expect({{"/gone: 2 rows of data", "does not exist", "(inode 7000)"}, {"/directory: 1 rows", inode(directory_)}});
}

TEST_F(Check, DataUnderAnOldHomeOfAFile) {
  put(keys::block(keys::child_home(root_, "old name", file_), BlockIndex{0}), "x", Family::blocks);
  count_rows();
  expect({{"/old name: 1 rows of data", inode(file_)}});
}

TEST_F(Check, ANumberOfRowsThatIsNotTheRecords) {
  erase(keys::block(file_home(), BlockIndex{1}), Family::blocks);
  count_rows();
  expect({{"/file (" + inode(file_) + ")", "has 2 rows", "says it has 3"}});
  erase(keys::block(file_home(), BlockIndex{0}), Family::blocks);
  erase(keys::block(file_home(), BlockIndex{2}), Family::blocks);
  count_rows();
  expect({{inode(file_), "no rows", "says it has 3"}});
}

// A crash in the middle of an import leaves it so.
TEST_F(Check, WhatGoesWithADirectoryWithoutANameMayLackRows) {
  remove_name_of_directory();
  erase(keys::block(keys::child_home(keys::child_home(directory_home(), "inner", inner_), "deep", deep_), BlockIndex{0}), Family::blocks);
  EXPECT_TRUE(check().clean());
  // It has a name elsewhere, and so it stays.
  erase(keys::block(decode_record(value(keys::linked(linked_)))->home, BlockIndex{0}), Family::blocks);
  change_state([](State& state) { --state.data_rows; });
  expect({{inode(linked_), "no rows", "says it has 1"}});
}

TEST_F(Check, DataPastTheEndOfItsFile) {
  put(keys::block(file_home(), BlockIndex{2}), std::string(10'000 - 2 * kBlockSize + 1, 'x'), Family::blocks);
  count_rows();
  expect({{"/file (" + inode(file_) + ")", "1 rows", "past its end"}});
  put(keys::block(file_home(), BlockIndex{2}), std::string(10'000 - 2 * kBlockSize, 'x'), Family::blocks);
  put(keys::block(file_home(), BlockIndex{0}), std::string(kBlockSize + 1, 'x'), Family::blocks);
  count_rows();
  expect({{"/file (" + inode(file_) + ")", "1 rows", "past its end"}});
  put(keys::block(file_home(), BlockIndex{0}), std::string(kBlockSize, 'x'), Family::blocks);
  count_rows();
  EXPECT_TRUE(check().clean());
  put(keys::block(file_home(), BlockIndex{~std::uint64_t{0}}), "x", Family::blocks);
  count_rows();
  expect({{inode(file_), "has 4 rows"}, {inode(file_), "1 rows", "past its end"}});
}

// ---- what is shared

class CheckShares : public Check {
 protected:
  static constexpr std::uint64_t kSize = 300 * KiB;

  CheckShares() {
    fill_with_noise(random_(), data_);
    source_ = h_.create(kRootIno, "source", data_);
    copy_ = copy("copy");
    must(h_.tree().sync());
  }
  void TearDown() override {
    Check::TearDown();
    for (const auto& [path, whole] : whole_) {
      const std::string got = h_.read_path(path);
      EXPECT_EQ(got.size(), kSize);
      EXPECT_EQ(got == data_, whole) << path;
    }
  }
  Ino copy(const std::string& name) {
    const Ino ino = h_.create(kRootIno, name);
    const auto copied = h_.tree().copy_range(source_, ByteOffset{0}, ino, ByteOffset{0}, ByteCount{kSize}, Wait::yes);
    EXPECT_TRUE(copied && copied->v == kSize);
    return ino;
  }
  // The source goes, and its blocks stay.
  void leave() {
    must(h_.tree().unlink(kRootIno, "source", Wait::yes));
    h_.tree().forget(source_, 1000);
    must(h_.tree().sync());
    whole_.erase("source");
  }
  std::string source_home() { return keys::child_home(root_, "source", source_); }
  static std::string base(Ino number) { return "base " + std::to_string(number.v); }
  void change_part(const std::function<void(FileBlobs::Part&)>& how) {
    const std::string key = keys::blob(copy_, BlockIndex{0});
    auto part = FileBlobs::decode(0, value(key));
    ASSERT_TRUE(part);
    how(*part);
    put(key, FileBlobs::encode(*part));
  }
  void change_node(const std::function<void(lsmfs::Node&)>& how) {
    auto node = decode_node(value(keys::node(source_)));
    ASSERT_TRUE(node);
    how(*node);
    put(keys::node(source_), encode(*node));
  }

  std::mt19937_64 random_{1};
  std::string data_ = std::string(kSize, '\0');
  Ino source_, copy_;
  std::map<std::string, bool> whole_{{"source", true}, {"copy", true}};  // after the repair
};

TEST_F(CheckShares, AreClean) {
  EXPECT_TRUE(check().clean());
  leave();
  EXPECT_TRUE(check().clean());
  must(h_.tree().unlink(kRootIno, "copy", Wait::yes));
  h_.tree().forget(copy_, 1000);
  must(h_.tree().sync());
  EXPECT_TRUE(check().clean());  // what nobody uses any more is dropped in a moment
  whole_.clear();
}

TEST_F(CheckShares, ABaseThatDoesNotKnowWhoSharesIt) {
  erase(keys::user(source_, copy_));
  expect({{inode(copy_), "shares data of " + base(source_), "does not know it"}});
}

TEST_F(CheckShares, ABaseThatDoesNotKnowThatItIsOne) {
  change(keys::entry(root_, "source"), [](Record& record) { record.is_base = false; });
  expect({{inode(copy_), "shares data of " + inode(source_), "does not know it"}});
}

TEST_F(CheckShares, WhoDoesNotShare) {
  put(keys::user(source_, file_), "");
  put(std::string(keys::kUserPrefix) + "x", "");
  expect({{base(source_), inode(file_), "does not share"}, {"malformed key"}});
}

TEST_F(CheckShares, ABaseThatDoesNotExist) {
  leave();
  erase(keys::node(source_));
  expect({{inode(copy_), "shares data of " + base(source_), "does not exist"}, {"/source: 75 rows of data of a file that does not exist"}});
}

TEST_F(CheckShares, ABaseThatIsLost) {
  leave();
  erase(keys::node(source_));
  for (std::uint64_t i = 0; i < kSize / kBlockSize; ++i) erase(keys::block(source_home(), BlockIndex{i}), Family::blocks);
  count_rows();
  expect({{inode(copy_), "shares data of " + base(source_), "does not exist"}});
  whole_["copy"] = false;
}

TEST_F(CheckShares, ADamagedRowOfABase) {
  leave();
  put(keys::node(source_), "x");
  expect({{"row of a base", "damaged"}, {inode(copy_), "does not exist"}, {"/source: 75 rows"}});
}

TEST_F(CheckShares, ABaseWithAnotherNumberOfRows) {
  leave();
  change_node([](lsmfs::Node& node) { --node.blocks; });
  expect({{"/source", "has 75 rows", "says it has 74"}});
  change_node([](lsmfs::Node& node) {
    node.blocks = 10;
    node.blob_blocks = 1;
  });
  expect({{"/source", "has 75 rows", "says it has 10"}, {base(source_), "0 blocks of data in blobs", "says it has 1"}});
}

TEST_F(CheckShares, ABaseWithoutRows) {
  leave();
  for (std::uint64_t i = 0; i < kSize / kBlockSize; ++i) erase(keys::block(source_home(), BlockIndex{i}), Family::blocks);
  count_rows();
  expect({{base(source_), "no rows of data", "says it has 75"}});
  whole_["copy"] = false;
}

TEST_F(CheckShares, ABlockThatABaseHasLostCanBeWritten) {
  leave();
  erase(keys::block(source_home(), BlockIndex{3}), Family::blocks);
  count_rows();
  expect({{"/source", "has 74 rows", "says it has 75"}});
  EXPECT_NE(h_.repair().find(inode(copy_) + ": 1 blocks that it shared are lost"), std::string::npos);
  h_.write(h_.walk("copy"), 3 * kBlockSize + 100, "written");
  EXPECT_EQ(h_.read(h_.walk("copy"), 3 * kBlockSize, 200), std::string(100, '\0') + "written" + std::string(93, '\0'));
  whole_["copy"] = false;
}

TEST_F(CheckShares, ABaseThatItsFileHas) {
  put(keys::node(source_), encode(lsmfs::Node{source_home(), kSize, 75, 0}));
  expect({{base(source_), "left by its file", "has it"}, {base(source_), "no rows of data"}});
}

TEST_F(CheckShares, ABaseWhoseNumberWasNotGiven) {
  const Ino unknown{next_ino().v + 5};
  put(keys::node(unknown), encode(lsmfs::Node{keys::child_home(root_, "x", unknown), 0, 0, 0}));
  expect({{base(unknown), "is not below"}});
}

TEST_F(CheckShares, DataPastTheEndOfABase) {
  change_part([](FileBlobs::Part& part) { part.from = 10; });
  expect({{inode(copy_), "past the end of " + base(source_)}});
  whole_["copy"] = false;
}

TEST_F(CheckShares, ADamagedPart) {
  put(keys::blob(copy_, BlockIndex{0}), "x");
  expect({{inode(copy_), "damaged"}, {inode(copy_), "has 0 blocks", "says it has 75"}, {base(source_), "does not share"}});
  whole_["copy"] = false;
}

TEST_F(CheckShares, ANumberOfAHomeThatIsAnothers) {
  h_.write(source_, 0, data_.substr(0, 10));  // it has another home now
  must(h_.tree().sync());
  EXPECT_TRUE(check().clean());
  const Ino number = decode_record(value(keys::entry(root_, "source")))->home_number;
  ASSERT_NE(number.v, 0u);
  change(keys::entry(root_, "source"), [&](Record& record) { record.home_number = file_; });
  EXPECT_FALSE(check().clean());
  change(keys::entry(root_, "copy"), [&](Record& record) { record.home_number = file_; });
  const auto report = check();
  EXPECT_TRUE(std::ranges::any_of(report.problems, [](const auto& line) { return line.find("has the home of another one") != line.npos; }))
      << testing::PrintToString(report.problems);
  whole_.clear();
}

TEST_F(CheckShares, ALargeAttributeOfAFileThatHasAnotherHomeStays) {
  must(h_.tree().setxattr(source_, "user.large", std::string(5000, 'v'), 0, Wait::yes));
  h_.write(source_, 0, data_.substr(0, 10));  // it has another home now
  must(h_.tree().sync());
  EXPECT_TRUE(check().clean());
  change_state([](State& state) { ++state.counts.regular; });  // so that there is something to be repaired
  EXPECT_NE(h_.repair(), "");
  EXPECT_EQ(*h_.tree().getxattr(h_.walk("source"), "user.large", Wait::yes), std::string(5000, 'v'));
}

TEST_F(CheckShares, ABlockThatIsSharedAndHasARow) {
  must(h_.tree().setattr(copy_, {.size = kBlockSize}, Wait::yes));
  must(h_.tree().sync());
  put(keys::block(keys::child_home(root_, "copy", copy_), BlockIndex{0}), data_.substr(0, kBlockSize), Family::blocks);
  count_rows();
  const auto report = check();
  EXPECT_TRUE(std::ranges::any_of(report.problems, [](const auto& line) { return line.find("1 blocks have a row and lie in a blob, too") != line.npos; }))
      << testing::PrintToString(report.problems);
  whole_.erase("copy");  // then it shares nothing any more
}

TEST_F(CheckShares, ABaseThatHasTheNumberOfAnotherFile) {
  const std::string other = keys::child_home(root_, "other", file_);
  put(keys::node(file_), encode(lsmfs::Node{other, kSize, 0, 0}));
  change_part([&](FileBlobs::Part& part) { part.base = other; });
  const auto report = check();
  EXPECT_TRUE(std::ranges::any_of(report.problems, [&](const auto& line) { return line.find(base(file_) + ": is left by its file") != line.npos; }))
      << testing::PrintToString(report.problems);
  whole_["copy"] = false;
}

TEST_F(CheckShares, AFileThatIsItsOwnBase) {
  change_part([&](FileBlobs::Part& part) { part.base = keys::child_home(root_, "copy", copy_); });
  const auto report = check();
  EXPECT_TRUE(std::ranges::any_of(report.problems, [&](const auto& line) { return line.find(inode(copy_) + ": what it shares lies over") != line.npos; }))
      << testing::PrintToString(report.problems);
  whole_["copy"] = false;
}

TEST_F(CheckShares, TooManyBasesOverEachOther) {
  std::string below = source_home();
  Ino number = next_ino(), last = source_;
  for (int depth = 1; depth <= FileBlobs::kDepthMost + 1; ++depth) {
    const std::string home = keys::child_home(root_, "base", number);
    FileBlobs::Part part;
    part.base = below;
    part.blocks = kSize / kBlockSize;
    put(keys::blob(number, BlockIndex{0}), FileBlobs::encode(part));
    put(keys::node(number), encode(lsmfs::Node{home, kSize, 0, part.blocks}));
    put(keys::user(last, number), "");
    below = home;
    last = number;
    ++number.v;
    change_state([&](State& state) { state.next_ino = number; });
    EXPECT_EQ(check().clean(), depth <= FileBlobs::kDepthMost) << depth;
  }
  expect({{inode(last), "lies over more than 8 bases"}});
}

// ---- tables

TEST_F(DamagedTable, OfDataIsFoundAndNothingElseIsWrong) {
  const std::string data = random_bytes(40 * kBlockSize);
  h_.create(kRootIno, "before", "sound");
  h_.create(kRootIno, "damaged", data);
  h_.create(kRootIno, "later", data.substr(0, 10));
  flip(data.substr(39 * kBlockSize + 100, 64));
  const CheckReport report = check();
  ASSERT_EQ(report.problems.size(), 2u) << testing::PrintToString(report.problems);
  EXPECT_TRUE(report.problems[0].starts_with("table ")) << report.problems[0];
  EXPECT_TRUE(report.problems[1].starts_with("file data from somewhere after byte ")) << report.problems[1];
  EXPECT_NE(report.problems[1].find("of /damaged on cannot be read"), std::string::npos) << report.problems[1];
  EXPECT_EQ(report.counts.regular, 3u);
}

TEST_F(DamagedTable, OfNamesIsFoundAndNoConclusionIsDrawn) {
  const std::string value = random_bytes(20'000);
  const Ino damaged = h_.create(kRootIno, "damaged", "data");
  ASSERT_TRUE(h_.tree().setxattr(damaged, "user.x", value, 0, Wait::yes));
  for (int i = 0; i < 1000; ++i) h_.create(kRootIno, "z" + std::to_string(i), "data");
  flip(value.substr(10'000, 64));
  const CheckReport report = check();
  ASSERT_EQ(report.problems.size(), 2u) << testing::PrintToString(report.problems);
  EXPECT_TRUE(report.problems[0].starts_with("table ")) << report.problems[0];
  EXPECT_TRUE(report.problems[1].starts_with("names and attributes from somewhere after ")) << report.problems[1];
  EXPECT_EQ(report.block_rows, 1001u);
}

// ---- the report

TEST_F(Check, LinesAreBoundedAndPrintable) {
  put(keys::block(keys::child_home(root_, "a\nb\x1b\\c", Ino{7000}), BlockIndex{0}), "x", Family::blocks);
  count_rows();
  expect({{"/a\\x0ab\\x1b\\x5cc: 1 rows of data"}});
  for (std::uint64_t i = 0; i < CheckReport::kLinesMax + 10; ++i) {
    put(keys::block(keys::child_home(root_, "gone", Ino{8000 + i}), BlockIndex{0}), "x", Family::blocks);
  }
  count_rows();
  const CheckReport report = check();
  EXPECT_EQ(report.problems.size(), CheckReport::kLinesMax);
  EXPECT_EQ(report.more_problems, 11u);
}

}  // namespace
}  // namespace lsmfs::test::check_test

// repair_tree() and Store::repair(): what is left after damage, where it is, and what is said of the rest. That each kind
// of damage to rows can be repaired at all is seen in check_test.cc.
#include "tree/damaged_tree.h"

namespace lsmfs::test::repair_test {
namespace {

class RepairTree : public DamagedTree {
 protected:
  std::string repair() { return h_.repair(); }
  std::vector<std::string> lost_and_found() {
    const Ino dir = h_.walk("lost+found");
    return dir.v == 0 ? std::vector<std::string>{} : h_.list(dir);
  }
  static std::string found(Ino ino) { return "lost+found/#" + std::to_string(ino.v); }
};

TEST_F(RepairTree, ASoundTreeIsLeftAlone) {
  EXPECT_EQ(repair(), "");
  EXPECT_EQ(lost_and_found(), std::vector<std::string>{});
}

TEST_F(RepairTree, ADirectoryWhoseRecordIsLostIsInLostAndFoundWithAllBelowIt) {
  erase(keys::entry(root_, "directory"));
  EXPECT_NE(repair().find("/directory: its record is lost, its entries are in /" + found(directory_)), std::string::npos);
  EXPECT_EQ(lost_and_found(), std::vector<std::string>{"#" + std::to_string(directory_.v)});
  EXPECT_EQ(h_.list(h_.walk(found(directory_))), (std::vector<std::string>{"after", "inner", "sparse", "two"}));
  EXPECT_EQ(h_.read_path(found(directory_) + "/inner/deep"), "data");
  EXPECT_EQ(h_.read_path(found(directory_) + "/two"), "of several names");
  EXPECT_EQ(h_.read_path(found(directory_) + "/after/inside"), "data");
  EXPECT_EQ(h_.read_path("one"), "of several names");
  EXPECT_EQ(h_.attr(h_.walk("lost+found")).mode, S_IFDIR | 0700u);
  EXPECT_EQ(repair(), "") << "another one finds nothing";
}

TEST_F(RepairTree, AFileWhoseRecordIsLostIsInLostAndFoundWithItsData) {
  erase(file_row());
  EXPECT_NE(repair().find("/file: its record is lost, its data are in /" + found(file_)), std::string::npos);
  EXPECT_EQ(h_.read_path(found(file_)), std::string(10'000, 'x'));
  EXPECT_EQ(h_.attr(h_.walk(found(file_))).mode, S_IFREG | 0600u);
}

TEST_F(RepairTree, AFileOfSeveralNamesThatHasNoneIsInLostAndFound) {
  erase(keys::entry(root_, "one"));
  erase(keys::entry(directory_home(), "two"));
  repair();
  EXPECT_EQ(h_.read_path(found(linked_)), "of several names");
  EXPECT_EQ(h_.attr(h_.walk(found(linked_))).nlink, 1u);
}

TEST_F(RepairTree, ADirectoryWithoutANameIsInLostAndFoundWithAllBelowIt) {
  remove_name_of_directory();
  change(keys::orphan(directory_), [](Record& record) { record.size = 0; });  // nobody has removed it with what is in it
  const std::string said = repair();
  EXPECT_NE(said.find("/directory: had no name any more, is now /" + found(directory_)), std::string::npos) << said;
  EXPECT_EQ(h_.list(h_.walk(found(directory_))), (std::vector<std::string>{"after", "inner", "sparse", "two"}));
  EXPECT_EQ(h_.read_path(found(directory_) + "/inner/deep"), "data");
  EXPECT_EQ(h_.attr(h_.walk(found(directory_))).nlink, 4u);
}

TEST_F(RepairTree, TheDataOfAFileOfSeveralNamesWhoseRecordIsLostAreInLostAndFound) {
  erase(keys::linked(linked_));
  const std::string said = repair();
  EXPECT_NE(said.find("/one: is a name of nothing: erased"), std::string::npos) << said;
  EXPECT_NE(said.find("/directory/two: is a name of nothing: erased"), std::string::npos) << said;
  EXPECT_EQ(h_.read_path(found(linked_)), "of several names");
}

TEST_F(RepairTree, ARootWhoseRecordIsLostGetsAnotherAndKeepsItsEntries) {
  const auto before = h_.list(kRootIno);
  erase(std::string(keys::kRoot));
  EXPECT_NE(repair().find("/: its record is lost"), std::string::npos);
  EXPECT_EQ(h_.list(kRootIno), before);
  EXPECT_EQ(h_.attr(kRootIno).mode, S_IFDIR | 0755u);
}

TEST_F(RepairTree, ARootWhoseRecordIsLostIsMadeAgainWhoeverHasItsNumber) {
  Record other = *decode_record(value(std::string(keys::kRoot)));
  erase(std::string(keys::kRoot));
  other.home = keys::child_home(root_, "other", kRootIno);
  put(keys::orphan(kRootIno), encode(other));
  EXPECT_NE(repair().find("/: its record is lost"), std::string::npos);
  EXPECT_EQ(h_.check(), "");
  EXPECT_EQ(h_.read_path("directory/inner/deep"), "data");
}

TEST_F(RepairTree, ACircleOfDirectoriesIsOpened) {
  // "inner" becomes an entry of itself.
  auto record = *decode_record(value(keys::entry(directory_home(), "inner")));
  erase(keys::entry(directory_home(), "inner"));
  record.home = inner_home();
  put(keys::entry(inner_home(), "inner"), encode(record));
  repair();
  EXPECT_EQ(h_.list(h_.walk(found(inner_))), std::vector<std::string>{"deep"});
  EXPECT_EQ(h_.read_path(found(inner_) + "/deep"), "data");
}

TEST_F(RepairTree, LostDataReadAsZerosAndAreNamed) {
  erase(keys::block(file_home(), BlockIndex{1}), Family::blocks);
  const std::string said = repair();
  EXPECT_NE(said.find("/file: 1 of its 3 blocks of 4096 bytes are lost and read as zeros"), std::string::npos) << said;
  EXPECT_EQ(h_.read_path("file"), std::string(4096, 'x') + std::string(4096, '\0') + std::string(10'000 - 8192, 'x'));
}

TEST_F(RepairTree, LostEntriesAndAttributesAreNamed) {
  erase(keys::entry(directory_home(), "sparse"));
  erase(keys::xattr(keys::child_home(root_, "attributed", attributed_), "user.large"));
  const std::string said = repair();
  EXPECT_NE(said.find("/directory: 1 of its 4 entries are lost"), std::string::npos) << said;
  EXPECT_NE(said.find("/attributed: its extended attribute user.large is lost"), std::string::npos) << said;
  EXPECT_EQ(*h_.tree().listxattr(h_.walk("attributed"), Wait::yes), std::string("user.small\0", 11));
}

TEST_F(RepairTree, RowsThatLieElsewhereTakeNoAttributesAway) {
  for (const char* old_name : {"a name that sorts before", "the other way round"}) {
    put(keys::xattr(keys::child_home(root_, old_name, attributed_), "user.large"), "stale");
    put(keys::xattr(keys::child_home(root_, old_name, attributed_), "user.other"), "stale");
  }
  expect({{inode(attributed_), "2 extended attributes belong to no record"}, {inode(attributed_), "2 extended attributes belong to no record"}});
  const std::string said = repair();
  EXPECT_EQ(said.find("is lost"), std::string::npos) << said;
  EXPECT_EQ(*h_.tree().getxattr(h_.walk("attributed"), "user.large", Wait::yes), std::string(5000, 'v'));
  EXPECT_EQ(h_.check(), "");
}

TEST_F(RepairTree, WhatIsLostTwiceGoesIntoTheSameLostAndFound) {
  erase(file_row());
  repair();
  erase(keys::entry(root_, "directory"));
  repair();
  EXPECT_EQ(lost_and_found().size(), 2u);
  EXPECT_EQ(h_.list(kRootIno), (std::vector<std::string>{"attributed", "lost+found", "one", "pipe", "symlink"}));
}

TEST_F(RepairTree, AFileWithTheNameOfLostAndFoundStays) {
  h_.create(kRootIno, "lost+found", "mine");
  must(h_.tree().sync());
  erase(file_row());
  repair();
  EXPECT_EQ(h_.read_path("lost+found"), "mine");
  EXPECT_EQ(h_.read_path("lost+found-1/#" + std::to_string(file_.v)), std::string(10'000, 'x'));
}

TEST_F(RepairTree, NumbersAreNotGivenAgain) {
  put(keys::block(keys::child_home(root_, "gone", Ino{7000}), BlockIndex{0}), "x", Family::blocks);
  repair();
  EXPECT_GT(h_.create(kRootIno, "new").v, 7000u);
}

// Each of them would make the next number one that is refused.
TEST_F(RepairTree, NumbersThatAreNeverGivenAreErased) {
  const std::string gone = keys::child_home(root_, "gone", kCountedMax);
  put(keys::entry(root_, "record"), encode(regular(kCountedMax)));
  put(keys::entry(root_, "link"), encode(Link{kCountedMax, S_IFREG}));
  put(keys::linked(kCountedMax), encode(regular(kInoMax)));
  put(keys::entry(gone, "entry"), encode(regular(Ino{7000})));
  put(keys::xattr(gone, "user.large"), "value");
  put(keys::block(gone, BlockIndex{0}), "x", Family::blocks);
  EXPECT_FALSE(check().clean());
  repair();
  EXPECT_EQ(h_.check(), "");
  EXPECT_EQ(lost_and_found(), std::vector<std::string>{});
  EXPECT_LT(h_.create(kRootIno, "new").v, 7000u);
}

TEST_F(RepairTree, TheLastNumberMayBeTakenWhenLostAndFoundIsMade) {
  const Ino last{kSnapshotsIno.v - 1};
  put(keys::block(keys::child_home(root_, "gone", last), BlockIndex{0}), "x", Family::blocks);
  repair();
  EXPECT_EQ(h_.check(), "");
  EXPECT_EQ(h_.read_path(found(last)), "x");
  EXPECT_EQ(h_.walk("lost+found").v, last.v - 1);
}

TEST_F(RepairTree, DataByTheNumberOfTheDirectoryOfSnapshots) {
  put(keys::block(keys::child_home(root_, "gone", kSnapshotsIno), BlockIndex{0}), "x", Family::blocks);
  repair();
  EXPECT_EQ(h_.check(), "");
  EXPECT_EQ(h_.read_path(found(kSnapshotsIno)), "x");
  EXPECT_NE(h_.walk(found(kSnapshotsIno)), kSnapshotsIno);
}

// ---- tables

class RepairTables : public DamagedTable {
 protected:
  StoreRepair repair() {
    StoreRepair done;
    const auto volume = Volume::open(h_.device());
    EXPECT_TRUE(volume);
    if (auto tables = Store::repair(**volume, {}); tables) {
      done = std::move(*tables);
    } else {
      ADD_FAILURE() << tables.error().message();
      return done;
    }
    const auto store = Store::open(**volume, {});
    EXPECT_TRUE(store);
    const auto rows = repair_tree(**store);
    EXPECT_TRUE(rows);
    EXPECT_TRUE(rows->left.clean()) << testing::PrintToString(rows->left.problems);
    done.lines.insert(done.lines.end(), rows->lines.begin(), rows->lines.end());
    EXPECT_TRUE((*store)->close());
    return done;
  }
};

TEST_F(RepairTables, OfADamagedTableOnlyWhatIsUnreadableIsLost) {
  const std::string data = random_bytes(400 * kBlockSize);
  h_.create(kRootIno, "before", "sound");
  h_.create(kRootIno, "damaged", data);
  h_.create(kRootIno, "later", data.substr(0, 10));
  flip(data.substr(200 * kBlockSize + 100, 64));
  const StoreRepair done = repair();
  ASSERT_EQ(done.lost.size(), 1u) << testing::PrintToString(done.lines);
  EXPECT_FALSE(done.lost[0].aged);
  const std::string where = rows_between(done.lost[0].family, done.lost[0].after, done.lost[0].before);
  EXPECT_TRUE(where.starts_with("file data between byte ")) << where;
  EXPECT_NE(where.find(" of /damaged"), std::string::npos) << where;
  EXPECT_TRUE(std::ranges::any_of(done.lines, [](const std::string& line) {
    return line.starts_with("/damaged: ") && line.find("are lost and read as zeros") != line.npos;
  })) << testing::PrintToString(done.lines);

  h_.mount();
  EXPECT_EQ(h_.read_path("before"), "sound");
  EXPECT_EQ(h_.read_path("later"), data.substr(0, 10));
  const std::string left = h_.read_path("damaged");
  ASSERT_EQ(left.size(), data.size());
  std::size_t lost = 0;
  for (std::size_t at = 0; at < left.size(); at += kBlockSize) {
    if (left.compare(at, kBlockSize, data, at, kBlockSize) == 0) continue;
    EXPECT_EQ(left.substr(at, kBlockSize), std::string(kBlockSize, '\0')) << "neither what was there nor zeros";
    ++lost;
  }
  EXPECT_GE(lost, 1u);
  EXPECT_LE(lost, 32u) << "a block of a table holds some 16";
  EXPECT_EQ(h_.check(), "");
}

TEST_F(RepairTables, BetweenSeveralDamagedPlacesInATableWhatCanBeReadIsKept) {
  const std::string data = random_bytes(400 * kBlockSize);
  for (int i = 0; i < 4; ++i) h_.create(kRootIno, "file" + std::to_string(i), data.substr(i * 100 * kBlockSize, 100 * kBlockSize));
  h_.unmount();
  for (const std::size_t block : {20, 150, 350}) flip_on_device(std::string_view(data).substr(block * kBlockSize + 100, 64));
  const StoreRepair done = repair();
  EXPECT_EQ(done.lost.size(), 3u);
  h_.mount();
  std::size_t lost = 0;
  for (int i = 0; i < 4; ++i) {
    const std::string left = h_.read_path("file" + std::to_string(i));
    ASSERT_EQ(left.size(), 100 * kBlockSize);
    for (std::size_t at = 0; at < left.size(); at += kBlockSize) {
      lost += left.compare(at, kBlockSize, data, i * 100 * kBlockSize + at, kBlockSize) != 0;
    }
  }
  EXPECT_GE(lost, 3u);
  EXPECT_LE(lost, 3 * 32u);
}

TEST_F(RepairTables, WhatIsOlderComesBackOnlyWhereNothingCanBeRead) {
  const std::string data = random_bytes(100 * kBlockSize);
  const Ino file = h_.create(kRootIno, "file", std::string(100 * kBlockSize, 'o'));
  h_.create(kRootIno, "removed", std::string(100, 'r'));
  ASSERT_TRUE(h_.tree().sync());
  ASSERT_TRUE(h_.store().flush());
  h_.write(file, 0, data);
  ASSERT_TRUE(h_.tree().unlink(kRootIno, "removed", Wait::yes));
  flip(data.substr(50 * kBlockSize + 100, 64));
  const StoreRepair done = repair();
  ASSERT_EQ(done.lost.size(), 1u);
  EXPECT_TRUE(done.lost[0].aged);
  h_.mount();
  EXPECT_EQ(h_.walk("removed").v, 0u);
  const std::string left = h_.read_path("file");
  ASSERT_EQ(left.size(), data.size());
  std::size_t old = 0;
  for (std::size_t at = 0; at < left.size(); at += kBlockSize) {
    if (left.compare(at, kBlockSize, data, at, kBlockSize) == 0) continue;
    EXPECT_EQ(left.substr(at, kBlockSize), std::string(kBlockSize, 'o'));
    const std::string key = keys::block(keys::child_home("", "file", file), BlockIndex{at / kBlockSize});
    EXPECT_TRUE(key > done.lost[0].after && key < done.lost[0].before) << "not said: byte " << at;
    ++old;
  }
  EXPECT_GE(old, 1u);
  EXPECT_LE(old, 32u);
}

TEST_F(RepairTables, NamesThatAreLostLeaveTheirFilesInLostAndFound) {
  const std::string value = random_bytes(20'000);
  const Ino damaged = h_.create(kRootIno, "m", "data");
  ASSERT_TRUE(h_.tree().setxattr(damaged, "user.x", value, 0, Wait::yes));
  for (int i = 0; i < 1000; ++i) {
    h_.create(kRootIno, "a" + std::to_string(i), "data");
    h_.create(kRootIno, "z" + std::to_string(i), "data");
  }
  flip(value.substr(10'000, 64));
  const StoreRepair done = repair();
  EXPECT_GE(done.lost.size(), 1u);
  h_.mount();
  EXPECT_EQ(h_.check(), "");
  std::size_t files = h_.list(kRootIno).size();
  if (const Ino dir = h_.walk("lost+found"); dir.v != 0) files += h_.list(dir).size() - 1;
  EXPECT_EQ(files, 2001u) << "no file's data are lost";
}

TEST_F(RepairTables, ALostListOfTablesIsMadeAgain) {
  const std::string data = random_bytes(100 * kBlockSize);
  h_.create(kRootIno, "file", data);
  h_.unmount();
  for (const std::string_view what : {"CURRENT", "MANIFEST-"}) {
    {
      const auto volume = Volume::open(h_.device());
      ASSERT_TRUE(volume);
      for (const std::string& name : (*volume)->list()) {
        if (name.starts_with(what)) {
          ASSERT_TRUE((*volume)->remove(name));
        }
      }
      ASSERT_TRUE((*volume)->commit());
      ASSERT_EQ(Store::open(**volume, {}).error().code, EUCLEAN);
    }
    EXPECT_GE(repair().lines.size(), 1u);
    h_.mount();
    EXPECT_TRUE(h_.read_path("file") == data);
    EXPECT_EQ(h_.check(), "");
    h_.unmount();
  }
}

}  // namespace
}  // namespace lsmfs::test::repair_test

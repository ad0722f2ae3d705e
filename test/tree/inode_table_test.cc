#include "tree/inode_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tree/harness.h"

namespace lsmfs::test::inode_table_test {
namespace {

constexpr std::size_t kRoom = 80;  // inodes

class InodeTables : public testing::Test {
 protected:
  Inode& add(std::uint64_t ino, std::uint64_t lookups = 1) {
    Inode inode;
    inode.record.ino = Ino{ino};
    inode.name = std::to_string(ino);
    inode.parent = kRootIno;
    inode.lookups = lookups;
    return table_.insert(std::move(inode));
  }
  void fill(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t ino = from; ino < to; ++ino) add(ino);
  }
  static std::vector<Ino> numbers(std::uint64_t from, std::uint64_t to) {
    std::vector<Ino> all;
    for (; from < to; ++from) all.push_back(Ino{from});
    return all;
  }

  InodeTable table_{ByteCount{kRoom * InodeTable::kInodeMemory}, [](ByteCount) {}};
};

TEST_F(InodeTables, OffersNoneWhileThereIsRoom) {
  fill(2, 2 + kRoom);
  EXPECT_FALSE(table_.crowded());
  EXPECT_EQ(table_.least_used(), std::vector<Ino>());
  add(1000);
  EXPECT_TRUE(table_.crowded());
  table_.erase(Ino{5});
  EXPECT_FALSE(table_.crowded());
}

TEST_F(InodeTables, OffersThoseUsedTheLongestTimeAgoUntilAnEighthOfTheRoomIsFree) {
  fill(2, 3 + kRoom);
  table_.used(*table_.find(Ino{3}));
  std::vector<Ino> expected = numbers(2, 14);
  std::erase(expected, Ino{3});
  EXPECT_EQ(table_.least_used(), expected);  // 11 of 81
  EXPECT_FALSE(table_.crowded());
  // Whether they have gone or not, others are next.
  for (std::uint64_t ino = 4; ino < 10; ++ino) table_.erase(Ino{ino});
  EXPECT_EQ(table_.least_used(), std::vector<Ino>());
  fill(1000, 1011);
  EXPECT_EQ(table_.least_used(), numbers(14, 25));
}

TEST_F(InodeTables, WhatIsUsedAfterItWasOfferedCountsAgain) {
  fill(2, 3 + kRoom);
  const auto offered = table_.least_used();
  for (const Ino ino : offered) table_.used(*table_.find(ino));
  EXPECT_TRUE(table_.crowded());
  EXPECT_EQ(table_.least_used(), numbers(13, 24));
}

TEST_F(InodeTables, OffersWhatStaysAgainWhenAllOthersHaveBeenOffered) {
  fill(2, 3 + kRoom);
  std::vector<Ino> all;
  for (std::uint64_t next = 1000; all.size() < 3 * kRoom; next += 11) {
    fill(next, next + 11);
    const auto some = table_.least_used();
    ASSERT_FALSE(some.empty());
    all.insert(all.end(), some.begin(), some.end());
  }
  const auto first = std::find(all.begin(), all.end(), Ino{2});
  const auto again = std::find(first + 1, all.end(), Ino{2});
  ASSERT_NE(again, all.end());
  EXPECT_GT(again - first, static_cast<std::ptrdiff_t>(kRoom));
}

TEST_F(InodeTables, OffersNeitherTheRootNorWhatNobodyHoldsOnTo) {
  add(1);
  add(2, 0);
  fill(3, 1 + kRoom);
  EXPECT_EQ(table_.least_used(), std::vector<Ino>());
  add(1000);
  EXPECT_EQ(table_.least_used(), numbers(3, 14));
}

// A walk over more files than there is room for, by somebody who forgets what he is asked to.
TEST(Surplus, OfAWalkIsBoundedByTheRoom) {
  Harness h;
  const std::uint64_t room = h.store().cache_share().v / InodeTable::kInodeMemory;
  constexpr int kFolders = 6;
  const std::uint64_t files = room / 3;
  std::vector<Ino> folders;
  std::uint64_t held = 0, most = 0;
  const auto make_room = [&] {
    most = std::max(most, held);
    for (const Ino ino : h.tree().surplus()) {
      if (std::find(folders.begin(), folders.end(), ino) != folders.end()) continue;
      h.tree().forget(ino, 1);
      --held;
    }
  };
  for (int i = 0; i < kFolders; ++i) {
    folders.push_back(h.mkdir(kRootIno, "folder" + std::to_string(i)));
    for (std::uint64_t file = 0; file < files; ++file) {
      h.create(folders.back(), std::to_string(file));
      ++held;
      make_room();
    }
  }
  EXPECT_GT(most, room * 9 / 10);
  EXPECT_LE(most, room);
  for (const Ino folder : folders) {
    std::uint64_t cookie = 0, seen = 0;
    for (bool more = true; more;) {
      more = false;
      const auto visit = [&](const DirEntry& entry) {
        if (more && entry.next_cookie % 97 == 0) return false;  // a piece has an end
        cookie = entry.next_cookie;
        more = true;
        if (entry.name != "." && entry.name != ".." && entry.attr.ino.v != 0) {
          ++seen;
          ++held;
        }
        return true;
      };
      ASSERT_TRUE(h.tree().readdir(folder, cookie, AttrsOf::all, visit, Wait::yes));
      make_room();
    }
    EXPECT_EQ(seen, files);
  }
  EXPECT_EQ(h.tree().counts().regular, kFolders * files);
}

}  // namespace
}  // namespace lsmfs::test::inode_table_test

// Rows by home, without a tree: under which keys they lie, what is wanted when they are not in memory, and how blocks change.
#include "tree/rows.h"

#include <gtest/gtest.h>

#include "tree/harness.h"
#include "tree/parts.h"

namespace lsmfs::test::rows_test {
namespace {

class RowsTest : public Parts {
 protected:
  RowsTest() {
    client_.on_settled = [this](const Group& group) { rows_.settled(group); };
  }
  std::string block(std::uint64_t index, const std::string& home = kHome) { return shown(keys::block(home, BlockIndex{index}), Family::blocks); }
  // Rows of one byte for blocks [from, to).
  void fill(TreeLock& lock, std::uint64_t from, std::uint64_t to, const std::string& home = kHome) {
    for (std::uint64_t i = from; i < to; ++i) rows_.patch_block(home, BlockIndex{i}, 0, "x");
    settle(lock);
  }
  void settle(TreeLock& lock) {
    history_->open().blocks = true;
    commit(lock);
  }
  std::vector<std::uint64_t> there(const TreeLock& lock, std::uint64_t from, std::uint64_t to) {
    const auto found = rows_.blocks(lock, kHome, BlockIndex{from}, BlockIndex{to}, false);
    EXPECT_TRUE(found);
    std::vector<std::uint64_t> indexes;
    for (const auto& row : found ? *found : Rows::Blocks()) indexes.push_back(row.first.v);
    return indexes;
  }
  std::string read(std::uint64_t offset, std::size_t size, Wait wait = Wait::no) {
    std::string to(size, '?');
    std::uint64_t epoch = 0;
    {
      const TreeLock lock(mutex_);
      epoch = rows_.epoch();
    }
    EXPECT_EQ(code(rows_.read(kHome, ByteOffset{offset}, std::as_writable_bytes(std::span(to)), Rows::Elsewhere::zeros, epoch, wait)), 0);
    return to;
  }

  static inline const std::string kHome = "home", kOther = "homf";
  Rows rows_{*store_, clock_, *history_};
};

TEST_F(RowsTest, NamesAreFoundWhenTheirGroupIsCommitted) {
  TreeLock lock(mutex_);
  rows_.put_entry(kHome, "name", "entry");
  rows_.put_xattr(kHome, "user.a", "value");
  put(keys::linked(Ino{7}), "linked");
  commit(lock);
  EXPECT_EQ(*rows_.entry(lock, kHome, "name"), "entry");
  EXPECT_EQ(*rows_.xattr(lock, kHome, "user.a"), "value");
  EXPECT_EQ(*rows_.linked(lock, Ino{7}), "linked");
  EXPECT_EQ(*rows_.entry(lock, kHome, "nam"), std::nullopt);
  EXPECT_EQ(*rows_.entry(lock, kOther, "name"), std::nullopt);
  rows_.erase_entry(kHome, "name");
  rows_.erase_xattr(kHome, "user.a");
  rows_.erase_linked(Ino{7});
  commit(lock);
  EXPECT_EQ(*rows_.entry(lock, kHome, "name"), std::nullopt);
  EXPECT_EQ(*rows_.xattr(lock, kHome, "user.a"), std::nullopt);
  EXPECT_EQ(*rows_.linked(lock, Ino{7}), std::nullopt);
}

TEST_F(RowsTest, WhatIsNotInMemoryIsReadWhenItIsWantedAndThenFound) {
  TreeLock lock(mutex_);
  rows_.put_entry(kHome, "name", "entry");
  fill(lock, 3, 5);
  weather_.cold = true;
  EXPECT_EQ(code(rows_.entry(lock, kHome, "name")), EAGAIN);
  lock.take_wanted().read();
  EXPECT_EQ(*rows_.entry(lock, kHome, "name"), "entry");
  EXPECT_EQ(code(rows_.entry(lock, kHome, "none")), EAGAIN) << "one is no other";
  lock.take_wanted().read();
  EXPECT_EQ(*rows_.entry(lock, kHome, "none"), std::nullopt);
  EXPECT_EQ(code(rows_.blocks(lock, kHome, BlockIndex{0}, BlockIndex{9}, true)), EAGAIN);
  lock.take_wanted().read();
  const auto blocks = rows_.blocks(lock, kHome, BlockIndex{0}, BlockIndex{9}, true);
  ASSERT_TRUE(blocks);
  EXPECT_EQ(*blocks, (Rows::Blocks{{BlockIndex{3}, "x"}, {BlockIndex{4}, "x"}}));
  EXPECT_FALSE(lock.take_wanted().read);
}

TEST_F(RowsTest, FewBlocksAreErasedOneByOneAndManyAtOnceAndNoOthers) {
  TreeLock lock(mutex_);
  const std::uint64_t many = Rows::kPointEraseMax + 10;
  fill(lock, 0, many);
  fill(lock, 0, 3, kOther);
  rows_.erase_blocks(kHome, BlockIndex{2}, BlockIndex{5}, 3);
  rows_.erase_blocks(kHome, BlockIndex{7}, BlockIndex{7}, 0);
  settle(lock);
  EXPECT_EQ(there(lock, 0, 8), (std::vector<std::uint64_t>{0, 1, 5, 6, 7}));
  rows_.erase_blocks(kHome, std::vector<std::uint64_t>{0, 6});
  settle(lock);
  EXPECT_EQ(there(lock, 0, 8), (std::vector<std::uint64_t>{1, 5, 7}));
  rows_.erase_blocks(kHome, BlockIndex{5}, BlockIndex{many - 1}, many - 6);
  const std::size_t bytes = history_->open().batch.bytes();
  EXPECT_LT(bytes, 1000U) << "a range";
  settle(lock);
  EXPECT_EQ(there(lock, 0, many), (std::vector<std::uint64_t>{1, many - 1}));
  EXPECT_EQ(block(2, kOther), "x");
}

TEST_F(RowsTest, ABlockThatIsAppendedToBecomesOneRowWhenItIsFull) {
  TreeLock lock(mutex_);
  rows_.write_block(Ino{9}, kHome, BlockIndex{0}, 0, "abc", true);
  EXPECT_TRUE(history_->open().batch.empty()) << "it is the tail";
  rows_.write_block(Ino{9}, kHome, BlockIndex{0}, 5, std::string(kBlockSize - 5, 'z'), false);
  EXPECT_FALSE(history_->open().tail);
  rows_.write_block(Ino{9}, kHome, BlockIndex{1}, 0, std::string(kBlockSize, 'w'), true);
  EXPECT_FALSE(history_->open().tail) << "it is whole at once";
  settle(lock);
  EXPECT_EQ(block(0), "abc" + std::string(2, '\0') + std::string(kBlockSize - 5, 'z'));
  EXPECT_EQ(block(1), std::string(kBlockSize, 'w'));
  rows_.write_block(Ino{9}, kHome, BlockIndex{0}, 1, "B", false);
  rows_.cut_block(kHome, BlockIndex{1}, 2);
  rows_.write_block(Ino{9}, kHome, BlockIndex{2}, 0, "tail", true);
  settle(lock);
  EXPECT_EQ(block(0).substr(0, 4), std::string("aBc\0", 4));
  EXPECT_EQ(block(1), "ww");
  EXPECT_EQ(block(2), "tail") << "it goes with its group";
}

TEST_F(RowsTest, AReadGivesZerosWhereThereIsNoRowAndWhatWasSettledLast) {
  {
    TreeLock lock(mutex_);
    rows_.patch_block(kHome, BlockIndex{1}, 0, "one");
    rows_.patch_block(kHome, BlockIndex{3}, 0, std::string(kBlockSize, '3'));
    fill(lock, 0, 1, kOther);
  }
  const std::string zeros(3 * kBlockSize, '\0');
  const std::string all = zeros.substr(0, kBlockSize) + "one" + zeros.substr(0, 2 * kBlockSize - 3) + std::string(kBlockSize, '3') + zeros;
  for (const Wait wait : {Wait::no, Wait::yes}) {
    EXPECT_EQ(read(0, all.size(), wait), all);
    EXPECT_EQ(read(kBlockSize + 1, 5, wait), std::string("ne\0\0\0", 5));
    EXPECT_EQ(read(4 * kBlockSize - 2, 4, wait), std::string("33\0\0", 4));
    EXPECT_EQ(read(9 * kBlockSize, 7, wait), zeros.substr(0, 7));
  }
  {
    TreeLock lock(mutex_);
    rows_.patch_block(kHome, BlockIndex{2}, 0, "two");
    settle(lock);
  }
  EXPECT_EQ(read(2 * kBlockSize, 4), std::string("two\0", 4)) << "a cursor of before does not show it";
}

}  // namespace
}  // namespace lsmfs::test::rows_test

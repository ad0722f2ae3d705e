#include "tree/block_patch.h"

#include <gtest/gtest.h>

#include "kv/patch.h"
#include "lsmfs/tree.h"

namespace lsmfs::block_patch_test {
namespace {

using namespace std::string_literals;

// As the store combines what is put into a row.
std::string value_of(std::initializer_list<std::pair<std::size_t, std::string>> writes) {
  std::string value;
  for (const auto& [at, bytes] : writes) kv::Patch::overwrite(static_cast<std::uint32_t>(block_patch::offset(at)), block_patch::encode(bytes)).apply(value);
  return value;
}

std::string applied(std::string_view value) {
  std::string block(kBlockSize, '.');
  EXPECT_TRUE(block_patch::apply(value, {reinterpret_cast<std::byte*>(block.data()), block.size()}));
  return block;
}

TEST(BlockPatch, ChangesWhatWasWrittenAndNothingElse) {
  EXPECT_EQ(applied(value_of({{2, "ab"}})).substr(0, 6), "..ab..");
  EXPECT_EQ(applied(value_of({{7, "later"}, {0, "\0"s}})).substr(0, 13), "\0......later."s);
  EXPECT_EQ(applied(value_of({{2, "first"}, {4, "XY"}})).substr(0, 9), "..fiXYt..");
  EXPECT_EQ(applied(value_of({{kBlockSize - 1, "z"}})).substr(kBlockSize - 3), "..z");
}

TEST(BlockPatch, ChangesAPartOfABlockAsItWouldAllOfIt) {
  const std::string value = value_of({{2, "ab"}, {100, "cd"}});
  const std::string whole = applied(value);
  for (const auto& [at, size] : {std::pair<std::size_t, std::size_t>{0, 3}, {3, 98}, {101, 1}, {102, 50}, {kBlockSize - 1, 1}}) {
    std::string part(size, '.');
    EXPECT_TRUE(block_patch::apply(value, {reinterpret_cast<std::byte*>(part.data()), part.size()}, at));
    EXPECT_EQ(part, whole.substr(at, size)) << at;
  }
}

TEST(BlockPatch, WhatIsDamagedChangesNothing) {
  const std::string sound = value_of({{2, "ab"}});
  ASSERT_TRUE(block_patch::is_sound(sound));
  for (const std::string& bad : {""s, sound + "x", "x\2"s, "x\0"s, std::string(2 * kBlockSize + 2, '\0')}) {
    EXPECT_FALSE(block_patch::is_sound(bad));
    std::string block(kBlockSize, '.');
    EXPECT_FALSE(block_patch::apply(bad, {reinterpret_cast<std::byte*>(block.data()), block.size()}));
    EXPECT_EQ(block, std::string(kBlockSize, '.'));
  }
}

}  // namespace
}  // namespace lsmfs::block_patch_test

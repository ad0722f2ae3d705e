#include "kv/patch.h"

#include <gtest/gtest.h>

#include <random>

#include "kv/support.h"
#include "seed.h"

namespace lsmfs::patch_test {
namespace {

using kv::Patch;

// The definition, byte by byte.
void plain_overwrite(std::string& value, std::uint32_t offset, std::string_view bytes) {
  if (value.size() < offset + bytes.size()) value.resize(offset + bytes.size(), '\0');
  value.replace(offset, bytes.size(), bytes);
}
void plain_cut(std::string& value, std::uint32_t length) {
  if (value.size() > length) value.resize(length);
}

std::string applied(const Patch& patch, std::string value) {
  patch.apply(value);
  return value;
}

TEST(Patch, OverwritesAndGrowsWithZeros) {
  EXPECT_EQ(applied(Patch::overwrite(1, "XY"), "abcd"), "aXYd");
  EXPECT_EQ(applied(Patch::overwrite(3, "XY"), "abcd"), "abcXY");
  EXPECT_EQ(applied(Patch::overwrite(4, "X"), ""), std::string("\0\0\0\0X", 5));
}

TEST(Patch, CutNeverGrows) {
  EXPECT_EQ(applied(Patch::cut(2), "abcd"), "ab");
  EXPECT_EQ(applied(Patch::cut(9), "abcd"), "abcd");
  EXPECT_EQ(applied(Patch::cut(0), "abcd"), "");
}

TEST(Patch, WhatWasCutOffIsZeroWhenTheValueGrowsAgain) {
  Patch patch = Patch::cut(2);
  patch.then(Patch::overwrite(4, "X"));
  EXPECT_EQ(applied(patch, "abcdef"), std::string("ab\0\0X", 5));
}

TEST(Patch, AnySequenceInAnyGroupingIsTheSameAsOneAfterTheOther) {
  std::mt19937_64 random(test::drawn_seed());
  for (int round = 0; round < 5000; ++round) {
    std::string start = kv_test::random_bytes(random, random() % 5 * 8);
    std::string plain = start;
    std::vector<Patch> patches;
    const int count = 1 + static_cast<int>(random() % 8);
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::uint32_t>(random() % 48);
      if (random() % 4 == 0) {
        patches.push_back(Patch::cut(at));
        plain_cut(plain, at);
      } else {
        const std::string bytes = kv_test::random_bytes(random, 8).substr(0, random() % 9);
        patches.push_back(Patch::overwrite(at, bytes));
        plain_overwrite(plain, at, bytes);
      }
    }
    // Join random neighbours until one is left, through the encoding each time.
    while (patches.size() > 1) {
      const std::size_t i = random() % (patches.size() - 1);
      patches[i].then(patches[i + 1]);
      patches.erase(patches.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      const auto decoded = Patch::decode(patches[i].encode());
      ASSERT_TRUE(decoded.has_value());
      ASSERT_EQ(*decoded, patches[i]);
    }
    ASSERT_EQ(applied(patches[0], start), plain) << "round " << round;
  }
}

TEST(Patch, DamagedOperandsAreRefused) {
  const std::string good = Patch::overwrite(10, "hello").encode();
  ASSERT_TRUE(Patch::decode(good).has_value());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(Patch::decode(good.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(Patch::decode(good + "x").has_value());
  EXPECT_FALSE(Patch::decode("\x02" + good.substr(1)).has_value()) << "another version";
  std::string huge;
  put_u8(huge, 1);
  put_varint(huge, 0);
  put_varint(huge, std::uint64_t{1} << 40);
  put_varint(huge, 0);
  EXPECT_FALSE(Patch::decode(huge).has_value()) << "a value of 1 TiB";
}

TEST(Patch, RandomBytesNeverBreakTheDecoder) {
  std::mt19937_64 random(test::drawn_seed());
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = kv_test::random_bytes(random, 8 + random() % 4 * 8);
    bytes[0] = 1;
    for (char& c : bytes) {
      if (random() % 2 == 0) c = static_cast<char>(c & 0x0f);
    }
    if (auto patch = Patch::decode(bytes)) {
      std::string value = "base";
      patch->apply(value);
      EXPECT_LE(value.size(), std::size_t{kv::kPatchEndMax});
    }
  }
}

}  // namespace
}  // namespace lsmfs::patch_test

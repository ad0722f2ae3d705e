#include <gtest/gtest.h>

#include <limits>

#include "lsmfs/base.h"

namespace lsmfs::codec_test {
namespace {

TEST(Codec, ReadsBackWhatItWrote) {
  std::string out;
  put_u8(out, 0xab);
  put_le16(out, 0x1234);
  put_le32(out, 0x89abcdef);
  put_le64(out, 0x0123456789abcdef);
  put_be64(out, 0xfedcba9876543210);
  put_string(out, std::string_view("a\0b", 3));
  Reader r(out);
  EXPECT_EQ(r.u8(), 0xab);
  EXPECT_EQ(r.le16(), 0x1234);
  EXPECT_EQ(r.le32(), 0x89abcdef);
  EXPECT_EQ(r.le64(), 0x0123456789abcdef);
  EXPECT_EQ(r.be64(), 0xfedcba9876543210);
  EXPECT_EQ(r.string(), std::string_view("a\0b", 3));
  EXPECT_TRUE(r.ok());
  EXPECT_TRUE(r.at_end());
}

TEST(Codec, VarintsKeepEveryBitAtTheEdges) {
  for (std::uint64_t v : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{16383}, std::uint64_t{16384},
                          std::numeric_limits<std::uint64_t>::max() - 1, std::numeric_limits<std::uint64_t>::max()}) {
    std::string out;
    put_varint(out, v);
    Reader r(out);
    EXPECT_EQ(r.varint(), v);
    EXPECT_TRUE(r.ok() && r.at_end());
  }
  for (std::int64_t v : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::numeric_limits<std::int64_t>::min(),
                         std::numeric_limits<std::int64_t>::max()}) {
    std::string out;
    put_zigzag(out, v);
    Reader r(out);
    EXPECT_EQ(r.zigzag(), v);
    EXPECT_TRUE(r.ok() && r.at_end());
  }
}

TEST(Codec, BigEndianNumbersSortAsBytes) {
  std::string low, high;
  put_be64(low, 255);
  put_be64(high, 256);
  EXPECT_LT(low, high);
}

TEST(Codec, ReaderStaysFailedAfterTooFewBytes) {
  Reader r("abc");
  EXPECT_EQ(r.le32(), 0u);
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.u8(), 0);  // although three bytes were there
  EXPECT_FALSE(r.ok());
}

TEST(Codec, ReaderRefusesVarintsOfMoreThan64Bits) {
  Reader longer(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
  longer.varint();
  EXPECT_FALSE(longer.ok());
  Reader endless(std::string_view("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12));
  endless.varint();
  EXPECT_FALSE(endless.ok());
}

TEST(Codec, ReaderRefusesAStringLongerThanTheRest) {
  std::string out;
  put_varint(out, std::numeric_limits<std::uint64_t>::max());
  out += "abc";
  Reader r(out);
  EXPECT_EQ(r.string(), "");
  EXPECT_FALSE(r.ok());
}

}  // namespace
}  // namespace lsmfs::codec_test

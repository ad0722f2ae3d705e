#include <gtest/gtest.h>

#include "lsmfs/base.h"

namespace lsmfs::checksum_test {
namespace {

TEST(Checksum, IsXxh3AndDependsOnTheSeed) {
  // The published XXH3_64bits value of no bytes, seed 0.
  EXPECT_EQ(checksum(std::string_view("")), 0x2d06800538d394c2u);
  EXPECT_NE(checksum(std::string_view("lsmfs"), 1), checksum(std::string_view("lsmfs"), 2));
}

TEST(Uuid, IsRandomVersion4AndPrintsAsText) {
  const Uuid a = Uuid::random();
  const Uuid b = Uuid::random();
  EXPECT_NE(a, b);
  const std::string text = a.text();
  ASSERT_EQ(text.size(), 36u);
  EXPECT_EQ(text[14], '4');
  EXPECT_NE(std::string("89ab").find(text[19]), std::string::npos);
}

}  // namespace
}  // namespace lsmfs::checksum_test

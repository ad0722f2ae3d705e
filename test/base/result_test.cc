#include <gtest/gtest.h>

#include <memory>

#include "lsmfs/base.h"

namespace lsmfs::result_test {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return make_error(EINVAL, "half of an odd number");
  return n / 2;
}

Result<int> quarter(int n) {
  LSMFS_ASSIGN(const int h, half(n));
  LSMFS_ASSIGN(const int q, half(h));
  return q;
}

Result<void> check(int n) {
  LSMFS_TRY(half(n));
  return {};
}

TEST(Result, CarriesValuesAndErrorsThroughTheMacros) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().code, EINVAL);
  EXPECT_TRUE(check(2));
  EXPECT_FALSE(check(3));
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(7);
  std::unique_ptr<int> p = std::move(*r);
  EXPECT_EQ(*p, 7);
}

TEST(Error, MessageSaysWhatAndWhy) {
  EXPECT_EQ(make_error(ENOENT, "open of x").message(), "open of x: No such file or directory");
  EXPECT_EQ(make_error(EIO, "").message(), "Input/output error");
}

TEST(Strong, ComparesAndAddsOnlyItsOwnKind) {
  EXPECT_LT(ByteOffset{1}, ByteOffset{2});
  EXPECT_EQ(ByteOffset{1} + ByteCount{2}, ByteOffset{3});
  EXPECT_EQ(ByteOffset{5} - ByteOffset{2}, ByteCount{3});
  EXPECT_EQ(round_up(4097, 4096), 8192u);
  EXPECT_EQ(round_down(8191, 4096), 4096u);
}

}  // namespace
}  // namespace lsmfs::result_test

#include "tree/dir_cookies.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

namespace lsmfs {
namespace {

std::vector<std::uint64_t> give(DirCookies& cookies, DirCookies::Position& at, int from, int to) {
  std::vector<std::uint64_t> given;
  for (int i = from; i < to; ++i) {
    given.push_back(DirCookies::cookie_after(at));
    cookies.advance(at, fmt::format("{:07}", i));
  }
  return given;
}

TEST(DirCookies, GoOnAfterTheNameTheyWereGivenWith) {
  DirCookies cookies;
  auto at = cookies.resume(0);
  EXPECT_TRUE(at.after.empty());
  const auto given = give(cookies, at, 0, 100);
  EXPECT_EQ(cookies.resume(given[99]).after, "0000099");
  EXPECT_EQ(cookies.resume(given[41]).after, "0000041");
  EXPECT_EQ(cookies.resume(given[41]).skip, 0u);
}

TEST(DirCookies, AreSmallPositiveNumbersUnlikeTheCallersOwn) {
  DirCookies cookies;
  auto at = cookies.resume(0);
  for (auto c : give(cookies, at, 0, 10)) {
    EXPECT_GE(c, DirCookies::kLeast);
    EXPECT_LT(c, DirCookies::kEnd);
  }
}

TEST(DirCookies, FarBackSkipsFromANameThatIsRemembered) {
  DirCookies cookies;
  auto at = cookies.resume(0);
  const int n = 100'000;
  const auto given = give(cookies, at, 0, n);
  for (int i : {0, 1, 62, 63, 64, 65, 1000, 50'000, n - 5000, n - 4097, n - 4096, n - 1}) {
    const auto back = cookies.resume(given[static_cast<std::size_t>(i)]);
    const int after = back.after.empty() ? -1 : std::stoi(back.after);
    EXPECT_EQ(after + static_cast<int>(back.skip), i);
    EXPECT_LE(back.skip, DirCookies::kStride);
  }
}

TEST(DirCookies, GoingBackDoesNotSpoilTheCookiesFurtherOn) {
  DirCookies cookies;
  auto at = cookies.resume(0);
  const auto given = give(cookies, at, 0, 50);
  auto back = cookies.resume(given[9]);
  give(cookies, back, 1000, 1010);  // other names by now
  EXPECT_EQ(cookies.resume(given[30]).after, "0000030");
}

TEST(DirCookies, AnUnknownCookieMeansItsNumberOfEntries) {
  DirCookies old;
  auto at = old.resume(0);
  const auto given = give(old, at, 0, 20);
  DirCookies fresh;
  const auto position = fresh.resume(given[11]);
  EXPECT_TRUE(position.after.empty());
  EXPECT_EQ(position.skip, 12u);
}

}  // namespace
}  // namespace lsmfs

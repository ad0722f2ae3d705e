#include "tree/dir_cookies.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <set>

namespace lsmfs {
namespace {

constexpr std::uint64_t kSeed = 42;

std::string name_of(std::size_t i) { return fmt::format("{:07}", i); }

void give(DirCookies& cookies, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) cookies.given(name_of(i));
}

TEST(DirCookies, AreLargePositiveNumbersUnlikeTheCallersOwn) {
  const DirCookies cookies(kSeed);
  std::set<std::uint64_t> all;
  for (std::size_t i = 0; i < 100'000; ++i) {
    const std::uint64_t c = cookies.cookie_after(name_of(i));
    EXPECT_GE(c, DirCookies::kLeast);
    EXPECT_LT(c, DirCookies::kEnd);
    all.insert(c);
  }
  EXPECT_EQ(all.size(), 100'000u);
}

TEST(DirCookies, AreTheSameInEveryWalkOfAMountAndOthersInAnother) {
  EXPECT_EQ(DirCookies(kSeed).cookie_after("name"), DirCookies(kSeed).cookie_after("name"));
  EXPECT_NE(DirCookies(kSeed).cookie_after("name"), DirCookies(kSeed + 1).cookie_after("name"));
}

TEST(DirCookies, RememberTheNamesThatWereGivenLately) {
  DirCookies cookies(kSeed);
  EXPECT_EQ(cookies.resume(0), "");
  give(cookies, 0, 1000);
  for (std::size_t i : {std::size_t{999}, std::size_t{998}, 1000 - DirCookies::kRecent}) EXPECT_EQ(cookies.resume(cookies.cookie_after(name_of(i))), name_of(i));
  EXPECT_EQ(cookies.resume(cookies.cookie_after(name_of(999 - DirCookies::kRecent))), std::nullopt);
  EXPECT_EQ(cookies.resume(cookies.cookie_after("never given")), std::nullopt);
}

TEST(DirCookies, AWalkThatIsSlowIsRememberedWhileOthersPass) {
  DirCookies cookies(kSeed);
  cookies.resume(0);
  cookies.given("slow");
  for (std::size_t walk = 1; walk < DirCookies::kRuns; ++walk) {
    cookies.resume(0);
    give(cookies, 0, 2000);
  }
  EXPECT_EQ(cookies.resume(cookies.cookie_after("slow")), "slow");
  cookies.resume(0);  // in place of the one that was used least
  give(cookies, 0, 10);
  EXPECT_EQ(cookies.resume(cookies.cookie_after("slow")), "slow");
}

TEST(DirCookies, RememberTheNamesThatWereRemovedLately) {
  DirCookies cookies(kSeed);
  const std::size_t n = DirCookies::kRemoved + 1;
  for (std::size_t i = 0; i < n; ++i) cookies.removed(name_of(i));
  EXPECT_EQ(cookies.resume(cookies.cookie_after(name_of(0))), std::nullopt);
  EXPECT_EQ(cookies.resume(cookies.cookie_after(name_of(1))), name_of(1));
  // From then on it is the place of a walk, and stays known.
  cookies.removed(name_of(n));
  EXPECT_EQ(cookies.resume(cookies.cookie_after(name_of(1))), name_of(1));
}

TEST(DirCookies, APlaceThatWasLookedForIsRemembered) {
  DirCookies cookies(kSeed);
  cookies.found("place");
  EXPECT_EQ(cookies.resume(cookies.cookie_after("place")), "place");
}

}  // namespace
}  // namespace lsmfs

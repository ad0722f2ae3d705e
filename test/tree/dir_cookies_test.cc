#include "tree/dir_cookies.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <set>

namespace lsmfs {
namespace {

constexpr std::uint64_t kSeed = 42;

std::string name_of(std::size_t i) { return fmt::format("{:07}", i); }

void give(DirCookies& cookies, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) cookies.given(name_of(i));
}

// A cookie after this name.
std::uint64_t after(DirCookies& cookies, std::string_view name) {
  auto walk = cookies.walk_at(0);
  return cookies.pass(walk, name, false);
}

TEST(DirCookies, AreLargePositiveNumbersUnlikeTheCallersOwn) {
  DirCookies cookies(kSeed);
  std::set<std::uint64_t> all;
  auto walk = cookies.walk_at(0);
  for (std::size_t i = 0; i < 100'000; ++i) {
    const std::uint64_t c = cookies.pass(walk, name_of(i), false);
    EXPECT_GE(c, DirCookies::kLeast);
    EXPECT_LT(c, DirCookies::kFull);
    all.insert(c);
  }
  EXPECT_EQ(all.size(), 100'000u);
}

TEST(DirCookies, TellAWalkAllThatItIsToldApartBy) {
  DirCookies cookies(kSeed);
  cookies.changed("x", false);
  auto walk = cookies.walk_at(0);
  for (std::size_t i = 0; i < 1000; ++i) {
    const std::string name(1 + i % 255, 'n');
    const std::uint64_t c = cookies.pass(walk, name, false);
    const auto same = cookies.walk_at(c);
    EXPECT_EQ(same.generation, walk.generation);
    EXPECT_EQ(same.in_page, walk.in_page);
    EXPECT_TRUE(cookies.is_after(c, name));
    EXPECT_FALSE(cookies.is_after(c, name + "x"));
  }
}

TEST(DirCookies, AreTheSameInEveryWalkUntilAChangeAndOthersInAnotherMount) {
  DirCookies cookies(kSeed), others(kSeed + 1);
  const std::uint64_t c = after(cookies, "name");
  EXPECT_EQ(after(cookies, "name"), c);
  EXPECT_NE(after(others, "name"), c);
  auto walk = cookies.walk_at(c);
  const std::uint64_t next = cookies.pass(walk, "next", false);
  cookies.changed("new", false);
  EXPECT_NE(after(cookies, "name"), c);
  walk = cookies.walk_at(c);
  EXPECT_EQ(cookies.pass(walk, "next", false), next) << "of the walk that had begun";
}

TEST(DirCookies, KnowWhenTheKernelsListingFillsItsPages) {
  DirCookies cookies(kSeed);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto last_of = [&](std::size_t entries, std::size_t size) {  // and the dots
    auto walk = cookies.walk_at(0);
    for (std::size_t i = 1; i < entries; ++i) walk = cookies.walk_at(cookies.pass(walk, std::string(size, 'n'), false));
    return cookies.pass(walk, std::string(size, 'n'), true);
  };
  for (std::size_t size : {1u, 8u}) {
    EXPECT_EQ(last_of(page / 32 - 3, size), DirCookies::kEnd);
    EXPECT_EQ(last_of(page / 32 - 2, size), DirCookies::kFull);
    EXPECT_EQ(last_of(page / 32 - 1, size), DirCookies::kEnd);
    EXPECT_EQ(last_of(page / 32 * 5 - 2, size), DirCookies::kFull);
  }
  // 40 bytes each: what is left of the page is too small for another.
  for (std::size_t entries = 1; entries < page; ++entries) EXPECT_EQ(last_of(entries, 9), DirCookies::kEnd) << entries;
}

TEST(DirCookies, RememberTheNamesThatWereGivenLately) {
  DirCookies cookies(kSeed);
  EXPECT_EQ(cookies.resume(0), "");
  give(cookies, 0, 1000);
  for (std::size_t i : {std::size_t{999}, std::size_t{998}, 1000 - DirCookies::kRecent}) EXPECT_EQ(cookies.resume(after(cookies, name_of(i))), name_of(i));
  EXPECT_EQ(cookies.resume(after(cookies, name_of(999 - DirCookies::kRecent))), std::nullopt);
  EXPECT_EQ(cookies.resume(after(cookies, "never given")), std::nullopt);
}

TEST(DirCookies, AWalkThatIsSlowIsRememberedWhileOthersPass) {
  DirCookies cookies(kSeed);
  cookies.resume(0);
  cookies.given("slow");
  for (std::size_t walk = 1; walk < DirCookies::kRuns; ++walk) {
    cookies.resume(0);
    give(cookies, 0, 2000);
  }
  EXPECT_EQ(cookies.resume(after(cookies, "slow")), "slow");
  cookies.resume(0);  // in place of the one that was used least
  give(cookies, 0, 10);
  EXPECT_EQ(cookies.resume(after(cookies, "slow")), "slow");
}

TEST(DirCookies, RememberTheNamesThatWereRemovedLately) {
  DirCookies cookies(kSeed);
  const std::size_t n = DirCookies::kRemoved + 1;
  for (std::size_t i = 0; i < n; ++i) cookies.changed(name_of(i), true);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(0))), std::nullopt);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(1))), name_of(1));
  // From then on it is the place of a walk, and stays known.
  cookies.changed(name_of(n), true);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(1))), name_of(1));
}

TEST(DirCookies, APlaceThatWasLookedForIsRemembered) {
  DirCookies cookies(kSeed);
  cookies.found("place");
  EXPECT_EQ(cookies.resume(after(cookies, "place")), "place");
}

}  // namespace
}  // namespace lsmfs

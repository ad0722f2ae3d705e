#include "tree/dir_cookies.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <vector>

#include "tree/allocated_bytes.h"

namespace lsmfs::test::dir_cookies_test {
namespace {

constexpr std::uint64_t kSeed = 42;

std::string name_of(std::size_t i) { return fmt::format("{:07}", i); }

void give(DirCookies& cookies, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) cookies.given(name_of(i) + '\0');
}

class Cookies : public testing::Test {
 protected:
  DirCookies::Memory memory;
  DirCookies cookies{kSeed, memory};
};

// A cookie after this name.
std::uint64_t after(DirCookies& cookies, std::string_view name) {
  auto walk = cookies.walk_at(0);
  return cookies.pass(walk, name, false);
}

TEST_F(Cookies, AreLargePositiveNumbersUnlikeTheCallersOwn) {
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

TEST_F(Cookies, TellAWalkAllThatItIsToldApartBy) {
  cookies.changed("x", false);
  auto walk = cookies.walk_at(0);
  for (std::size_t i = 0; i < 1000; ++i) {
    const std::string name(1 + i % 255, 'n');
    const std::uint64_t c = cookies.pass(walk, name, false);
    const auto same = cookies.walk_at(c);
    EXPECT_EQ(same.generation, walk.generation);
    EXPECT_EQ(same.in_page, walk.in_page);
    EXPECT_TRUE(cookies.match(c)(name));
    EXPECT_FALSE(cookies.match(c)(name + "x"));
  }
}

TEST_F(Cookies, AreTheSameInEveryWalkUntilAChangeAndOthersInAnotherMount) {
  DirCookies others(kSeed + 1, memory);
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

TEST_F(Cookies, KnowWhenTheKernelsListingFillsItsPages) {
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

TEST_F(Cookies, RememberTheNamesThatWereGivenLately) {
  EXPECT_EQ(cookies.resume(0), "");
  give(cookies, 0, 1000);
  for (std::size_t i : {std::size_t{999}, std::size_t{998}, 1000 - DirCookies::kRecent}) EXPECT_EQ(cookies.resume(after(cookies, name_of(i))), name_of(i));
  EXPECT_EQ(cookies.resume(after(cookies, name_of(999 - DirCookies::kRecent))), std::nullopt);
  EXPECT_EQ(cookies.resume(after(cookies, "never given")), std::nullopt);
}

TEST_F(Cookies, AWalkThatIsSlowIsRememberedWhileOthersPass) {
  cookies.resume(0);
  cookies.given(std::string("slow\0", 5));
  for (std::size_t walk = 1; walk < DirCookies::kRuns; ++walk) {
    cookies.resume(0);
    give(cookies, 0, 2000);
  }
  EXPECT_EQ(cookies.resume(after(cookies, "slow")), "slow");
  cookies.resume(0);  // in place of the one that was used least
  give(cookies, 0, 10);
  EXPECT_EQ(cookies.resume(after(cookies, "slow")), "slow");
}

TEST_F(Cookies, RememberTheNamesThatWereRemovedLately) {
  const std::size_t n = DirCookies::kRemoved + 1;
  for (std::size_t i = 0; i < n; ++i) cookies.changed(name_of(i), true);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(0))), std::nullopt);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(1))), name_of(1));
  // From then on it is the place of a walk, and stays known.
  cookies.changed(name_of(n), true);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(1))), name_of(1));
}

TEST_F(Cookies, APlaceThatWasLookedForIsRemembered) {
  cookies.found("place");
  EXPECT_EQ(cookies.resume(after(cookies, "place")), "place");
}

TEST_F(Cookies, OfAWalkThatHasEndedAreFoundByGoingThroughTheDirectory) {
  cookies.resume(0);
  cookies.given(std::string("slow\0", 5));
  cookies.resume(0);
  give(cookies, 0, 300);
  const std::size_t both = memory.bytes();
  cookies.ended();
  EXPECT_LT(memory.bytes(), both / 100);
  EXPECT_EQ(cookies.resume(after(cookies, name_of(299))), std::nullopt);
  EXPECT_EQ(cookies.resume(after(cookies, "slow")), "slow");
}

TEST_F(Cookies, OfAllDirectoriesTakeLittleMemory) {
  const std::size_t before = allocated_bytes();
  std::vector<std::unique_ptr<DirCookies>> directories;
  for (int i = 0; i < 500; ++i) {
    DirCookies& directory = *directories.emplace_back(std::make_unique<DirCookies>(kSeed, memory));
    for (int walk = 0; walk < 20; ++walk) {
      directory.resume(0);
      give(directory, 0, 300);
    }
  }
  EXPECT_LT(allocated_bytes() - before, DirCookies::Memory::kMost * 3 / 2);
  EXPECT_LE(memory.bytes(), DirCookies::Memory::kMost);
  EXPECT_GT(memory.bytes(), DirCookies::Memory::kMost / 2);
  // What was listed lately is remembered, and what was not can be again.
  const auto place = after(cookies, name_of(299));
  EXPECT_EQ(directories.back()->resume(place), name_of(299));
  EXPECT_EQ(directories.front()->resume(place), std::nullopt);
  directories.front()->found(name_of(299));
  EXPECT_EQ(directories.front()->resume(place), name_of(299));
  directories.clear();
  EXPECT_EQ(memory.bytes(), 0u);
}

}  // namespace
}  // namespace lsmfs::test::dir_cookies_test

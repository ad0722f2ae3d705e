#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "tree/harness.h"

namespace lsmfs::test {
namespace {

TEST(DirectoryWalk, GivesNamesInByteOrderInPiecesOfAnySize) {
  Harness h;
  std::vector<std::string> names;
  for (int i = 0; i < 300; ++i) names.push_back(fmt::format("{:c}{}", 1 + i % 40 + (i % 40 >= 46), i));
  for (auto& n : names) h.create(kRootIno, n);
  std::sort(names.begin(), names.end());
  for (std::size_t piece : {1u, 2u, 3u, 7u, 300u, 1000u}) EXPECT_EQ(h.list(kRootIno, piece), names) << piece;
  h.remount();
  EXPECT_EQ(h.list(kRootIno, 13), names);
}

TEST(DirectoryWalk, NeitherLosesNorRepeatsWhatStaysWhileOthersComeAndGo) {
  Harness h;
  for (int i = 0; i < 1000; ++i) h.create(kRootIno, fmt::format("{:04}{}", i, i % 2 ? "stays" : "goes"));
  std::vector<std::string> stayed;
  std::uint64_t cookie = 0;
  int step = 0;
  for (bool more = true; more; ++step) {
    more = false;
    int given = 0;
    std::vector<std::string> piece;
    ASSERT_TRUE(h.tree().readdir(kRootIno, cookie, false, [&](const DirEntry& e) {
      if (given++ == 10) return false;
      more = true;
      cookie = e.next_cookie;
      piece.emplace_back(e.name);
      return true;
    }, Wait::yes));
    for (auto& name : piece) {
      if (name.ends_with("stays")) stayed.push_back(name);
      // As rm -r does: what has just been listed goes, the entry that the cookie is after included.
      if (name.ends_with("goes")) {
        ASSERT_TRUE(h.tree().unlink(kRootIno, name, Wait::yes));
      }
    }
    h.create(kRootIno, fmt::format("{:04}new", 999 - step * 5));
    h.create(kRootIno, fmt::format("{:04}new2", step * 3));
  }
  EXPECT_EQ(stayed.size(), 500u);
  EXPECT_TRUE(std::is_sorted(stayed.begin(), stayed.end()));
  EXPECT_EQ(std::unique(stayed.begin(), stayed.end()), stayed.end());
}

// The kernel keeps one walk's listing and looks for the places of others in it.
TEST(DirectoryWalk, EveryWalkHasTheSameCookies) {
  Harness h;
  for (int i = 0; i < 100; ++i) h.create(kRootIno, fmt::format("{:03}", i));
  const auto cookies = [&](bool plus) {
    std::vector<std::uint64_t> found;
    EXPECT_TRUE(h.tree().readdir(kRootIno, 0, plus, [&](const DirEntry& e) { found.push_back(e.next_cookie); return true; }, Wait::yes));
    return found;
  };
  const auto first = cookies(false);
  EXPECT_EQ(first.size(), 102u);
  EXPECT_EQ(cookies(true), first);
  ASSERT_TRUE(h.tree().unlink(kRootIno, "050", Wait::yes));
  auto rest = first;
  rest.erase(rest.begin() + 52);
  EXPECT_EQ(cookies(false), rest);
}

TEST(DirectoryWalk, GoesOnAtAnyPlaceHoweverLongAgoItWasThere) {
  Harness h;
  const int n = 3000;
  const auto name_of = [](int i) { return fmt::format("{:05}", i); };
  for (int i = 0; i < n; ++i) h.create(kRootIno, name_of(i));
  std::vector<std::uint64_t> places;
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, false, [&](const DirEntry& e) { places.push_back(e.next_cookie); return true; }, Wait::yes));
  const auto next = [&](std::uint64_t place) {
    std::string name;
    const auto done = both_ways([&](Wait wait) {
      return h.tree().readdir(kRootIno, place, false, [&](const DirEntry& e) { name = e.name; return false; }, wait);
    });
    return done ? name : fmt::format("error {}", done.error().code);
  };
  for (int i : {0, 1, 500, 1500, n - 2}) EXPECT_EQ(next(places[static_cast<std::size_t>(i) + 2]), name_of(i + 1));
  // Also when the entry there is gone, and others are where it was.
  for (int i : {7, 8, 700}) ASSERT_TRUE(h.tree().unlink(kRootIno, name_of(i), Wait::yes));
  ASSERT_TRUE(h.tree().rename(kRootIno, name_of(1700), kRootIno, "new", 0, Wait::yes));
  h.create(kRootIno, name_of(700) + "new");
  EXPECT_EQ(next(places[2 + 7]), name_of(9));
  EXPECT_EQ(next(places[2 + 700]), name_of(700) + "new");
  EXPECT_EQ(next(places[2 + 1700]), name_of(1701));
  // What is known of no entry at all is no place.
  EXPECT_EQ(next(places[2 + 7] ^ 1), fmt::format("error {}", ESTALE));
}

TEST(DirectoryWalk, WithAttributesRaisesLookupsOfWhatWasTakenOnly) {
  Harness h;
  h.create(kRootIno, "a", "1");
  h.create(kRootIno, "b", "22");
  h.remount();
  std::vector<DirEntry> seen;
  Ino a;
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, true, [&](const DirEntry& e) {
    if (e.name == "b") return false;
    if (e.name == "a") {
      a = e.attr.ino;
      EXPECT_EQ(e.attr.size, 1u);
      EXPECT_EQ(e.attr.mode, S_IFREG | 0644u);
    }
    return true;
  }, Wait::yes));
  EXPECT_EQ(h.read(a), "1");
  h.tree().forget(a, 1);
  ASSERT_TRUE(h.tree().sync());  // until its new access time is written, the inode is held
  EXPECT_EQ(code(h.tree().getattr(a, Wait::yes)), ESTALE);
  EXPECT_EQ(code(h.tree().getattr(Ino{a.v + 1}, Wait::yes)), ESTALE);
}

TEST(DirectoryWalk, TheLastCookieAnswersWithoutAScan) {
  Harness h;
  h.create(kRootIno, "only");
  std::uint64_t last = 0;
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, false, [&](const DirEntry& e) { last = e.next_cookie; return true; }, Wait::yes));
  int given = 0;
  // The background thread may have the tree for a moment: then it answers at the second try.
  ASSERT_TRUE(both_ways([&](Wait w) { return h.tree().readdir(kRootIno, last, false, [&](const DirEntry&) { return ++given; }, w); }));
  EXPECT_EQ(given, 0);
  const Ino empty = h.mkdir(kRootIno, "empty");
  ASSERT_TRUE(both_ways([&](Wait w) { return h.tree().readdir(empty, 0, false, [&](const DirEntry&) { return ++given; }, w); }));
  EXPECT_EQ(given, 2);
}

}  // namespace
}  // namespace lsmfs::test

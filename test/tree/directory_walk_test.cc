#include <gtest/gtest.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "clock.h"
#include "kv/store_decorator.h"
#include "tree/allocated_bytes.h"
#include "tree/harness.h"
#include "until.h"

namespace lsmfs::test::directory_walk_test {
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
    ASSERT_TRUE(h.tree().readdir(kRootIno, cookie, AttrsOf::none, [&](const DirEntry& e) {
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

// A store that counts the walks ahead over names.
class WatchedStore final : public StoreDecorator {
 public:
  WatchedStore(std::unique_ptr<Store> inner, std::atomic<int>& walks) : StoreDecorator(std::move(inner)), walks_(walks) {}
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    if (family == Family::names && options.readahead.v > 0 && options.upper.empty()) ++walks_;
    return inner().cursor(family, options);
  }

 private:
  std::atomic<int>& walks_;
};

TEST(DirectoryWalk, ALargeDirectoryIsReadAheadOfItsListing) {
  SteppedClock clock;  // the walk ahead does not end because the machine is slow
  std::atomic<int> walks = 0;
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .clock = &clock}, {.store = [&](std::unique_ptr<Store> inner) {
              return std::make_unique<WatchedStore>(std::move(inner), walks);
            }});
  const Ino dir = h.mkdir(kRootIno, "d");
  for (int i = 0; i < 20'000; ++i) h.create(dir, fmt::format("{:05}", i));
  h.remount();
  const Ino there = h.walk("d");
  std::uint64_t cookie = 0;
  int given = 0;
  const auto list = [&](Wait wait) {
    given = 0;
    return code(h.tree().readdir(there, cookie, AttrsOf::all, [&](const DirEntry& e) {
      if (given == 50) return false;
      ++given;
      cookie = e.next_cookie;
      return true;
    }, wait));
  };
  int entries = 0;
  for (; entries < 100; entries += given) ASSERT_EQ(list(Wait::yes), 0);
  ASSERT_TRUE(until([&] { return walks == 1; }));
  // At first the walk is ahead by so little that it rests where the listing has to stop.
  for (; entries < 2000; entries += given) ASSERT_EQ(list(Wait::yes), 0);
  // From here on no listing reads anything from the device.
  for (bool more = true; more; entries += given) {
    ASSERT_TRUE(until([&] { return list(Wait::no) != EAGAIN; })) << "after " << entries << " entries";
    more = given > 0;
  }
  EXPECT_EQ(entries, 20'002);
  EXPECT_EQ(walks, 1);
}

struct Given {
  std::string name;
  Ino ino;
  std::uint64_t next_cookie;
};

// All that a walk gives from `cookie` on.
std::vector<Given> rest_of(Tree& tree, std::uint64_t cookie = 0) {
  std::vector<Given> out;
  for (bool more = true; more;) {
    more = false;
    EXPECT_TRUE(both_ways([&](Wait wait) {
      return tree.readdir(kRootIno, cookie, AttrsOf::none, [&](const DirEntry& e) {
        out.push_back({std::string(e.name), e.attr.ino, e.next_cookie});
        cookie = e.next_cookie;
        return more = true;
      }, wait);
    }));
  }
  return out;
}

std::vector<std::uint64_t> cookies_of(const std::vector<Given>& entries) {
  std::vector<std::uint64_t> out;
  for (const Given& entry : entries) out.push_back(entry.next_cookie);
  return out;
}

// The kernel keeps one walk's listing and looks for the places of others in it.
TEST(DirectoryWalk, HasTheSameCookiesAsOthersUntilTheDirectoryChanges) {
  Harness h;
  for (int i = 0; i < 100; ++i) h.create(kRootIno, fmt::format("{:03}", i));
  const auto first = cookies_of(rest_of(h.tree()));
  ASSERT_EQ(first.size(), 102u);
  EXPECT_EQ(cookies_of(rest_of(h.tree())), first);
  ASSERT_TRUE(h.tree().unlink(kRootIno, "099", Wait::yes));
  std::vector rest(first.begin() + 51, first.begin() + 101);
  rest.back() = first.back();  // what was the last but one is the last
  EXPECT_EQ(cookies_of(rest_of(h.tree(), first[50])), rest) << "of a walk that goes on";
  const auto second = cookies_of(rest_of(h.tree()));
  for (std::size_t i = 2; i < 100; ++i) EXPECT_NE(second[i], first[i]) << i;
}

// A page of 4096 bytes holds 128 names of up to 8 bytes, the dots among them.
TEST(DirectoryWalk, NeverEndsWhereTheKernelsListingFillsItsPages) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t n = 2 * page / 32 - 2;
  Harness h;
  const auto name_of = [](std::size_t i) { return fmt::format("{:07}", i); };
  for (std::size_t i = 0; i < n - 1; ++i) h.create(kRootIno, name_of(i));
  EXPECT_EQ(rest_of(h.tree()).size(), n + 1);
  h.create(kRootIno, name_of(n - 1));
  const auto full = rest_of(h.tree());
  ASSERT_EQ(full.size(), n + 3);
  EXPECT_EQ(full.back().name, ".");
  EXPECT_EQ(full.back().ino, Ino{});
  EXPECT_EQ(rest_of(h.tree(), full[n].next_cookie).size(), 2u);
  EXPECT_EQ(rest_of(h.tree(), full[n + 1].next_cookie).size(), 1u);
  EXPECT_EQ(rest_of(h.tree(), full[n + 2].next_cookie).size(), 0u);
  h.create(kRootIno, name_of(n));
  const auto over = rest_of(h.tree());
  EXPECT_EQ(over.size(), n + 3);
  EXPECT_NE(over.back().ino, Ino{});
  // A walk that was told of more, which is gone.
  ASSERT_TRUE(h.tree().unlink(kRootIno, name_of(n), Wait::yes));
  EXPECT_EQ(rest_of(h.tree(), over[n + 1].next_cookie).size(), 1u);
}

TEST(DirectoryWalk, GoesOnAtAnyPlaceHoweverLongAgoItWasThere) {
  Harness h;
  const int n = 3000;
  const auto name_of = [](int i) { return fmt::format("{:05}", i); };
  for (int i = 0; i < n; ++i) h.create(kRootIno, name_of(i));
  const std::vector<std::uint64_t> places = cookies_of(rest_of(h.tree()));
  const auto next = [&](std::uint64_t place) {
    std::string name;
    const auto done = both_ways([&](Wait wait) {
      return h.tree().readdir(kRootIno, place, AttrsOf::none, [&](const DirEntry& e) { name = e.name; return false; }, wait);
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

TEST(DirectoryWalk, GivesTheSameInWhateverOrderDirectoriesAreListed) {
  struct Directory {
    Ino ino;
    std::map<std::string, std::size_t> entries;  // with the places of directories; files: 0
    std::vector<std::string> names() const {
      std::vector<std::string> out;
      for (const auto& [name, place] : entries) out.push_back(name);
      return out;
    }
  };
  Harness h;
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  std::vector<Directory> directories{{kRootIno, {}}};
  const auto list = [&](const Directory& directory, std::size_t at_a_time) { EXPECT_EQ(h.list(directory.ino, at_a_time), directory.names()); };
  const std::function<void(std::size_t, std::size_t)> walk = [&](std::size_t place, std::size_t at_a_time) {
    list(directories[place], at_a_time);
    for (const auto& [name, inner] : directories[place].entries) {
      if (inner > 0) walk(inner, at_a_time);
    }
  };
  for (int step = 0; step < 2000; ++step) {
    const std::size_t place = below(directories.size());
    auto& [ino, entries] = directories[place];
    const std::string name = fmt::format("{}{}", below(10), step);
    switch (below(8)) {
      case 0: {
        entries[name] = directories.size();
        const Ino made = h.mkdir(ino, name);
        // Rows of its own before those of its entries.
        if (below(3) == 0) { ASSERT_TRUE(h.tree().setxattr(made, "user.large", std::string(3000, 'x'), 0, Wait::yes)); }
        directories.push_back({made, {}});
        break;
      }
      case 1:
      case 2:
        entries[name] = 0;
        h.create(ino, name);
        break;
      case 3:
        if (auto file = std::ranges::find_if(entries, [](const auto& entry) { return entry.second == 0; }); file != entries.end()) {
          ASSERT_TRUE(h.tree().unlink(ino, file->first, Wait::yes));
          entries.erase(file);
        }
        break;
      case 4:
        ASSERT_TRUE(h.tree().sync());
        break;
      case 5:
        if (step % 10 == 0) walk(0, below(2) ? 1000 : 2);
        break;
      default:
        list(directories[place], below(3) ? 1000 : 2);
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << step;
  }
}

// While the kernel holds on to them all.
TEST(DirectoryWalk, LeavesLittleInMemoryWhenItHasEnded) {
  Harness h;
  std::vector<Ino> directories;
  for (int i = 0; i < 20; ++i) {
    const Ino dir = directories.emplace_back(h.mkdir(kRootIno, std::to_string(i)));
    for (int j = 0; j < 300; ++j) h.tree().forget(h.create(dir, fmt::format("{:05}", j)), 1);
  }
  const auto list_all = [&] {
    for (const Ino dir : directories) EXPECT_EQ(h.list(dir).size(), 300u);
  };
  list_all();
  ASSERT_TRUE(h.tree().sync());
  const std::size_t before = allocated_bytes();
  for (int walk = 1; walk < 20; ++walk) list_all();
  EXPECT_LT(allocated_bytes(), before + MiB);
}

TEST(DirectoryWalk, WithAttributesRaisesLookupsOfWhatWasTakenOnly) {
  Harness h;
  h.create(kRootIno, "a", "1");
  h.create(kRootIno, "b", "22");
  h.remount();
  std::vector<DirEntry> seen;
  Ino a;
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, AttrsOf::all, [&](const DirEntry& e) {
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

TEST(DirectoryWalk, WithAttributesOfDirectoriesHoldsOnToThemAlone) {
  Harness h;
  const Ino dir = h.mkdir(kRootIno, "dir"), file = h.create(kRootIno, "file", "1"), linked = h.create(kRootIno, "linked", "2");
  ASSERT_TRUE(h.tree().link(linked, dir, "second", Wait::yes));
  h.remount();
  for (const bool held : {false, true}) {
    std::map<std::string, std::pair<Ino, std::uint32_t>> names;
    ASSERT_TRUE(h.tree().readdir(kRootIno, 0, AttrsOf::directories, [&](const DirEntry& e) {
      names.emplace(e.name, std::pair(e.attr.ino, e.attr.mode & S_IFMT));
      EXPECT_EQ(e.whole, e.name == "dir") << e.name;
      if (e.name == "dir") {
        EXPECT_EQ(e.attr.mode, S_IFDIR | 0755u);
        EXPECT_EQ(e.attr.nlink, 2u);
        EXPECT_EQ(e.held, held);
      }
      return true;
    }, Wait::yes));
    EXPECT_EQ(names["file"], std::pair(file, std::uint32_t{S_IFREG}));
    EXPECT_EQ(names["linked"], std::pair(linked, std::uint32_t{S_IFREG}));
    EXPECT_EQ(names["dir"], std::pair(dir, std::uint32_t{S_IFDIR}));
  }
  EXPECT_EQ(code(h.tree().getattr(dir, Wait::yes)), 0);
  EXPECT_EQ(code(h.tree().getattr(file, Wait::yes)), ESTALE);
  EXPECT_EQ(code(h.tree().getattr(linked, Wait::yes)), ESTALE);
  h.tree().forget(dir, 2);
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(code(h.tree().getattr(dir, Wait::yes)), ESTALE);
}

TEST(DirectoryWalk, TheLastCookieAnswersWithoutAScan) {
  Harness h;
  h.create(kRootIno, "only");
  std::uint64_t last = 0;
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, AttrsOf::none, [&](const DirEntry& e) { last = e.next_cookie; return true; }, Wait::yes));
  int given = 0;
  // The background thread may have the tree for a moment: then it answers at the second try.
  ASSERT_TRUE(both_ways([&](Wait w) { return h.tree().readdir(kRootIno, last, AttrsOf::none, [&](const DirEntry&) { return ++given; }, w); }));
  EXPECT_EQ(given, 0);
  const Ino empty = h.mkdir(kRootIno, "empty");
  ASSERT_TRUE(both_ways([&](Wait w) { return h.tree().readdir(empty, 0, AttrsOf::none, [&](const DirEntry&) { return ++given; }, w); }));
  EXPECT_EQ(given, 2);
}

}  // namespace
}  // namespace lsmfs::test::directory_walk_test

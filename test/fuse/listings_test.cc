// Which attributes listings bring: by themselves, and as programs see them.
#include <dirent.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "fuse/mounted.h"
#include "fuse/serving/listings.h"
#include "until.h"

namespace lsmfs::test::listings_test {
namespace {

constexpr std::uint64_t kFinder = 70, kOther = 71;
constexpr Ino kA{10}, kB{11}, kC{12}, kD{13}, kFile{100}, kSecond{101};

Attr file(Ino ino) {
  Attr attr;
  attr.ino = ino;
  attr.mode = S_IFREG | 0644;
  return attr;
}

// Lists A, B and C, and looks at nothing.
void want_names(Listings& listings, std::uint64_t caller = kFinder) {
  (void)listings.plan(caller, kA, true);
  ASSERT_TRUE(listings.plan(caller, kB, true).probes);
  listings.withheld(caller, kB, kFile);
  ASSERT_EQ(listings.plan(caller, kC, true).attrs, AttrsOf::directories);
}

TEST(ListingsOf, ACallerBringAllUntilItIsKnown) {
  Listings listings;
  for (const Ino dir : {kA, kB, kC, kD}) EXPECT_EQ(listings.plan(kFinder, dir, true).attrs, AttrsOf::all) << "no file could be withheld";
  for (const Ino dir : {kA, kB, kC, kD}) {
    const auto plan = listings.plan(0, dir, true);
    EXPECT_EQ(plan.attrs, AttrsOf::all);
    EXPECT_FALSE(plan.probes) << "it may be anybody";
  }
}

TEST(ListingsOf, ASingleDirectoryAreNotProbed) {
  Listings listings;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(listings.plan(kFinder, kA, true).probes);
  EXPECT_FALSE(listings.plan(kFinder, kA, false).probes);
}

TEST(ListingsOf, WhoLooksAtNothingBringDirectoriesOnly) {
  Listings listings;
  want_names(listings);
  EXPECT_EQ(listings.plan(kFinder, kC, false).attrs, AttrsOf::directories);
  EXPECT_EQ(listings.plan(kFinder, kB, false).attrs, AttrsOf::all) << "as that listing began";
  EXPECT_EQ(listings.plan(kFinder, kD, true).attrs, AttrsOf::directories);
  EXPECT_EQ(listings.plan(kOther, kC, true).attrs, AttrsOf::all);
}

TEST(ListingsOf, WhoLooksAtTheFileBringAll) {
  Listings listings;
  (void)listings.plan(kFinder, kA, true);
  (void)listings.plan(kFinder, kB, true);
  listings.withheld(kFinder, kB, kFile);
  (void)listings.looked_up(kB, file(kFile));
  const auto plan = listings.plan(kFinder, kC, true);
  EXPECT_EQ(plan.attrs, AttrsOf::all);
  EXPECT_FALSE(plan.probes);
}

TEST(ListingsOf, ADirectoryThatIsListedOnceMoreTellNothing) {
  Listings listings;
  (void)listings.plan(kFinder, kA, true);
  (void)listings.plan(kFinder, kB, true);
  listings.withheld(kFinder, kB, kFile);
  EXPECT_EQ(listings.plan(kFinder, kB, true).attrs, AttrsOf::all);
}

TEST(ListingsOf, AWrongGuessBringAllFromTheFirstFileOn) {
  Listings listings;
  want_names(listings);
  Attr dir = file(kD);
  dir.mode = S_IFDIR | 0755;
  EXPECT_TRUE(listings.looked_up(kC, dir).empty());
  EXPECT_EQ(listings.plan(kFinder, kC, false).attrs, AttrsOf::directories) << "directories are looked up by who wants names, too";
  EXPECT_TRUE(listings.looked_up(kC, file(kSecond)).empty());
  EXPECT_EQ(listings.plan(kFinder, kC, false).attrs, AttrsOf::all);
  EXPECT_EQ(listings.plan(kFinder, kD, true).attrs, AttrsOf::all);
}

TEST(ListingsOf, NamesAreForgottenWhenManyFilesInThemAreLookedUp) {
  Listings listings;
  want_names(listings);
  (void)listings.plan(kFinder, kD, true);
  for (std::size_t i = 1; i < Listings::kLookedUpMost; ++i) ASSERT_TRUE(listings.looked_up(kC, file(Ino{1000 + i})).empty());
  EXPECT_TRUE(listings.looked_up(kA, file(kSecond)).empty()) << "its listing brought all";
  EXPECT_EQ(listings.looked_up(kD, file(kSecond)), (std::vector<Ino>{kC, kD}));
  EXPECT_TRUE(listings.looked_up(kD, file(kSecond)).empty());
}

TEST(ListingsOf, NamesAreForgottenWhenThereAreTooMany) {
  Listings listings;
  want_names(listings);
  std::vector<Ino> old;
  for (std::uint64_t i = 0; old.empty() && i <= Listings::kBareMost; ++i) old = listings.plan(kFinder, Ino{1000 + i}, true).old;
  ASSERT_EQ(old.size(), Listings::kBareMost / 2);
  EXPECT_EQ(old.front(), kC) << "the first one";
}

TEST(ListingsOf, AnotherCallerInTheSamePlaceAreItsOwn) {
  Listings listings;
  want_names(listings);
  EXPECT_EQ(listings.plan(kFinder + 64, kD, true).attrs, AttrsOf::all);
  EXPECT_EQ(listings.plan(kFinder, kD, true).attrs, AttrsOf::all) << "it has lost its place";
}

// As programs see it: ten directories of twenty files, and a directory in each.
class Walks : public MountTest {
 protected:
  static constexpr int kDirs = 10, kFiles = 20;

  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    mounted_ = std::make_unique<Mounted>(tree_);
    for (int i = 0; i < kDirs; ++i) {
      ASSERT_EQ(::mkdir(dir(i).c_str(), 0755), 0);
      for (int k = 0; k < kFiles; ++k) ASSERT_EQ(write_file(dir(i) + fmt::format("/{:02}", k), "x"), 0);
      ASSERT_EQ(::mkdir((dir(i) + "/sub").c_str(), 0755), 0);
    }
    forget_all();
  }
  // The server is told later than the kernel forgets; and of what it takes for known, no attributes are withheld.
  void forget_all() {
    EXPECT_TRUE(until([&] {
      caches_.drop();
      return tree_.total_lookups() == 0;
    }));
  }
  std::string dir(int i) const { return mounted_->path(fmt::format("dir{}", i)); }
  // As a program that has just been started.
  void as_another(const std::function<void()>& program) { std::thread(program).join(); }
  // Lists all directories; of every so many files it looks at one; 0: at none. And at each directory.
  void walk(int every) {
    for (int i = 0; i < kDirs; ++i) walk_one(i, every);
  }
  void walk_one(int i, int every) {
    DIR* const listed = ::opendir(dir(i).c_str());
    ASSERT_NE(listed, nullptr);
    std::vector<std::pair<std::string, unsigned char>> names;
    while (const dirent* entry = ::readdir(listed)) names.emplace_back(entry->d_name, entry->d_type);
    ASSERT_EQ(names.size(), std::size_t{kFiles + 3});
    int files = 0;
    struct stat out {};
    for (const auto& [name, type] : names) {
      EXPECT_EQ(type, name.size() == 2 && name != ".." ? DT_REG : DT_DIR) << name;
      if (type != DT_DIR && (every == 0 || ++files % every != 0)) continue;
      EXPECT_EQ(::fstatat(::dirfd(listed), name.c_str(), &out, AT_SYMLINK_NOFOLLOW), 0);
    }
    ::closedir(listed);
  }
  std::uint64_t lookups_of(const std::function<void()>& program) {
    const auto before = mounted_->requests(FUSE_LOOKUP);
    as_another(program);
    return mounted_->requests(FUSE_LOOKUP) - before;
  }

  KernelCaches caches_;
  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;
};

TEST_F(Walks, ThatWantNamesAloneGetNoAttributesOfFiles) {
  EXPECT_LE(lookups_of([&] { walk(0); }), std::uint64_t{kDirs}) << "of the directories themselves";
  for (int i = 0; i < kDirs; ++i) {
    struct stat out {};
    const auto before = mounted_->requests(FUSE_LOOKUP);
    EXPECT_EQ(::stat((dir(i) + "/07").c_str(), &out), 0);
    EXPECT_EQ(mounted_->requests(FUSE_LOOKUP) - before, i < 2 ? 0u : 1u) << i;
    EXPECT_EQ(::stat((dir(i) + "/sub").c_str(), &out), 0);
    EXPECT_EQ(mounted_->requests(FUSE_LOOKUP) - before, i < 2 ? 0u : 1u) << i;
  }
}

TEST_F(Walks, ThatLookAtAllCostOneLookupMore) { EXPECT_LE(lookups_of([&] { walk(1); }), kDirs + 1u); }

TEST_F(Walks, ThatLookAtSomeCostSoManyLookupsAsOneDirectoryHas) { EXPECT_LE(lookups_of([&] { walk(5); }), kDirs + 1u + kFiles / 5); }

// The first one's listings are with the kernel, which gives them to the second one.
TEST_F(Walks, ThatLookAtAllAfterOneOfNamesCostABoundedNumberOfLookups) {
  as_another([&] { walk(0); });
  const auto spent = lookups_of([&] {
    for (int i = 0; i < kDirs; ++i) {
      walk_one(i, 1);
      mounted_->mount().kernel_cache().drain();
    }
  });
  EXPECT_GE(spent, Listings::kLookedUpMost);
  EXPECT_LE(spent, Listings::kLookedUpMost + kFiles + 1);
  forget_all();
  EXPECT_LE(lookups_of([&] { walk(1); }), kDirs + 1u);
}

TEST_F(Walks, OfNamesSeeWhatHasChanged) {
  as_another([&] {
    walk(0);
    const std::string last = dir(kDirs - 1);
    EXPECT_EQ(::rename((last + "/03").c_str(), (last + "/33").c_str()), 0);
    EXPECT_EQ(::unlink((last + "/04").c_str()), 0);
    EXPECT_EQ(write_file(last + "/44", "new"), 0);
    walk_one(kDirs - 1, 0);
    std::vector<std::string> names;
    DIR* const listed = ::opendir(last.c_str());
    ASSERT_NE(listed, nullptr);
    long tenth = 0;
    for (int i = 0; const dirent* entry = ::readdir(listed); ++i) {
      names.emplace_back(entry->d_name);
      if (i == 9) tenth = ::telldir(listed);
    }
    EXPECT_EQ(std::ranges::count(names, "33"), 1);
    EXPECT_EQ(std::ranges::count(names, "44"), 1);
    EXPECT_EQ(std::ranges::count(names, "03") + std::ranges::count(names, "04"), 0);
    ::seekdir(listed, tenth);
    std::vector<std::string> again;
    while (const dirent* entry = ::readdir(listed)) again.emplace_back(entry->d_name);
    EXPECT_EQ(again, std::vector<std::string>(names.begin() + 10, names.end()));
    ::closedir(listed);
  });
  EXPECT_EQ(read_file(dir(kDirs - 1) + "/44"), "new");
  EXPECT_EQ(read_file(dir(kDirs - 1) + "/33"), "x");
}

}  // namespace
}  // namespace lsmfs::test::listings_test

// Rows that are not in memory: who needs one waits for the device, and nobody else does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "gate.h"
#include "tree/cold_store.h"
#include "tree/harness.h"
#include "tree/held_store.h"
#include "tree/pass.h"

namespace lsmfs::test::cold_rows_test {
namespace {

class ColdRows : public testing::Test {
 protected:
  void SetUp() override {
    const Ino long_value = h_.create(kRootIno, "x", "x");
    ASSERT_TRUE(tree().setxattr(long_value, "user.long", kValue, 0, Wait::yes));
    for (int i = 0; i < kFiles; ++i) h_.create(kRootIno, fmt::format("f{:03}", i), std::string(5000, 'f'));
    const Ino linked = h_.create(kRootIno, "linked", "l");
    ASSERT_TRUE(tree().link(linked, kRootIno, "link", Wait::yes));
    for (const char* name : {"s", "t", "u"}) {
      const Ino sparse = h_.create(kRootIno, name);
      for (std::uint64_t block = 0; block < 40; block += 2) h_.write(sparse, block * kBlockSize, "s");
    }
    h_.between.store = [this](std::unique_ptr<Store> store) { return std::make_unique<ColdStore>(std::move(store), weather_); };
    weather_.cold = false;
    h_.remount();
    for (const char* name : {"x", "s", "t", "u", "f000"}) inodes_[name] = h_.walk(name);
    weather_.cold = true;
  }
  void TearDown() override { reads_.open(); }

  Tree& tree() { return h_.tree(); }
  std::vector<std::string> list(AttrsOf attrs) {
    std::vector<std::string> names;
    for (std::uint64_t cookie = 0;;) {
      const std::size_t before = names.size();
      const auto listed = tree().readdir(kRootIno, cookie, attrs, [&](const DirEntry& entry) {
        names.emplace_back(entry.name);
        cookie = entry.next_cookie;
        return names.size() < before + 100;
      }, Wait::yes);
      EXPECT_EQ(code(listed), 0);
      if (!listed || names.size() == before) return names;
    }
  }

  static constexpr int kFiles = 300;
  const std::string kValue = std::string(5000, 'v');
  Gate reads_{true};
  ColdStore::Weather weather_{.cold = false, .reads = &reads_};
  std::map<std::string, Ino> inodes_;
  Harness h_;
};

TEST_F(ColdRows, NobodyElseWaitsForTheDevice) {
  const auto all = [](const DirEntry&) { return true; };
  // The last one brings all inodes into memory.
  const std::pair<const char*, std::function<int()>> waiters[] = {
      {"lookup", [&] { return code(tree().lookup(kRootIno, "f001", Wait::yes)); }},
      {"lookup of a link", [&] { return code(tree().lookup(kRootIno, "link", Wait::yes)); }},
      {"getxattr", [&] { return code(tree().getxattr(inodes_["x"], "user.long", Wait::yes)); }},
      {"read", [&] {
         std::byte to[100];
         return code(tree().read(inodes_["f000"], ByteOffset{0}, to, Wait::yes));
       }},
      {"make", [&] { return code(tree().make(kRootIno, "new", {.mode = S_IFREG}, Wait::yes)); }},
      {"link", [&] { return code(tree().link(inodes_["f000"], kRootIno, "other", Wait::yes)); }},
      {"unlink", [&] { return code(tree().unlink(kRootIno, "f002", Wait::yes)); }},
      {"rename", [&] { return code(tree().rename(kRootIno, "f003", kRootIno, "f004", 0, Wait::yes)); }},
      {"cut", [&] { return code(tree().setattr(inodes_["s"], {.size = 5000}, Wait::yes)); }},
      {"punch", [&] { return code(tree().fallocate(inodes_["t"], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{0}, ByteCount{50'000}, Wait::yes)); }},
      {"write", [&] { return code(tree().write(inodes_["u"], ByteOffset{3 * kBlockSize}, as_bytes("u"), Wait::yes)); }},
      {"readdir", [&] { return code(tree().readdir(kRootIno, 0, AttrsOf::none, all, Wait::yes)); }},
      {"readdirplus", [&] { return code(tree().readdir(kRootIno, 0, AttrsOf::all, all, Wait::yes)); }},
  };
  for (const auto& [what, wait] : waiters) {
    SCOPED_TRACE(what);
    weather_.cold = false;
    const Ino dir = h_.mkdir(kRootIno, fmt::format("beside {}", what)), file = h_.create(dir, "file", "data");
    weather_.cold = true;
    reads_.shut();
    std::atomic<int> outcome = -1;
    std::jthread waiter([&] { outcome = wait(); });
    ASSERT_TRUE(reads_.await(1));
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().getattr(file, w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().lookup(dir, "file", w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().setattr(file, {.uid = 7u}, w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().write(file, ByteOffset{0}, as_bytes("more"), w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().unlink(dir, "file", w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().make(dir, "made", {.mode = S_IFREG}, w); })), 0);
    EXPECT_EQ(code(tree().sync()), 0);
    EXPECT_EQ(outcome, -1);
    reads_.open();
    waiter.join();
    EXPECT_EQ(outcome, 0);
  }
  weather_.cold = false;
  EXPECT_EQ(h_.check(), "");
}

// However small the cache is.
TEST_F(ColdRows, AreReadOnceAndUsed) {
  EXPECT_EQ(list(AttrsOf::all).size(), 2u + kFiles + 6);
  EXPECT_EQ(list(AttrsOf::none).size(), 2u + kFiles + 6);
  EXPECT_EQ(tree().getxattr(inodes_["x"], "user.long", Wait::yes).value(), kValue);
  EXPECT_EQ(code(tree().rename(kRootIno, "f010", kRootIno, "link", 0, Wait::yes)), 0);
  EXPECT_EQ(code(tree().rename(kRootIno, "f011", kRootIno, "f012", 0, Wait::yes)), 0);
  EXPECT_EQ(code(tree().setattr(inodes_["s"], {.size = 5000}, Wait::yes)), 0);
  EXPECT_EQ(code(tree().write(inodes_["u"], ByteOffset{2 * kBlockSize}, as_bytes(std::string(3 * kBlockSize, 'u')), Wait::yes)), 0);
  EXPECT_EQ(h_.attr(inodes_["u"]).blocks, 21 * kBlockSize / 512);
  weather_.cold = false;
  EXPECT_EQ(h_.check(), "");
}

// Of a walk that has ended nothing is remembered: who goes on with one of its cookies has the directory gone through.
TEST_F(ColdRows, APlaceInADirectoryIsLookedForWhileOthersGoOn) {
  std::vector<std::pair<std::uint64_t, std::string>> all;
  const auto list_from = [&](std::uint64_t cookie, std::string& first) {
    return tree().readdir(kRootIno, cookie, AttrsOf::none, [&](const DirEntry& entry) {
      if (first.empty()) first = entry.name;
      if (cookie == 0) all.emplace_back(entry.next_cookie, entry.name);
      return true;
    }, Wait::yes);
  };
  weather_.cold = false;
  std::string first;
  ASSERT_TRUE(list_from(0, first));
  ASSERT_EQ(all.size(), 2u + kFiles + 6);
  weather_.cold = true;
  reads_.shut();
  std::atomic<int> outcome = -1;
  std::jthread waiter([&, cookie = all[200].first] {
    first.clear();
    outcome = code(list_from(cookie, first));
  });
  ASSERT_TRUE(reads_.await(1));
  EXPECT_EQ(code(at_once([&](Wait w) { return tree().getattr(inodes_["s"], w); })), 0);
  EXPECT_EQ(code(at_once([&](Wait w) { return tree().unlink(kRootIno, "f000", w); })), 0) << "it is in memory";
  reads_.open();
  waiter.join();
  EXPECT_EQ(outcome, 0);
  EXPECT_EQ(first, all[201].second);
}

// A group is committed while rows are read for an operation. Nobody has noticed yet when the operation is begun again: it does so itself.
class SettledMeanwhile : public testing::Test {
 protected:
  void SetUp() override {
    h_.between.store = [this](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> {
      auto held = std::make_unique<HeldStore>(std::move(inner), commits_);
      held_ = held.get();
      return std::make_unique<ColdStore>(std::move(held), weather_);
    };
    dir_ = h_.mkdir(kRootIno, "dir");
    others_ = h_.mkdir(kRootIno, "others");
    const Ino file = h_.create(dir_, "name");
    ASSERT_TRUE(tree().link(file, kRootIno, "other", Wait::yes));
    ASSERT_TRUE(tree().link(file, kRootIno, "third", Wait::yes));
    h_.remount();
    ASSERT_EQ(h_.walk("dir"), dir_);
    ASSERT_EQ(h_.walk("others"), others_);
  }
  void TearDown() override { commits_.open(); }

  Tree& tree() { return h_.tree(); }
  void begin() {
    ASSERT_TRUE(tree().sync());
    commits_before_ = held_->commits();
  }
  // So that what was changed since begin() is passed on.
  void fill_the_group() {
    for (int i = 0; i < 1000 && held_->commits() == commits_before_; ++i) {
      const auto made = at_once([&](Wait w) { return tree().make(others_, fmt::format("{}", i), {.mode = S_IFREG}, w); });
      ASSERT_TRUE(made);
      tree().forget(made->ino, 1);
    }
  }
  void end_commit() {
    held_->release();
    ASSERT_TRUE(clock_.await_waiting(kTreeThreads));
  }

  SteppedClock clock_;
  Gate commits_{true};
  ColdStore::Weather weather_{.cold = false};
  HeldStore* held_ = nullptr;
  int commits_before_ = 0;
  Ino dir_, others_;
  Harness h_{ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .clock = &clock_}};
};

TEST_F(SettledMeanwhile, AFileOfSeveralNamesKeepsCountOfThem) {
  begin();
  const Ino file = h_.walk("other");
  held_->hold();
  ASSERT_TRUE(tree().unlink(kRootIno, "other", Wait::yes));
  tree().forget(file, 1);
  fill_the_group();
  ASSERT_TRUE(held_->await_waiting());
  int read = 0;
  weather_.after_get = [&](std::string_view) {
    if (++read == 1) end_commit();
  };
  weather_.cold = true;
  std::uint32_t nlink = 0;
  EXPECT_EQ(code(tree().readdir(dir_, 0, AttrsOf::all, [&](const DirEntry& entry) {
    if (entry.name == "name") nlink = entry.attr.nlink;
    return true;
  }, Wait::yes)), 0);
  EXPECT_GE(read, 1);
  EXPECT_EQ(nlink, 2u);
  weather_.cold = false;
  EXPECT_EQ(h_.check(), "");
}

TEST_F(SettledMeanwhile, ANameIsGivenOnce) {
  begin();
  bool made = false;
  weather_.after_get = [&](std::string_view) {
    if (std::exchange(made, true)) return;
    weather_.cold = false;
    tree().forget(h_.make(dir_, "new", S_IFREG), 1);
    fill_the_group();
    end_commit();
    weather_.cold = true;
  };
  weather_.cold = true;
  EXPECT_EQ(code(tree().make(dir_, "new", {.mode = S_IFREG}, Wait::yes)), EEXIST);
  EXPECT_TRUE(made);
  weather_.cold = false;
  EXPECT_EQ(h_.check(), "");
}

}  // namespace
}  // namespace lsmfs::test::cold_rows_test

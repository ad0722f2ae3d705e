// Rows that come and go in one place, as the mails of a queue do: those that are gone must not slow down who comes later.
// A cursor passes over what was erased until that is merged away, so what walks takes longer the more there was. How many rows it
// passes over is counted, not how long that takes.
#include <gtest/gtest.h>
#include <rocksdb/perf_context.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>

#include "kv/cursor.h"
#include "tree/harness.h"
#include "tree/record.h"
#include "until.h"

namespace lsmfs::test::coming_and_going_test {
namespace {

constexpr int kThere = 100, kGone = 20'000;

// By cursors of this thread, so far.
std::uint64_t passed_over() {
  const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
  return counts.internal_delete_skipped_count + counts.internal_key_skipped_count;
}

std::string name(int number) { return "user." + std::to_string(1'000'000 + number); }

class ComingAndGoing : public testing::Test {
 protected:
  // So many come, and as many go, the oldest first; kThere stay. Each is in the store before it goes.
  void come_and_go(int many, const std::function<void(int)>& make, const std::function<void(int)>& remove) {
    for (int i = 0; i < many; ++i, ++next_) {
      make(next_);
      if (next_ % (kThere / 2) == 0) {
        EXPECT_TRUE(h_.tree().sync());
      }
      if (next_ >= kThere) remove(next_ - kThere);
    }
    EXPECT_TRUE(h_.tree().sync());
  }
  // Who looks at all that is there passes over little, if not at once, then when that has been merged away for it: all but so few that
  // nobody is told of them.
  void expect_few_passed(const std::function<void()>& look) {
    EXPECT_TRUE(until([&] {
      const std::uint64_t before = passed_over();
      look();
      return passed_over() - before < kv::kPassedAtOnce + kThere;
    }));
  }

  Harness h_;
  int next_ = 0;
};

TEST_F(ComingAndGoing, NamesOfADirectoryAreListedAsIfThereHadBeenNoOthers) {
  const Ino queue = h_.mkdir(kRootIno, "queue");
  for (int again = 0; again < 2; ++again) {
    come_and_go(
        kGone,
        [&](int i) {
          const Ino file = h_.create(queue, name(i), "a mail");
          h_.tree().forget(file, 1);
        },
        [&](int i) { EXPECT_TRUE(both_ways([&](Wait w) { return h_.tree().unlink(queue, name(i), w); })); });
    expect_few_passed([&] { EXPECT_EQ(h_.list(queue).size(), std::size_t{kThere}); });
  }
}

TEST_F(ComingAndGoing, AttributesOfAFileAreNotLookedFor) {
  const Ino file = h_.create(kRootIno, "file");
  const std::string value(2 * kXattrInlineMax, 'v');  // which has a row of its own
  const std::uint64_t before = passed_over();
  come_and_go(
      kGone, [&](int i) { EXPECT_TRUE(both_ways([&](Wait w) { return h_.tree().setxattr(file, name(i), value, 0, w); })); },
      [&](int i) { EXPECT_TRUE(both_ways([&](Wait w) { return h_.tree().removexattr(file, name(i), w); })); });
  const auto names = both_ways([&](Wait w) { return h_.tree().listxattr(file, w); });
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ(std::ranges::count(*names, '\0'), kThere);
  EXPECT_TRUE(both_ways([&](Wait w) { return h_.tree().unlink(kRootIno, "file", w); }));
  h_.tree().forget(file, 1);
  EXPECT_TRUE(h_.tree().sync());
  EXPECT_LT(passed_over() - before, std::uint64_t{kGone});
}

TEST_F(ComingAndGoing, OpenFilesThatWereRemovedAreNotLookedFor) {
  std::deque<Ino> open;
  const std::uint64_t before = passed_over();
  come_and_go(
      kGone,
      [&](int) {
        open.push_back(h_.create(kRootIno, "file", "temporary"));
        EXPECT_TRUE(both_ways([&](Wait w) { return h_.tree().unlink(kRootIno, "file", w); }));
      },
      [&](int) {
        h_.tree().forget(open.front(), 1);
        open.pop_front();
      });
  EXPECT_LT(passed_over() - before, std::uint64_t{kGone});
  EXPECT_EQ(h_.rows(Family::names, "/o"), std::size_t{kThere});
}

}  // namespace
}  // namespace lsmfs::test::coming_and_going_test

// What a mount says of the one before it that did not end.
#include <gtest/gtest.h>

#include "clock.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::test::unmounting_test {
namespace {

class Unmounting : public testing::Test {
 protected:
  // What was said when it was mounted last.
  std::string said() {
    std::string all;
    std::swap(all, said_);
    return all;
  }
  TreeOptions options() {
    return {.sync_interval_ms = 0, .notice = [this](std::string_view line) { said_.append(line).append("\n"); }};
  }
  State state() { return *decode_state(*h.store().get(Family::names, keys::kState, Wait::yes).value()); }

  std::string said_;
  Harness h{ByteCount{kDeviceMin}, options()};
};

TEST_F(Unmounting, IsMissed) {
  h.create(kRootIno, "f", "contents");
  ASSERT_TRUE(h.tree().sync());
  h.crash();
  const std::string line = said();
  EXPECT_NE(line.find("was not unmounted: all that was synced is there, and is as it was at 20"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  h.remount();
  EXPECT_EQ(said(), "") << "it has been unmounted since, without a change";
}

TEST_F(Unmounting, IsNot) {
  EXPECT_EQ(said(), "");
  h.remount();
  EXPECT_EQ(said(), "");
  h.create(kRootIno, "f", "contents");
  h.remount();
  EXPECT_EQ(said(), "");
  h.crash();
  EXPECT_EQ(said(), "") << "nothing was changed";
}

TEST_F(Unmounting, IsNotMissedAfterARemountToRead) {
  h.create(kRootIno, "f", "contents");
  ASSERT_TRUE(h.tree().reconfigure({.read_only = true}));
  EXPECT_FALSE(state().in_use);
  h.crash();
  EXPECT_EQ(said(), "");
  h.create(kRootIno, "g", "contents");
  ASSERT_TRUE(h.tree().reconfigure({.read_only = true}));
  ASSERT_TRUE(h.tree().reconfigure({.read_only = false}));
  h.create(kRootIno, "h", "contents");
  ASSERT_TRUE(h.tree().sync());
  h.crash();
  EXPECT_NE(said(), "");
}

TEST_F(Unmounting, IsMissedByWhoOnlyReadsAndMayNotSayThatItIsOver) {
  h.create(kRootIno, "f", "contents");
  ASSERT_TRUE(h.tree().sync());
  h.options.read_only = true;
  h.crash();
  EXPECT_NE(said(), "");
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(code(h.tree().space(Wait::yes)), 0);
  h.remount();
  EXPECT_NE(said(), "") << "still";
  EXPECT_TRUE(state().in_use);
}

TEST_F(Unmounting, TheTimeIsAnything) {
  h.create(kRootIno, "f", "contents");
  ASSERT_TRUE(h.tree().sync());
  for (const std::int64_t seconds : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    State odd = state();
    odd.in_use = true;
    odd.as_of = {seconds, 0};
    Batch batch;
    batch.put(Family::names, keys::kState, encode(odd));
    ASSERT_TRUE(h.store().commit(batch));
    ASSERT_TRUE(h.store().sync());
    h.crash();
    EXPECT_NE(said().find("when the clock was wrong"), std::string::npos) << seconds;
  }
}

}  // namespace
}  // namespace lsmfs::test::unmounting_test

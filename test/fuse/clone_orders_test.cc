// Which mkdir(2) makes the clone that was asked for, and which does not.
#include "fuse/serving/clone_orders.h"

#include <gtest/gtest.h>

#include "clock.h"

namespace lsmfs::test::clone_orders_test {
namespace {

constexpr pid_t kThread = 100, kOther = 200;
constexpr uid_t kUser = 1000;
constexpr Ino kSource{7}, kParent{8};

class Orders : public testing::Test {
 protected:
  using Outcome = CloneOrders::Outcome;

  void put(pid_t thread, uid_t user = kUser) { orders_.put(thread, user, {.dir = kSource}, kParent, "name"); }
  // The source's number, or 0.
  std::uint64_t take(pid_t thread, Ino parent = kParent, std::string_view name = "name", uid_t user = kUser) {
    const auto source = orders_.take(thread, parent, name, [user](uid_t of) { return of == user; });
    return source ? source->dir.v : 0;
  }

  SteppedClock clock_;
  CloneOrders orders_{clock_};
};

TEST_F(Orders, AreForOneDirectoryOfOneThread) {
  EXPECT_EQ(take(kThread), 0u);
  put(kThread);
  EXPECT_EQ(take(kOther), 0u);
  EXPECT_EQ(take(kThread, Ino{9}), 0u);
  EXPECT_EQ(take(kThread, kParent, "nam"), 0u);
  EXPECT_EQ(take(kThread, kParent, "name", 0), 0u) << "another one has the number of the thread now";
  EXPECT_EQ(take(kThread), kSource.v);
  EXPECT_EQ(take(kThread), 0u) << "once";
  EXPECT_EQ(orders_.end(kThread), Outcome::clone);
  EXPECT_EQ(orders_.end(kThread), Outcome::ordinary);
}

TEST_F(Orders, SayWhoseSourceItMayBe) {
  for (const bool any : {false, true}) {
    orders_.put(kThread, kUser, {.dir = kSource, .of_any_owner = any}, kParent, "name");
    EXPECT_EQ(orders_.take(kThread, kParent, "name", [](uid_t) { return true; })->of_any_owner, any);
  }
}

TEST_F(Orders, EndWithWhatHasComeOfThem) {
  put(kThread);
  EXPECT_EQ(orders_.end(kThread), Outcome::ordinary);
  EXPECT_EQ(take(kThread), 0u);
  put(kThread);
  EXPECT_EQ(take(kThread), kSource.v);
  orders_.deny(kThread);
  orders_.deny(kOther);
  EXPECT_EQ(take(kThread), 0u);
  EXPECT_EQ(orders_.end(kThread), Outcome::denied);
}

TEST_F(Orders, AreGoodForSomeTime) {
  put(kThread);
  clock_.advance(CloneOrders::kGood - std::chrono::nanoseconds(1));
  EXPECT_EQ(take(kThread), kSource.v);
  put(kThread);
  clock_.advance(CloneOrders::kGood);
  EXPECT_EQ(take(kThread), 0u);
}

TEST_F(Orders, TheLastOneOfAThreadCounts) {
  put(kThread);
  orders_.put(kThread, kUser, {.dir = Ino{11}}, kParent, "name");
  EXPECT_EQ(take(kThread), 11u);
  EXPECT_EQ(orders_.end(kThread), Outcome::clone);
  EXPECT_EQ(orders_.end(kThread), Outcome::ordinary);
}

TEST_F(Orders, AUserWhoGivesManyPushesOutHisOwn) {
  put(kThread, 1);
  for (pid_t thread = 1; thread <= 99; ++thread) put(1000 + thread);
  EXPECT_EQ(take(1000 + 1), 0u);
  EXPECT_EQ(take(1000 + 99), kSource.v);
  EXPECT_EQ(take(kThread, kParent, "name", 1), kSource.v);
  // Whoever has none gets a place all the same.
  put(kThread + 1, 2);
  EXPECT_EQ(take(kThread + 1, kParent, "name", 2), kSource.v);
}

}  // namespace
}  // namespace lsmfs::test::clone_orders_test

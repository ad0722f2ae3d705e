#include "kv/give_way.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "clock.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::give_way_test {
namespace {

using kv::GiveWay;
using namespace std::chrono_literals;
using test::SteppedClock;
using test::until;

constexpr auto kLook = 5ms;  // how often a compaction that waits looks

// A request of a compaction, in a thread of its own.
class Request {
 public:
  explicit Request(GiveWay& way)
      : thread_([this, &way] {
          GiveWay::set_compacting(true);
          { const GiveWay::Read request(way); }
          GiveWay::set_compacting(false);
          gone_ = true;
        }) {}
  ~Request() { thread_.join(); }
  bool waits() const { return !gone_; }
  bool goes() const {
    return until([this] { return gone_.load(); });
  }

 private:
  std::atomic<bool> gone_ = false;
  std::thread thread_;
};

class GiveWayTest : public testing::Test {
 protected:
  void TearDown() override { clock_.advance(1h); }  // whatever is wrong, nobody waits any more
  SteppedClock clock_;
  GiveWay way_{clock_};
};

TEST_F(GiveWayTest, ACompactionWaitsUntilReadersAreQuiet) {
  auto read = std::make_unique<GiveWay::Read>(way_);
  const Request request(way_);
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(500ms));
  EXPECT_TRUE(request.waits());
  read.reset();
  ASSERT_TRUE(clock_.step(GiveWay::kQuiet - kLook));
  EXPECT_TRUE(request.waits()) << "a reader works on what it got";
  clock_.advance(kLook);
  EXPECT_TRUE(request.goes());
}

TEST_F(GiveWayTest, ACompactionDoesNotWaitForEver) {
  const GiveWay::Read read(way_);
  const Request request(way_);
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(GiveWay::kPatience - kLook));
  EXPECT_TRUE(request.waits());
  clock_.advance(kLook);
  EXPECT_TRUE(request.goes());
}

TEST_F(GiveWayTest, ACompactionThatIsAwaitedSoonEndsItsWait) {
  const GiveWay::Read read(way_);
  {
    const Request request(way_);
    ASSERT_TRUE(clock_.await_waiting(1));
    way_.hurry(true);
    clock_.advance(kLook);
    EXPECT_TRUE(request.goes());
  }
  way_.hurry(false);
  const Request request(way_);
  ASSERT_TRUE(clock_.await_waiting(1));
  const GiveWay::Hurry hurry(way_);
  clock_.advance(kLook);
  EXPECT_TRUE(request.goes());
}

TEST_F(GiveWayTest, NobodyIsWaitedForWithoutReadersOrInAHurry) {
  EXPECT_TRUE(Request(way_).goes());
  const GiveWay::Read one(way_), another(way_);  // readers do not wait for each other
  way_.hurry(true);
  EXPECT_TRUE(Request(way_).goes());
  way_.hurry(false);
  const GiveWay::Hurry hurry(way_);
  EXPECT_TRUE(Request(way_).goes());
}

// RocksDB tells in the compaction's own thread that it begins and ends.
TEST(GiveWayInAStore, KnowsTheReadsOfCompactions) {
  auto m = kv_test::Machine::fresh();
  std::mt19937_64 random(1);
  for (int round = 0; round < 3; ++round) {
    Batch batch;
    for (int i = 0; i < 100; ++i) batch.put(Family::blocks, kv_test::number_key(i), kv_test::random_bytes(random, 4000));
    kv_test::assert_ok(m.store->commit(batch));
    kv_test::expect_ok(m.store->flush());
  }
  m.stop();
  m.start();
  std::atomic<int> compacting{0}, others{0};
  m.disk->on_read = [&] { ++(GiveWay::compacting() ? compacting : others); };
  kv_test::expect_ok(m.store->compact(Family::blocks, "", ""));
  EXPECT_GT(compacting, 0);
  const int before = compacting;
  EXPECT_TRUE(m.store->get(Family::blocks, kv_test::number_key(1), Wait::yes).has_value());
  EXPECT_EQ(compacting, before);
  EXPECT_GT(others, 0);
  EXPECT_FALSE(GiveWay::compacting());
  m.stop();
}

}  // namespace
}  // namespace lsmfs::give_way_test

#include "kv/give_way.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

#include "kv/support.h"

namespace lsmfs {
namespace {

using kv::GiveWay;
using std::chrono::steady_clock;

// When a request of a compaction that is made now goes its way.
std::future<steady_clock::time_point> compaction_request(GiveWay& way) {
  return std::async(std::launch::async, [&way] {
    GiveWay::set_compacting(true);
    {
      const GiveWay::Read request(way);
    }
    GiveWay::set_compacting(false);
    return steady_clock::now();
  });
}

TEST(GiveWay, ACompactionWaitsForReadersButNotForEver) {
  GiveWay way;
  const auto begin = steady_clock::now();
  auto read = std::make_unique<GiveWay::Read>(way);
  auto request = compaction_request(way);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto end_of_read = steady_clock::now();
  read.reset();
  const auto went = request.get();
  EXPECT_TRUE(went >= end_of_read || went - begin > std::chrono::milliseconds(900)) << "it did not wait";

  read = std::make_unique<GiveWay::Read>(way);
  compaction_request(way).get();  // ends, although somebody reads all the time
}

TEST(GiveWay, NobodyIsWaitedForWithoutReadersOrInAHurry) {
  GiveWay way;
  compaction_request(way).get();
  const GiveWay::Read one(way), another(way);  // readers do not wait for each other
  way.hurry(true);
  compaction_request(way).get();
  way.hurry(false);
  const GiveWay::Hurry hurry(way);
  compaction_request(way).get();
}

// RocksDB tells in the compaction's own thread that it begins and ends.
TEST(GiveWay, KnowsTheReadsOfCompactions) {
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
}  // namespace lsmfs

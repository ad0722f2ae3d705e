#include <gtest/gtest.h>

#include <random>

#include "base/planted.h"
#include "kv/history.h"
#include "kv/store_decorator.h"
#include "kv/support.h"
#include "seed.h"

namespace lsmfs::crash_test {
namespace {

using kv_test::assert_ok;
using kv_test::expect_ok;
using kv_test::History;
using kv_test::Machine;

using Decorate = std::function<std::unique_ptr<Store>(std::unique_ptr<Store>)>;

void live_and_crash(std::uint64_t seed, const Decorate& decorate = [](auto store) { return store; }) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const History history(seed);
  // Before anything is opened, whose threads write.
  const auto on = [](std::unique_ptr<kv_test::Disk> disk) {
    disk->watch_flushes();
    return Machine::on(std::move(disk));
  };
  auto empty = std::make_unique<kv_test::Disk>();
  ASSERT_NO_FATAL_FAILURE(assert_ok(empty->format()));
  auto m = on(std::move(empty));
  std::uint64_t done = 0, synced = 0;
  for (int life = 0; life < 12; ++life) {
    m.store = decorate(std::move(m.store));
    const std::uint64_t commits = 1 + random() % 400;
    Batch batch;
    for (std::uint64_t i = 0; i < commits; ++i) {
      batch.clear();
      history.commit(++done, &batch, nullptr);
      ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
      if (random() % 50 == 0) {
        expect_ok(m.store->sync());
        synced = done;
      }
      if (random() % 150 == 0) expect_ok(m.store->flush());
      if (random() % 100 == 0) kv_test::trim(*m.store);
    }
    auto disk = m.disk->crashed_copy(random);
    m.drop();
    m = on(std::move(disk));
    ASSERT_TRUE(m.store);
    const std::uint64_t found = history.check(*m.store);
    ASSERT_GE(found, synced) << "life " << life;
    ASSERT_LE(found, done);
    if (test::complained()) return;
    // What a mount finds is what the next one finds, whatever came after.
    done = synced = found;
  }
}

TEST(Crash, AfterAnyPowerCutExactlyAPrefixIsThereWithAllThatWasSynced) { live_and_crash(test::drawn_seed()); }

TEST(CrashPlanted, ASyncThatDoesNothingIsFound) {
  const std::string said = test::complaints_of([] {
    live_and_crash(1, [](std::unique_ptr<Store> store) { return std::make_unique<test::ForgetsSyncs>(std::move(store)); });
  });
  EXPECT_NE(said.find("synced"), said.npos) << said;
}

// The log has no gap, but the batch that was lost is missing in what comes after it.
class LosesABatch : public test::StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> commit(Batch& batch) override { return ++commits_ == 20 ? Result<void>() : inner().commit(batch); }

 private:
  int commits_ = 0;  // of this life
};

TEST(CrashPlanted, ABatchThatIsLostIsFound) {
  const std::string said = test::complaints_of([] {
    live_and_crash(1, [](std::unique_ptr<Store> store) { return std::make_unique<LosesABatch>(std::move(store)); });
  });
  EXPECT_NE(said.find("differ from the state after"), said.npos) << said;
}

TEST(Crash, APowerCutDuringTheFirstOpenLeavesAVolumeThatOpens) {
  auto disk = std::make_unique<kv_test::Disk>();
  assert_ok(disk->format());
  std::mt19937_64 random(test::drawn_seed());
  for (std::uint64_t stop = 1; stop < 40; ++stop) {
    auto trial = disk->copy();
    trial->watch_flushes();
    trial->fail_writes_from = stop;
    std::unique_ptr<kv_test::Disk> after;
    {
      auto volume = Volume::open(trial->device());
      if (volume) {
        auto store = Store::open(**volume, kv_test::quiet_options());
        after = trial->crashed_copy(random);
      } else {
        after = trial->crashed_copy(random);
      }
    }
    auto m = Machine::on(std::move(after));
    ASSERT_TRUE(m.store) << "stopped at request " << stop;
    Batch batch;
    batch.put(Family::blocks, "a", "b");
    expect_ok(m.store->commit(batch));
    m.stop();
  }
}

TEST(Crash, DestroyingTheStoreWritesNoTables) {
  auto m = Machine::fresh();
  Batch batch;
  batch.put(Family::blocks, "a", std::string(1000, 'x'));
  assert_ok(m.store->commit(batch));
  m.store.reset();
  EXPECT_EQ(kv_test::tables_of(*m.volume), std::vector<std::string>());
}

}  // namespace
}  // namespace lsmfs::crash_test

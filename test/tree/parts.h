// What the tests of the tree's parts stand on, without the tree: a store in memory, and the lock that its callers hold.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "clock.h"
#include "gate.h"
#include "lsmfs/device.h"
#include "lsmfs/volume.h"
#include "tree/cold_store.h"
#include "tree/held_store.h"
#include "tree/history.h"

namespace lsmfs::test {

// What a History tells its client, in order: "records 1", "settled 1", "committed 1".
class Listener final : public History::Client {
 public:
  std::vector<std::string> heard;
  std::function<void(Group&)> records = [](Group&) {};
  std::function<void(const Group&)> on_settled = [](const Group&) {};

  void put_records(Group& group) override {
    heard.push_back("records " + std::to_string(group.number));
    records(group);
  }
  void settled(const Group& group) override {
    heard.push_back("settled " + std::to_string(group.number));
    on_settled(group);
  }
  void keep(Group& group) override { heard.push_back("keep " + std::to_string(group.number)); }
  void committed(const Group& group) override { heard.push_back("committed " + std::to_string(group.number)); }
};

class Parts : public testing::Test {
 protected:
  Parts() {
    EXPECT_TRUE(Volume::format(*device_, {}));
    auto volume = Volume::open(*device_);
    EXPECT_TRUE(volume);
    volume_ = *std::move(volume);
    auto store = Store::open(*volume_, {.cache = ByteCount{32 * MiB}});
    EXPECT_TRUE(store);
    auto held = std::make_unique<HeldStore>(*std::move(store), commits_);
    held_ = held.get();
    store_ = std::make_unique<ColdStore>(std::move(held), weather_);
    history_ = std::make_unique<History>(*store_, clock_, client_, [this](std::string_view line) { notices_.emplace_back(line); });
  }
  void TearDown() override { commits_.open(); }

  void put(std::string_view key, std::string_view value) { history_->open().batch.put(Family::names, key, value); }
  // What the store shows; "": no such row.
  std::string shown(std::string_view key, Family family = Family::names) {
    const auto found = store_->get(family, key, Wait::yes);
    EXPECT_TRUE(found);
    return found && *found ? **found : "";
  }
  void commit(TreeLock& lock) { history_->await(lock, history_->open().number); }

  SteppedClock clock_;
  std::unique_ptr<Device> device_ = memory_device(ByteCount{kDeviceMin});
  std::unique_ptr<Volume> volume_;
  ColdStore::Weather weather_{.cold = false};
  Gate commits_{true};
  HeldStore* held_ = nullptr;
  std::unique_ptr<Store> store_;
  Listener client_;
  std::vector<std::string> notices_;
  Mutex mutex_;
  std::unique_ptr<History> history_;
};

}  // namespace lsmfs::test

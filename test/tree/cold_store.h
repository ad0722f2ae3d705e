// A store whose rows are never in memory: whoever may not wait gets EAGAIN, however often they have been read.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "gate.h"
#include "kv/store_decorator.h"

namespace lsmfs::test {

class ColdStore : public StoreDecorator {
 public:
  struct Weather {
    std::atomic<bool> cold = true;
    Gate* reads = nullptr;                         // those who may wait pass it
    std::atomic<std::uint64_t>* draws = nullptr;   // given: some rows are in memory, and some are not
    std::function<void(std::string_view key)> after_get = [](std::string_view) {};  // in the thread of who waited for that row
    bool misses() const { return cold && (draws == nullptr || std::mt19937_64(draws->fetch_add(1))() % 2 == 0); }
  };
  ColdStore(std::unique_ptr<Store> inner, const Weather& weather) : StoreDecorator(std::move(inner)), weather_(weather) {}

  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    if (wait == Wait::yes) pass();
    if (wait == Wait::no && weather_.misses()) return make_error(EAGAIN, "");
    auto found = inner().get(family, key, wait);
    if (wait == Wait::yes && weather_.cold) weather_.after_get(key);
    return found;
  }
  std::unique_ptr<lsmfs::Cursor> cursor(Family family, const CursorOptions& options) override {
    return std::make_unique<Cursor>(*this, options.wait, inner().cursor(family, options));
  }

 private:
  class Cursor : public lsmfs::Cursor {
   public:
    Cursor(ColdStore& store, Wait wait, std::unique_ptr<lsmfs::Cursor> inner) : store_(store), wait_(wait), inner_(std::move(inner)) {}
    void seek(std::string_view key) override {
      if (wait_ == Wait::yes) store_.pass();
      inner_->seek(key);
      go();
    }
    void next() override {
      inner_->next();
      go();
    }
    bool valid() const override { return !missed_ && inner_->valid(); }
    std::string_view key() const override { return inner_->key(); }
    std::string_view value() const override { return inner_->value(); }
    Result<void> status() const override {
      if (missed_) return make_error(EAGAIN, "");
      return inner_->status();
    }

   private:
    void go() { missed_ = missed_ || (wait_ == Wait::no && store_.weather_.misses()); }

    ColdStore& store_;
    const Wait wait_;
    const std::unique_ptr<lsmfs::Cursor> inner_;
    bool missed_ = false;
  };

  void pass() {
    if (weather_.cold && weather_.reads != nullptr) weather_.reads->pass();
  }

  const Weather& weather_;
};

}  // namespace lsmfs::test

#include <gtest/gtest.h>

#include <random>

#include "kv/support.h"
#include "seed.h"

namespace lsmfs::overlay_test {
namespace {

using kv_test::assert_ok;
using kv_test::Machine;

class Words {
 public:
  explicit Words(std::uint64_t seed) : random_(seed) {}

  std::string key() { return std::string(1 + random_() % 2, static_cast<char>('a' + random_() % 6)) + std::to_string(random_() % 8); }

  // Some changes of every kind, on few keys.
  void fill(Batch& batch) {
    for (std::uint64_t n = 1 + random_() % 12; n > 0; --n) {
      const Family family = random_() % 2 ? Family::names : Family::blocks;
      const std::string bytes(random_() % 40, static_cast<char>('0' + random_() % 10));
      switch (random_() % 6) {
        case 0:
        case 1: batch.put(family, key(), bytes); break;
        case 2: batch.patch(family, key(), static_cast<std::uint32_t>(random_() % 50), bytes); break;
        case 3: batch.cut(family, key(), static_cast<std::uint32_t>(random_() % 30)); break;
        case 4: batch.erase(family, key()); break;
        default: {
          const std::string one = key(), other = key();
          if (random_() % 3 == 0) batch.erase_range(family, std::min(one, other), std::max(one, other));
        }
      }
    }
  }

 private:
  std::mt19937_64 random_;
};

std::string rows(Store& store, Family family, const CursorOptions& options, std::string_view from) {
  std::string out;
  const auto cursor = store.cursor(family, options);
  for (cursor->seek(from); cursor->valid(); cursor->next()) {
    out.append(cursor->key()).append("=").append(cursor->value()).append("\n");
  }
  EXPECT_TRUE(cursor->status().has_value());
  return out;
}

TEST(Overlay, GivesWhatTheBatchesWouldHaveMade) {
  const std::uint64_t seed = test::drawn_seed();
  for (std::uint64_t round = 0; round < 20 && !testing::Test::HasFailure(); ++round) {
    Words words(seed + round);
    auto kept = Machine::fresh(), written = Machine::fresh();
    for (int i = 0; i < 8; ++i) {
      Batch batch;
      words.fill(batch);
      if (batch.empty()) continue;
      assert_ok(kept.store->commit(batch));
      assert_ok(written.store->commit(batch));
    }
    auto before = kept.store->cursor(Family::names, {});
    const std::string then = rows(*kept.store, Family::names, {}, "");
    for (int i = 0; i < 3; ++i) {
      Batch batch;
      words.fill(batch);
      if (batch.empty()) continue;
      kept.store->keep_in_memory(batch);
      if (i == 1) kept.store->keep_in_memory(batch);  // a batch that had gone halfway before
      assert_ok(written.store->commit(batch));
    }
    for (const Family family : {Family::names, Family::blocks}) {
      EXPECT_EQ(rows(*kept.store, family, {}, ""), rows(*written.store, family, {}, ""));
      for (int i = 0; i < 50; ++i) {
        const std::string one = words.key(), other = words.key(), from = words.key();
        const CursorOptions bounds{.lower = std::min(one, other), .upper = std::max(one, other) + "x"};
        EXPECT_EQ(rows(*kept.store, family, bounds, from), rows(*written.store, family, bounds, from)) << "from " << from;
        const auto left = kept.store->get(family, one, Wait::yes), right = written.store->get(family, one, Wait::yes);
        ASSERT_TRUE(left && right);
        EXPECT_EQ(*left, *right) << one;
      }
    }
    std::string again;
    for (before->seek(""); before->valid(); before->next()) again.append(before->key()).append("=").append(before->value()).append("\n");
    EXPECT_EQ(again, then) << "a cursor from before";
    before.reset();
    kept.stop();
    written.stop();
  }
}

}  // namespace
}  // namespace lsmfs::overlay_test

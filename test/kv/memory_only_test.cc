// Reads that must not wait: everything or EAGAIN, never a part.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "lsmfs/kv.h"
#include "noise.h"
#include "seed.h"

namespace lsmfs::memory_only_test {
namespace {

using Rows = std::map<std::string, std::string>;

std::string noise(std::mt19937_64& random, std::size_t n) {
  std::string s(n, '\0');
  test::fill_with_noise(random(), s);
  return s;
}

// Rows with versions in several levels and patches on top, which is where RocksDB's own cache-only
// iterators passed over rows.
void change(Store& store, Rows& rows, std::mt19937_64& random) {
  for (int i = 0; i < 200; ++i) {
    Batch batch;
    const std::string key = "dir" + std::to_string(random() % 40) + " name" + std::to_string(random() % 160);
    auto existing = rows.lower_bound(key);
    switch (existing == rows.end() ? 3 : random() % 4) {
      case 0:
        batch.erase(Family::blocks, existing->first);
        rows.erase(existing);
        break;
      case 1: {
        const std::size_t offset = random() % 3000;
        const std::string bytes = noise(random, 1 + random() % 50);
        batch.patch(Family::blocks, existing->first, static_cast<std::uint32_t>(offset), bytes);
        std::string& value = existing->second;
        if (value.size() < offset + bytes.size()) value.resize(offset + bytes.size());
        value.replace(offset, bytes.size(), bytes);
        break;
      }
      default:
        rows[key] = noise(random, random() % 4096);
        batch.put(Family::blocks, key, rows[key]);
    }
    ASSERT_TRUE(store.commit(batch));
  }
}

TEST(MemoryOnly, CursorsPassOverNoRowThatIsNotInMemory) {
  std::mt19937_64 random(test::drawn_seed());
  auto device = memory_device(ByteCount{kDeviceMin});
  ASSERT_TRUE(Volume::format(*device, {}));
  Rows rows;
  int complete = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    auto volume = Volume::open(*device);
    ASSERT_TRUE(volume);
    auto store = Store::open(**volume, {.cache = ByteCount{32 * MiB}});
    ASSERT_TRUE(store) << store.error().message();
    for (int i = 0; i < 200 && !rows.empty(); ++i) {
      auto row = rows.begin();
      std::advance(row, static_cast<std::ptrdiff_t>(random() % rows.size()));
      const std::string from = row->first;
      const std::size_t n = 1 + random() % 30;
      auto cursor = (*store)->cursor(Family::blocks, {.lower = {}, .upper = {}, .wait = Wait::no});
      cursor->seek(from);
      for (std::size_t k = 0; k < n && row != rows.end() && cursor->valid(); ++k, ++row, cursor->next()) {
        ASSERT_EQ(cursor->key(), row->first) << "row " << k << " of a scan in round " << round;
        ASSERT_EQ(cursor->value(), row->second);
      }
      if (cursor->status()) {
        ++complete;
        continue;
      }
      ++refused;
      ASSERT_EQ(cursor->status().error().code, EAGAIN);
      auto waiting = (*store)->cursor(Family::blocks, {.lower = {}, .upper = {}});
      waiting->seek(from);
      for (std::size_t k = 0; k < n && waiting->valid(); ++k) waiting->next();
    }
    for (int piece = 0; piece < 3; ++piece) {
      change(**store, rows, random);
      if (random() % 3 == 0) {
        ASSERT_TRUE((*store)->flush());
      }
    }
    ASSERT_TRUE(random() % 2 ? (*store)->close() : (*store)->sync());
  }
  EXPECT_GT(complete, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lsmfs::memory_only_test

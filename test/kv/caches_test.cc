// What stays in memory when there is not room for everything.
#include <gtest/gtest.h>

#include "kv/store.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::caches_test {
namespace {

using kv_test::number_key;

constexpr int kRows = 48 * 1024;  // 192 MiB
constexpr int kAhead = 4 * 1024;  // 16 MiB
const std::string kRow(4096, 'r');

TEST(Caches, WhatIsReadAheadStaysUntilItIsReadThoughNothingElseIsReadTwice) {
  auto machine = kv_test::Machine::fresh(512 * MiB);  // its cache: 64 MiB, three fourths for contents
  for (int row = 0; row < kRows;) {
    Batch batch;
    for (const int end = row + 64; row < end; ++row) batch.put(Family::blocks, number_key(row), kRow);
    kv_test::assert_ok(machine.store->commit(batch));
  }
  kv_test::assert_ok(machine.store->flush());
  // Such rows make small tables, and merging these makes others, of which nothing is in memory.
  ASSERT_TRUE(test::until([&] { return static_cast<const RocksStore&>(*machine.store).idle(); }));

  const auto ahead = machine.store->cursor(Family::blocks, {.lower = {}, .upper = {}});
  ahead->seek("");
  int missed = 0;
  std::unique_ptr<Cursor> reader;
  for (int row = 0, walked = 0; row < kRows; ++row) {
    for (; walked < std::min(row + kAhead, kRows); ++walked, ahead->next()) ASSERT_TRUE(ahead->valid());
    if (!reader) {
      reader = machine.store->cursor(Family::blocks, {.lower = {}, .upper = {}, .wait = Wait::no});
      reader->seek(number_key(row));
    }
    if (reader->valid()) {
      ASSERT_EQ(reader->key(), number_key(row));
      reader->next();
    } else {
      ++missed;
      reader.reset();
    }
  }
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace lsmfs::caches_test

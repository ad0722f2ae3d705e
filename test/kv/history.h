// A history of random commits over both families that can be replayed to any point, to find out
// whether a store holds exactly the first n of them.
#pragma once

#include <map>
#include <random>
#include <string>

#include "kv/support.h"

namespace lsmfs::kv_test {

class History {
 public:
  explicit History(std::uint64_t seed) : seed_(seed) {}

  using Rows = std::map<std::string, std::string>;
  struct State {
    Rows names, blocks;
  };

  // The n-th commit, from 1. It also puts its number under "last" into names.
  void commit(std::uint64_t n, Batch* batch, State* state) const {
    std::mt19937_64 random(seed_ * 1'000'003 + n);
    const int changes = 1 + static_cast<int>(random() % 6);
    for (int i = 0; i < changes; ++i) {
      const Family family = random() % 3 == 0 ? Family::names : Family::blocks;
      Rows* rows = state == nullptr ? nullptr : family == Family::names ? &state->names : &state->blocks;
      const std::string key = number_key(random() % 300);
      const std::uint64_t kind = random() % 20;
      if (kind == 0) {
        const std::string to = number_key(random() % 300);
        if (batch != nullptr) batch->erase_range(family, key, to);
        if (rows != nullptr && key < to) rows->erase(rows->lower_bound(key), rows->lower_bound(to));
      } else if (kind < 4) {
        if (batch != nullptr) batch->erase(family, key);
        if (rows != nullptr) rows->erase(key);
      } else if (kind < 8) {
        const auto at = static_cast<std::uint32_t>(random() % 1000);
        const std::string bytes = random_bytes(random, 16);
        if (batch != nullptr) batch->patch(family, key, at, bytes);
        if (rows != nullptr) {
          std::string& value = (*rows)[key];
          if (value.size() < at + 16) value.resize(at + 16);
          value.replace(at, 16, bytes);
        }
      } else {
        const std::string value = random_bytes(random, random() % 512 * 8);
        if (batch != nullptr) batch->put(family, key, value);
        if (rows != nullptr) (*rows)[key] = value;
      }
    }
    if (batch != nullptr) batch->put(Family::names, "last", std::to_string(n));
    if (state != nullptr) state->names["last"] = std::to_string(n);
  }

  // How many commits the store holds; a failure unless it is a whole number of them.
  std::uint64_t check(Store& store) const {
    State found;
    for (Family family : {Family::names, Family::blocks}) {
      Rows& rows = family == Family::names ? found.names : found.blocks;
      auto cursor = store.cursor(family, {});
      for (cursor->seek(""); cursor->valid(); cursor->next()) rows.emplace(cursor->key(), cursor->value());
      expect_ok(cursor->status());
    }
    const std::uint64_t count = found.names.contains("last") ? std::stoull(found.names["last"]) : 0;
    State expected;
    for (std::uint64_t n = 1; n <= count; ++n) commit(n, nullptr, &expected);
    EXPECT_TRUE(found.names == expected.names) << "names differ from the state after " << count << " commits";
    EXPECT_TRUE(found.blocks == expected.blocks) << "blocks differ from the state after " << count << " commits";
    return count;
  }

 private:
  std::uint64_t seed_;
};

}  // namespace lsmfs::kv_test

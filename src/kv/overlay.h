// kv/overlay: what was acknowledged and can no longer be written, so that reads go on giving it.
//
// It takes the batches of commits that failed for good, in their order, and lays their rows over those of the database. It
// is small: what a tree has not committed at that moment. What it is not: a way to write.
//
// Threads: all functions, from any thread. Cursors see what was there when they were made.
#pragma once

#include <rocksdb/write_batch.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/patch.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class Overlay {
 public:
  void add(const rocksdb::WriteBatch& batch);

  // The value of a key, given the database's.
  std::optional<std::string> over(Family family, std::string_view key, std::optional<std::string> below) const;
  // The rows of both. `options`: those that `below` was made with.
  std::unique_ptr<Cursor> over(Family family, std::unique_ptr<Cursor> below, const CursorOptions& options) const;

  // One family's rows.
  class Rows {
   public:
    struct Row {
      bool alone = false;                // whatever the database has
      std::optional<std::string> value;  // then; nullopt: erased
      Patch patch;                       // else, of the database's value
    };
    void put(std::string_view key, std::string_view value) { rows_[std::string(key)] = {true, std::string(value), {}}; }
    void erase(std::string_view key) { rows_[std::string(key)] = {true, std::nullopt, {}}; }
    void erase_range(std::string_view from, std::string_view to);
    void patch(std::string_view key, const Patch& patch);

    bool empty() const { return rows_.empty() && erased_.empty(); }
    bool erased(std::string_view key) const;  // by a range
    // The value of `key`, which has this row or none (null), given the database's.
    std::optional<std::string> resolve(const Row* row, std::string_view key, std::optional<std::string> below) const;
    const std::map<std::string, Row, std::less<>>& rows() const { return rows_; }

   private:
    std::map<std::string, Row, std::less<>> rows_;
    std::vector<std::pair<std::string, std::string>> erased_;  // [from, to) of the database
  };

 private:
  std::shared_ptr<const Rows> rows(Family family) const;

  std::atomic<bool> used_ = false;
  mutable Mutex mutex_;
  std::shared_ptr<const Rows> rows_[2] LSMFS_GUARDED_BY(mutex_);  // by family number; replaced, never changed
};

}  // namespace lsmfs::kv

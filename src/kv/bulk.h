// kv/bulk: BulkWriter (lsmfs/kv.h): rows that become tables by themselves, which the database then takes in as they are.
//
// What it is not: it knows no database. Who makes one says what becomes of a table.
//
// Rows wait in memory, in the order of their keys, and the least of them go into a table, written by a thread of its own. So a table ends where
// it is full, and where all keys that wait lie before its last one. No table reaches over the end of an earlier one: what comes so late has
// tables of its own. Tables of rows that come nearly in order therefore lie side by side, and nothing has to merge them. Rows that all wait when
// it ends get no table: many small ones would be the end of that.
#pragma once

#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

// How the files begin in which tables are written that the database does not know yet. After a crash they are of no use.
inline constexpr std::string_view kBulkPrefix = "bulk-";

class Bulk final : public BulkWriter {
 public:
  struct Parts {
    rocksdb::Options options;             // of its tables
    std::uint64_t window = 0;             // bytes of rows that wait
    std::uint64_t table = 0;              // of a table
    std::function<std::string()> name;    // the path of the next table's file
    std::function<Result<void>(std::uint64_t bytes)> admit;  // before a table of so many bytes is written
    std::function<Result<void>(const std::string& path, std::uint64_t rows)> take_in;  // a table that is complete
    std::function<void(const std::string& path)> drop;  // one that nobody needs
    std::function<Result<void>(const std::vector<std::pair<std::string, std::string>>& rows)> commit;  // so few that they need no table
    std::function<void(std::uint64_t rows)> ended;  // so many that were put are in no table, and never will be
  };
  explicit Bulk(Parts parts);
  ~Bulk() override;

  void put(std::string key, std::string value) override;
  Result<void> wait() override;
  Result<void> finish() override;
  void abandon() override;

 private:
  struct Table {
    std::unique_ptr<rocksdb::SstFileWriter> writer;
    std::string path, last;  // its last key
    std::string before;      // "", or the key before which it has to end
    std::uint64_t rows = 0;
  };
  using Row = std::pair<std::string, std::string>;
  using Rows = std::map<std::string, std::string>;

  void run();
  Result<void> work(MutexLock& lock) LSMFS_REQUIRES(mutex_);
  std::vector<Row> take_piece() LSMFS_REQUIRES(mutex_);
  std::vector<Row> take_all() LSMFS_REQUIRES(mutex_);
  Row take(Rows::iterator at) LSMFS_REQUIRES(mutex_);
  Result<void> open_table(const std::string& first);
  Result<void> write(const std::vector<Row>& rows);
  Result<void> end_table();
  Result<void> commit_all(const std::vector<Row>& rows);
  void drop(Table table);

  const Parts parts_;
  Mutex taking_in_;  // outermost
  bool abandoned_ LSMFS_GUARDED_BY(taking_in_) = false;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Rows rows_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t bytes_ LSMFS_GUARDED_BY(mutex_) = 0;
  std::uint64_t left_ LSMFS_GUARDED_BY(mutex_) = 0;  // rows that are in no table yet
  bool finishing_ LSMFS_GUARDED_BY(mutex_) = false, stop_ LSMFS_GUARDED_BY(mutex_) = false, ended_ LSMFS_GUARDED_BY(mutex_) = false;
  std::optional<Error> failure_ LSMFS_GUARDED_BY(mutex_);
  std::optional<Table> table_;  // the thread's
  std::string end_;             // likewise: the last key of all tables so far
  std::thread thread_;
};

}  // namespace lsmfs::kv

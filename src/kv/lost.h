// kv/lost: the keys of which nobody can say any more whether they have a row and which, since a part of a table is damaged.
//
// They are ranges [from, to) of one family. What is read there is an error, whether a row is found or not: an older table may hold
// one that had been replaced or erased. That ends for a key when a batch puts or erases it, or says that it knows all of a range
// (Batch::know); a patch does not end it, since it keeps a part of what was there.
//
// The ranges are rows of family names, which change in the batch that makes them smaller (docs/format.md). They are few, and in
// memory as well. Nobody above sees these rows.
//
// Threads: all functions, from any thread, but those that change something: one at a time.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kv/batch.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class LostRanges {
 public:
  // Of one family: where each begins, and where it ends. They neither overlap nor touch.
  class Ranges {
   public:
    void add(std::string from, std::string to);
    bool take(std::string_view from, std::string_view to);  // false: they had nothing of it
    bool meets(std::string_view from, std::string_view to) const;
    const std::map<std::string, std::string, std::less<>>& all() const { return ranges_; }

   private:
    std::map<std::string, std::string, std::less<>> ranges_;
  };
  struct Families {
    Ranges of[2];  // by family number
  };

  // What was lost at a moment. A reader takes it before it looks at the database, and asks about each place it has passed: what came
  // to be lost since then counts, too, what has been found again since does not.
  class View {
   private:
    friend class LostRanges;
    std::shared_ptr<const Families> then;
    std::size_t added = 0;
  };

  // The rows of a database that has been opened.
  rocksdb::Status load(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* names);

  bool any() const { return any_.load(std::memory_order_acquire); }  // cheap; stays true until the next load()
  View view() const;
  bool meets(const View& view, Family family, std::string_view from, std::string_view to) const;
  std::vector<LostRange> all() const;
  std::uint64_t losses() const;  // how often install() has added some

  // What a change makes of it; the caller writes its rows to the database, and then says so by install().
  struct Change {
    std::shared_ptr<const Families> next;
    std::vector<LostRange> added;
  };
  // nullopt: the batch finds nothing of it again. Else the rows are added to it. `known`: as Batch::know() says.
  std::optional<Change> found_again(rocksdb::WriteBatch& batch, const std::vector<Known>& known) const;
  Change more(const std::vector<LostRange>& ranges, rocksdb::WriteBatch& rows) const;
  void install(Change change);

 private:
  std::shared_ptr<const Families> now() const;
  static void put_difference(const Families& before, const Families& after, rocksdb::WriteBatch& rows);

  std::atomic<bool> any_ = false;
  mutable Mutex mutex_;
  std::shared_ptr<const Families> now_ LSMFS_GUARDED_BY(mutex_) = std::make_shared<const Families>();
  std::vector<LostRange> added_ LSMFS_GUARDED_BY(mutex_);  // all since load()
  std::uint64_t losses_ LSMFS_GUARDED_BY(mutex_) = 0;
};

Error lost_error();
inline std::string_view view_of(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
// Gives each row from `from` to before `to` to `take`, until that gives an error.
rocksdb::Status for_each_row(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, std::string_view from, std::string_view to,
                             const std::function<rocksdb::Status(std::string_view key, std::string_view value)>& take);
// The least key that there can be after this one.
std::string next_key(Family family, std::string_view key);

// Where the rows begin that a store keeps about damage, in family names; none of a tree begins so. Those of ranges go on with the
// family's number and where the range begins; the value is where it ends.
inline constexpr std::string_view kLostPrefix = "/l";

}  // namespace lsmfs::kv

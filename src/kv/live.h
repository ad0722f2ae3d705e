// kv/live: how much of what the tables of family blocks hold is still wanted.
//
// No table tells which of its rows a newer one has replaced or erased. But the caller of the store knows how many rows there are
// (Batch::note_rows), and tables know how many they hold: what they hold over that is obsolete, exactly, whatever happened and
// however often the store was opened. Only where it lies, and so how many bytes it takes, is an estimate: first where rows were
// erased, for that is known; then where tables lie over others, in which most of what they hold may be again.
//
// What was committed after the last flush is not in tables. Of that, rows that are new count with their full size, and rows that
// were erased no longer count.
//
// What it is not: it asks RocksDB nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/batch.h"

namespace lsmfs::kv {

class Live {
 public:
  static constexpr double kRowBytes = 4096 + 64;  // of one that cannot be compressed, with its key

  struct Table {
    std::uint64_t number = 0;      // RocksDB's: never used twice
    std::string first, last;       // keys
    std::uint64_t bytes = 0;
    std::uint64_t rows = 0;        // versions of rows: what erases or patches one does not count
    bool bottom = false;           // of the last level: the others lie over it
    bool erases = false;           // it has tombstones
  };

  // What there is when the store is opened. Before, all that tables hold counts as wanted.
  void begin(std::uint64_t rows);
  // A commit of so many bytes after which there are so many rows, and RocksDB's sequence number is that. What it erased. `in_bulk`: of
  // the new rows, so many go through no memtable; if negative, so many of these do after all.
  void committed(std::uint64_t sequence, std::uint64_t bytes, std::uint64_t rows, const std::vector<ErasedRange>& ranges,
                 const ErasedRows& erased, std::int64_t in_bulk = 0);
  // So many of those that come in bulk are in tables now, or never will be, and then the caller is to erase them.
  void bulk_taken_in(std::uint64_t rows);
  // All tables. They hold what was committed up to `flushed`, RocksDB's sequence number of the last row in them.
  void measured(std::vector<Table> tables, std::uint64_t flushed);

  // Of tables, if they were merged completely and had what was committed since the last flush.
  std::uint64_t bytes() const;
  std::uint64_t rows() const { return static_cast<std::uint64_t>(now_.rows + bulk_rows_); }
  std::uint64_t obsolete_bytes() const { return obsolete_; }
  // What a row in tables takes of them on average, if it is wanted. 0: there is none.
  double row_bytes() const;
  // First and last key of the table of the last level, of those that others lie over, of which the largest part is obsolete. Nothing:
  // no table lies over others, and so nothing is.
  std::optional<std::pair<std::string, std::string>> worst() const;

 private:
  struct Place : Table {
    double erased = 0;    // rows, since the table was made
    double obsolete = 0;  // rows, by the estimate
  };
  // The history of commits that may not be in tables yet.
  struct Moment {
    std::uint64_t sequence = 0;
    double rows = 0;                           // but those that came in bulk
    double bytes = 0;                          // committed in all
    double erased_rows = 0, erased_bytes = 0;  // in all
  };
  static constexpr std::size_t kMoments = 4096;

  void erase(std::string_view from, std::string_view to, bool last_too, std::uint64_t rows);
  std::pair<std::size_t, std::size_t> overlapped(std::string_view first, std::string_view last, bool last_too) const;
  double row_bytes_above(std::string_view from, std::string_view to) const;  // of one of the tables above that meet that range
  void pass_on_erased(std::vector<Place>& before);
  double new_rows() const;       // of what is not in tables, those that were erased again among them
  double new_row_bytes() const;  // of one, at most
  void estimate();

  bool known_ = false;
  Moment in_tables_, now_;
  double bulk_rows_ = 0, taken_in_ = 0;  // that came in bulk, and those of them that are in tables
  std::deque<Moment> moments_;  // ascending, after in_tables_: of each stride_th commit
  std::uint64_t commits_ = 0, stride_ = 1;
  std::vector<Place> bottom_, upper_;  // the former by key
  std::uint64_t table_bytes_ = 0, obsolete_ = 0;
};

}  // namespace lsmfs::kv

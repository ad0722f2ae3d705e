// RowMap: which blocks of a sparse file have rows, as runs of blocks in memory.
//
// Of a file without holes its size tells that. Of a sparse one the store does, but to look there takes as long as what was ever
// taken out of it, until tables are merged: a log that is cut to nothing while its writer goes on, a queue whose head is punched out.
// A file that becomes sparse while it is in memory keeps such a map from then on.
//
// The maps share a Memory. One that has no place in it any more forgets, and then is not known(): the store has to be looked at.
//
// What it is not: it reads no rows. Not thread-safe, nor are those that share a Memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lsmfs {

class RowMap {
 public:
  struct Memory {
    static constexpr std::size_t kMost = 64 * 1024;  // runs of all maps, of some 48 bytes each
    std::size_t runs = 0;
  };

  // Blocks [0, rows) have one. `memory` must outlive it.
  RowMap(std::uint64_t rows, Memory& memory);
  ~RowMap();
  RowMap(const RowMap&) = delete;
  RowMap& operator=(const RowMap&) = delete;

  bool known() const { return known_; }
  // From now on all of [from, to) have a row, or none has. Does nothing unless from < to, and known().
  void add(std::uint64_t from, std::uint64_t to);
  void remove(std::uint64_t from, std::uint64_t to);

  // These must hold known(). How many of [from, to) have one.
  std::uint64_t count(std::uint64_t from, std::uint64_t to) const;
  // The first of them that have one, so many at most.
  std::vector<std::uint64_t> first(std::uint64_t from, std::uint64_t to, std::size_t most) const;
  // The last of them that has one.
  std::optional<std::uint64_t> last(std::uint64_t from, std::uint64_t to) const;
  // The first from `block` on that has one.
  std::optional<std::uint64_t> next(std::uint64_t block) const;
  // The first from `block` on that has none.
  std::uint64_t next_hole(std::uint64_t block) const;

 private:
  using Runs = std::map<std::uint64_t, std::uint64_t>;  // [first, second), neither empty nor next to each other
  void split(std::uint64_t at);
  void count_runs(std::size_t before);

  Memory& memory_;
  Runs runs_;
  bool known_ = true;
};

}  // namespace lsmfs

// BlockCursor: the rows of one file's data, as blocks. It knows how their keys are made, and stops at one that is damaged.
//
// What it is not: it knows nothing of the file but its home, and of what has no row it says nothing. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lsmfs/kv.h"
#include "tree/keys.h"

namespace lsmfs {

class BlockCursor {
 public:
  // Of the file with this home, before block `to`. `rows`: of family blocks, which must outlive it and may go on past the file; it stands
  // where it has been put.
  BlockCursor(Cursor& rows, const std::string& home, BlockIndex to);
  // One of its own, at the first row from `from` on. What it reads stays out of the cache.
  BlockCursor(Store& store, const std::string& home, BlockIndex from, BlockIndex to, Wait wait);

  void next();
  bool valid() const { return valid_; }
  BlockIndex index() const { return index_; }
  std::string_view bytes() const { return rows_.value(); }  // kBlockSize at most
  // When it is not valid, why: the end; EUCLEAN, a row is damaged; or what the cursor of rows says.
  Result<void> status() const;

 private:
  void look();

  const std::unique_ptr<Cursor> own_;
  Cursor& rows_;
  const std::size_t home_size_;
  const std::string end_;  // the key
  bool valid_ = false, damaged_ = false;
  BlockIndex index_;
};

}  // namespace lsmfs

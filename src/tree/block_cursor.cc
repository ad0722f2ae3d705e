#include "tree/block_cursor.h"

namespace lsmfs {

BlockCursor::BlockCursor(Cursor& rows, const std::string& home, BlockIndex to)
    : rows_(rows), home_size_(home.size()), end_(keys::block(home, to)) {
  look();
}

BlockCursor::BlockCursor(Store& store, const std::string& home, BlockIndex from, BlockIndex to, Wait wait)
    : own_(store.cursor(Family::blocks, {.lower = keys::block(home, from), .upper = keys::block(home, to), .wait = wait, .fill_cache = false})),
      rows_(*own_), home_size_(home.size()), end_(keys::block(home, to)) {
  rows_.seek(keys::block(home, from));
  look();
}

void BlockCursor::next() {
  rows_.next();
  look();
}

void BlockCursor::look() {
  valid_ = rows_.valid() && rows_.key() < end_;
  if (!valid_) return;
  const auto index = keys::block_index(rows_.key(), home_size_);
  damaged_ = !index || rows_.value().size() > kBlockSize;
  valid_ = !damaged_;
  if (index) index_ = BlockIndex{*index};
}

Result<void> BlockCursor::status() const {
  if (damaged_) return make_error(EUCLEAN, "a row of file data is damaged");
  return rows_.status();
}

}  // namespace lsmfs

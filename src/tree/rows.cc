#include "tree/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "tree/keys.h"

namespace lsmfs {

Rows::Rows(Store& store, Clock& clock, const History& history)
    : store_(store), history_(history), parked_names_(clock), parked_blocks_(clock),
      names_ahead_(store, {.family = Family::names, .first_window = 64 * KiB, .last_window = 2 * MiB, .device_read = ByteCount{256 * KiB}, .clock = &clock}),
      blocks_ahead_(store, {.family = Family::blocks, .clock = &clock}), files_ahead_(store, clock) {}

Fetched& Rows::fetched(const TreeLock& lock) const {
  lock.fetched().as_of(history_.committed());
  return lock.fetched();
}

Rows::Value Rows::row(const TreeLock& lock, std::string key) const {
  if (const auto* const read = fetched(lock).find(Family::names, key)) return *read;
  auto found = store_.get(Family::names, key, Wait::no);
  if (!found && found.error().code == EAGAIN) {
    lock.want([this, &lock, key = std::move(key)] { lock.fetched().fetch(store_, Family::names, key); });
  }
  return found;
}

Rows::Value Rows::entry(const TreeLock& lock, const std::string& dir_home, std::string_view name) const { return row(lock, keys::entry(dir_home, name)); }
Rows::Value Rows::linked(const TreeLock& lock, Ino ino) const { return row(lock, keys::linked(ino)); }
Result<bool> Rows::has_linked(const TreeLock& lock) const {
  const std::string prefix(keys::kLinkedPrefix);
  LSMFS_ASSIGN(const auto some, in_range(lock, {.family = Family::names, .from = prefix, .upper = keys::prefix_end(prefix), .most = 1}));
  return !some.empty();
}
Rows::Value Rows::xattr(const TreeLock& lock, const std::string& home, std::string_view name) const { return row(lock, keys::xattr(home, name)); }

Result<Rows::Blocks> Rows::blocks(const TreeLock& lock, const std::string& home, BlockIndex from, BlockIndex to, bool values) const {
  if (from >= to) return Blocks();
  const Fetched::Range range{.family = Family::blocks, .from = keys::block(home, from), .upper = keys::block(home, to), .values = values};
  const Fetched::Rows* const read = fetched(lock).find(range);
  const Fetched::Rows found = read ? Fetched::Rows() : read_rows(store_, range, Wait::no);
  const auto cursor = cursor_over(read ? *read : found);
  Blocks there;
  BlockCursor at(*cursor, home, to);
  for (; at.valid(); at.next()) there.emplace_back(at.index(), at.bytes());
  const auto status = at.status();
  if (!status && status.error().code == EAGAIN) lock.want([this, &lock, range] { lock.fetched().fetch(store_, range); });
  LSMFS_TRY(status);
  return there;
}

Rows::Pairs Rows::in_range(const TreeLock& lock, const Fetched::Range& range) const {
  const Fetched::Rows* const read = fetched(lock).find(range);
  Fetched::Rows found = read ? *read : read_rows(store_, range, Wait::no);
  if (range.most != SIZE_MAX && !found.rows.empty()) return std::move(found.rows);
  if (!found.end && found.end.error().code == EAGAIN) lock.want([this, &lock, range] { lock.fetched().fetch(store_, range); });
  LSMFS_TRY(found.end);
  return std::move(found.rows);
}

Rows::Pairs Rows::entries(const TreeLock& lock, const std::string& dir_home, std::string_view after, std::size_t most) const {
  return in_range(lock, {.family = Family::names,
                         .from = after.empty() ? keys::entries_begin(dir_home) : keys::entry(dir_home, after) + '\0',
                         .upper = keys::entries_end(dir_home),
                         .most = most});
}

Rows::Pairs Rows::blobs(const TreeLock& lock, Ino number) const {
  return in_range(lock, {.family = Family::names, .from = keys::blobs_begin(number), .upper = keys::blobs_end(number)});
}

Rows::Value Rows::node(const TreeLock& lock, Ino number) const { return row(lock, keys::node(number)); }

Result<bool> Rows::has_user(const TreeLock& lock, Ino base) const {
  LSMFS_ASSIGN(const auto some, in_range(lock, {.family = Family::names, .from = keys::users_begin(base), .upper = keys::users_end(base), .most = 1}));
  return !some.empty();
}

Result<std::optional<std::vector<Rows::User>>> Rows::users(const TreeLock& lock, Ino base, std::size_t most) const {
  const Fetched::Range range{
      .family = Family::names, .from = keys::users_begin(base), .upper = keys::users_end(base), .most = (most + 1) * keys::user(base, base).size()};
  const Fetched::Rows* const read = fetched(lock).find(range);
  const Fetched::Rows found = read ? *read : read_rows(store_, range, Wait::no);
  if (found.rows.size() > most) return std::optional<std::vector<User>>();
  if (!found.end && found.end.error().code == EAGAIN) lock.want([this, &lock, range] { lock.fetched().fetch(store_, range); });
  LSMFS_TRY(found.end);
  std::vector<User> all;
  for (const auto& [key, value] : found.rows) {
    const auto user = keys::parse_user(key);
    if (!user) return make_error(EUCLEAN, fmt::format("a row of a user of base {} is damaged", base.v));
    all.push_back({user->user, value == keys::kWholeUser});
  }
  return std::optional(std::move(all));
}

Result<std::vector<std::uint64_t>> Rows::some_blocks(const TreeLock& lock, const std::string& home, BlockIndex from, BlockIndex to, std::size_t most) const {
  LSMFS_ASSIGN(const auto rows, in_range(lock, {.family = Family::blocks, .from = keys::block(home, from), .upper = keys::block(home, to), .most = most, .values = false}));
  std::vector<std::uint64_t> there;
  for (const auto& [key, value] : rows) {
    const auto index = keys::block_index(key, home.size());
    if (!index) return make_error(EUCLEAN, "the key of a row of data is damaged");
    there.push_back(*index);
  }
  return there;
}

Result<Rows::Blocks> Rows::blob_patches(const TreeLock& lock, Ino number, BlockIndex from, BlockIndex to) const {
  LSMFS_ASSIGN(auto rows, in_range(lock, {.family = Family::names, .from = keys::blob_patch(number, from), .upper = keys::blob_patch(number, to)}));
  Blocks there;
  for (auto& [key, value] : rows) there.emplace_back(keys::parse_blob_patch(key)->first, std::move(value));
  return there;
}

std::unique_ptr<Cursor> Rows::blob_patches_now(Ino number, BlockIndex from, BlockIndex to) const {
  return store_.cursor(Family::names, {.lower = keys::blob_patch(number, from), .upper = keys::blob_patch(number, to)});
}

BlockCursor Rows::walk(const std::string& home, BlockIndex from, BlockIndex to, Wait wait) const { return {store_, home, from, to, wait}; }

Result<void> Rows::read(const std::string& home, ByteOffset offset, MutableBytes to, Elsewhere elsewhere, std::uint64_t epoch, Wait wait) {
  const std::uint64_t end = offset.v + to.size();
  const BlockIndex first{offset.v / kBlockSize}, after{(end - 1) / kBlockSize + 1};
  const std::string begin_key = keys::block(home, first), end_key = keys::block(home, after);
  blocks_ahead_.note(begin_key, end_key, wait, to.size());
  if (wait == Wait::yes) blocks_ahead_.wait_for(begin_key, end_key);
  return read_apart(home, offset, to, elsewhere, epoch, wait);
}

Result<void> Rows::read_apart(const std::string& home, ByteOffset offset, MutableBytes to, Elsewhere elsewhere, std::uint64_t epoch, Wait wait) {
  const std::uint64_t end = offset.v + to.size();
  const BlockIndex first{offset.v / kBlockSize}, after{(end - 1) / kBlockSize + 1};
  const std::string begin_key = keys::block(home, first), end_key = keys::block(home, after);
  const bool parkable = wait == Wait::no;
  ParkedCursors::Place place;
  if (parkable) place = parked_blocks_.take(epoch, begin_key);
  auto& cursor = place.cursor;
  const bool there = place.is_at(begin_key);
  if (!cursor) cursor = store_.cursor(Family::blocks, {.lower = {}, .upper = parkable ? std::string() : end_key, .wait = wait});
  if (!there) cursor->seek(begin_key);
  place.passed = begin_key;

  std::uint64_t filled = offset.v;  // bytes of the file before this are in `to` already
  auto zero_until = [&](std::uint64_t position) {
    if (position > filled && elsewhere == Elsewhere::zeros) std::fill_n(to.data() + (filled - offset.v), position - filled, std::byte{0});
    filled = std::max(filled, position);
  };
  BlockCursor blocks(*cursor, home, after);
  for (; blocks.valid(); blocks.next()) {
    place.passed = cursor->key();
    const std::string_view value = blocks.bytes();
    const std::uint64_t start = blocks.index().v * kBlockSize;
    const std::uint64_t from = std::max(start, offset.v), until = std::min(start + value.size(), end);
    zero_until(from);
    if (from < until) {
      std::memcpy(to.data() + (from - offset.v), value.data() + (from - start), until - from);
      filled = until;
    }
    if (start + kBlockSize >= end) break;  // the row after it may not be in memory, and is not needed
  }
  LSMFS_TRY(blocks.status());
  zero_until(end);
  if (parkable) {
    if (cursor->valid() && cursor->key() < end_key) cursor->next();  // where the next read may begin
    if (cursor->status()) parked_blocks_.park(std::move(place), epoch);
  }
  return {};
}

ParkedCursors::Place Rows::seek_names(const std::string& target) {
  auto place = parked_names_.take(history_.committed(), target);
  // In a walk of the tree, a directory's entries follow those of the one before, or of its own parent.
  if (place.is_at(target)) return place;
  if (!place.cursor) place.cursor = store_.cursor(Family::names, {.lower = {}, .upper = {}, .wait = Wait::no});
  place.cursor->seek(target);
  place.passed = target;
  return place;
}

void Rows::park_names(ParkedCursors::Place place) { parked_names_.park(std::move(place), history_.committed()); }

void Rows::note_entry(const std::string& dir_home, std::string_view name, Wait wait) {
  const std::string key = keys::entry(dir_home, name);
  names_ahead_.note(key, key + '\x01', wait);
}

void Rows::settled(const Group& group) {
  parked_names_.clear();
  if (!group.blocks) return;
  ++epoch_;
  parked_blocks_.clear();
}

void Rows::let_go_ahead() {
  names_ahead_.let_go();
  blocks_ahead_.let_go();
  files_ahead_.let_go();
}

void Rows::let_go() {
  let_go_ahead();
  parked_names_.clear();
  parked_blocks_.clear();
}

void Rows::let_go_of_idle() {
  parked_names_.clear_idle();
  parked_blocks_.clear_idle();
}

void Rows::put_entry(const std::string& dir_home, std::string_view name, std::string_view row) {
  batch().put(Family::names, keys::entry(dir_home, name), row);
}
void Rows::erase_entry(const std::string& dir_home, std::string_view name) { batch().erase(Family::names, keys::entry(dir_home, name)); }
void Rows::erase_linked(Ino ino) { batch().erase(Family::names, keys::linked(ino)); }
void Rows::erase_orphan(Ino ino) { batch().erase(Family::names, keys::orphan(ino)); }
void Rows::put_xattr(const std::string& home, std::string_view name, std::string_view value) {
  batch().put(Family::names, keys::xattr(home, name), value);
}
void Rows::erase_xattr(const std::string& home, std::string_view name) { batch().erase(Family::names, keys::xattr(home, name)); }

void Rows::put_node(Ino number, std::string_view row) { batch().put(Family::names, keys::node(number), row); }
void Rows::erase_node(Ino number) { batch().erase(Family::names, keys::node(number)); }
void Rows::put_user(Ino base, Ino user, bool whole) { batch().put(Family::names, keys::user(base, user), whole ? keys::kWholeUser : ""); }
void Rows::erase_user(Ino base, Ino user) { batch().erase(Family::names, keys::user(base, user)); }

void Rows::erase_blocks(const std::string& home, BlockIndex from, BlockIndex to, std::uint64_t rows) {
  if (from >= to) return;
  Group& group = history_.open();
  group.blocks = true;
  group.put_tail();
  if (to.v - from.v > kPointEraseMax) {
    batch().erase_range(Family::blocks, keys::block(home, from), keys::block(home, to), rows);
    return;
  }
  for (std::uint64_t i = from.v; i < to.v; ++i) erase_block(home, BlockIndex{i});
}

void Rows::erase_blocks(const std::string& home, const std::vector<std::uint64_t>& indexes) {
  history_.open().blocks = true;
  history_.open().put_tail();
  for (const std::uint64_t index : indexes) erase_block(home, BlockIndex{index});
}

void Rows::erase_block(const std::string& home, BlockIndex index) { batch().erase(Family::blocks, keys::block(home, index)); }

void Rows::write_block(Ino ino, const std::string& home, BlockIndex index, std::size_t at, std::string_view bytes, bool replaces) {
  std::optional<Tail>& tail = history_.open().tail;
  assert(!tail || (tail->ino == ino && tail->index == index.v));
  if (!tail) {
    if (!replaces) return patch_block(home, index, at, bytes);
    std::string key = keys::block(home, index);
    if (bytes.size() == kBlockSize) return batch().put(Family::blocks, key, bytes);
    tail = Tail{ino, index.v, std::move(key), {}};
  }
  tail->bytes.resize(std::max(tail->bytes.size(), at + bytes.size()));
  bytes.copy(tail->bytes.data() + at, bytes.size());
  if (tail->bytes.size() == kBlockSize) history_.open().put_tail();
}

void Rows::patch_block(const std::string& home, BlockIndex index, std::size_t at, std::string_view bytes) {
  assert(!history_.open().tail);
  batch().patch(Family::blocks, keys::block(home, index), static_cast<std::uint32_t>(at), bytes);
}

void Rows::cut_block(const std::string& home, BlockIndex index, std::size_t size) {
  assert(!history_.open().tail);
  batch().cut(Family::blocks, keys::block(home, index), static_cast<std::uint32_t>(size));
}

bool Rows::blocks_lost(const std::string& home, BlockIndex from, BlockIndex to) const {
  return has_lost() && store_.is_lost(Family::blocks, keys::block(home, from), keys::block(home, to));
}

void Rows::know_blocks(const std::string& home, BlockIndex from, BlockIndex to) {
  if (has_lost() && from < to) batch().know(Family::blocks, keys::block(home, from), keys::block(home, to));
}

void Rows::know_entries(const std::string& home) {
  if (has_lost()) batch().know(Family::names, keys::entries_begin(home), keys::entries_end(home));
}

void Rows::know_below(const std::string& home) {
  if (!has_lost()) return;
  for (const Family family : {Family::names, Family::blocks}) batch().know(family, home, keys::prefix_end(home));
}

}  // namespace lsmfs

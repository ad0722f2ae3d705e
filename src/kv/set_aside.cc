#include "kv/set_aside.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

namespace lsmfs::kv {
namespace {

// u8 kind of compression | le32 checksum of the block and that byte.
constexpr std::size_t kTrailer = 5;
constexpr std::size_t kPlainLeast = 8, kCompressedLeast = 26;  // bytes of a block without rows

// The number after `word` in `text`.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view word) {
  const std::size_t at = text.rfind(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

constexpr std::uint8_t kPlain = 0, kZstd = 7;  // RocksDB's kinds of compression

// A block is its rows, where some of them begin (le32 each, at least one), and how many of these there are (le32). One without rows begins
// with that list, which may be of any length. Where the size is no multiple of four, it is compressed: varint length, a frame of
// Zstandard that holds eight bytes as they are, and one that it skips (RFC 8878). The checksum is as in format 5 of tables: 32 bits of
// XXH3 of the block, changed by the last byte, which is the kind of compression (rocksdb/table/format.cc).
void put_empty_block(std::string& out, std::uint64_t size) {
  out.clear();
  const bool plain = size % 4 == 0;
  if (plain) {
    out.assign(size - 4, '\0');
    put_le32(out, static_cast<std::uint32_t>(size / 4 - 1));
  } else {
    put_varint(out, 8);
    put_le32(out, 0xfd2fb528);
    put_u8(out, 0x20);                        // one segment, the length in a byte
    put_u8(out, 8);
    out.append("\x41\0\0", 3);                // the last block, as it is, eight bytes
    put_le32(out, 0);
    put_le32(out, 1);
    put_le32(out, 0x184d2a50);
    put_le32(out, static_cast<std::uint32_t>(size - kCompressedLeast));
    out.resize(size, '\0');
  }
  const std::uint8_t kind = plain ? kPlain : kZstd;
  constexpr std::uint32_t kOfLastByte = 0x6b9083d9;
  const std::uint32_t sum = static_cast<std::uint32_t>(checksum(out)) ^ (kind * kOfLastByte);
  put_u8(out, kind);
  put_le32(out, sum);
}

}  // namespace

std::optional<std::uint64_t> table_number(std::string_view name) {
  if (const std::size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  if (!name.ends_with(".sst")) return std::nullopt;
  name.remove_suffix(4);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number == 0) return std::nullopt;
  return number;
}

// "... block checksum mismatch: stored = 1, computed = 2, type = 4  in /lsmfs/000012.sst offset 34 size 56 ...": in these words since 6.x.
std::optional<TableBlock> damaged_block(const rocksdb::Status& status) {
  if (!status.IsCorruption()) return std::nullopt;
  const std::string text = status.ToString();
  if (text.find("block checksum mismatch") == std::string::npos) return std::nullopt;
  constexpr std::string_view kIn = "  in ";
  const std::size_t in = text.rfind(kIn), end = text.find(" offset ");
  if (in == std::string::npos || end == std::string::npos || in + kIn.size() > end) return std::nullopt;
  const auto table = table_number(std::string_view(text).substr(in + kIn.size(), end - in - kIn.size()));
  const auto offset = number_after(text, " offset "), size = number_after(text, " size ");
  if (!table || !offset || !size) return std::nullopt;
  if (*size < (*size % 4 == 0 ? kPlainLeast : kCompressedLeast)) return std::nullopt;
  return TableBlock{*table, *offset, *size};
}

void SetAside::add(const TableBlock& block) {
  const MutexLock lock(mutex_);
  blocks_[block.table][block.offset] = block.size;
  any_.store(true, std::memory_order_release);
}

bool SetAside::has(const TableBlock& block) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  const MutexLock lock(mutex_);
  const auto table = blocks_.find(block.table);
  return table != blocks_.end() && table->second.contains(block.offset);
}

std::vector<TableBlock> SetAside::all() const {
  const MutexLock lock(mutex_);
  std::vector<TableBlock> all;
  for (const auto& [table, blocks] : blocks_) {
    for (const auto& [offset, size] : blocks) all.push_back({table, offset, size});
  }
  return all;
}

void SetAside::forget(std::uint64_t table) {
  const MutexLock lock(mutex_);
  blocks_.erase(table);
}

void SetAside::cover(std::uint64_t table, std::uint64_t offset, MutableBytes data) const {
  if (!any_.load(std::memory_order_acquire)) return;
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(table);
  if (found == blocks_.end()) return;
  std::string empty;
  for (const auto& [at, size] : found->second) {
    const std::uint64_t from = std::max(at, offset), to = std::min(at + size + kTrailer, offset + data.size());
    if (from >= to) continue;
    put_empty_block(empty, size);
    std::memcpy(data.data() + (from - offset), empty.data() + (from - at), to - from);
  }
}

}  // namespace lsmfs::kv

// Puts the right checksums into RocksDB's own files after they were changed: CRC-32C of the records of its logs, XXH3 of
// the blocks of its tables. What RocksDB makes of such files when its own structures are changed is its own affair
// (docs/limits.md): the tests change rows.
#pragma once

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "kv/footer.h"
#include "lsmfs/base.h"

namespace lsmfs::fuzz {

// LSMFS_FUZZ_ROCKSDB=1: the images get them.
inline bool seals_rocksdb() {
  static const bool asked = std::getenv("LSMFS_FUZZ_ROCKSDB") != nullptr;
  return asked;
}

inline std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

// Whole records that begin at `offset` of a log: le32 checksum of what follows the length | le16 length | u8 kind | bytes,
// in blocks of 32 KiB whose last bytes are left out when no header fits.
inline void seal_log_records(std::string& log, std::uint64_t offset) {
  constexpr std::uint64_t kLogBlock = 32 * KiB, kHeader = 7;
  for (std::size_t at = 0; at + kHeader <= log.size();) {
    const std::uint64_t left = kLogBlock - (offset + at) % kLogBlock;
    if (left < kHeader) {
      at += left;
      continue;
    }
    const std::size_t length = Reader(std::string_view(log).substr(at + 4)).le16();
    if (length > log.size() - at - kHeader) return;
    const std::uint32_t crc = crc32c(std::string_view(log).substr(at + 6, 1 + length));
    std::string sum;
    put_le32(sum, (crc >> 15 | crc << 17) + 0xa282ead8u);
    log.replace(at, 4, sum);
    at += kHeader + length;
  }
}

// Of a block and the byte behind it that says how it is compressed.
inline std::uint32_t block_checksum(std::string_view block_and_kind) {
  const auto last = static_cast<std::uint8_t>(block_and_kind.back());
  block_and_kind.remove_suffix(1);
  return static_cast<std::uint32_t>(checksum(block_and_kind)) ^ last * 0x6b9083d9u;
}

// The blocks of a sound table, as (offset, bytes with the kind), found by their checksums: they follow each other.
inline std::vector<std::pair<std::size_t, std::size_t>> blocks_of(std::string_view table) {
  std::vector<std::pair<std::size_t, std::size_t>> blocks;
  const std::size_t end = table.size() - kv::kFooterSize;
  for (std::size_t at = 0, size = 1; at + size + 4 <= end; ++size) {
    if (Reader(table.substr(at + size)).le32() != block_checksum(table.substr(at, size))) continue;
    blocks.emplace_back(at, size);
    at += size + 4;
    size = 0;
  }
  return blocks;
}

}  // namespace lsmfs::fuzz

// kv/blob_index: what is in a blob, and where: the index that is written behind its data (docs/format.md#blobs).
//
// Data are in pieces, each of so many blocks: as they are, with a checksum for each block, or compressed, with one for all of it.
// A blob that grows while it is in use gets a part of its index at a time, each of which names the one before.
//
// What it is not: it reads and writes nothing. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

inline constexpr std::uint32_t kBlobPieceBlocks = 32;  // of one that is compressed, at most

struct BlobPiece {
  std::uint64_t first = 0;    // block
  std::uint32_t blocks = 0;
  std::uint32_t stored = 0;   // bytes, if it is compressed; 0: it is not
  std::uint64_t at = 0;       // in the blob's file
  std::size_t sums = 0;       // where its checksums begin: of its blocks in order, or one of what is stored
  std::uint64_t end() const { return first + blocks; }
};

// Of the checksums of what lies at a place of a blob.
std::uint64_t blob_seed(std::uint64_t blob, std::uint64_t at);
// Of what is stored there: 32 bits.
std::uint32_t blob_checksum(std::uint64_t blob, std::uint64_t at, Bytes bytes);

// A part of an index: in the order of blocks.
struct BlobIndex {
  std::vector<BlobPiece> pieces;
  std::vector<std::uint32_t> sums;

  std::uint64_t first() const { return pieces.empty() ? 0 : pieces.front().first; }
  std::uint64_t end() const { return pieces.empty() ? 0 : pieces.back().end(); }
  bool empty() const { return pieces.empty(); }
  void add(BlobPiece piece, const std::vector<std::uint32_t>& of_piece);
  // Puts the part before it in front.
  void prepend(BlobIndex before);
  // The piece with that block. Must hold: it is between first() and end().
  const BlobPiece& piece_of(std::uint64_t block) const;
  // Bytes of encode() with so many pieces and checksums.
  static std::uint64_t encoded_size(std::uint64_t pieces, std::uint64_t sums);

  // Where a part lies in the blob's file.
  struct Place {
    std::uint64_t at = 0;
    std::uint32_t size = 0;  // 0: there is none
    friend bool operator==(const Place&, const Place&) = default;
  };
  // `at`: where it will lie. `before`: the part before it.
  std::string encode(std::uint64_t blob, std::uint64_t at, const Place& before) const;
  // nullopt: it is damaged, or not of that blob and place.
  struct Decoded;
  static std::optional<Decoded> decode(std::string_view bytes, std::uint64_t blob, std::uint64_t at);
};

struct BlobIndex::Decoded {
  BlobIndex index;
  Place before;
};

// The last bytes of a blob's file say where the last part of its index lies. `end`: of the file.
inline constexpr std::size_t kBlobFooter = 24;
std::string blob_footer(const BlobIndex::Place& last, std::uint64_t blob, std::uint64_t end);
std::optional<BlobIndex::Place> read_blob_footer(std::string_view bytes, std::uint64_t blob, std::uint64_t end);  // nullopt: damaged

}  // namespace lsmfs::kv

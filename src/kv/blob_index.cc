#include "kv/blob_index.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lsmfs::kv {
namespace {

constexpr std::uint32_t kMagic = 0x494c424c;  // "LBLI"
constexpr std::uint64_t kChecked = 4 + 8;     // bytes before what the checksum is of
constexpr std::uint64_t kHeader = kChecked + 8 + 8 + 4 + 8 + 4, kPiece = 4 + 4 + 8, kSum = 4;

}  // namespace

std::uint64_t blob_seed(std::uint64_t blob, std::uint64_t at) { return blob * 0x9e3779b97f4a7c15 + at; }

std::uint32_t blob_checksum(std::uint64_t blob, std::uint64_t at, Bytes bytes) {
  return static_cast<std::uint32_t>(checksum(bytes, blob_seed(blob, at)));
}

void BlobIndex::add(BlobPiece piece, const std::vector<std::uint32_t>& of_piece) {
  piece.sums = sums.size();
  sums.insert(sums.end(), of_piece.begin(), of_piece.end());
  pieces.push_back(piece);
}

void BlobIndex::prepend(BlobIndex before) {
  for (BlobPiece& piece : pieces) piece.sums += before.sums.size();
  before.pieces.insert(before.pieces.end(), pieces.begin(), pieces.end());
  before.sums.insert(before.sums.end(), sums.begin(), sums.end());
  *this = std::move(before);
}

const BlobPiece& BlobIndex::piece_of(std::uint64_t block) const {
  const auto after = std::ranges::upper_bound(pieces, block, {}, &BlobPiece::first);
  assert(after != pieces.begin() && block < std::prev(after)->end());
  return *std::prev(after);
}

std::uint64_t BlobIndex::encoded_size(std::uint64_t pieces, std::uint64_t sums) { return kHeader + pieces * kPiece + sums * kSum; }

std::string BlobIndex::encode(std::uint64_t blob, std::uint64_t at, const Place& before) const {
  std::string checked;
  checked.reserve(encoded_size(pieces.size(), sums.size()));
  put_le64(checked, blob);
  put_le64(checked, before.at);
  put_le32(checked, before.size);
  put_le64(checked, first());
  put_le32(checked, static_cast<std::uint32_t>(pieces.size()));
  for (const BlobPiece& piece : pieces) {
    put_le32(checked, piece.blocks);
    put_le32(checked, piece.stored);
    put_le64(checked, piece.at);
  }
  for (const std::uint32_t sum : sums) put_le32(checked, sum);
  std::string out;
  put_le32(out, kMagic);
  put_le64(out, checksum(checked, blob_seed(blob, at)));
  return out + checked;
}

std::optional<BlobIndex::Decoded> BlobIndex::decode(std::string_view bytes, std::uint64_t blob, std::uint64_t at) {
  Reader in(bytes);
  if (in.le32() != kMagic || in.le64() != checksum(in.rest(), blob_seed(blob, at)) || in.le64() != blob) return std::nullopt;
  Decoded decoded;
  decoded.before.at = in.le64();
  decoded.before.size = in.le32();
  std::uint64_t block = in.le64();
  const std::uint64_t pieces = in.le32();
  if (pieces == 0 || pieces > in.rest().size() / kPiece) return std::nullopt;
  std::uint64_t sums = 0;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    BlobPiece piece;
    piece.first = block;
    piece.blocks = in.le32();
    piece.stored = in.le32();
    piece.at = in.le64();
    piece.sums = sums;
    const bool compressed = piece.stored > 0;
    const bool sound = piece.blocks > 0 && block + piece.blocks > block &&
                       (compressed ? piece.blocks <= kBlobPieceBlocks && piece.stored < piece.blocks * kBlobBlock : piece.at % kBlobBlock == 0);
    if (!sound) return std::nullopt;
    block = piece.end();
    sums += compressed ? 1 : piece.blocks;
    decoded.index.pieces.push_back(piece);
  }
  if (in.rest().size() != sums * kSum) return std::nullopt;
  decoded.index.sums.reserve(sums);
  for (std::uint64_t i = 0; i < sums; ++i) decoded.index.sums.push_back(in.le32());
  return decoded;
}

std::string blob_footer(const BlobIndex::Place& last, std::uint64_t blob, std::uint64_t end) {
  std::string out;
  put_le64(out, last.at);
  put_le32(out, last.size);
  put_le32(out, kMagic);
  put_le64(out, checksum(out, blob_seed(blob, end)));
  return out;
}

std::optional<BlobIndex::Place> read_blob_footer(std::string_view bytes, std::uint64_t blob, std::uint64_t end) {
  if (bytes.size() != kBlobFooter) return std::nullopt;
  Reader in(bytes);
  BlobIndex::Place last;
  last.at = in.le64();
  last.size = in.le32();
  if (in.le32() != kMagic || in.le64() != checksum(bytes.substr(0, kBlobFooter - 8), blob_seed(blob, end))) return std::nullopt;
  if (last.at > end || last.size > end - last.at) return std::nullopt;
  return last;
}

}  // namespace lsmfs::kv

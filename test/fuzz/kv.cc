// The targets of merge operands (two of them, strings, and the value that they change), and of the index of a blob.
#include <algorithm>

#include "fuzz/target.h"
#include "kv/blob_index.h"
#include "kv/patch.h"

namespace lsmfs::fuzz {
namespace {

using kv::Patch;

// The planted fault: a length is believed before it has been checked.
std::optional<Patch> decode_with_room_for_all(std::string_view operand) {
  Reader in(operand);
  in.u8();
  in.varint();
  in.varint();
  std::vector<std::pair<std::uint32_t, std::string>> segments;
  segments.reserve(in.varint());
  return Patch::decode(operand);
}

std::optional<Patch> decode(std::string_view operand) {
  const auto patch = planted == Planted::length_believed ? decode_with_room_for_all(operand) : Patch::decode(operand);
  if (patch) check(Patch::decode(patch->encode()) == patch, "what was encoded decodes to something else");
  return patch;
}

std::string applied(const Patch& patch, std::string value) {
  const std::size_t most = std::max<std::size_t>(value.size(), kv::kPatchEndMax);
  patch.apply(value);
  check(value.size() <= most, "a value grows beyond what a patch may make of it");
  return value;
}

bool run_patch(std::string_view input) {
  Reader in(input);
  const auto first = decode(in.string()), second = decode(in.string());
  if (!in.ok() || !first || !second) return false;
  const std::string value(in.rest());
  Patch both = *first;
  both.then(*second);
  check(Patch::decode(both.encode()) == both, "two patches in one cannot be decoded");
  check(applied(both, value) == applied(*second, applied(*first, value)), "two patches in one do something else");
  return true;
}

std::vector<std::string> patch_examples() {
  Patch several = Patch::overwrite(10, "abc");
  several.then(Patch::overwrite(100, std::string(50, 'x')));
  several.then(Patch::overwrite(4000, "end"));
  Patch shorter = Patch::overwrite(0, "0123456789");
  shorter.then(Patch::cut(5));
  const std::vector<Patch> patches{Patch::overwrite(0, "a"), Patch::cut(0), Patch::cut(4095), several, shorter};
  std::vector<std::string> all;
  for (const Patch& first : patches) {
    for (const Patch& second : patches) {
      std::string input;
      put_string(input, first.encode());
      put_string(input, second.encode());
      all.push_back(input + std::string(200, 'v'));
    }
  }
  return all;
}

// A part of an index as a blob has it there.
constexpr std::uint64_t kBlob = 3, kAt = 5 * kBlobBlock;

bool run_blob_index(std::string_view input) {
  Reader in(input);
  const bool seals = in.u8() & 1;
  std::string bytes(in.rest());
  constexpr std::size_t kChecked = 12;  // a magic number and the checksum come before it
  if (seals && bytes.size() > kChecked) {
    std::string sum;
    put_le64(sum, checksum(std::string_view(bytes).substr(kChecked), kv::blob_seed(kBlob, kAt)));
    bytes.replace(kChecked - sum.size(), sum.size(), sum);
  }
  const auto decoded = kv::BlobIndex::decode(bytes, kBlob, kAt);
  if (!decoded) return false;
  const kv::BlobIndex& index = decoded->index;
  check(!index.empty(), "a part of an index without pieces");
  check(index.encode(kBlob, kAt, decoded->before) == bytes, "an index encodes to something else");
  std::uint64_t block = index.first();
  for (const kv::BlobPiece& piece : index.pieces) {
    check(piece.first == block && piece.end() > block, "a piece does not begin where the one before it ends");
    check(&index.piece_of(block) == &piece && &index.piece_of(piece.end() - 1) == &piece, "a block is of another piece");
    check(piece.sums + (piece.stored > 0 ? 1 : piece.blocks) <= index.sums.size(), "a piece has no checksums");
    check(piece.stored == 0 || piece.blocks <= kv::kBlobPieceBlocks, "a compressed piece is too large");
    block = piece.end();
  }
  check(block == index.end(), "the pieces end elsewhere");
  return true;
}

std::vector<std::string> blob_index_examples() {
  kv::BlobIndex plain, both;
  plain.add({.first = 0, .blocks = 3, .at = 0}, {1, 2, 3});
  both.add({.first = 7, .blocks = 32, .stored = 900, .at = 100}, {4});
  both.add({.first = 39, .blocks = 2, .at = 2 * kBlobBlock}, {5, 6});
  both.add({.first = 41, .blocks = 1, .stored = 1, .at = 4 * kBlobBlock + 1}, {7});
  std::vector<std::string> all;
  for (const kv::BlobIndex& index : {plain, both}) {
    for (const char seals : {'\0', '\1'}) all.push_back(seals + index.encode(kBlob, kAt, {4096, 77}));
  }
  return all;
}

}  // namespace

const Target kBlobIndex{"blob_index", run_blob_index, blob_index_examples, 1024, 64, 200'000};
const Target kPatch{"patch", run_patch, patch_examples, 1024, 256, 200'000};

}  // namespace lsmfs::fuzz

#include "tree/file_blobs.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs {
namespace {

enum Kind : std::uint8_t { kBlobPart = 1, kSharedPart = 2 };
constexpr std::size_t kPatched = 1 + 4 * 8;  // where the bytes of patches are in the row of a blob

// A row: what kind | what it is (8 bytes each number) | a bit for each block that has gone, from the lowest of the first byte on; bytes that
// are missing are 0. What a blob is: its number | its blocks and bytes, as it can be read | blocks of the file | bytes of patches. What is
// shared: the first block of the base | blocks | the base's home.
std::string header(const FileBlobs::Part& part) {
  std::string out;
  if (part.shared()) {
    put_u8(out, kSharedPart);
    put_le64(out, part.from);
    put_le64(out, part.blocks);
    put_string(out, part.base);
    return out;
  }
  put_u8(out, kBlobPart);
  put_le64(out, part.blob);
  put_le64(out, part.end.blocks);
  put_le64(out, part.end.bytes);
  put_le64(out, part.blocks);
  put_le64(out, part.patched);
  return out;
}

// Bytes [from, to) of the bits.
std::string bits(const FileBlobs::Part& part, std::uint64_t from, std::uint64_t to) {
  std::string out(to - from, '\0');
  for (std::uint64_t bit = from * 8; bit < std::min<std::uint64_t>(to * 8, part.is_gone.size()); ++bit) {
    if (part.is_gone[bit]) out[bit / 8 - from] = static_cast<char>(out[bit / 8 - from] | 1 << bit % 8);
  }
  return out;
}

}  // namespace

std::string FileBlobs::encode(const Part& part) { return header(part) + bits(part, 0, div_up(part.is_gone.size(), 8)); }

std::optional<FileBlobs::Part> FileBlobs::decode(std::uint64_t first, std::string_view row) {
  Reader in(row);
  Part part;
  part.first = first;
  std::uint64_t most = 0;  // blocks
  switch (in.u8()) {
    case kBlobPart:
      part.blob = in.le64();
      part.end.blocks = in.le64();
      part.end.bytes = in.le64();
      part.blocks = in.le64();
      part.patched = in.le64();
      most = part.end.blocks;
      if (!in.ok() || part.blob == 0) return std::nullopt;
      break;
    case kSharedPart:
      part.from = in.le64();
      part.blocks = in.le64();
      part.base = in.string();
      most = part.blocks;
      if (!in.ok() || part.base.empty() || !keys::number_of(part.base) || part.from >= block_count(kFileSizeMax)) return std::nullopt;
      break;
    default:
      return std::nullopt;
  }
  if (part.blocks > most || most > kBlocksMax) return std::nullopt;
  if (part.patched > most * kPatchedMost) return std::nullopt;
  if (first + part.blocks < first || in.rest().size() > div_up(most, 8)) return std::nullopt;
  part.is_gone.resize(std::min<std::uint64_t>(in.rest().size() * 8, part.blocks));
  for (std::uint64_t i = 0; i < part.is_gone.size(); ++i) {
    const bool gone = static_cast<std::uint8_t>(in.rest()[i / 8]) >> i % 8 & 1;
    part.is_gone[i] = gone;
    part.gone += gone;
  }
  if (part.live() == 0) return std::nullopt;
  return part;
}

void FileBlobs::add(Part part) {
  assert(parts_.empty() || parts_.back().past() <= part.first);
  parts_.push_back(std::move(part));
}

bool FileBlobs::add(std::uint64_t first, std::string_view row) {
  auto part = decode(first, row);
  if (!part || (!empty() && parts_.back().past() > part->first)) return false;
  add(std::move(*part));
  return true;
}

void FileBlobs::insert(Part part) {
  assert(live(part.first, part.past()) == 0);
  parts_.insert(std::ranges::upper_bound(parts_, part.first, {}, &Part::first), std::move(part));
}

bool FileBlobs::makes_room(std::uint64_t block) const {
  return std::ranges::none_of(parts_, [&](const Part& part) { return part.first < block && part.past() > block; });
}

void FileBlobs::skip(std::uint64_t blocks) {
  Part& part = parts_.back();
  part.is_gone.resize(part.blocks);
  part.blocks += blocks;
  part.is_gone.resize(part.blocks, true);
  part.gone += blocks;
}

void FileBlobs::reached(std::uint64_t blob, const BlobEnd& end) {
  const auto part = std::ranges::find(parts_, blob, &Part::blob);
  if (part != parts_.end()) part->end = end;
}

const FileBlobs::Part* FileBlobs::find(std::uint64_t blob) const {
  const auto part = std::ranges::find(parts_, blob, &Part::blob);
  return part == parts_.end() ? nullptr : &*part;
}

std::uint64_t FileBlobs::wasted() const {
  std::uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.wasted();
  return sum;
}

std::uint64_t FileBlobs::live() const {
  std::uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.live();
  return sum;
}

std::vector<FileBlobs::Run> FileBlobs::runs(std::uint64_t from, std::uint64_t to) const {
  std::vector<Run> found;
  const auto add = [&](std::uint64_t until, const Part* part) {
    if (from >= until) return;
    if (!found.empty() && found.back().part == part) {
      found.back().to = until;
    } else {
      found.push_back({from, until, part});
    }
    from = until;
  };
  auto part = std::ranges::upper_bound(parts_, from, {}, &Part::past);
  for (; part != parts_.end() && part->first < to; ++part) {
    add(std::min(part->first, to), nullptr);
    const std::uint64_t end = std::min(part->past(), to);
    while (from < end) {
      const bool has = part->has(from);
      std::uint64_t until = from + 1;
      if (from - part->first >= part->is_gone.size()) until = end;  // none has gone from there on
      while (until < end && part->has(until) == has) ++until;
      add(until, has ? &*part : nullptr);
    }
  }
  add(to, nullptr);
  return found;
}

std::uint64_t FileBlobs::live(std::uint64_t from, std::uint64_t to) const {
  std::uint64_t sum = 0;
  for (const Run& run : runs(from, to)) sum += run.part ? run.to - run.from : 0;
  return sum;
}

std::uint64_t FileBlobs::in_blobs(std::uint64_t from, std::uint64_t to) const {
  std::uint64_t sum = 0;
  for (const Run& run : runs(from, to)) sum += run.part && !run.part->shared() ? run.to - run.from : 0;
  return sum;
}

std::vector<std::string> FileBlobs::bases() const {
  std::vector<std::string> found;
  for (const Part& part : parts_) {
    if (part.shared()) found.push_back(part.base);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

const FileBlobs::Part* FileBlobs::part_of(std::uint64_t block) const {
  const auto part = std::ranges::upper_bound(parts_, block, {}, &Part::past);
  return part != parts_.end() && part->has(block) ? &*part : nullptr;
}

bool FileBlobs::has(std::uint64_t block) const { return part_of(block) != nullptr; }

bool FileBlobs::may_patch(std::uint64_t block, std::uint64_t bytes) const {
  const Part* const part = part_of(block);
  assert(part);
  return !part->shared() && part->patched + bytes <= part->end.blocks * kPatchedMost;
}

void FileBlobs::patch(std::uint64_t block, std::uint64_t bytes, Rows& rows) {
  assert(has(block));
  Part& part = *std::ranges::upper_bound(parts_, block, {}, &Part::past);
  part.patched += bytes;
  std::string patched;
  put_le64(patched, part.patched);
  rows.patch(part.first, kPatched, patched);
}

bool FileBlobs::may_have_patch(std::uint64_t block) const {
  const Part* const part = part_of(block);
  return part && part->patched > 0;
}

std::uint64_t FileBlobs::remove(std::uint64_t from, std::uint64_t to, Rows& rows) {
  std::uint64_t sum = 0;
  for (auto at = std::ranges::upper_bound(parts_, from, {}, &Part::past); at != parts_.end() && at->first < to;) {
    Part& part = *at;
    const std::uint64_t begin = std::max(from, part.first) - part.first, end = std::min(to, part.past()) - part.first;
    std::uint64_t gone = 0;
    for (std::uint64_t i = begin; i < end; ++i) gone += part.has(part.first + i);
    sum += gone;
    if (gone > 0 && part.patched > 0) rows.erase_patches(part.first + begin, part.first + end);
    if (gone == part.live()) {
      rows.erase(part.first, part.blob);
      at = parts_.erase(at);
      continue;
    }
    if (gone > 0 && end == part.blocks) {  // the end of it: shorter
      std::uint64_t left = begin;
      while (!part.has(part.first + left - 1)) --left;
      part.is_gone.resize(std::min<std::size_t>(part.is_gone.size(), left));
      part.gone = static_cast<std::uint64_t>(std::ranges::count(part.is_gone, true));
      part.blocks = left;
      rows.put(part.first, encode(part));
    } else if (gone > 0) {
      if (part.is_gone.size() < end) part.is_gone.resize(end);
      std::fill(part.is_gone.begin() + static_cast<std::ptrdiff_t>(begin), part.is_gone.begin() + static_cast<std::ptrdiff_t>(end), true);
      part.gone += gone;
      const std::uint64_t first_byte = begin / 8, last_byte = div_up(end, 8);
      rows.patch(part.first, static_cast<std::uint32_t>(header(part).size() + first_byte), bits(part, first_byte, last_byte));
    }
    ++at;
  }
  return sum;
}

}  // namespace lsmfs

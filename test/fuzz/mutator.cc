#include "fuzz/mutator.h"

#include <algorithm>

#include "lsmfs/base.h"

namespace lsmfs::fuzz {
namespace {

constexpr std::uint64_t kChangeMax = 64;  // bytes that one change puts in or takes out, mostly

}  // namespace

// SplitMix64.
std::uint64_t Mutator::random() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t Mutator::number() {
  switch (below(4)) {
    case 0: return below(20);
    case 1: return random() >> below(64);
    default: return (std::uint64_t{1} << below(64)) + below(5) - 2;  // 2^n - 2 ... 2^n + 2; also 2^64 - 1
  }
}

std::string Mutator::mutate(std::string_view input, std::string_view other, std::size_t size_max) {
  std::string bytes(input.substr(0, size_max));
  for (std::uint64_t changes = 1 + below(below(4) == 0 ? 8 : 2); changes > 0; --changes) change(bytes, other);
  if (bytes.size() > size_max) bytes.resize(size_max);
  return bytes;
}

void Mutator::change(std::string& bytes, std::string_view other) {
  if (bytes.empty()) {
    bytes = other.substr(0, 1 + below(other.size()));
    return;
  }
  const std::size_t at = below(bytes.size());
  switch (below(8)) {
    case 0:
    case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
    case 2: bytes[at] = static_cast<char>(random()); break;
    case 3: change_integer(bytes); break;
    case 4:
    case 5: change_varint(bytes); break;
    case 6: move_piece(bytes, other); break;
    default: move_piece(bytes, bytes.substr(below(bytes.size()))); break;
  }
}

// One of 1, 2, 4 or 8 bytes, of either order, becomes another or a little more or less.
void Mutator::change_integer(std::string& bytes) {
  const std::size_t width = std::min<std::size_t>(std::size_t{1} << below(4), bytes.size());
  const std::size_t at = below(bytes.size() - width + 1);
  const bool big_endian = below(2);
  const auto place = [&](std::size_t i) -> char& { return bytes[at + (big_endian ? width - 1 - i : i)]; };
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(place(i))) << (8 * i);
  value = below(2) ? number() : value + below(9) - 4;
  for (std::size_t i = 0; i < width; ++i) place(i) = static_cast<char>(value >> (8 * i));
}

// The varint that begins somewhere, or what can be read as one, becomes another, of whatever length that has.
void Mutator::change_varint(std::string& bytes) {
  const std::size_t at = below(bytes.size());
  Reader in(std::string_view(bytes).substr(at));
  const std::uint64_t value = in.varint();
  const std::size_t size = in.ok() ? bytes.size() - at - in.rest().size() : 1;
  std::string changed;
  put_varint(changed, below(2) ? number() : value + below(9) - 4);
  bytes.replace(at, size, changed);
}

void Mutator::move_piece(std::string& bytes, std::string_view other) {
  const std::size_t at = below(bytes.size() + 1);
  const std::size_t from = below(other.size());
  const std::string piece(other.substr(from, below(8) == 0 ? other.npos : 1 + below(kChangeMax)));
  switch (below(4)) {
    case 0: bytes.insert(at, piece); break;
    case 1: bytes.replace(at, piece.size(), piece); break;
    case 2: bytes.erase(at, below(16) == 0 ? bytes.npos : 1 + below(kChangeMax)); break;
    default: bytes.insert(at, std::string(1 + below(kChangeMax), static_cast<char>(below(2) ? 0 : random()))); break;
  }
}

}  // namespace lsmfs::fuzz

#include "lsmfs/base.h"

#include <algorithm>

namespace lsmfs {
namespace {

template <class T>
void put_little(std::string& out, T v) {
  for (std::size_t i = 0; i < sizeof v; ++i) out.push_back(static_cast<char>(v >> (8 * i)));
}

template <class T>
T get_little(std::string_view b) {
  T v = 0;
  for (std::size_t i = 0; i < b.size(); ++i) v |= static_cast<T>(static_cast<T>(static_cast<std::uint8_t>(b[i])) << (8 * i));
  return v;
}

}  // namespace

void put_u8(std::string& out, std::uint8_t v) { out.push_back(static_cast<char>(v)); }
void put_le16(std::string& out, std::uint16_t v) { put_little(out, v); }
void put_le32(std::string& out, std::uint32_t v) { put_little(out, v); }
void put_le64(std::string& out, std::uint64_t v) { put_little(out, v); }

void put_be64(std::string& out, std::uint64_t v) {
  for (int shift = 56; shift >= 0; shift -= 8) out.push_back(static_cast<char>(v >> shift));
}

void put_varint(std::string& out, std::uint64_t v) {
  while (v >= 0x80) {
    out.push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out.push_back(static_cast<char>(v));
}

void put_zigzag(std::string& out, std::int64_t v) {
  put_varint(out, (static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63));
}

void put_string(std::string& out, std::string_view s) {
  put_varint(out, s.size());
  out.append(s);
}

std::string_view Reader::bytes(std::size_t n) {
  if (n > rest_.size()) {
    fail();
    return {};
  }
  auto got = rest_.substr(0, n);
  rest_.remove_prefix(n);
  return got;
}

std::uint8_t Reader::u8() { return get_little<std::uint8_t>(bytes(1)); }
std::uint16_t Reader::le16() { return get_little<std::uint16_t>(bytes(2)); }
std::uint32_t Reader::le32() { return get_little<std::uint32_t>(bytes(4)); }
std::uint64_t Reader::le64() { return get_little<std::uint64_t>(bytes(8)); }

std::uint64_t Reader::be64() {
  std::uint64_t v = 0;
  for (char c : bytes(8)) v = v << 8 | static_cast<std::uint8_t>(c);
  return v;
}

std::uint64_t Reader::varint() {
  std::uint64_t v = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(rest_.size(), 10); ++i) {
    const auto b = static_cast<std::uint8_t>(rest_[i]);
    if (i == 9 && b > 1) break;  // over 64 bits
    v |= static_cast<std::uint64_t>(b & 0x7f) << (7 * i);
    if (b < 0x80) {
      rest_.remove_prefix(i + 1);
      return v;
    }
  }
  fail();
  return 0;
}

std::int64_t Reader::zigzag() {
  const std::uint64_t v = varint();
  return static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
}

std::string_view Reader::string() {
  const std::uint64_t n = varint();
  return bytes(n);
}

}  // namespace lsmfs

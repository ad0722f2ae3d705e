#include <fmt/format.h>

#include <charconv>
#include <random>

#include "lsmfs/base.h"

namespace lsmfs {

Uuid Uuid::random() {
  std::random_device source;  // getrandom(2) underneath
  Uuid uuid;
  for (auto& b : uuid.bytes) b = static_cast<std::uint8_t>(source());
  uuid.bytes[6] = (uuid.bytes[6] & 0x0f) | 0x40;  // version 4
  uuid.bytes[8] = (uuid.bytes[8] & 0x3f) | 0x80;  // variant of RFC 9562
  return uuid;
}

std::string Uuid::text() const {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
  Uuid uuid;
  std::size_t at = 0;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if ((i == 4 || i == 6 || i == 8 || i == 10) && (at >= text.size() || text[at++] != '-')) return std::nullopt;
    if (text.size() < at + 2) return std::nullopt;
    const char* const end = text.data() + at + 2;
    const auto [stopped, error] = std::from_chars(text.data() + at, end, uuid.bytes[i], 16);
    if (error != std::errc() || stopped != end) return std::nullopt;
    at += 2;
  }
  return at == text.size() ? std::optional(uuid) : std::nullopt;
}

}  // namespace lsmfs

// What a disk is asked to do: the one word that the model, the trace, the queue and the server share.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "lsmfs/base.h"

namespace lsmfs::simdisk {

// Durations, and moments of a lsmfs::Clock since its beginning.
using Nanos = std::chrono::nanoseconds;

enum class Kind : std::uint8_t { read, write, flush, discard };

// A flush has neither offset nor length; both are 0.
struct Request {
  Kind kind = Kind::read;
  ByteOffset offset;
  ByteCount length;

  ByteOffset end() const { return offset + length; }
  // Whether it moves data between the disk and its user, and so has a place on the disk.
  bool transfers() const { return kind == Kind::read || kind == Kind::write; }
  friend bool operator==(const Request&, const Request&) = default;
};

// The letter of a kind in a trace: R, W, F, D.
constexpr char letter_of(Kind kind) { return "RWFD"[static_cast<int>(kind)]; }
constexpr std::optional<Kind> kind_of(char letter) {
  for (const Kind kind : {Kind::read, Kind::write, Kind::flush, Kind::discard}) {
    if (letter_of(kind) == letter) return kind;
  }
  return std::nullopt;
}

constexpr double seconds_of(Nanos time) { return static_cast<double>(time.count()) / 1e9; }

}  // namespace lsmfs::simdisk

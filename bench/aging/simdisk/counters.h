// What a disk has done, in the order in which it did it.
//
// Discontinuous reads are those of the dynamic layout score: a read that does not begin where the read before it
// ended, whatever was written in between; the first is free.
//
// Threads: one caller at a time.
#pragma once

#include <nlohmann/json.hpp>

#include "simdisk/request.h"

namespace lsmfs::simdisk {

struct Counters {
  std::uint64_t reads = 0, writes = 0, flushes = 0, discards = 0;
  ByteCount read_bytes, written_bytes, discarded_bytes;
  std::uint64_t discontinuous_reads = 0;
  Nanos busy{};

  void note(const Request& request, Nanos service);
  std::uint64_t requests() const { return reads + writes + flushes + discards; }

 private:
  std::optional<ByteOffset> read_end_;
};

// An object with a member for each: "read_bytes", "busy_seconds", ...
nlohmann::ordered_json to_json(const Counters& counters);

}  // namespace lsmfs::simdisk

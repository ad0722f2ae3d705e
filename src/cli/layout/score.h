// The dynamic layout score of a series of requests, and how many of each kind there were. As defined by Conway et al., "File
// Systems Fated for Senescence? Nonsense, Says Science!", FAST '17: 1 minus the share of 4 KiB blocks at which the disk had to
// go elsewhere. It does not tell how far.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/layout/request.h"

namespace lsmfs::cli {

struct Tally {
  std::uint64_t requests = 0;
  ByteCount bytes;
};

struct LayoutCounts {
  Tally reads, writes, discards, others;
  std::uint64_t flushes = 0;
  std::uint64_t discontinuous = 0;  // reads that do not begin where the one before ended; the first one does

  double blocks() const;                // of 4 KiB that were read
  std::optional<double> score() const;  // in [0, 1]; nullopt: nothing was read

  // Of another device: its reads and these do not follow each other.
  LayoutCounts& operator+=(const LayoutCounts& other);
};

// Counts the requests of one device, in the order in which they are issued.
class LayoutScore {
 public:
  void add(const BlockRequest& request);
  const LayoutCounts& counts() const { return counts_; }

 private:
  LayoutCounts counts_;
  std::optional<ByteOffset> read_end_;
};

}  // namespace lsmfs::cli

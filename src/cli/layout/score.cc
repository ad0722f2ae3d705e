#include "cli/layout/score.h"

#include <algorithm>

namespace lsmfs::cli {
namespace {

constexpr double kBlock = 4096;

void count(Tally& tally, ByteCount bytes) {
  ++tally.requests;
  tally.bytes = tally.bytes + bytes;
}

void add_to(Tally& tally, const Tally& other) {
  tally.requests += other.requests;
  tally.bytes = tally.bytes + other.bytes;
}

}  // namespace

double LayoutCounts::blocks() const { return static_cast<double>(reads.bytes.v) / kBlock; }

std::optional<double> LayoutCounts::score() const {
  if (reads.bytes.v == 0) return std::nullopt;
  // Reads of less than a block may all be discontinuous.
  return std::max(0.0, 1 - static_cast<double>(discontinuous) / blocks());
}

LayoutCounts& LayoutCounts::operator+=(const LayoutCounts& other) {
  add_to(reads, other.reads);
  add_to(writes, other.writes);
  add_to(discards, other.discards);
  add_to(others, other.others);
  flushes += other.flushes;
  discontinuous += other.discontinuous;
  return *this;
}

void LayoutScore::add(const BlockRequest& request) {
  switch (request.kind) {
    case RequestKind::read:
      if (request.bytes.v == 0) return;
      count(counts_.reads, request.bytes);
      if (read_end_ && request.offset != *read_end_) ++counts_.discontinuous;
      read_end_ = request.offset + request.bytes;
      return;
    case RequestKind::write:
      return count(counts_.writes, request.bytes);
    case RequestKind::discard:
      return count(counts_.discards, request.bytes);
    case RequestKind::flush:
      ++counts_.flushes;
      return;
    case RequestKind::other:
      return count(counts_.others, request.bytes);
  }
}

}  // namespace lsmfs::cli

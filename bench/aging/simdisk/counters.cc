#include "simdisk/counters.h"

namespace lsmfs::simdisk {

void Counters::note(const Request& request, Nanos service) {
  busy += service;
  switch (request.kind) {
    case Kind::read:
      ++reads;
      read_bytes = read_bytes + request.length;
      if (read_end_ && *read_end_ != request.offset) ++discontinuous_reads;
      read_end_ = request.end();
      return;
    case Kind::write:
      ++writes;
      written_bytes = written_bytes + request.length;
      return;
    case Kind::flush:
      ++flushes;
      return;
    case Kind::discard:
      ++discards;
      discarded_bytes = discarded_bytes + request.length;
      return;
  }
}

nlohmann::ordered_json to_json(const Counters& counters) {
  return {{"reads", counters.reads},
          {"read_bytes", counters.read_bytes.v},
          {"writes", counters.writes},
          {"written_bytes", counters.written_bytes.v},
          {"flushes", counters.flushes},
          {"discards", counters.discards},
          {"discarded_bytes", counters.discarded_bytes.v},
          {"discontinuous_reads", counters.discontinuous_reads},
          {"busy_seconds", seconds_of(counters.busy)}};
}

}  // namespace lsmfs::simdisk

// The lines of a trace, which other tools read and write as well:
//
//   line    = seconds ' ' kind ' ' offset ' ' bytes [' ' seconds] '\n'    the moment, the request, the service time
//   seconds = digits ['.' 1 to 9 digits]                                  written with 9
//   kind    = 'R' | 'W' | 'F' | 'D'                                       read, write, flush, discard
//   offset, bytes = digits
//
// A line that begins with '#' is a comment; an empty one is allowed, too.
#pragma once

#include <string>
#include <string_view>

#include "simdisk/request.h"

namespace lsmfs::simdisk {

struct TraceEntry {
  Nanos time{};  // since the trace was switched on, until the disk began with it
  Request request;
  Nanos service{};  // 0 where the line does not say
  friend bool operator==(const TraceEntry&, const TraceEntry&) = default;
};

// The last line of a trace that reached its limit.
inline constexpr std::string_view kTruncatedLine = "# truncated\n";

// Appends the line of an entry, with its service time.
void append_line(std::string& out, const TraceEntry& entry);

// nullopt: a comment or an empty line. EINVAL, with what is wrong as context: not a line of a trace.
// `line` has no newline.
Result<std::optional<TraceEntry>> parse_line(std::string_view line);

}  // namespace lsmfs::simdisk

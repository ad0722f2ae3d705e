// lsmfs-simdisk model: how long a profile takes for the requests of a trace.

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "simdisk/commands.h"
#include "simdisk/counters.h"
#include "simdisk/messages.h"
#include "simdisk/model.h"
#include "simdisk/trace_line.h"

namespace lsmfs::simdisk {
namespace {

// In the order of the trace, one after the other. Of all of it and of one disk, or the time would be of something else.
Result<Counters> replay(std::istream& trace, Profile profile) {
  ServiceModel model(profile);
  Counters counters;
  std::string line;
  unsigned devices = 0;
  for (std::uint64_t number = 1; std::getline(trace, line); ++number) {
    const auto wrong = [&](std::string_view what) { return make_error(EINVAL, fmt::format("line {}: {}", number, what)); };
    const auto entry = parse_line(line);
    if (!entry) return wrong(entry.error().context + "; a line is: seconds R|W|F|D offset bytes");
    if (*entry) counters.note((*entry)->request, model.service((*entry)->request));
    if (line + "\n" == kTruncatedLine) return wrong("the trace was cut off there; trace less at a time");
    if (line.starts_with("# device ") && ++devices > 1) return wrong("another device; give the lines of one of them");
  }
  if (trace.bad()) return make_error(EIO, "cannot be read");
  return counters;
}

void print(const Counters& c, Profile profile) {
  fmt::print("{}: {:.9f} s\n", name_of(profile), seconds_of(c.busy));
  fmt::print("requests: {}\n", c.requests());
  fmt::print("read: {} bytes in {} requests, {} of them discontinuous\n", c.read_bytes.v, c.reads, c.discontinuous_reads);
  fmt::print("written: {} bytes in {} requests\n", c.written_bytes.v, c.writes);
  fmt::print("discarded: {} bytes in {} requests; flushes: {}\n", c.discarded_bytes.v, c.discards, c.flushes);
}

}  // namespace

int model_command(const ModelArguments& arguments) {
  const auto profile = profile_of(arguments.profile);
  if (!profile) {
    return fail(cli::kUsage, fmt::format("--profile {}: is not known; choose one of {}", arguments.profile, profile_names()));
  }
  std::ifstream file;
  if (arguments.trace != "-") {
    file.open(arguments.trace);
    if (!file) return fail(cli::kFailure, explain(arguments.trace, make_error(errno, arguments.trace)));
  }
  const auto counters = replay(arguments.trace == "-" ? std::cin : file, *profile);
  if (!counters) {
    return fail(cli::kFailure, fmt::format("{}: {}", arguments.trace, counters.error().context));
  }
  if (!arguments.json) {
    print(*counters, *profile);
    return cli::kOk;
  }
  nlohmann::ordered_json all{{"profile", name_of(*profile)}, {"requests", counters->requests()}};
  all.update(to_json(*counters));
  fmt::print("{}\n", all.dump());
  return cli::kOk;
}

}  // namespace lsmfs::simdisk

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

// In the order of the trace, one after the other.
Result<Counters> replay(std::istream& trace, Profile profile) {
  ServiceModel model(profile);
  Counters counters;
  std::string line;
  for (std::uint64_t number = 1; std::getline(trace, line); ++number) {
    const auto entry = parse_line(line);
    if (!entry) return make_error(EINVAL, fmt::format("line {}: {}", number, entry.error().context));
    if (*entry) counters.note((*entry)->request, model.service((*entry)->request));
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
    return fail(cli::kFailure, fmt::format("{}: {}; a line is: seconds R|W|F|D offset bytes", arguments.trace,
                                           counters.error().context));
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

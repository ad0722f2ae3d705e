#include "cli/layout/report.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

using Json = nlohmann::ordered_json;

// The device that a request belongs to: an index; those.size(): none.
std::size_t device_of(const TracedDevices& devices, const BlockRequest& request) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](const TracedDevice& device) { return device.holds(request); });
  return static_cast<std::size_t>(found - devices.begin());
}

std::string counts_line(const std::string& name, const LayoutCounts& counts) {
  const auto score = counts.score();
  if (!score) return fmt::format("{}: nothing was read from it, so there is no layout score\n", name);
  return fmt::format("{}: {} reads, {}; {} discontinuous; layout score {:.3f}\n", name, counts.reads.requests,
                     format_size(counts.reads.bytes.v), counts.discontinuous, *score);
}

void add_counts(Json& json, const LayoutCounts& counts) {
  const auto score = counts.score();
  json["reads"] = counts.reads.requests;
  json["read_bytes"] = counts.reads.bytes.v;
  json["discontinuous"] = counts.discontinuous;
  json["blocks"] = counts.blocks();
  json["score"] = score ? Json(*score) : Json();
  json["writes"] = counts.writes.requests;
  json["write_bytes"] = counts.writes.bytes.v;
  json["flushes"] = counts.flushes;
  json["discards"] = counts.discards.requests;
  json["discard_bytes"] = counts.discards.bytes.v;
  json["others"] = counts.others.requests;
}

}  // namespace

void LayoutReport::count(const TracedDevices& traced, const std::vector<BlockRequest>& requests) {
  std::vector<LayoutScore> scores(traced.size() + 1);
  for (const BlockRequest& request : requests) scores[device_of(traced, request)].add(request);
  for (std::size_t i = 0; i < traced.size(); ++i) {
    devices.push_back({traced[i].name, scores[i].counts()});
    total += scores[i].counts();
  }
}

std::string layout_text(const LayoutReport& report) {
  std::string text;
  if (report.command.empty()) {
    text = fmt::format("{}: {} files, {} read in {:.2f} s\n", report.path, report.walk.files, format_size(report.walk.bytes.v),
                       report.seconds);
  } else {
    const bool killed = WIFSIGNALED(report.status);
    text = fmt::format("{}: {} {} after {:.2f} s\n", report.command.front(), killed ? "ended by signal" : "exit status",
                       killed ? WTERMSIG(report.status) : WEXITSTATUS(report.status), report.seconds);
  }
  for (const auto& device : report.devices) text += counts_line("device " + device.name, device.counts);
  if (report.devices.size() > 1) text += counts_line("all devices", report.total);
  return text;
}

std::string layout_json(const LayoutReport& report) {
  Json json;
  if (report.command.empty()) {
    json["path"] = report.path;
    json["files"] = report.walk.files;
    json["directories"] = report.walk.directories;
    json["bytes"] = report.walk.bytes.v;
    json["failures"] = report.walk.failures;
  } else {
    json["command"] = report.command;
    json["exit_status"] = WIFEXITED(report.status) ? Json(WEXITSTATUS(report.status)) : Json();
    json["signal"] = WIFSIGNALED(report.status) ? Json(WTERMSIG(report.status)) : Json();
  }
  json["seconds"] = report.seconds;
  add_counts(json, report.total);
  json["devices"] = Json::array();
  for (const auto& device : report.devices) {
    Json one;
    one["device"] = device.name;
    add_counts(one, device.counts);
    json["devices"].push_back(std::move(one));
  }
  // A path is bytes and JSON is UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string trace_text(const TracedDevices& devices, const BlockTrace::Recording& recording) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  constexpr const char* kLetters = "RWFD";  // by RequestKind
  std::string text = "# seconds, R|W|F|D, offset in bytes, bytes\n";
  std::size_t last = devices.size();
  for (const BlockRequest& request : recording.requests) {
    const std::size_t index = device_of(devices, request);
    if (index == devices.size()) continue;  // of another partition
    if (index != last) text += fmt::format("# device {}\n", devices[index].name);
    last = index;
    const std::uint64_t time = request.time_ns - std::min(request.time_ns, recording.begin_ns);
    const std::uint64_t offset = request.offset.v - std::min(request.offset.v, devices[index].start.v);
    const bool other = request.kind == RequestKind::other;
    text += fmt::format("{}{}.{:09} {} {} {}\n", other ? "# " : "", time / kSecond, time % kSecond,
                        other ? 'N' : kLetters[static_cast<std::size_t>(request.kind)], offset, request.bytes.v);
  }
  return text;
}

}  // namespace lsmfs::cli

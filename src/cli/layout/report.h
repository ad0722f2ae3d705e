// What was measured, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/layout/block_trace.h"
#include "cli/layout/devices.h"
#include "cli/layout/score.h"
#include "cli/layout/walk.h"

namespace lsmfs::cli {

// Of a walk or a command.
struct LayoutReport {
  std::string path;                  // of a walk
  WalkCounts walk;
  std::vector<std::string> command;  // instead of a walk
  int status = 0;                    // of the command, as waitpid(2) gives it
  double seconds = 0;

  struct Device {
    std::string name;
    LayoutCounts counts;
  };
  std::vector<Device> devices;
  LayoutCounts total;  // of all devices

  void count(const TracedDevices& devices, const std::vector<BlockRequest>& requests);
};

std::string layout_text(const LayoutReport& report);
std::string layout_json(const LayoutReport& report);

// One line for each request: seconds since the trace began, R, W, F or D, and where on the device and how many bytes. Lines
// that begin with # tell of which device those after them are, and of requests of other kinds.
std::string trace_text(const TracedDevices& devices, const BlockTrace::Recording& recording);

}  // namespace lsmfs::cli

// The numbers of a mount for programs: in the text format of Prometheus, and as JSON.
//
// What it is not: for people (text.h). What each number means and when to worry is in docs/stats.md, which a test holds against this.
#pragma once

#include <string>

#include "lsmfs/control.h"

namespace lsmfs::cli {

inline constexpr std::size_t kWrite = 16;  // the kernel's number of WRITE
// Of a kind of request that the program knows no name of: "kind 63".
std::string kind_name(std::size_t kind);

// A label `mount` says whose they are. Bytes of it that are no UTF-8 are replaced.
std::string prometheus_text(const MountStats& stats, const std::string& mount_point);
// `indent`: as of nlohmann's dump(); -1: one line.
std::string stats_json(const MountStats& stats, const std::string& mount_point, int indent);

}  // namespace lsmfs::cli

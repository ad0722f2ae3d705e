// The names of snapshots: which there can be, and those that `lsmfs snapshot` gives by itself.
#pragma once

#include <string>
#include <string_view>

#include "lsmfs/tree.h"

namespace lsmfs::cli {

// Why no snapshot can have the name; empty: one can.
std::string wrong_snapshot_name(std::string_view name);

// Where it is, from the root of the file system on, without a / before it.
std::string snapshot_path(std::string_view name);

// Of a snapshot of the directory at `inside`, its path in the file system: after the time, and after the directory unless that is the root.
std::string name_after_time(std::string_view inside, const Time& time);
// Whether it is such a name for some time, with or without the -2, -3, ... of further ones. `lsmfs snapshot` takes none from people, so
// that such a snapshot is one to which nobody gave a name.
bool is_named_after_time(std::string_view inside, std::string_view name);

}  // namespace lsmfs::cli

// By what a snapshot is known in other volumes (SnapshotId), and how that of one that was received is told.
//
// A snapshot that was received is known by what it was sent as. That is in the path of which it is a snapshot: a directory that receive makes and
// removes, and that is called after it. The path is kept with each snapshot when it is made, nobody can change it, and no clone has it. The tree
// gets that path only when it is complete. So neither what was changed since nor a part is taken for it by accident. It is no proof: whoever may
// write in .snapshots can make such a path, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/transfer/records.h"
#include "lsmfs/tree.h"

namespace lsmfs::cli {

// In that directory: the tree, in a directory that is called by whether it is complete. That one is renamed, as the tree itself may be immutable.
inline constexpr std::string_view kReceivedPart = "part", kReceivedWhole = "whole", kReceivedTree = "tree";

// The name of the directory in which a snapshot is received.
std::string receiving_name(const SnapshotId& id);
std::optional<SnapshotId> parse_receiving_name(std::string_view name);
// What a snapshot was received as, by the path of which it is one. nullopt: it was not received.
std::optional<SnapshotId> received_as(const SnapshotInfo& info);

struct IdOfSnapshot {
  SnapshotId id;
  bool is_received = false;  // so it is only said to be that
};
// The id of the snapshot at a path. Errors: those of snapshot_info_of() and query_mount(), EPROTO.
Result<IdOfSnapshot> id_of_snapshot(const std::string& path);
struct StreamedMount {
  Uuid volume;
  bool hides_holes;  // all of a file is data to SEEK_HOLE, as with -o writeback
};
Result<StreamedMount> streamed_mount(const std::string& path);  // likewise

std::string time_in_utc(const Time& time);  // for people: to the second

}  // namespace lsmfs::cli

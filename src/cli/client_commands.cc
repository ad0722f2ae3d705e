#include <algorithm>

#include "cli/command_of.h"
#include "cli/command_line.h"

namespace lsmfs::cli {
namespace {

constexpr Command kClientCommands[] = {
    {Group::use, "clone", "Copy a directory with all that lies below it, at once", command_of<CloneArguments, clone>},
    {Group::use, "snapshot", "Keep a directory with all that lies below it as it is now, at once", command_of<SnapshotArguments, snapshot>},
    {Group::use, "prune", "Remove the snapshots of a directory that no rule keeps, as daily=7", command_of<PruneArguments, prune>},
    {Group::use, "rollback", "Make a directory again what a snapshot has kept, at once", command_of<RollbackArguments, rollback>},
    {Group::use, "send", "Write a snapshot, or what differs from another one, to a stream", command_of<SendArguments, send>},
    {Group::use, "receive", "Make a snapshot of such a stream", command_of<ReceiveArguments, receive>},
    {Group::use, "rm", "Remove directories with all that lies below them, at once", command_of<RmArguments, rm>},
    {Group::use, "trim", "Discard free space, as fstrim does; prints how much", command_of<std::string, trim>},
    {Group::look, "snapshots", "List the snapshots of a directory", command_of<SnapshotsArguments, snapshots>},
    {Group::look, "diff", "Tell what differs between two directories, as a snapshot and what it is of", command_of<DiffArguments, diff>},
    {Group::look, "changes", "Tell what has changed below a directory since a moment; also to git", command_of<ChangesArguments, changes>},
};

}  // namespace

std::span<const Command> client_commands() { return kClientCommands; }

bool is_client_command(std::string_view word) {
  return std::ranges::any_of(kClientCommands, [&](const Command& command) { return word == command.name; });
}

}  // namespace lsmfs::cli

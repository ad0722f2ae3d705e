// How the commands' arguments are written, whether after "lsmfs" or after a name of its own.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/commands.h"

namespace lsmfs::cli {

void take(CLI::App& app, MkfsArguments& arguments);
void take(CLI::App& app, MountArguments& arguments);
void take(CLI::App& app, TuneArguments& arguments);
void take(CLI::App& app, ResizeArguments& arguments);
void take(CLI::App& app, UmountArguments& arguments);
void take(CLI::App& app, FsckArguments& arguments);
void take(CLI::App& app, InfoArguments& arguments);
void take(CLI::App& app, CloneArguments& arguments);
void take(CLI::App& app, ImportArguments& arguments);
void take(CLI::App& app, SnapshotArguments& arguments);
void take(CLI::App& app, RollbackArguments& arguments);
void take(CLI::App& app, SnapshotsArguments& arguments);
void take(CLI::App& app, DiffArguments& arguments);
void take(CLI::App& app, SendArguments& arguments);
void take(CLI::App& app, ReceiveArguments& arguments);
void take(CLI::App& app, ChangesArguments& arguments);
void take(CLI::App& app, PruneArguments& arguments);
void take(CLI::App& app, RmArguments& arguments);
void take(CLI::App& app, ScrubArguments& arguments);
void take(CLI::App& app, StatsArguments& arguments);
void take(CLI::App& app, LayoutArguments& arguments);
void take(CLI::App& app, std::string& directory);  // of a command about a mount, with nothing else to say

// The words of a command to run, after "--", which it takes away: CLI11 would take brackets around one for its own.
std::vector<std::string> split_command(int& argc, char** argv);

// Options that change nothing here.
void ignore(CLI::App& app, const std::string& flags, const std::string& why);

// nullopt: go on. Else --help or --version were asked for and given, or the arguments are wrong, which has
// been said: the exit code, which is `usage` then. `version`: what --version says; nullptr: it is no option.
std::optional<int> parse(CLI::App& app, int argc, char** argv, int usage, std::string (*version)());

}  // namespace lsmfs::cli

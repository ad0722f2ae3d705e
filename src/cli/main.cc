#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/exit_codes.h"
#include "cli/helpers.h"
#include "cli/messages.h"

namespace {

using namespace lsmfs::cli;

int run(int argc, char** argv) {
  if (const auto code = run_as_helper(argc, argv)) return *code;
  std::vector<char*> words(argv, argv + argc);
  if (words.size() > 1 && words[1] == std::string_view("help")) {  // "help COMMAND" is "COMMAND --help"
    static char help[] = "--help";
    words.erase(words.begin() + 1);
    words.push_back(help);
    argv = words.data();
  }
  CLI::App app{"A file system whose whole tree lives in one log-structured merge tree, in path order.", "lsmfs"};
  app.require_subcommand(1);

  std::vector<std::pair<const CLI::App*, std::function<int()>>> commands;
  const auto add = [&](const char* group, const char* name, const char* what, auto& arguments, auto run) {
    CLI::App* const command = app.add_subcommand(name, what)->group(group);
    take(*command, arguments);
    commands.emplace_back(command, [&arguments, run] { return run(arguments); });
  };
  MkfsArguments mkfs_arguments;
  add("Make and change", "mkfs", "Make an empty file system on a device or in an image file", mkfs_arguments, mkfs);
  TuneArguments tune_arguments;
  add("Make and change", "tune", "Change its label, UUID, or the mount options that it keeps", tune_arguments, tune);
  ResizeArguments resize_arguments;
  add("Make and change", "resize", "Grow it, also while it is mounted, or shrink it", resize_arguments, resize);
  MountArguments mount_arguments;
  add("Mount", "mount", "Mount a device or image; returns when it answers", mount_arguments, mount);
  UmountArguments umount_arguments;
  add("Mount", "umount", "Unmount; returns when all is on disk, or says who still uses it elsewhere", umount_arguments, umount);
  CloneArguments clone_arguments;
  add("Use what is mounted", "clone", "Copy a directory with all that lies below it, at once", clone_arguments, lsmfs::cli::clone);  // not clone(2)
  ImportArguments import_arguments;
  add("Use what is mounted", "import", "Make a directory of what an archive or another directory has, faster than tar and cp", import_arguments, import_tree);
  SnapshotArguments snapshot_arguments;
  add("Use what is mounted", "snapshot", "Keep a directory with all that lies below it as it is now, at once", snapshot_arguments, snapshot);
  PruneArguments prune_arguments;
  add("Use what is mounted", "prune", "Remove the snapshots of a directory that no rule keeps, as daily=7", prune_arguments, prune);
  RollbackArguments rollback_arguments;
  add("Use what is mounted", "rollback", "Make a directory again what a snapshot has kept, at once", rollback_arguments, rollback);
  SendArguments send_arguments;
  add("Use what is mounted", "send", "Write a snapshot, or what differs from another one, to a stream", send_arguments, lsmfs::cli::send);  // not send(2)
  ReceiveArguments receive_arguments;
  add("Use what is mounted", "receive", "Make a snapshot of such a stream", receive_arguments, receive);
  RmArguments rm_arguments;
  add("Use what is mounted", "rm", "Remove directories with all that lies below them, at once", rm_arguments, rm);
  std::string trim_directory;
  add("Use what is mounted", "trim", "Discard free space, as fstrim does; prints how much", trim_directory, trim);
  SnapshotsArguments snapshots_arguments;
  add("Look", "snapshots", "List the snapshots of a directory", snapshots_arguments, snapshots);
  DiffArguments diff_arguments;
  add("Look", "diff", "Tell what differs between two directories, as a snapshot and what it is of", diff_arguments, diff);
  ChangesArguments changes_arguments;
  add("Look", "changes", "Tell what has changed below a directory since a moment; also to git", changes_arguments, changes);
  InfoArguments info_arguments;
  add("Look", "info", "Print facts: label, sizes, compression, files, levels", info_arguments, info);
  StatsArguments stats_arguments;
  add("Look", "stats", "Print numbers of a mount: requests, device, caches, waits, space", stats_arguments, stats);
  std::string top_directory;
  add("Look", "top", "Show what goes on in a mount, each second; q ends it", top_directory, top);
  LayoutArguments layout_arguments;
  add("Look", "layout", "Read a tree with cold caches, and tell how well it lies on its disk", layout_arguments, layout);
  app.add_subcommand("help", "Print the help of a command, or this")->group("Look");
  FsckArguments fsck_arguments;
  add("Check and repair", "fsck", "Look whether all of a file system is sound, and repair it", fsck_arguments, fsck);
  ScrubArguments scrub_arguments;
  add("Check and repair", "scrub", "Read and verify all of a mounted file system", scrub_arguments, scrub);

  const std::string_view command = argc > 1 ? argv[1] : "";
  std::vector<std::string> operands;
  if (command == "layout") operands = split_command(argc, argv);
  const int usage = command == "fsck" ? kFsckUsage : command == "diff" ? kDiffTrouble : kUsage;
  if (const auto code = parse(app, argc, argv, usage)) return *code;
  layout_arguments.operands.insert(layout_arguments.operands.end(), operands.begin(), operands.end());
  return std::ranges::find_if(commands, [](const auto& each) { return each.first->parsed(); })->second();
}

// A device that is opened without them would get the number of stderr, and what is said there.
void complete_stdio() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) close(fd);
}

// It has an exit code for differences, which is no failure.
bool is_diff(int argc, char** argv) { return argc > 1 && argv[1] == std::string_view("diff"); }

// Its exit codes are bits, and 1 is no failure.
bool is_fsck(int argc, char** argv) {
  const std::string_view name = argc > 0 ? argv[0] : "";
  return name.substr(name.rfind('/') + 1).starts_with("fsck.") || (argc > 1 && argv[1] == std::string_view("fsck"));
}

}  // namespace

int main(int argc, char** argv) {
  complete_stdio();
  // Who started it may have ignored the end of children; then nobody could be told how theirs ended.
  signal(SIGCHLD, SIG_DFL);
  // What is written past a limit of the size of files fails, too, and that can be told.
  signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run(argc, argv);
    const bool all_written = std::fflush(stdout) == 0 && !std::ferror(stdout);
    if (all_written) return code;
    const bool of_fsck = is_fsck(argc, argv), of_diff = is_diff(argc, argv);
    if (code != kOk && !of_fsck && !(of_diff && code == kDiffers)) return code;  // who has failed has said why
    return report({of_fsck ? code | kFsckOperational : of_diff ? kDiffTrouble : kFailure, "stdout: not all of it could be written; is its disk full?"});
  } catch (const std::exception& error) {  // of libraries: no memory, mostly
    return report({kSystemError, error.what()});
  }
}

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
  SnapshotArguments snapshot_arguments;
  add("Use what is mounted", "snapshot", "Keep a directory with all that lies below it as it is now, at once", snapshot_arguments, snapshot);
  RmArguments rm_arguments;
  add("Use what is mounted", "rm", "Remove directories with all that lies below them, at once", rm_arguments, rm);
  std::string trim_directory;
  add("Use what is mounted", "trim", "Discard free space, as fstrim does; prints how much", trim_directory, trim);
  SnapshotsArguments snapshots_arguments;
  add("Look", "snapshots", "List the snapshots of a directory", snapshots_arguments, snapshots);
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
  if (const auto code = parse(app, argc, argv, command == "fsck" ? kFsckUsage : kUsage)) return *code;
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
    const bool of_fsck = is_fsck(argc, argv);
    if (code != kOk && !of_fsck) return code;  // who has failed has said why
    return report({of_fsck ? code | kFsckOperational : kFailure, "stdout: not all of it could be written; is its disk full?"});
  } catch (const std::exception& error) {  // of libraries: no memory, mostly
    return report({kSystemError, error.what()});
  }
}

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>
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

  MkfsArguments mkfs_arguments;
  CLI::App* mkfs_command = app.add_subcommand("mkfs", "Make an empty file system on a device or in an image file")->group("Make and change");
  take(*mkfs_command, mkfs_arguments);
  TuneArguments tune_arguments;
  CLI::App* tune_command = app.add_subcommand("tune", "Change its label, UUID, or the mount options that it keeps")->group("Make and change");
  take(*tune_command, tune_arguments);
  ResizeArguments resize_arguments;
  CLI::App* resize_command = app.add_subcommand("resize", "Grow it, also while it is mounted, or shrink it")->group("Make and change");
  take(*resize_command, resize_arguments);
  MountArguments mount_arguments;
  CLI::App* mount_command = app.add_subcommand("mount", "Mount a device or image; returns when it answers")->group("Mount");
  take(*mount_command, mount_arguments);
  UmountArguments umount_arguments;
  CLI::App* umount_command = app.add_subcommand("umount", "Unmount; returns when all is on disk, or says who still uses it elsewhere")->group("Mount");
  take(*umount_command, umount_arguments);
  std::string trim_path;
  CLI::App* trim_command = app.add_subcommand("trim", "Discard free space, as fstrim does; prints how much")->group("Mount");
  trim_command->add_option("directory", trim_path, "where it is mounted")->required();

  InfoArguments info_arguments;
  CLI::App* info_command = app.add_subcommand("info", "Print facts: label, sizes, compression, files, levels")->group("Look");
  take(*info_command, info_arguments);

  StatsArguments stats_arguments;
  CLI::App* stats_command = app.add_subcommand("stats", "Print numbers of a mount: requests, device, caches, waits, space")->group("Look");
  take(*stats_command, stats_arguments);
  std::string top_path;
  CLI::App* top_command = app.add_subcommand("top", "Show what goes on in a mount, each second; q ends it")->group("Look");
  top_command->add_option("directory", top_path, "where it is mounted")->required();
  LayoutArguments layout_arguments;
  CLI::App* layout_command = app.add_subcommand("layout", "Read a tree with cold caches, and tell how well it lies on its disk")->group("Look");
  take(*layout_command, layout_arguments);

  app.add_subcommand("help", "Print the help of a command, or this")->group("Look");

  FsckArguments fsck_arguments;
  CLI::App* fsck_command = app.add_subcommand("fsck", "Look whether all of a file system is sound, and repair it")->group("Check and repair");
  take(*fsck_command, fsck_arguments);
  ScrubArguments scrub_arguments;
  CLI::App* scrub_command = app.add_subcommand("scrub", "Read and verify all of a mounted file system")->group("Check and repair");
  take(*scrub_command, scrub_arguments);

  const std::string_view command = argc > 1 ? argv[1] : "";
  std::vector<std::string> operands;
  if (command == "layout") operands = split_command(argc, argv);
  if (const auto code = parse(app, argc, argv, command == "fsck" ? kFsckUsage : kUsage)) return *code;
  layout_arguments.operands.insert(layout_arguments.operands.end(), operands.begin(), operands.end());
  if (*mkfs_command) return mkfs(mkfs_arguments);
  if (*mount_command) return mount(mount_arguments);
  if (*tune_command) return tune(tune_arguments);
  if (*resize_command) return resize(resize_arguments);
  if (*umount_command) return umount(umount_arguments);
  if (*fsck_command) return fsck(fsck_arguments);
  if (*layout_command) return layout(layout_arguments);
  if (*stats_command) return stats(stats_arguments);
  if (*top_command) return top(top_path);
  if (*trim_command) return trim(trim_path);
  if (*scrub_command) return scrub(scrub_arguments);
  return info(info_arguments);
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

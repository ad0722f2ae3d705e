#include "cli/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <utility>

#include "cli/arguments.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"

namespace lsmfs::cli {
namespace {

constexpr std::pair<Group, const char*> kGroups[] = {{Group::make, "Make and change"}, {Group::mount, "Mount"}, {Group::use, "Use what is mounted"},
                                                    {Group::look, "Look"}, {Group::check, "Check and repair"}};

int run_command(const Program& program, int argc, char** argv) {
  if (program.run_as_helper != nullptr) {
    if (const auto code = program.run_as_helper(argc, argv)) return *code;
  }
  std::vector<char*> words(argv, argv + argc);
  if (words.size() > 1 && words[1] == std::string_view("help")) {  // "help COMMAND" is "COMMAND --help"
    static char help[] = "--help";
    words.erase(words.begin() + 1);
    words.push_back(help);
    argv = words.data();
  }
  CLI::App app{"A file system whose whole tree lives in one log-structured merge tree, in path order.", "lsmfs"};
  app.require_subcommand(1);

  const std::string_view named = argc > 1 ? argv[1] : "";
  std::vector<std::string> operands;
  std::vector<std::pair<const CLI::App*, std::function<int()>>> commands;
  for (const auto& [group, title] : kGroups) {
    for (const auto& table : program.commands) {
      for (const Command& each : table) {
        if (group != each.group) continue;
        CLI::App* const command = app.add_subcommand(each.name, each.what)->group(title);
        commands.emplace_back(command, each.take(*command, operands));
        if (each.runs_command && named == each.name) operands = split_command(argc, argv);
      }
    }
    if (group == Group::look) app.add_subcommand("help", "Print the help of a command, or this")->group(title);
  }
  const int usage = named == "fsck" ? kFsckUsage : named == "diff" ? kDiffTrouble : kUsage;
  if (const auto code = parse(app, argc, argv, usage, program.version)) return *code;
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

int run(const Program& program, int argc, char** argv) {
  complete_stdio();
  // Who started it may have ignored the end of children; then nobody could be told how theirs ended.
  signal(SIGCHLD, SIG_DFL);
  // What is written past a limit of the size of files fails, too, and that can be told.
  signal(SIGXFSZ, SIG_IGN);
  try {
    const int code = run_command(program, argc, argv);
    const bool all_written = std::fflush(stdout) == 0 && !std::ferror(stdout);
    if (all_written) return code;
    const bool of_fsck = is_fsck(argc, argv), of_diff = is_diff(argc, argv);
    if (code != kOk && !of_fsck && !(of_diff && code == kDiffers)) return code;  // who has failed has said why
    return report({of_fsck ? code | kFsckOperational : of_diff ? kDiffTrouble : kFailure, "stdout: not all of it could be written; is its disk full?"});
  } catch (const std::exception& error) {  // of libraries: no memory, mostly
    return report({kSystemError, error.what()});
  }
}

}  // namespace lsmfs::cli

#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/messages.h"
#include "cli/mount_options.h"
#include "cli/nearest.h"
#include "cli/sizes.h"
#include "cli/version.h"

namespace lsmfs::cli {
namespace {

constexpr const char* kLayoutFooter =
    "  lsmfs layout [OPTIONS] PATH\n"
    "  lsmfs layout [OPTIONS] --device DEVICE -- COMMAND [ARGUMENTS]\n\n"
    "Reads all files below PATH with cold caches, as grep -r does, and tells how the reads lay on the device: the dynamic layout\n"
    "score is 1 minus the share of 4 KiB blocks before which the device had to go elsewhere; 1 is perfect. For any file system.\n"
    "\nExit codes: 0 measured, whatever the command's exit status; 1 not, or not all files could be read.";

// The arguments, the last first, as CLI11 wants them. -C of fsck may come without a number. What follows "--" is left alone.
std::vector<std::string> words(int argc, char** argv) {
  std::vector<std::string> words;
  const int end = static_cast<int>(std::find(argv + 1, argv + std::max(argc, 1), std::string_view("--")) - argv);
  for (int i = argc - 1; i > 0; --i) {
    const bool number_follows = !words.empty() && parse_number(words.back(), 65535);
    words.emplace_back(i < end && std::string_view(argv[i]) == "-C" && !number_follows ? "-C0" : argv[i]);
  }
  return words;
}

// CLI11 says of a command that does not exist only that there must be one.
std::optional<std::string> wrong_command(const CLI::App& app, int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.starts_with('-') || app.get_require_subcommand_min() == 0) return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (std::ranges::find(known, word) != known.end()) return std::nullopt;
  const std::string_view meant = nearest(word, known);
  return fmt::format("{}: is no command{}; see {} --help", word, meant.empty() ? "" : fmt::format(", did you mean {}?", meant), app.get_name());
}

}  // namespace

void take(CLI::App& app, MkfsArguments& arguments) {
  app.add_option("-L,--label", arguments.label, "a name for it, at most 64 bytes");
  app.add_flag("-f,--force", arguments.force, "destroy what is there");
  app.add_option("--size", arguments.size, "make an image file of this size, as in 4G");
  app.add_option("-d,--from", arguments.from, "have in it what this tar archive or directory has; -: standard input");
  app.add_option("path", arguments.path, "block device or image file")->required();
  app.footer("Of 1 GiB some 73 % are for files, of 4 GiB 70 %, of 64 GiB 85 %, of 1024 GiB 88 %. Logs take some of the rest. Most of it is\n"
             "kept back, so that merging, writing over what is there and removing always work.\n"
             "Exit codes: 0 it was made, 1 it was not.");
}

void take(CLI::App& app, MountArguments& arguments) {
  app.add_option("-o", arguments.options, "mount options, see below")->allow_extra_args(false)->take_all();
  app.add_flag("-f,--foreground", arguments.foreground, "stay in the foreground, log to stderr");
  app.add_option("--log", arguments.log, "log to this file instead of syslog");
  app.add_option("path", arguments.path, "block device or image file, or LABEL=... or UUID=...")->required();
  app.add_option("directory", arguments.directory, "where to mount it")->required();
  app.footer("Options for -o (several with commas):\n" + mount_options_help() +
             "\nExit codes: 0 mounted, 1 wrong arguments or no permission, 2 system error, 32 mounting failed.");
}

void take(CLI::App& app, TuneArguments& arguments) {
  app.add_option("-L,--label", arguments.label, "another name for it, at most 64 bytes; also while it is mounted");
  app.add_option("-U,--uuid", arguments.uuid, "another UUID, or the word random");
  app.add_option("-o", arguments.options, "mount options that hold unless others are given, with commas; \"\": none")->allow_extra_args(false);
  app.add_option("path", arguments.path, "block device or image file, or LABEL=... or UUID=..., or where it is mounted")->required();
  app.footer("Exit codes: 0 all of it is changed, 1 nothing is.");
}

void take(CLI::App& app, ResizeArguments& arguments) {
  app.add_option("path", arguments.path, "where it is mounted, to grow; block device or image file, or LABEL=... or UUID=...")->required();
  app.add_option("size", arguments.size, "as in 4G; without it all of the device. An image file gets that size, too");
  app.footer("It grows while it is mounted, and shrinks when it is not. When it is interrupted, nothing is lost: call it again.\n"
             "Exit codes: 0 it has that size, 1 it has not.");
}

void take(CLI::App& app, UmountArguments& arguments) {
  app.add_flag("--wait", arguments.wait, "return only when all is on disk, however long it is still used elsewhere");
  app.add_option("directory", arguments.directory, "where it is mounted")->required();
  app.footer("What other mount namespaces or bind mounts show goes on; without --wait they are named, and it returns.\n"
             "Exit codes: 0 it is not here any more, 1 no permission, 2 system error, 32 it is still mounted, or its daemon had ended before.");
}

void take(CLI::App& app, FsckArguments& arguments) {
  using Repair = FsckArguments::Repair;
  CLI::Option* none = app.add_flag_callback("-n", [&] { arguments.repair = Repair::none; }, "change nothing (the default)");
  CLI::Option* safe = app.add_flag_callback("-a,-p", [&] { arguments.repair = Repair::safe; }, "repair if nothing is lost by it");
  CLI::Option* all = app.add_flag_callback("-y", [&] { arguments.repair = Repair::all; },
                                             "repair all that can be, say what is lost, and put what has no place into /lost+found");
  none->excludes(safe)->excludes(all);
  safe->excludes(all);
  ignore(app, "-f", "check also what seems clean (which it always does)");
  app.add_flag("-v", arguments.verbose, "say more");
  ignore(app, "-t", "ignored");
  app.add_option("-C", arguments.progress, "write progress to this descriptor; 0: to the terminal");
  app.add_option("path", arguments.path, "block device or image file, or LABEL=... or UUID=...")->required();
  app.footer("Exit codes: 0 clean, 1 all problems repaired, 4 problems are left, 8 it could not be checked, 16 wrong arguments.");
}

void take(CLI::App& app, InfoArguments& arguments) {
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_flag("--udev", arguments.udev, "as properties of udev, from the superblock alone")->excludes("--json");
  app.add_option("path", arguments.path, "device, image, or a file or directory in a mount")->required();
}

void take(CLI::App& app, StatsArguments& arguments) {
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_flag("--prometheus", arguments.prometheus, "in the text format of Prometheus")->excludes("--json");
  app.add_option("--interval", arguments.interval, "print what was counted in each so many seconds, until ^C");
  app.add_option("directory", arguments.path, "where it is mounted")->required();
  app.footer("docs/stats.md says what each number means, and when to worry.");
}

void take(CLI::App& app, CloneArguments& arguments) {
  app.add_option("source", arguments.source, "a directory of a mount")->required();
  app.add_option("target", arguments.target, "what is to be its copy, in the same mount; not there yet")->required();
  app.footer("Returns at once, however much lies below; hard links take longer. What the two have in common is stored once.\n"
             "For root, for who mounted it, and for the owner of the source, who may make a directory where the target is to be.\n"
             "Exit codes: 0 it is made, 1 it is not, and nothing has changed.");
}

void take(CLI::App& app, ImportArguments& arguments) {
  app.add_option("source", arguments.source, "a tar archive, also compressed; a directory; -: an archive by standard input")->required();
  app.add_option("target", arguments.target, "the directory to make in a mount; not there yet")->required();
  app.footer("Makes what tar xf makes of an archive, and cp -a of a directory. It is there as a whole when this returns, and durable; or nothing is.\n"
             "Owners, devices and privileged attributes are kept for root; else all belongs to who imports it.\n"
             "Exit codes: 0 it is made, 1 it is not, and nothing has changed.");
}

void take(CLI::App& app, SnapshotArguments& arguments) {
  app.add_option("directory", arguments.source, "a directory of a mount, or where it is mounted")->required();
  app.add_option("name", arguments.name, "what the snapshot is to be called; not there yet (default: after the directory and the time in UTC)");
  app.footer("Makes a copy that never changes, .snapshots/NAME where it is mounted, and prints its path. Returns at once, as lsmfs clone.\n"
             "For root, for who mounted it, and for the owner of the directory, who may write in .snapshots. lsmfs rm -r removes it.\n"
             "Exit codes: 0 it is made, 1 it is not, and nothing has changed.");
}

void take(CLI::App& app, RollbackArguments& arguments) {
  app.add_flag("--discard", arguments.discard, "make no snapshot of what is there before");
  app.add_option("snapshot", arguments.snapshot, "what lsmfs snapshot has printed")->required();
  app.add_option("directory", arguments.directory, "what is to be as the snapshot, in the same mount (default: what that is of)");
  app.footer("The directory stays what it is, and has from then on what the snapshot has. What was below it is gone, as by lsmfs rm -r. Before,\n"
             "that is kept by a snapshot, whose path is printed: to roll back to it undoes this. For root and for who mounted it, and with the\n"
             "mount option user_rm for who owns both the directory and the snapshot.\n"
             "Exit codes: 0 it is done, 1 it is not, and nothing has changed.");
}

void take(CLI::App& app, SnapshotsArguments& arguments) {
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_flag("--sizes", arguments.sizes, "also how much each has, and how much would come back if only it were removed; takes longer");
  app.add_option("directory", arguments.directory, "a directory of a mount, or where it is mounted: those of all directories (default .)");
  app.footer("Prints the name of each snapshot, when it was made, and of which directory; the oldest first.\n"
             "Exit codes: 0 all are listed, 1 some or all are not.");
}

void take(CLI::App& app, DiffArguments& arguments) {
  app.add_flag("--all", arguments.all, "also what lies below a directory that only one of them has");
  auto* const zero = app.add_flag("-0,--null", arguments.zero, "end each path with NUL instead of a newline, and quote nothing");
  app.add_flag("--json", arguments.json, "as JSON")->excludes(zero);
  app.add_option("from", arguments.from, "a directory of a mount, or a snapshot")->required();
  app.add_option("to", arguments.to, "another one of the same mount")->required();
  app.footer("A line for each path that differs: + only the second has it, - only the first, M type or contents, m attributes alone,\n"
             "R OLD -> NEW. Files have the same contents if they share their data: nothing is read of what the two have in common.\n"
             "Exit codes: 0 nothing differs, 1 something does, 2 it could not be told.");
}

void take(CLI::App& app, SendArguments& arguments) {
  app.add_option("-i,--from", arguments.from, "send only what differs from this snapshot, which is where the stream is received");
  app.add_option("--resume", arguments.resume, "a token of lsmfs receive -t: send what is not there yet");
  app.add_flag("-q,--quiet", arguments.quiet, "show no progress on a terminal");
  app.add_option("snapshot", arguments.snapshot, "what lsmfs snapshot has printed")->required();
  app.footer("Writes a stream to standard output, of which lsmfs receive makes the same snapshot. Needs no more than the right to read all files;\n"
             "-i is for root, for who mounted it, and for the owner of both snapshots.\n"
             "Exit codes: 0 all is sent, 1 it is not.");
}

void take(CLI::App& app, ReceiveArguments& arguments) {
  auto* const tokens = app.add_flag("-t,--tokens", arguments.tokens, "print a token for each stream that is received there in part, for lsmfs send --resume");
  app.add_flag("-q,--quiet", arguments.quiet, "show no progress on a terminal");
  app.add_option("directory", arguments.directory, "a directory of a mount, in which it is built")->required();
  app.add_option("name", arguments.name, "what the snapshot is to be called; not there yet (default: as it was sent)")->excludes(tokens);
  app.footer("Reads a stream of lsmfs send from standard input, makes a snapshot of it, and prints its path. What comes of a stream that ends early is\n"
             "kept: the rest, or the same stream again, makes it complete. lsmfs rm -r of what is kept gives it up.\n"
             "Exit codes: 0 it is there, 1 it is not, and with the stream itself: 2 damaged, 3 none of lsmfs, 4 of a newer version, 5 ends too early,\n"
             "6 the snapshot that it goes on from is not here.");
}

void take(CLI::App& app, ChangesArguments& arguments) {
  app.add_option("--since", arguments.since, "what a call before has printed as its token");
  auto* const zero = app.add_flag("-0,--null", arguments.zero, "end the token and each path with NUL instead of a newline, and quote nothing");
  app.add_flag("--json", arguments.json, "as JSON")->excludes(zero);
  app.add_flag("--git", arguments.git, "answer git, which gives a version and a token in place of the directory: git config core.fsmonitor 'lsmfs changes --git'");
  app.add_option("directory", arguments.operands, "a directory of a mount")->required()->expected(1, 2);
  app.footer("Prints a token for this moment, and with a token a line for each path that may have changed since then. All that lies below\n"
             "a path that ends in / may have, and after the line / all of the directory. The first call begins a log of changes.\n"
             "Exit codes: 0 all is told, 1 it could not be.");
}

void take(CLI::App& app, PruneArguments& arguments) {
  app.add_flag("--all", arguments.all, "remove also those to which somebody gave a name");
  app.add_flag("-n,--dry-run", arguments.dry_run, "remove nothing; print what would be removed");
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_option("directory", arguments.directory, "a directory of a mount, or where it is mounted: the snapshots of that directory alone")->required();
  app.add_option("rules", arguments.rules, "how many to keep: latest=N, hourly=N, daily=N, weekly=N, monthly=N, yearly=N")->required();
  app.footer("Each rule keeps the newest snapshot of each hour, day, week, month or year, of the N latest that have one, by local time. All that no\n"
             "rule keeps are removed, as by lsmfs rm -r, and their names are printed. For the same people.\n"
             "Exit codes: 0 all of those are removed, 1 one or more are not.");
}

void take(CLI::App& app, RmArguments& arguments) {
  app.add_flag("-r,-R,--recursive", arguments.recursive, "with all that lies below; must be given");
  app.add_option("directories", arguments.directories, "directories of a mount")->required();
  app.footer("Returns at once, and the space comes back in the background. For root, for who mounted it, and with the mount option user_rm for\n"
             "the owner of a directory.\n"
             "Exit codes: 0 all are removed, 1 one or more are not, and are as they were.");
}

void take(CLI::App& app, ScrubArguments& arguments) {
  app.add_option("--rate", arguments.rate, "read no more than this in a second, as in 10M; 0: as fast as it goes (default 64M)");
  app.add_option("directory", arguments.path, "where it is mounted")->required();
  app.footer("Repairs nothing: lsmfs fsck -y does, when it is unmounted. Ends with the command, ^C included.\n"
             "Exit codes: 0 all is sound, 1 not all could be looked at, or wrong arguments, 4 damage was found.");
}

void take(CLI::App& app, LayoutArguments& arguments) {
  app.add_option("--device", arguments.devices, "trace this block device while a command runs; may be given several times")
      ->allow_extra_args(false)
      ->take_all();
  app.add_flag("--drop-caches", arguments.drop_caches, "drop all caches before the command; without a command this always happens");
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_option("--output", arguments.output, "write the result to this file instead of stdout, or of stderr when a command has that");
  app.add_option("--trace", arguments.trace, "write every request to this file, one line each");
  app.add_option("--buffer", arguments.buffer, "memory of the trace for each processor, as in 64M (default 16M, at most 512M in all)");
  app.add_option("path", arguments.operands, "a directory or file to read, or the command");
  app.footer(kLayoutFooter);
}

void take(CLI::App& app, std::string& directory) { app.add_option("directory", directory, "where it is mounted")->required(); }

std::vector<std::string> split_command(int& argc, char** argv) {
  char** const end = argv + argc;
  char** const mark = std::find(argv, end, std::string_view("--"));
  argc = static_cast<int>(mark - argv);
  return mark == end ? std::vector<std::string>() : std::vector<std::string>(mark + 1, end);
}

void ignore(CLI::App& app, const std::string& flags, const std::string& why) { app.add_flag(flags, why); }

std::optional<int> parse(CLI::App& app, int argc, char** argv, int usage) {
  app.set_version_flag("-V,--version", version_text, "print versions: of this, of the format, of libraries");
  app.option_defaults()->always_capture_default(false);
  try {
    if (const auto wrong = wrong_command(app, argc, argv)) return report({usage, *wrong});
    app.parse(words(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string command = app.get_name();
    for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
    return report({usage, fmt::format("{}; see {} --help", error.what(), command)});
  }
  return std::nullopt;
}

}  // namespace lsmfs::cli

#include "cli/arguments.h"

namespace lsmfs::cli {

void take(CLI::App& app, CloneArguments& arguments) {
  app.add_option("source", arguments.source, "a directory of a mount")->required();
  app.add_option("target", arguments.target, "what is to be its copy, in the same mount; not there yet")->required();
  app.footer("Returns at once, however much lies below; hard links take longer. What the two have in common is stored once.\n"
             "For root, for who mounted it, and for the owner of the source, who may make a directory where the target is to be.\n"
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

void take(CLI::App& app, std::string& directory) { app.add_option("directory", directory, "where it is mounted")->required(); }

}  // namespace lsmfs::cli

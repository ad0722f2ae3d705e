#include "cli/arguments.h"
#include "cli/mount_options.h"

namespace lsmfs::cli {
namespace {

constexpr const char* kLayoutFooter =
    "  lsmfs layout [OPTIONS] PATH\n"
    "  lsmfs layout [OPTIONS] --device DEVICE -- COMMAND [ARGUMENTS]\n\n"
    "Reads all files below PATH with cold caches, as grep -r does, and tells how the reads lay on the device: the dynamic layout\n"
    "score is 1 minus the share of 4 KiB blocks before which the device had to go elsewhere; 1 is perfect. For any file system.\n"
    "\nExit codes: 0 measured, whatever the command's exit status; 1 not, or not all files could be read.";

}  // namespace

void take(CLI::App& app, MkfsArguments& arguments) {
  app.add_option("-L,--label", arguments.label, "a name for it, at most 64 bytes");
  app.add_flag("-f,--force", arguments.force, "destroy what is there");
  app.add_flag("--lease", arguments.lease, "for a device of several hosts: one at a time may write to it, which each finds out by itself");
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
  app.add_option("--lease", arguments.lease, "on: one host at a time may write to it, which each finds out by itself; off: that is not looked at");
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

void take(CLI::App& app, ImportArguments& arguments) {
  app.add_option("source", arguments.source, "a tar archive, also compressed; a directory; -: an archive by standard input")->required();
  app.add_option("target", arguments.target, "the directory to make in a mount; not there yet")->required();
  app.footer("Makes what tar xf makes of an archive, and cp -a of a directory. It is there as a whole when this returns, and durable; or nothing is.\n"
             "Owners, devices and privileged attributes are kept for root; else all belongs to who imports it.\n"
             "Exit codes: 0 it is made, 1 it is not, and nothing has changed.");
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

}  // namespace lsmfs::cli

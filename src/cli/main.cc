#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"

namespace {

using namespace lsmfs::cli;

constexpr const char* kMountFooter =
    "Options for -o (several with commas):\n"
    "  ro, rw                   read only; read and write (default)\n"
    "  cache=SIZE               memory for data, indexes and unwritten changes (default 256M)\n"
    "  sync_interval=SECONDS    make changes durable this often; 0: only when programs ask (default 5)\n"
    "  relatime, noatime, strictatime\n"
    "                           when reading updates access times (default relatime)\n"
    "  acl, noacl               keep POSIX access control lists and go by them (default acl)\n"
    "  latency=auto|on|off      keep CPUs from sleeping while requests are served (default auto: if permitted)\n"
    "  writeback                let the kernel gather small writes before the daemon sees them\n"
    "  nosuid, nodev, noexec, sync, dirsync, allow_other\n"
    "                           as for other file systems\n"
    "\nExit codes: 0 mounted, 1 wrong arguments or no permission, 2 system error, 32 mounting failed.";

int run(int argc, char** argv) {
  CLI::App app{"A file system whose whole tree lives in one log-structured merge tree, in path order.", "lsmfs"};
  app.set_version_flag("--version", "lsmfs " LSMFS_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);

  MkfsArguments mkfs_arguments;
  CLI::App* mkfs_command = app.add_subcommand("mkfs", "Make an empty file system on a device or in an image file");
  mkfs_command->add_option("-L,--label", mkfs_arguments.label, "a name for it, at most 64 bytes");
  mkfs_command->add_flag("-f,--force", mkfs_arguments.force, "destroy what is there");
  mkfs_command->add_option("--size", mkfs_arguments.size, "make an image file of this size, as in 4G");
  mkfs_command->add_option("path", mkfs_arguments.path, "block device or image file")->required();

  MountArguments mount_arguments;
  CLI::App* mount_command = app.add_subcommand("mount", "Mount a device or image; returns when it answers");
  mount_command->add_option("-o", mount_arguments.options, "mount options, see below")
      ->allow_extra_args(false)
      ->take_all();
  mount_command->add_flag("-f,--foreground", mount_arguments.foreground, "stay in the foreground, log to stderr");
  mount_command->add_option("--log", mount_arguments.log, "log to this file instead of syslog");
  mount_command->add_option("path", mount_arguments.path, "block device or image file")->required();
  mount_command->add_option("directory", mount_arguments.directory, "where to mount it")->required();
  mount_command->footer(kMountFooter);

  std::string umount_directory;
  CLI::App* umount_command = app.add_subcommand("umount", "Unmount; returns when all is on disk");
  umount_command->add_option("directory", umount_directory, "where it is mounted")->required();

  InfoArguments info_arguments;
  CLI::App* info_command = app.add_subcommand("info", "Print facts: label, sizes, compression, files, levels");
  info_command->add_flag("--json", info_arguments.json, "as JSON");
  info_command->add_option("path", info_arguments.path, "device, image, or a directory in a mount")->required();

  std::string trim_path;
  CLI::App* trim_command = app.add_subcommand("trim", "Discard free space, as fstrim does; prints how much");
  trim_command->add_option("directory", trim_path, "where it is mounted")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string command = "lsmfs";
    for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
    return report({kUsage, fmt::format("{}; see {} --help", error.what(), command)});
  }
  if (*mkfs_command) return mkfs(mkfs_arguments);
  if (*mount_command) return mount(mount_arguments);
  if (*umount_command) return umount(umount_directory);
  if (*trim_command) return trim(trim_path);
  return info(info_arguments);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // of libraries: no memory, mostly
    return report({kSystemError, error.what()});
  }
}

#include "cli/helpers.h"

#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/exit_codes.h"

namespace lsmfs::cli {
namespace {

void ignore_value(CLI::App& app, const std::string& option, const std::string& why) {
  app.add_option_function<std::string>(option, [](const std::string&) {}, why);
}

// mount.lsmfs SOURCE DIR [-sfnvrwV] [-o OPTIONS] [-t TYPE]
int mount_helper(const std::string& name, int argc, char** argv) {
  CLI::App app{"Mounts an lsmfs for mount(8)", name};
  MountArguments arguments;
  bool read_only = false, read_write = false;
  app.add_option("-o", arguments.options, "mount options")->allow_extra_args(false)->take_all();
  app.add_flag("-s", arguments.sloppy, "pass over unknown options");
  app.add_flag("-f", arguments.fake, "do all but the mounting");
  app.add_flag("-r", read_only, "read only");
  app.add_flag("-w", read_write, "read and write");
  ignore(app, "-n,-v", "ignored");
  ignore_value(app, "-t", "ignored: the type of the file system");
  app.add_option("source", arguments.path, "block device or image file, or LABEL=... or UUID=...")->required();
  app.add_option("directory", arguments.directory, "where to mount it")->required();
  if (const auto code = parse(app, argc, argv, kUsage)) return *code;
  // Of a part that is mounted, mount -a does not see that it is, and asks for it again.
  arguments.repeats = true;
  if (read_only) arguments.options.emplace_back("ro");
  if (read_write) arguments.options.emplace_back("rw");
  return mount(arguments);
}

// mkfs.lsmfs [-V] [-v] [options of lsmfs mkfs] DEVICE
int mkfs_helper(const std::string& name, int argc, char** argv) {
  CLI::App app{"Makes an empty lsmfs for mkfs(8)", name};
  MkfsArguments arguments;
  take(app, arguments);
  ignore(app, "-v", "ignored");
  if (const auto code = parse(app, argc, argv, kUsage)) return *code;
  return mkfs(arguments);
}

// fsck.lsmfs [-apynfvtV] [-C[FD]] DEVICE
int fsck_helper(const std::string& name, int argc, char** argv) {
  CLI::App app{"Checks an lsmfs for fsck(8)", name};
  FsckArguments arguments;
  take(app, arguments);
  if (const auto code = parse(app, argc, argv, kFsckUsage)) return *code;
  return fsck(arguments);
}

}  // namespace

std::optional<int> run_as_helper(int argc, char** argv) {
  if (argc == 0) return std::nullopt;
  std::string_view name = argv[0];
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  // The type is "lsmfs" in fstab, and what the mount table says for a mount that is there.
  const auto dot = std::min(name.find('.'), name.size());
  const std::string_view type = name.substr(dot);
  if (type != ".lsmfs" && type != ".fuse.lsmfs" && type != ".fuseblk.lsmfs") return std::nullopt;
  const std::string_view tool = name.substr(0, dot);
  if (tool == "mount") return mount_helper(std::string(name), argc, argv);
  if (tool == "fsck") return fsck_helper(std::string(name), argc, argv);
  if (tool == "mkfs") return mkfs_helper(std::string(name), argc, argv);
  return std::nullopt;
}

}  // namespace lsmfs::cli

#include "cli/helpers.h"

#include <string>
#include <string_view>

#include "cli/arguments.h"
#include "cli/exit_codes.h"
#include "cli/helper_names.h"
#include "cli/version.h"

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
  if (const auto code = parse(app, argc, argv, kUsage, version_text)) return *code;
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
  if (const auto code = parse(app, argc, argv, kUsage, version_text)) return *code;
  return mkfs(arguments);
}

// fsck.lsmfs [-apynfvtV] [-C[FD]] DEVICE
int fsck_helper(const std::string& name, int argc, char** argv) {
  CLI::App app{"Checks an lsmfs for fsck(8)", name};
  FsckArguments arguments;
  take(app, arguments);
  if (const auto code = parse(app, argc, argv, kFsckUsage, version_text)) return *code;
  return fsck(arguments);
}

}  // namespace

std::optional<int> run_as_helper(int argc, char** argv) {
  if (argc == 0) return std::nullopt;
  const auto tool = helper_tool(argv[0]);
  if (!tool) return std::nullopt;
  const std::string_view path = argv[0];
  const std::string name(path.substr(path.rfind('/') + 1));
  if (*tool == "mount") return mount_helper(name, argc, argv);
  if (*tool == "fsck") return fsck_helper(name, argc, argv);
  return mkfs_helper(name, argc, argv);
}

}  // namespace lsmfs::cli

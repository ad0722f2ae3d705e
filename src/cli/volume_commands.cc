#include "cli/command_of.h"
#include "cli/command_line.h"

namespace lsmfs::cli {
namespace {

std::function<int()> layout_of(CLI::App& app, const std::vector<std::string>& operands) {
  const auto arguments = std::make_shared<LayoutArguments>();
  take(app, *arguments);
  return [arguments, &operands] {
    arguments->operands.insert(arguments->operands.end(), operands.begin(), operands.end());
    return layout(*arguments);
  };
}

constexpr Command kVolumeCommands[] = {
    {Group::make, "mkfs", "Make an empty file system on a device or in an image file", command_of<MkfsArguments, mkfs>},
    {Group::make, "tune", "Change its label, UUID, or the mount options that it keeps", command_of<TuneArguments, tune>},
    {Group::make, "resize", "Grow it, also while it is mounted, or shrink it", command_of<ResizeArguments, resize>},
    {Group::mount, "mount", "Mount a device or image; returns when it answers", command_of<MountArguments, mount>},
    {Group::mount, "umount", "Unmount; returns when all is on disk, or says who still uses it elsewhere", command_of<UmountArguments, umount>},
    {Group::use, "import", "Make a directory of what an archive or another directory has, faster than tar and cp", command_of<ImportArguments, import_tree>},
    {Group::look, "info", "Print facts: label, sizes, compression, files, levels", command_of<InfoArguments, info>},
    {Group::look, "stats", "Print numbers of a mount: requests, device, caches, waits, space", command_of<StatsArguments, stats>},
    {Group::look, "top", "Show what goes on in a mount, each second; q ends it", command_of<std::string, top>},
    {Group::look, "layout", "Read a tree with cold caches, and tell how well it lies on its disk", layout_of, true},
    {Group::check, "fsck", "Look whether all of a file system is sound, and repair it", command_of<FsckArguments, fsck>},
    {Group::check, "scrub", "Read and verify all of a mounted file system", command_of<ScrubArguments, scrub>},
};

}  // namespace

std::span<const Command> volume_commands() { return kVolumeCommands; }

}  // namespace lsmfs::cli

// lsmfs mkfs: makes an empty file system.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/commands.h"
#include "cli/contents.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/host.h"
#include "cli/import_errors.h"
#include "cli/import_source.h"
#include "cli/messages.h"
#include "cli/nbd_source.h"
#include "cli/opened.h"
#include "cli/paths.h"
#include "cli/sizes.h"
#include "cli/sources.h"

namespace lsmfs::cli {
namespace {

// An image that was made here, and goes again unless all succeeds.
class NewImage {
 public:
  NewImage() = default;
  NewImage(const NewImage&) = delete;
  NewImage& operator=(const NewImage&) = delete;
  ~NewImage() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Result<void> create(const std::string& path, ByteCount size) {
    // Somebody else's file of that name must survive.
    LSMFS_TRY(create_image(path, size, Existing::refuse));
    path_ = path;
    return {};
  }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

Problem too_small(const std::string& path, std::uint64_t bytes) {
  return {kFailure, fmt::format("{}: is too small: {} bytes, at least {} ({}) are needed", path, bytes, kDeviceMin,
                                format_size(kDeviceMin))};
}

// What --size says about a path; nullopt: all is well.
std::optional<Problem> check_size(const std::string& path, const std::optional<ByteCount>& size, NewImage& image) {
  if (is_nbd(path)) return size ? std::optional(Problem{kUsage, path + ": --size is for images, not for devices of servers"}) : std::nullopt;
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0) {
    if (!size) return std::nullopt;
    if (!S_ISREG(facts.st_mode)) return Problem{kUsage, path + ": --size is for images, not for devices"};
    if (static_cast<std::uint64_t>(facts.st_size) == size->v) return std::nullopt;
    return Problem{kUsage,
                   fmt::format("{}: exists and has {} bytes; leave out --size, or remove it", path, facts.st_size)};
  }
  if (errno != ENOENT) return Problem{kFailure, explain(path, make_error(errno, path))};
  if (!size) return Problem{kFailure, path + ": does not exist; give --size to make an image of that size"};
  if (size->v < kDeviceMin) return too_small(path, size->v);
  if (const auto made = image.create(path, *size); !made) {
    // ENOENT is about the folder here.
    return Problem{kFailure, made.error().code == ENOENT ? path + ": its folder does not exist"
                                                         : explain(path, made.error())};
  }
  return std::nullopt;
}

struct Made {
  VolumeInfo volume;
  VolumeUsage usage;
  ByteCount room;  // for files
};

// Copies what --from names into the root. What goes wrong with that is `problem`, and has no other error.
Result<void> fill(Tree& tree, const std::string& from, std::optional<Problem>& problem) {
  const bool as_root = geteuid() == 0;
  const std::uint32_t mask = current_umask();
  Importer importer(tree, kRootIno, {.as_root = as_root, .uid = geteuid(), .gid = getegid(), .is_member = true, .umask = mask});
  std::optional<Error> failed;
  const auto take = [&](std::string& stream, const SourceProgress&) -> std::optional<Problem> {
    if (const auto fed = importer.feed(as_bytes(stream)); !fed) {
      failed = fed.error();
      return Problem{kFailure, ""};
    }
    return std::nullopt;
  };
  SourceFacts facts;
  problem = read_source({.path = from, .as_root = as_root, .umask = mask}, take, facts);
  if (!failed && !problem) {
    const auto finished = importer.finish();
    if (!finished) failed = finished.error();
  }
  if (failed) problem = Problem{kFailure, explain_import(from, *failed)};
  if (!problem) tell_facts(from, facts);
  return {};
}

Result<Made> make_file_system(Device& device, const MkfsArguments& arguments, std::optional<Problem>& problem) {
  LSMFS_TRY(Volume::format(device, {.label = arguments.label, .made_by = LSMFS_VERSION, .lease = arguments.lease || is_nbd(device.path())}));
  LSMFS_ASSIGN(const auto volume, Volume::open(device));
  LSMFS_ASSIGN(const auto store, Store::open(*volume, {}));
  LSMFS_TRY(Tree::format(*store));
  if (getuid() != 0 || !arguments.from.empty()) {
    LSMFS_ASSIGN(const auto tree, Tree::open(*store, {}));
    if (getuid() != 0) {
      // Who makes an image wants to write in it, and to make snapshots.
      AttrChange owner;
      owner.uid = getuid();
      owner.gid = getgid();
      for (const Ino ino : {kRootIno, kSnapshotsIno}) LSMFS_TRY(tree->setattr(ino, owner, Wait::yes));
    }
    if (!arguments.from.empty()) LSMFS_TRY(fill(*tree, arguments.from, problem));
    LSMFS_TRY(tree->close());
  }
  const ByteCount room = store->space().free;
  LSMFS_TRY(store->close());
  return Made{volume->info(), volume->usage(), room};
}

}  // namespace

int mkfs(const MkfsArguments& arguments) {
  std::optional<ByteCount> size;
  if (!arguments.size.empty()) {
    size = parse_size(arguments.size);
    if (!size) return report({kUsage, fmt::format("--size {}: is not a size; write 4G or 512M", arguments.size)});
    size->v = round_down(size->v, kDeviceBlock);
  }
  const auto source = is_nbd(arguments.path) ? find_source(arguments.path) : Result<std::string>(absolute_path(arguments.path));
  if (!source) return report({kUsage, source.error().context});
  const std::string& path = *source;
  NewImage image;
  if (const auto problem = check_size(path, size, image)) return report(*problem);
  if (const auto user = in_use(path)) {
    return report({kFailure, used_by(path, *user)});
  }
  auto device = open_source(path, Access::read_write, Sharing::exclusive);
  if (!device) return report({kFailure, explain(path, device.error())});
  if ((*device)->size().v < kDeviceMin) return report(too_small(path, (*device)->size().v));
  if (!arguments.force) {
    const auto found = signature(**device);
    if (!found) return report({kFailure, explain(path, found.error())});
    if (*found) return report({kFailure, fmt::format("{}: holds {}; -f destroys it", path, **found)});
  }
  // What is there may be in use by another host.
  Host here;
  if (const auto lease = take_lease(**device, here); !lease && lease.error().code == EBUSY) {
    return report({kFailure, explain(path, lease.error())});
  }
  std::optional<Problem> problem;
  const auto made = make_file_system(**device, arguments, problem);
  if (problem) return report(*problem);
  if (!made) return report({kFailure, explain(path, made.error())});
  image.keep();
  const VolumeInfo& volume = made->volume;
  fmt::print("{}: lsmfs {}{}, {}, {} of them for files\n", path, volume.uuid.text(),
             volume.label.empty() ? "" : fmt::format(", label {}", volume.label), format_size(volume.device_size.v), format_size(made->room.v));
  // What the regions of the device leave is that of superblocks and metadata.
  const std::uint64_t tables = made->usage.table_total.v, logs = made->usage.fixed_total.v;
  fmt::print("  tables {}, of which {} are kept back for merging and removing; logs {}; superblocks and metadata {}\n", format_size(tables),
             format_size(tables - std::min(tables, made->room.v)), format_size(logs), format_size(volume.device_size.v - std::min(volume.device_size.v, tables + logs)));
  return kOk;
}

}  // namespace lsmfs::cli

// lsmfs tune: changes what the superblock says: the label, the UUID, the mount options that it keeps, whether it has a lease.

#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/confine.h"
#include "cli/contents.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/host.h"
#include "cli/messages.h"
#include "cli/mount_options.h"
#include "cli/sources.h"
#include "lsmfs/control.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

Result<VolumeChange> change_of(const TuneArguments& arguments) {
  VolumeChange change{.label = arguments.label, .mount_options = arguments.options};
  if (arguments.lease) {
    if (*arguments.lease != "on" && *arguments.lease != "off") return make_error(EINVAL, fmt::format("--lease {}: write on or off", *arguments.lease));
    change.lease = *arguments.lease == "on";
  }
  if (change.label) LSMFS_TRY(check_label(*change.label));
  if (arguments.uuid) {
    change.uuid = *arguments.uuid == "random" ? Uuid::random() : Uuid::parse(*arguments.uuid);
    if (!change.uuid) return make_error(EINVAL, fmt::format("--uuid {}: is no UUID; write 8-4-4-4-12 hexadecimal digits, or random", *arguments.uuid));
  }
  if (change.mount_options) {
    LSMFS_TRY(check_kept_options(*change.mount_options));
    LSMFS_TRY(check_mount_options(*change.mount_options));
  }
  return change;
}

int tune_mounted(const std::string& where, const VolumeChange& change) {
  if (change.uuid || change.mount_options || change.lease) {
    return report({kFailure, fmt::format("{}: is mounted, and only its label can change meanwhile; unmount it first", where)});
  }
  const auto ours = query_mount(where);
  if (!ours && ours.error().code == ENOTTY) return report({kFailure, where + ": is not in an lsmfs"});
  const auto labelled = ours ? label_mount(where, *change.label) : Result<void>(ours.error());
  if (!labelled) return report({kFailure, explain(where, labelled.error())});
  say(where, fmt::format("label {}", *change.label));
  return kOk;
}

std::string or_none(const std::string& text) { return text.empty() ? "(none)" : text; }

}  // namespace

int tune(const TuneArguments& arguments) {
  if (!arguments.label && !arguments.uuid && !arguments.options && !arguments.lease) return report({kUsage, "tune: nothing to change; see lsmfs tune --help"});
  const auto change = change_of(arguments);
  if (!change) return report({kUsage, change.error().context});
  const auto source = find_source(arguments.path);
  if (!source) return report({kFailure, source.error().context});
  const std::string& path = *source;
  struct stat facts {};
  if (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) return tune_mounted(path, *change);
  if (const auto where = mounted_where(path)) return tune_mounted(*where, *change);
  if (const auto user = in_use(path)) return report({kFailure, used_by(path, *user)});

  Host here;
  const auto device = open_source(path, Access::read_write, Sharing::exclusive, {.writer = here.holder});
  if (!device) return report({kFailure, explain(path, device.error())});
  if (const auto ours = refuse_others(**device, tell); !ours) return report({kFailure, explain(path, ours.error())});
  confine(tell);
  const auto lease = take_lease(**device, here);
  if (!lease) return report({kFailure, explain(path, lease.error())});
  const auto volume = Volume::open((*lease)->device());
  if (!volume) return report({kFailure, explain(path, volume.error())});
  const VolumeInfo before = (*volume)->info();
  if (const auto changed = (*volume)->change(*change); !changed) return report({kFailure, explain(path, changed.error())});
  const VolumeInfo now = (*volume)->info();
  if (change->label) say(path, fmt::format("label {}", or_none(now.label)));
  if (change->mount_options) say(path, fmt::format("mount options {}", or_none(now.mount_options)));
  if (change->lease) say(path, fmt::format("lease {}", *change->lease ? "on" : "off"));
  if (now.uuid != before.uuid) {
    say(path, fmt::format("UUID {}", now.uuid.text()));
    tell(fmt::format("{}: what names it UUID={}, such as a line in /etc/fstab, does not find it any more", path, before.uuid.text()));
  }
  return kOk;
}

}  // namespace lsmfs::cli

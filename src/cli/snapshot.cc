// lsmfs snapshot: keeps a directory with all that lies below it as it is now. It is a clone where nothing changes any more.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "cli/snapshot_names.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

std::string explain_snapshot(const std::string& source, const Place& place, const Error& error) {
  const bool of_source = error.context == source;  // or of the place
  switch (error.code) {
    case EPERM:
      if (of_source) return source + ": only root, who mounted it and the owner of the directory may make a snapshot of it";
      break;
    case EACCES:
      if (!of_source) return place.parent + ": no permission to make a snapshot there; root may give it by chmod or setfacl";
      break;
    case EEXIST:
      return place.path + ": exists already; give another name";
    case EINVAL:
      return source + ": holds the snapshots; name another directory";
    case ENOTTY:
      return source + ": is mounted by a version that does not know snapshots; unmount it, and mount it again";
    default:
      break;
  }
  return explain_cloning(source, place, error);
}

// Makes it under the name, or if `or_next` under the first of NAME, NAME-2, NAME-3, ... that is free. Gives its path; the context of an
// error is a whole message.
Result<std::string> make_snapshot(const std::string& source, const std::string& directory, const std::string& given, bool or_next) {
  std::string name = given;
  for (std::uint64_t number = 2;; ++number) {
    if (const auto why = wrong_snapshot_name(name); !why.empty()) return make_error(ENAMETOOLONG, why);
    const Place place{directory + "/" + name, directory, name};
    struct stat facts {};
    const bool exists = lstat(place.path.c_str(), &facts) == 0;
    const auto made = exists ? make_error(EEXIST, place.path) : clone_in_mount(source, directory, name);
    if (made) return place.path;
    if (!or_next || made.error().code != EEXIST) return make_error(made.error().code, explain_snapshot(source, place, made.error()));
    name = fmt::format("{}-{}", given, number);
  }
}

}  // namespace

Result<std::string> snapshot_before(std::string_view what, const std::string& directory) {
  LSMFS_ASSIGN(const auto place, snapshots_of(directory));
  return make_snapshot(directory, place.directory, fmt::format("before-{}-{}", what, name_after_time(place.inside, Time::now())), true);
}

void print_path(const std::string& path) { fmt::print("{}\n", isatty(STDOUT_FILENO) != 0 ? visible(path) : path); }

int snapshot(const SnapshotArguments& arguments) {
  const std::string source = without_trailing_slashes(arguments.source);
  if (const auto why = arguments.name ? wrong_snapshot_name(*arguments.name) : ""; !why.empty()) return report({kFailure, why});
  if (const auto why = wrong_source(source, "make a snapshot of the directory that it is in", "use cp -a"); !why.empty()) return report({kFailure, why});
  const auto place = snapshots_of(source);
  if (!place) return report({kFailure, place.error().context});
  if (arguments.name && is_named_after_time(place->inside, *arguments.name)) {
    return report({kFailure, fmt::format("{}: is a name as lsmfs snapshot gives by itself, and lsmfs prune removes such; give another one", *arguments.name)});
  }
  const std::string name = arguments.name.value_or(name_after_time(place->inside, Time::now()));
  const auto made = make_snapshot(source, place->directory, name, !arguments.name);
  if (!made) return report({kFailure, made.error().context});
  print_path(*made);
  return kOk;
}

}  // namespace lsmfs::cli

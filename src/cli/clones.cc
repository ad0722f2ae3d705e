#include "cli/clones.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/located.h"
#include "cli/messages.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Place place_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return {path, ".", path};
  return {path, slash == 0 ? "/" : without_trailing_slashes(path.substr(0, slash)), path.substr(slash + 1)};
}

std::string wrong_place(const Place& place) {
  struct stat facts {};
  if (lstat(place.path.c_str(), &facts) == 0) return place.path + ": exists already; name what is not there yet";
  if (place.name.empty()) return "the target has no name";
  if (errno == ENAMETOOLONG) return place.path + ": the name is too long";
  if (stat(place.parent.c_str(), &facts) != 0) return explain(place.parent, make_error(errno, place.parent));
  if (!S_ISDIR(facts.st_mode)) return place.parent + ": is not a directory";
  return "";
}

std::string wrong_source(const std::string& source, std::string_view of_file, std::string_view elsewhere) {
  if (source.empty()) return "the source has no name";
  struct stat facts {};
  if (lstat(source.c_str(), &facts) != 0) return explain(source, make_error(errno, source));
  if (S_ISLNK(facts.st_mode)) return source + ": is a symbolic link; name the directory itself";
  if (!S_ISDIR(facts.st_mode)) return fmt::format("{}: is not a directory; {}", source, of_file);
  if (const auto ours = query_mount(source); !ours) {
    return ours.error().code == ENOTTY ? fmt::format("{}: is not in an lsmfs that is mounted; {}", source, elsewhere) : explain(source, ours.error());
  }
  return "";
}

std::string explain_cloning(const std::string& source, const Place& place, const Error& error) {
  const bool of_source = error.context == source;  // or of the place
  switch (error.code) {
    case EXDEV:
      return fmt::format("{}: is in another file system than {}; use cp -a", place.parent, source);
    case EPERM:
      return of_source ? source + ": only root, who mounted it and the owner of the directory may clone it"
                       : place.parent + ": is immutable; see lsattr -d, chattr";
    case EACCES:
      return of_source ? source + ": no permission to read it" : place.parent + ": no permission to make a directory there";
    case EROFS:
      if (const auto snapshot = snapshot_around(place.parent); !snapshot.empty()) {
        return fmt::format("{}: lies in the snapshot {}, in which nothing changes; name a place outside of it", place.parent, snapshot);
      }
      return place.parent + ": is mounted read-only";
    case EEXIST:
      return place.path + ": exists already; name what is not there yet";
    case EINVAL:
      return fmt::format("{}: lies in {}, which would then be in itself", place.path, source);
    case ENAMETOOLONG:
      return place.path + ": the name is too long";
    case ENOSPC:
      return place.path + ": no space left on the device";
    case ENOTTY:
      return source + ": is mounted by a version that does not know clones; unmount it, and mount it again";
    case ESRCH:
      return source + ": the daemon does not see this process, which is in another process namespace; run it where the mount was made";
    case EAGAIN:
      return place.path + ": was not made in time; try again";
    default:
      return explain(of_source ? source : place.path, make_error(error.code, ""));
  }
}

}  // namespace lsmfs::cli

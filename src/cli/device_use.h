// Who has a device or image now. What is on it is the matter of contents.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {

// "mounted at /mnt", "used as swap", ...; nullopt: nobody that could be found. `path` is absolute
// and without symbolic links. A claim that nobody is known to have may be that of a mount that has just gone: it is
// given seconds to go, too. A daemon that is just finishing is not seen here.
std::optional<std::string> in_use(const std::string& path, Clock& clock = system_clock());

// The same for whoever is about to mount it: waits for a daemon that finishes, which is some time after its
// mount has left the mount table. `notice` is told when that takes long enough to wonder.
std::optional<std::string> in_use_for_good(const std::string& path, const std::function<void(std::string_view)>& notice,
                                           Clock& clock = system_clock());

// Where a daemon of ours serves `path`; nullopt: nowhere.
std::optional<std::string> mounted_where(const std::string& path);

// Whether a daemon of ours has the open device or image, also one that is just finishing. If not, the descriptor keeps others from
// mounting it as long as it is open.
bool is_locked(const Fd& file);

}  // namespace lsmfs::cli

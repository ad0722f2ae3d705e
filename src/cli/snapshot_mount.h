// lsmfs mount -o snapshot=NAME: one snapshot is mounted, and nothing else of its file system is to be seen there.
//
// Where the whole is mounted already, the snapshot of that mount is attached as well, and the daemon serves both. Else the daemon of the
// new mount shows nothing but the snapshot (MountOptions::shows).
#pragma once

#include <optional>
#include <string>

#include "cli/messages.h"
#include "cli/mount_options.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {

// The name of the snapshot that a mount shows alone; "": it shows something else.
std::string snapshot_shown_by(const MountEntry& mount);
// Whether the snapshot of the device or image at `path` is what is visible at `directory`.
bool shows_snapshot(const std::string& directory, const std::string& path, const std::string& name);

// Attaches the snapshot of `options` to `directory`, if root has mounted all of the device or image at `path`. Gives how that ended;
// nullopt: it is not mounted. `fake`: all but doing it.
std::optional<Problem> mount_snapshot_beside(const std::string& path, const std::string& directory, const ParsedOptions& options, bool fake);

// What an error of showing a snapshot is called, at the mount point `directory`.
std::string explain_showing(const std::string& directory, const Error& error);

// Why there is no snapshot of the name in the tree, of the device or image at `path`; nullopt: there is one.
std::optional<Problem> missing_snapshot(Tree& tree, const std::string& path, const std::string& name);

}  // namespace lsmfs::cli

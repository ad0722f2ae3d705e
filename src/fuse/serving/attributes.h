// Between the tree's attributes and libfuse's.
#pragma once

#include <sys/stat.h>

#include "fuse/transport/libfuse.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// The kernel may keep what it was told for as long as it likes: nobody else changes the tree. Not
// infinity, which has no meaning in the kernel's unsigned seconds.
inline constexpr double kForever = 1e9;  // seconds

struct stat to_stat(const Attr& attr);
fuse_entry_param to_entry(const Attr& attr);
// A name that does not exist, to be remembered as such.
fuse_entry_param negative_entry();
// `to_set`: FUSE_SET_ATTR_* bits that say which fields of `values` count.
AttrChange to_change(const struct stat& values, int to_set);
// What the kernel takes as an error; everything else becomes EIO.
int reply_code(const Error& error);

}  // namespace lsmfs

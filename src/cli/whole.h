// The whole program, as the small one that users call finds it: LIBEXECDIR/lsmfs/lsmfs beside the folder of that, or in that folder where
// both were built.
#pragma once

namespace lsmfs::cli {

// Goes on as the whole program, with the same arguments. Returns only when that cannot be: the exit code, after it was said.
int become_whole(char** argv);

}  // namespace lsmfs::cli

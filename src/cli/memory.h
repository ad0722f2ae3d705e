// What the C library keeps of the memory that the daemon has freed.
//
// What it is not: it bounds nothing that is in use. That is the block cache's matter (`-o cache=`), and the kernel's, which
// says how many inodes the tree has to know.
#pragma once

namespace lsmfs::cli {

// For good. Must hold: no other thread.
void keep_little_free_memory();

}  // namespace lsmfs::cli

#include "cli/memory.h"

#include <malloc.h>

#include "lsmfs/base.h"

// While the Linux source was unpacked, searched, copied and removed with cache=64M, the daemon took 75 and 102 MiB less with
// these than with the C library's own settings (docs/limits.md says how much that is in all). When pieces of up to 4 MiB came
// from the heap, it was 50 MiB more after the unpacking. A single arena makes it some 15 MiB less, and all threads wait for
// each other.
namespace lsmfs::cli {
namespace {

// The C library gives each thread an arena of its own, up to eight for each processor, and what is freed in one of them serves
// nobody else. But what one of the daemon's twenty threads allocates (a cached block, a memtable, an inode) others free.
constexpr int kArenas = 2;

// Pieces from this size on are mapped one by one, and are the system's again when they are freed. The C library would raise
// that to 32 MiB when it sees large pieces freed, and what comes and goes with flushes and compactions (read-ahead,
// frames of the log) would lie between small pieces that stay.
constexpr int kMapped = MiB;

// So much free memory at the end of an arena is given back.
constexpr int kTrimmed = MiB;

}  // namespace

void keep_little_free_memory() {
  mallopt(M_ARENA_MAX, kArenas);
  mallopt(M_MMAP_THRESHOLD, kMapped);
  mallopt(M_TRIM_THRESHOLD, kTrimmed);
}

}  // namespace lsmfs::cli

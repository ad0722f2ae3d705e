// What is demanded of a device as a power cut has left it.
//
// Of each: it mounts; it is what the tree was after one of the operations, none older than the last sync (Moments);
// check_tree() finds nothing; each directory takes a new file, gives back what was written, and lets it go. Of some, since it
// takes as long again: what Demands says.
#pragma once

#include "crash/moments.h"
#include "crash/states.h"

namespace lsmfs::test {

struct Demands {
  bool unmounted = false;     // before anybody mounts it, it is the same tree, in which lsmfs fsck finds nothing
  bool cut_mount = false;     // it is the same tree after a mount that was cut off
  bool written_over = false;  // all files can be written over from end to end, also where there is room for nothing more
  bool later_life = false;    // what is made and synced after the mount is there at the next one, also after another power cut
  std::uint64_t seed = 1;
};

struct Findings {
  std::size_t possible = 0;  // states, of which were judged:
  std::size_t states = 0, recovery_states = 0, later_states = 0;
  std::string problem;  // the first; empty: none
};

// Empty: nothing is wrong. Counts in `findings` the states that come from this one.
std::string judge(const Moments& moments, const CrashState& state, const Demands& demands, Findings& findings);

}  // namespace lsmfs::test

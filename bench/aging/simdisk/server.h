// Mounts a disk's files and serves them until the mount is gone.
//
// One thread does all: it takes requests from the kernel, tells the disk when it is time, and sleeps in between. Only
// data is moved by the disk's workers. So the time of a request needs no hand-over from thread to thread.
#pragma once

#include <functional>
#include <string>

#include "simdisk/disk.h"

namespace lsmfs::simdisk {

struct ServerOptions {
  std::string source;       // what the mount table names as mounted
  std::string mount_point;  // absolute, without symbolic links
  std::function<void()> on_ready;
  std::function<void(std::string)> notice;  // one line for people; from any thread
};

// Lets the calling thread, and those that it starts from now on, go before all other programs, if it may: a disk does not
// slow down when the processors are busy. serve() goes before those.
void go_before_others();

// Holds back SIGINT, SIGTERM and SIGHUP, but for those that are ignored, for serve(), in the calling thread and those that
// it starts from now on.
void hold_back_signals();

// Returns when it is unmounted, also by one of those signals. While the disk is in use, a signal only takes the name
// away, and the disk goes on until its last user is gone or another signal comes. Errors: EPERM, ENODEV (no /dev/fuse),
// and those of mount(2) and read(2).
Result<void> serve(Disk& disk, Workers& workers, const ServerOptions& options);

}  // namespace lsmfs::simdisk

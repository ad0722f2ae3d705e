// Which request of the kernel a thread is working on, for those who tell people about it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/device.h"

namespace lsmfs {

struct Request {
  std::uint64_t unique = 0;  // the kernel's number of it
  std::uint64_t ino = 0;
  std::uint32_t opcode = 0;  // FUSE_* of linux/fuse.h; 0: none
  Clock::Time since{};  // known once it is handed to another thread
  std::uint32_t program = 0;  // the thread that made it, as the daemon's namespace numbers it; 0: it has no number there
  std::uint32_t bytes = 0;    // of data that came with it

  std::string text() const;  // "READ of inode 12 (request 345)"
};

// This thread's. What it hands to workers is of the same request.
inline constinit thread_local Request current_request{};
// How many of its requests this thread has handed to workers.
inline constinit thread_local std::uint64_t handed_on = 0;

// What this thread's request was read into: who needs its bytes for longer takes it, and the next one is read into other memory. nullptr,
// or empty: it cannot be had.
inline constinit thread_local std::shared_ptr<AlignedBuffer>* request_memory = nullptr;

// Where the answer to this thread's request may be made, so that it need not be copied there; empty: nowhere.
inline constinit thread_local MutableBytes reply_room{};

}  // namespace lsmfs

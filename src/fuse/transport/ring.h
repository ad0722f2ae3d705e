// One processor's queue of requests, and the thread that serves it.
//
// The kernel queues a request with the processor on which its caller runs. The thread is bound to that processor, so that the
// two take turns on it: while the caller sleeps the request is served, and nobody wakes a processor that idles. To answer
// and to wait for the next request is one system call.
//
// What it is not: forgets, interrupts and notifications go over /dev/fuse as without it. The protocol is fuse_uring_* of
// linux/fuse.h, and Documentation/filesystems/fuse-io-uring.rst.
//
// Threads: made anywhere; answer() from any thread.
#pragma once

#include <liburing.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "fuse/transport/deferring.h"
#include "fuse/transport/libfuse.h"
#include "lsmfs/base.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

// Serves one request, which has the form in which it would have been read from /dev/fuse.
using Serve = std::function<void(fuse_buf&)>;

class Ring final : public Deferring {
 public:
  // `queues`: what it serves, the processor's own first, then those of processors that are not there. `payload`: bytes that
  // come with a request or its answer at most. Nothing else than its own use can be made of it later, so it may be made
  // while there are more rights. Errors: ENOSYS, EPERM (the kernel's or an administrator's no), EINVAL (too old), ENOMEM.
  static Result<std::unique_ptr<Ring>> make(unsigned processor, const std::vector<unsigned>& queues, std::size_t payload);
  ~Ring() override;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Registers all its entries with the kernel, of whose connection `fuse` is the descriptor; then its thread serves
  // requests by what `server` gave when called in that thread. Errors: the kernel's; then it serves nothing.
  Result<void> start(int fuse, std::function<Serve()> server, std::function<void(std::string_view)> notice);
  // Answers request `unique` with the reply in `parts`, a fuse_out_header first; false when it is not one of this ring's.
  bool answer(std::uint64_t unique, const iovec* parts, int count);
  // The ring whose thread calls, or null.
  static Ring* of_this_thread();
  std::uint64_t turns() const override { return turns_.load(std::memory_order_relaxed); }
  bool wanted() const override;
  pid_t thread_id() const override { return thread_id_; }
  // Ends the thread. What is answered afterwards reaches nobody.
  void stop();
  // Once the threads of all rings have ended, and nobody asks for wanted() any more: the kernel's part of it goes.
  void close();

 private:
  struct Entry;

  Ring() = default;
  Result<void> register_entries();
  void run(const Serve& serve);
  void serve(Entry& entry, const Serve& serve);
  void submit(Entry& entry, std::uint32_t command);  // the ring's thread
  void send_answered();                              // the ring's thread
  void listen();                                     // the ring's thread

  unsigned processor_ = 0;
  io_uring ring_{};
  bool made_ = false;  // ring_
  std::byte* memory_ = nullptr;
  std::size_t memory_size_ = 0;
  std::vector<Entry> entries_;
  std::atomic<std::uint64_t> turns_{0};  // odd: it serves
  pid_t thread_id_ = 0;         // once it is started
  std::size_t registered_ = 0;  // how many of them the kernel has or will have back
  std::function<void(std::string_view)> notice_;

  Fd wake_;  // an eventfd: somebody else has answered, or it is to stop
  std::atomic<bool> stopping_{false};
  Mutex mutex_;
  std::vector<Entry*> answered_ LSMFS_GUARDED_BY(mutex_);  // by others than the ring's thread
  std::thread thread_;
};

}  // namespace lsmfs

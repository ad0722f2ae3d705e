// The implementation of Mount: one session with the kernel and the loop that serves it.
//
// Threads: serve() and the destructor belong to the thread that called start(). Requests come to that one, or to those of
// the rings.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "fuse/mounting/mounter.h"
#include "fuse/nearness/nearness.h"
#include "fuse/serving/context.h"
#include "fuse/serving/kernel_cache.h"
#include "fuse/serving/request_counts.h"
#include "fuse/serving/watchdog.h"
#include "fuse/serving/workers.h"
#include "fuse/transport/libfuse.h"
#include "lsmfs/fuse.h"

struct fuse_in_header;

namespace lsmfs {

class FuseMount : public Mount {
 public:
  FuseMount(Tree& tree, const MountOptions& options, Administration administration);
  ~FuseMount() override;  // unmounts what is still mounted

  Result<void> begin();  // once, before serve()
  Result<void> serve(std::function<void()> on_ready, std::function<void()> on_destroy) override;

  KernelCache& kernel_cache() { return kernel_cache_; }
  // How many requests of a kind (FUSE_* opcodes of linux/fuse.h) have come.
  std::uint64_t requests(unsigned opcode) const { return counts_[std::min<std::size_t>(opcode, kKinds - 1)]; }

 private:
  struct CloseSession {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
  };
  class Watch;
  struct Shown;

  static constexpr std::size_t kKinds = 64;

  Result<void> loop();
  Serve server();  // to be called in the thread that is to serve; waits for serve()
  Request process(fuse_buf& buffer);
  void ended(const Request& request);  // by a worker
  void make_room();
  void refuse(const fuse_in_header& request);
  void sync_file_system(std::uint64_t unique);
  void statx(std::uint64_t unique, Ino ino);
  void tmpfile(const fuse_in_header& request);
  // 0, or the errno with which the kernel refused it: ENOENT when the caller was killed meanwhile.
  int reply(std::uint64_t unique, int error, Bytes body);
  bool still_mounted() const;
  void note_entry();
  Mounter& mounter() { return *options_.prepared->mounter; }  // from begin() to the end of serve()

  MountOptions options_;
  RequestCounts answers_;
  KernelCache kernel_cache_;
  Listings listings_;
  Workers workers_;
  Context context_;
  PrivilegeWatch privileges_;
  std::optional<Watchdog> watchdog_;  // in serve()
  std::optional<Nearness> nearness_;  // from begin() on
  std::unique_ptr<fuse_session, CloseSession> session_;
  std::optional<MountEntry> entry_;  // of the mount, once it is attached to its mount point
  std::atomic<bool> attached_{false};
  std::atomic<bool> stop_{false}, loop_done_{false};
  std::array<std::atomic<std::uint64_t>, kKinds> counts_{};
};

}  // namespace lsmfs

// A trace of all requests that the kernel issues to some disks: an instance of its own in tracefs, made and removed here, with
// the events block:block_rq_issue and block:block_rq_requeue. The kernel's global trace and those of others are left alone.
//
// Promise: what stop() gives is all that was issued, or it fails. An instance that a killed process left behind is removed by
// the next trace.
//
// The contexts of errors are whole messages. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/layout/trace_reader.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {

// The root of tracefs: where it is mounted, or else a mount of our own that is at no place in the tree of files, and gone
// with its descriptor. Errors: EPERM, ENODEV (the kernel has none).
Result<Fd> open_tracefs();

// What the kernel keeps for each processor until it is read.
ByteCount trace_buffer_default();

class BlockTrace {
 public:
  // `tracefs` must outlive it. Errors: EPERM, ENOENT (the kernel does not have the events), ENOMEM (buffers).
  static Result<std::unique_ptr<BlockTrace>> start(const Fd& tracefs, const std::vector<DiskNumber>& disks,
                                                   ByteCount buffer_per_cpu);
  ~BlockTrace();

  struct Recording {
    std::uint64_t begin_ns = 0;  // CLOCK_MONOTONIC
    std::vector<BlockRequest> requests;
  };
  // EOVERFLOW: events were lost. Only the destructor may follow.
  Result<Recording> stop();

 private:
  explicit BlockTrace(const Fd& tracefs) : tracefs_(tracefs) {}
  Result<void> begin(const std::vector<DiskNumber>& disks, ByteCount buffer_per_cpu);
  Result<void> make_instance();
  Result<void> remove_instance();
  Result<std::vector<Fd>> open_streams() const;
  Result<std::uint64_t> lost() const;
  std::string at(const std::string& file) const { return instance_ + "/" + file; }

  const Fd& tracefs_;
  std::string instance_;  // below tracefs; empty: not there
  std::uint64_t begin_ns_ = 0;
  std::unique_ptr<TraceReader> reader_;
};

}  // namespace lsmfs::cli

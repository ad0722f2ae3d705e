// A thread that serves requests, as those see it who may have it step back behind its callers (fuse/nearness/deference.h).
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace lsmfs {

class Deferring {
 public:
  virtual ~Deferring() = default;
  // How many times it has come to serve requests, or gone to wait for them.
  virtual std::uint64_t turns() const = 0;
  // Whether there is a request that it has not come to, or has not done with.
  virtual bool wanted() const = 0;
  virtual pid_t thread_id() const = 0;

  // Asked at each look at which it may defer: whether that is of use now.
  virtual bool ready() { return true; }
  // It does not defer any more.
  virtual void let_go() {}
};

}  // namespace lsmfs

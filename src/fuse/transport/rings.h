// FUSE over io_uring (Linux 6.14): a Ring for each processor, through which requests come and answers go.
//
// The kernel wants rings for all processors that there could be, and sends nothing before it has them all.
//
// Threads: made and destroyed by one thread; answer() from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "fuse/transport/ring.h"
#include "fuse/transport/rings_switch.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

class Rings {
 public:
  // To be had while there still are the rights for it. automatic: null when the kernel does not offer it; on: the kernel's switch is
  // turned on, which `notice` hears of, and not to be able to is an error whose context says why; off: null. `payload`: bytes that
  // come with a request at most.
  static Result<std::unique_ptr<Rings>> make(Choice choice, std::size_t payload, const std::function<void(std::string_view)>& notice,
                                             const RingsSwitch& kernel = RingsSwitch());

  // Once the kernel has been told in INIT that there will be rings. Errors: the kernel's; requests then come through
  // /dev/fuse after all.
  Result<void> start(int fuse, const std::function<Serve()>& server, const std::function<void(std::string_view)>& notice);
  // Sends a reply that libfuse made, a fuse_out_header first; false when it is not of a request that came through a ring.
  bool answer(const iovec* parts, int count);
  // Their threads, once they are started.
  std::vector<Deferring*> threads() const;
  // No more requests are served and nothing is answered any more; what was, is.
  void stop();
  // Then, when nobody looks at the threads any more.
  void close();

 private:
  std::vector<std::unique_ptr<Ring>> rings_;
};

// The numbers in a list like those in /sys/devices/system/cpu: "0-2,5". Empty: it is none.
std::vector<unsigned> numbers_in_list(std::string_view list);

}  // namespace lsmfs

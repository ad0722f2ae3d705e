// Counts requests that have been answered: by kind with how long they took, and by the program that made them.
//
// What it is not: it does not know programs, only the numbers of threads as the kernel says them; who asks for these looks up
// their names. A bounded number of those that came last are kept, each with what came since it was put there.
//
// It has to cost next to nothing: most requests are answered in a microsecond or two. So each thread that serves them has its own
// counts, which it adds to without any lock or atomic operation that others could wait for, and looks at the clock for some only.
//
// Threads: all functions, from any thread, but those of a Server.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "fuse/transport/request.h"
#include "lsmfs/control.h"
#include "lsmfs/counters.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class RequestCounts {
 public:
  RequestCounts() = default;
  RequestCounts(const RequestCounts&) = delete;
  RequestCounts& operator=(const RequestCounts&) = delete;

  // By a worker, about one that was handed on.
  void ended(const Request& request, Clock::Time now);
  RequestStats stats() const;

 private:
  struct Kind {
    std::atomic<std::uint64_t> count{0}, waited{0}, bytes{0};
    Histogram took;
  };
  // The number in the upper half, and how many of its requests in the lower. One line of the cache for each set, where a number
  // takes the place of the one that came first.
  struct alignas(64) Programs {
    static constexpr std::size_t kPlaces = 7;
    std::array<std::atomic<std::uint64_t>, kPlaces> places{};
    std::atomic<std::uint64_t> next{0};
  };
  struct Counts {
    static constexpr std::size_t kSets = 8;
    std::array<std::atomic<Kind*>, RequestStats::kKinds> kinds{};
    std::array<Programs, kSets> programs{};
    std::atomic<std::uint64_t> programs_before{0};  // requests of those whose places others have

    ~Counts();
    Kind& kind(std::uint32_t opcode);
    template <bool shared>
    void count(const Request& request, Kind& kind);
    void add_to(RequestStats& stats, std::map<std::uint32_t, std::uint64_t>& all_programs) const;
  };

 public:
  // A thread that serves requests, which alone uses it. The counts must outlive it, and keep what it has counted.
  class Server {
   public:
    explicit Server(RequestCounts& counts) : counts_(counts.add_server()) {}
    // For how many the next one of this kind stands, if it is answered at once; 0: its time is not asked for.
    unsigned weight(std::uint32_t opcode) const;
    // `took`: nothing if it has no weight.
    void answered(const Request& request, unsigned weight, Clock::Duration took);

   private:
    Counts& counts_;
  };

 private:
  static constexpr std::uint64_t kAllOf = 64;  // the first ones of a kind
  static constexpr unsigned kEach = 16;

  Counts& add_server();

  Counts of_workers_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Counts>> of_servers_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace lsmfs

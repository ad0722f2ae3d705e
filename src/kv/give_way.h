// kv/give_way: compactions give way to those who wait for a read of the device.
//
// A mount after much writing finds tables to merge and begins with it at once, and a walk that follows would share the device
// with it: on a hard disk both then pay for the seeks between them. So a compaction waits before each of its large requests
// while others read, though never for long, and not at all when it is wanted (see hurry).
// What it is not: RocksDB's rate limiter, which is not safe in this version and knows no readers.
//
// Threads: all functions, from any thread. A compaction runs in one thread from its beginning to its end.
#pragma once

#include <atomic>
#include <chrono>

#include "lsmfs/clock.h"

namespace lsmfs::kv {

class GiveWay {
 public:
  explicit GiveWay(Clock& clock) : clock_(clock) {}

  // After this long without a read nobody is reading: a reader works on what it got in between.
  static constexpr auto kQuiet = std::chrono::milliseconds(20);
  // Then a request of a compaction goes its way all the same.
  static constexpr auto kPatience = std::chrono::seconds(1);

  // A read of the device. That of a compaction waits here.
  class Read {
   public:
    explicit Read(GiveWay& way) : way_(way) {
      way_.let_readers_pass();
      if (!compacting_) ++way_.reading_;
    }
    ~Read() {
      if (compacting_) return;
      way_.last_ns_.store(way_.clock_.now_ns(), std::memory_order_relaxed);
      --way_.reading_;
    }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

   private:
    GiveWay& way_;
  };

  // This thread compacts from now on, or no more.
  static void set_compacting(bool on) { compacting_ = on; }
  static bool compacting() { return compacting_; }

  // Before a compaction's requests of other kinds; nothing in other threads.
  void let_readers_pass() const {
    if (compacting_) wait();
  }

  // Commits wait for what compactions give, or will soon: space, or fewer tables.
  void hurry(bool on) { hurry_.store(on, std::memory_order_relaxed); }
  // Somebody waits for the end of a compaction, and would rather have it fail than wait long.
  bool awaited() const { return waiting_ > 0; }
  // While it is there, somebody does.
  class Hurry {
   public:
    explicit Hurry(GiveWay& way) : way_(way) { ++way_.waiting_; }
    ~Hurry() { --way_.waiting_; }
    Hurry(const Hurry&) = delete;
    Hurry& operator=(const Hurry&) = delete;

   private:
    GiveWay& way_;
  };

 private:
  bool quiet() const {
    return reading_ == 0 && clock_.now_ns() - last_ns_.load(std::memory_order_relaxed) >= std::chrono::nanoseconds(kQuiet).count();
  }
  bool hurried() const { return hurry_.load(std::memory_order_relaxed) || waiting_ > 0; }
  void wait() const;

  static inline thread_local bool compacting_ = false;
  Clock& clock_;
  std::atomic<int> reading_ = 0, waiting_ = 0;
  std::atomic<std::int64_t> last_ns_ = 0;  // when the last read ended
  std::atomic<bool> hurry_ = false;
};

}  // namespace lsmfs::kv

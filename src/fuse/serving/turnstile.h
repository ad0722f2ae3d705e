// Lets requests in while there is a tree to serve them, and knows when the last of them has left it.
//
// What it is not: it knows nothing of what a request has handed on to workers, which have to be drained then.
//
// Threads: a Pass belongs to the thread that made it; all else from any.
#pragma once

#include <atomic>
#include <set>

#include "lsmfs/mutex.h"

namespace lsmfs {

class Turnstile {
 public:
  void open();
  // For good. Nobody gets in any more, and all have left when this returns. Must hold: the caller is not inside.
  void close();
  bool closed() const { return state_ == State::closed; }
  // Waits until it is opened, or closed: then false.
  bool wait() const;

  // A thread that serves requests. The turnstile must outlive it.
  class Pass {
   public:
    explicit Pass(Turnstile& turnstile);
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // Before a request and, if that says true, after it. Cheap enough for every request: the word that is written is this
    // thread's own, and the one that is read changes only at the end.
    bool enter() {
      // This writes the one and reads the other, close() the other way round; in an order on which all agree, so that one of
      // the two sees what the other did.
      inside_.store(true);
      if (turnstile_.state_.load() == State::open) return true;
      leave();
      return false;
    }
    void leave() { inside_.store(false, std::memory_order_release); }

   private:
    friend class Turnstile;

    Turnstile& turnstile_;
    std::atomic<bool> inside_{false};
  };

 private:
  enum class State { not_yet, open, closed };

  std::atomic<State> state_{State::not_yet};
  Mutex mutex_;
  std::set<const Pass*> passes_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace lsmfs

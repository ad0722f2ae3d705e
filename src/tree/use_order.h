// UseOrder: things in the order in which they were last used. The links are in the things themselves (which derive from
// UseLink), so that nothing is allocated and nothing can fail. Not thread-safe.
#pragma once

#include <cassert>

namespace lsmfs {

struct UseLink {
  UseLink* older = nullptr;
  UseLink* newer = nullptr;
};

class UseOrder {
 public:
  UseOrder() { ends_.older = ends_.newer = &ends_; }
  UseOrder(const UseOrder&) = delete;
  UseOrder& operator=(const UseOrder&) = delete;

  // As the one used last. Must hold: it is in no order, and stays where it is in memory until it is removed.
  void add(UseLink& link) {
    assert(!link.older && !link.newer);
    link.newer = &ends_;
    link.older = ends_.older;
    link.older->newer = ends_.older = &link;
  }
  // The functions below must hold: it is in this order.
  void remove(UseLink& link) {
    assert(link.older && link.newer);
    link.older->newer = link.newer;
    link.newer->older = link.older;
    link.older = link.newer = nullptr;
  }
  void renew(UseLink& link) {
    if (link.newer == &ends_) return;
    remove(link);
    add(link);
  }
  // Must hold: there is one.
  UseLink& oldest() {
    assert(ends_.newer != &ends_);
    return *ends_.newer;
  }

 private:
  UseLink ends_;  // a ring: after the newest, before the oldest
};

}  // namespace lsmfs

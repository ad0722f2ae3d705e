// Who owns extents: what the journal knows of a file.
#pragma once

#include <vector>

#include "volume/format.h"

namespace lsmfs {

class ExtentOwner {
 public:
  virtual ~ExtentOwner() = default;
  // It has given these up by a change that is durable now.
  virtual void retire(std::vector<Extent> extents) = 0;

  // By the journal alone: it has lost its name by a change, with the journal's lock; and that is durable now.
  void note_removed() { removed_ = true; }
  bool removed() const { return removed_; }
  void note_removal_durable() { removal_durable_ = true; }

 protected:
  bool removal_durable() const { return removal_durable_; }  // when the journal has let go

 private:
  bool removed_ = false;
  bool removal_durable_ = false;
};

}  // namespace lsmfs

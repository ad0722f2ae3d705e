// Tells which of the cursors that a store gave are still there. Thread-safe.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace lsmfs::test {

class CursorWatch {
 public:
  // For a cursor to hold as long as it lives.
  std::shared_ptr<void> token() {
    auto held = std::make_shared<int>();
    std::lock_guard lock(mutex_);
    cursors_.push_back(held);
    return held;
  }
  std::size_t made() const {
    std::lock_guard lock(mutex_);
    return cursors_.size();
  }
  // In the order in which they were made.
  bool is_there(std::size_t number) const {
    std::lock_guard lock(mutex_);
    return !cursors_.at(number).expired();
  }
  std::size_t there() const {
    std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(cursors_, [](const auto& cursor) { return !cursor.expired(); }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<void>> cursors_;
};

}  // namespace lsmfs::test

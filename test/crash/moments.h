// What a tree may be after a crash: what it was after one of its operations, none older than the last sync.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace lsmfs::test {

// The first line in which two dumps differ.
std::string difference(const std::string& found, const std::string& expected);

class Moments {
 public:
  // The tree is now as `dump` says (tree/model.h) by an operation that began when the device had seen `began` events.
  void add(std::string dump, std::size_t began) { moments_.push_back({std::move(dump), began, kNever}); }
  // All that was added is durable since the device has seen `events`.
  void synced(std::size_t events) { moments_.back().durable_at = std::min(moments_.back().durable_at, events); }

  // Empty: a power cut after `events` may leave a tree like this. Else what is wrong.
  std::string judge(const std::string& dump, std::size_t events) const;

 private:
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  struct Moment {
    std::string dump;
    std::size_t began, durable_at;
  };
  std::vector<Moment> moments_;
};

}  // namespace lsmfs::test

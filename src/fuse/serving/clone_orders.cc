#include "fuse/serving/clone_orders.h"

#include <algorithm>

namespace lsmfs {

void CloneOrders::put(pid_t thread, uid_t user, const Source& source, Ino parent, std::string_view name) {
  MutexLock lock(mutex_);
  std::erase_if(orders_, [&](const Order& order) { return order.thread == thread; });
  if (orders_.size() == kMost) {
    const auto own = std::ranges::find(orders_, user, &Order::user);
    orders_.erase(own != orders_.end() ? own : orders_.begin());
  }
  orders_.push_back({.thread = thread, .user = user, .source = source, .parent = parent, .name = std::string(name), .until = clock_.now() + kGood});
  any_ = true;
}

std::optional<CloneOrders::Source> CloneOrders::take(pid_t thread, Ino parent, std::string_view name, const std::function<bool(uid_t)>& is_of) {
  if (!any_) return std::nullopt;
  MutexLock lock(mutex_);
  const auto order = std::ranges::find(orders_, thread, &Order::thread);
  if (order == orders_.end() || order->outcome != Outcome::ordinary || order->parent != parent || order->name != name) return std::nullopt;
  if (clock_.now() >= order->until || !is_of(order->user)) return std::nullopt;
  order->outcome = Outcome::clone;
  return order->source;
}

void CloneOrders::deny(pid_t thread) {
  MutexLock lock(mutex_);
  const auto order = std::ranges::find(orders_, thread, &Order::thread);
  if (order != orders_.end()) order->outcome = Outcome::denied;
}

CloneOrders::Outcome CloneOrders::end(pid_t thread) {
  MutexLock lock(mutex_);
  const auto order = std::ranges::find(orders_, thread, &Order::thread);
  if (order == orders_.end()) return Outcome::ordinary;
  const Outcome outcome = order->outcome;
  orders_.erase(order);
  any_ = !orders_.empty();
  return outcome;
}

}  // namespace lsmfs

#include "fuse/serving/clone_orders.h"

#include <algorithm>

namespace lsmfs {

void CloneOrders::put(pid_t thread, uid_t user, Ino source, Ino parent, std::string_view name) {
  MutexLock lock(mutex_);
  std::erase_if(orders_, [&](const Order& order) { return order.thread == thread; });
  if (orders_.size() == kMost) {
    const auto own = std::ranges::find(orders_, user, &Order::user);
    orders_.erase(own != orders_.end() ? own : orders_.begin());
  }
  orders_.push_back({.thread = thread, .user = user, .source = source, .parent = parent, .name = std::string(name), .until = clock_.now() + kGood});
  any_ = true;
}

std::optional<Ino> CloneOrders::take(pid_t thread, Ino parent, std::string_view name, const std::function<bool(uid_t)>& is_of) {
  if (!any_) return std::nullopt;
  MutexLock lock(mutex_);
  const auto order = std::ranges::find(orders_, thread, &Order::thread);
  if (order == orders_.end() || order->taken || order->parent != parent || order->name != name || clock_.now() >= order->until) return std::nullopt;
  if (!is_of(order->user)) return std::nullopt;
  order->taken = true;
  return order->source;
}

bool CloneOrders::end(pid_t thread) {
  MutexLock lock(mutex_);
  const auto order = std::ranges::find(orders_, thread, &Order::thread);
  if (order == orders_.end()) return false;
  const bool taken = order->taken;
  orders_.erase(order);
  any_ = !orders_.empty();
  return taken;
}

}  // namespace lsmfs

#include "tree/dir_cookies.h"

#include <algorithm>

#include "lsmfs/base.h"

namespace lsmfs {

std::uint64_t DirCookies::cookie_after(std::string_view name) const {
  // 63 bits, since the kernel's loff_t is signed.
  return std::min(kLeast | checksum(name, seed_) >> 2, kEnd - 1);
}

void DirCookies::start() {
  if (!runs_.empty() && runs_.back().empty()) return;  // of a walk that was given nothing
  if (runs_.size() == kRuns) runs_.pop_front();
  runs_.emplace_back();
}

void DirCookies::add(Names& names, std::string_view name, std::size_t most) const {
  names.emplace_back(cookie_after(name), name);
  if (names.size() > most) names.pop_front();
}

std::optional<std::string> DirCookies::resume(std::uint64_t cookie) {
  if (cookie < kLeast) {
    start();
    return "";
  }
  const auto in = [cookie](const Names& names) {
    return std::find_if(names.rbegin(), names.rend(), [cookie](const auto& entry) { return entry.first == cookie; });
  };
  // Of the walks that have been there, one that has got no further.
  const auto ends = [&](const Names& run) { return !run.empty() && run.back().first == cookie; };
  const auto holds = [&](const Names& run) { return in(run) != run.rend(); };
  auto run = std::find_if(runs_.rbegin(), runs_.rend(), ends);
  if (run == runs_.rend()) run = std::find_if(runs_.rbegin(), runs_.rend(), holds);
  if (run != runs_.rend()) {
    std::rotate(std::prev(run.base()), run.base(), runs_.end());
    return in(runs_.back())->second;
  }
  const auto gone = in(removed_);
  if (gone == removed_.rend()) return std::nullopt;
  found(gone->second);
  return gone->second;
}

void DirCookies::given(std::string_view name) {
  if (runs_.empty()) start();
  add(runs_.back(), name, kRecent);
}

void DirCookies::found(std::string_view name) {
  start();
  given(name);
}

void DirCookies::removed(std::string_view name) { add(removed_, name, kRemoved); }

}  // namespace lsmfs

#include "tree/dir_cookies.h"

#include <algorithm>

namespace lsmfs {
namespace {

// A cookie has 63 bits, since the kernel's loff_t is signed: 23 of the run, 40 of the number.
constexpr int kNumberBits = 40;
static_assert(DirCookies::kLeast == std::uint64_t{1} << kNumberBits);
constexpr std::uint32_t kRunMask = (1u << 23) - 1;
constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kNumberBits) - 1;

}  // namespace

DirCookies::Run* DirCookies::find(std::uint32_t id) {
  auto it = std::find_if(runs_.begin(), runs_.end(), [id](const Run& r) { return r.id == id; });
  return it == runs_.end() ? nullptr : &*it;
}

DirCookies::Run* DirCookies::use(std::uint32_t id) {
  auto it = std::find_if(runs_.begin(), runs_.end(), [id](const Run& r) { return r.id == id; });
  if (it == runs_.end()) return nullptr;
  std::rotate(it, it + 1, runs_.end());
  return &runs_.back();
}

DirCookies::Run& DirCookies::start(std::uint64_t number) {
  if (runs_.size() == kRuns) runs_.pop_front();
  Run& run = runs_.emplace_back();
  run.id = next_id_;
  next_id_ = next_id_ % (kRunMask - 1) + 1;  // never 0, never the id in kEnd
  run.first = number;
  return run;
}

DirCookies::Position DirCookies::resume(std::uint64_t cookie) {
  Position position;
  position.number = cookie & kNumberMask;
  Run* run = cookie == 0 ? nullptr : use(static_cast<std::uint32_t>(cookie >> kNumberBits) & kRunMask);
  const std::uint64_t reached = run ? run->first + run->recent.size() : 0;
  if (!run || position.number > reached) {
    position.skip = position.number;
    position.run = start(position.number).id;
    return position;
  }
  if (position.number > run->first) {
    position.after = run->recent[position.number - run->first - 1];
  } else if (!run->sparse.empty() && run->sparse.front().first <= position.number) {
    auto it = std::upper_bound(run->sparse.begin(), run->sparse.end(), position.number,
                               [](std::uint64_t n, const auto& entry) { return n < entry.first; });
    --it;
    position.after = it->second;
    position.skip = position.number - it->first;
  } else {
    position.skip = position.number;
  }
  // A walk that goes back gets a run of its own, so that the cookies given further on stay good.
  position.run = position.number == reached ? run->id : start(position.number).id;
  return position;
}

std::uint64_t DirCookies::cookie_after(const Position& position) {
  return std::uint64_t{position.run} << kNumberBits | (position.number + 1);
}

void DirCookies::advance(Position& position, std::string_view name) {
  ++position.number;
  Run* run = find(position.run);
  if (!run) return;
  run->recent.emplace_back(name);
  if (run->recent.size() <= kRecent) return;
  ++run->first;
  if (run->first % kStride == 0) run->sparse.emplace_back(run->first, std::move(run->recent.front()));
  run->recent.pop_front();
}

}  // namespace lsmfs

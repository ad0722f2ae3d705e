#include "fuse/follower.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs {

Follower::Follower(int fuse) : fuse_(fuse), thread_(gettid()) {
  CPU_ZERO(&any_);
  (void)sched_getaffinity(0, sizeof any_, &any_);  // none, on a machine that has too many: then it follows nobody
}

Follower::~Follower() { go_anywhere(); }

void Follower::go_anywhere() {
  let_go();
  if (bound_ != kAny) bind(kAny);
}

bool Follower::wanted() const {
  pollfd fuse{fuse_, POLLIN, 0};
  return turns() % 2 != 0 || poll(&fuse, 1, 0) == 1;
}

bool Follower::ready() {
  const int now = processor_of(caller_.load(std::memory_order_relaxed));
  const bool stays = now != kAny && now == last_ && now < CPU_SETSIZE && CPU_ISSET(now, &any_);
  last_ = now;
  processor_.store(stays ? now : kAny, std::memory_order_relaxed);
  return stays;
}

void Follower::bind(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  if (processor != kAny) CPU_SET(processor, &one);
  (void)sched_setaffinity(0, sizeof one, processor == kAny ? &any_ : &one);
  bound_ = processor;
}

int processor_of(pid_t thread) {
  constexpr int kUnknown = -1, kField = 39, kFirstAfterName = 3;
  std::array<char, 1024> text;
  const Fd file(open(fmt::format("/proc/{}/stat", thread).c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = file ? read(file.get(), text.data(), text.size()) : 0;
  std::string_view rest(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  // The name is in brackets and may hold any others.
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));
  for (int field = kFirstAfterName - 1; field < kField && !rest.empty(); ++field) {
    rest.remove_prefix(std::min(rest.find(' '), rest.size()));
    if (!rest.empty()) rest.remove_prefix(1);
  }
  int processor = kUnknown;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), processor);
  return error == std::errc() ? processor : kUnknown;
}

}  // namespace lsmfs

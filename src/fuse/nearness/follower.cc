#include "fuse/nearness/follower.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "lsmfs/base.h"

namespace lsmfs {

Follower::Follower(int fuse, KeepOff keep_off) : fuse_(fuse), thread_(gettid()), keep_off_(std::move(keep_off)) {
  CPU_ZERO(&any_);
  (void)sched_getaffinity(0, sizeof any_, &any_);  // none, on a machine that has too many: then it follows nobody
}

Follower::~Follower() { go_anywhere(); }

void Follower::go_anywhere() {
  processor_.store(kAnyProcessor, std::memory_order_relaxed);
  if (bound_ != kAnyProcessor) bind(kAnyProcessor);
}

bool Follower::wanted() const {
  pollfd fuse{fuse_, POLLIN, 0};
  return turns() % 2 != 0 || poll(&fuse, 1, 0) == 1;
}

bool Follower::ready() {
  const int now = processor_of(caller_.load(std::memory_order_relaxed));
  const bool stays = answers_most() && now != kAnyProcessor && now == last_ && now < CPU_SETSIZE && CPU_ISSET(now, &any_);
  last_ = now;
  follow(stays ? now : kAnyProcessor);
  return stays;
}

// Of the latest requests. Who has its requests served by workers, such as the reader of a large file, needs every processor for them.
bool Follower::answers_most() {
  const std::uint64_t requests = turns() / 2, handed = handed_on_.load(std::memory_order_relaxed);
  if (const std::uint64_t sample = requests - before_.requests; sample >= kSample) {
    before_ = {requests, handed, 2 * (handed - before_.handed_on) <= sample};
  }
  return before_.answers_most;
}

void Follower::follow(int processor) {
  looks_ = processor_.exchange(processor, std::memory_order_relaxed) == processor ? looks_ + 1 : 0;
  if (processor == kept_off_ && (processor == kAnyProcessor || looks_ % kRepeat != 0)) return;
  keep_off_(processor);
  kept_off_ = processor;
}

void Follower::bind(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  if (processor != kAnyProcessor) CPU_SET(processor, &one);
  (void)sched_setaffinity(0, sizeof one, processor == kAnyProcessor ? &any_ : &one);
  bound_ = processor;
}

Result<void> keep_off(int processor, pid_t server, pid_t process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};  // none, on a machine that has too many
  if (processor >= 0 && processor < CPU_SETSIZE) CPU_CLR(processor, &set);
  if (CPU_COUNT(&set) == 0) return {};
  std::error_code error;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", process), error), end; !error && task != end; task.increment(error)) {
    const pid_t thread = std::atoi(task->path().filename().c_str());
    if (thread > 0 && thread != server) (void)sched_setaffinity(thread, sizeof set, &set);  // it may have ended
  }
  if (error) return make_error(error.value(), "threads of a process");
  return {};
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

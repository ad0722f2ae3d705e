// Pieces that need no mount.

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <latch>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "clock.h"
#include "fuse/mounting/mount_process.h"
#include "fuse/nearness/activity.h"
#include "fuse/nearness/deference.h"
#include "fuse/nearness/follower.h"
#include "fuse/nearness/idle_latency.h"
#include "fuse/serving/attributes.h"
#include "fuse/serving/replies.h"
#include "fuse/serving/turnstile.h"
#include "fuse/serving/workers.h"
#include "fuse/transport/request_memory.h"
#include "fuse/transport/rings.h"
#include "fuse/transport/rings_switch.h"

namespace lsmfs::parts_test {
namespace {

using test::SteppedClock;
using namespace std::chrono_literals;

TEST(RequestMemory, UsesAgainOnlyWhatNobodyHolds) {
  auto pool = std::make_unique<RequestMemory>(kDeviceBlock);
  auto first = pool->take();
  const auto second = pool->take();
  EXPECT_NE(first, second);
  const AlignedBuffer* const memory = first.get();
  std::shared_ptr<const void> held = std::move(first);
  EXPECT_NE(pool->take().get(), memory);
  held.reset();
  EXPECT_EQ(pool->take().get(), memory);
  pool.reset();  // what is still held stays
  EXPECT_EQ(second->bytes()[kDeviceBlock - 1], std::byte{0});
}

TEST(Workers, RunEverythingBeforeDrainReturns) {
  Workers workers(4, "test", system_clock());
  std::atomic<int> done{0};
  for (int i = 0; i < 1000; ++i) workers.submit([&] { ++done; });
  workers.drain();
  EXPECT_EQ(done, 1000);
}

TEST(Workers, TheOneThatHadWorkLastGetsTheNext) {
  Workers workers(4, "test", system_clock());
  std::latch all(4);
  for (int i = 0; i < 4; ++i) workers.submit([&] { all.arrive_and_wait(); });
  workers.drain();
  std::set<std::thread::id> ran;
  for (int i = 0; i < 20; ++i) {
    workers.submit([&] { ran.insert(std::this_thread::get_id()); });
    workers.drain();
  }
  EXPECT_EQ(ran.size(), 1u);
}

TEST(Workers, RunWhatIsQueuedBeforeTheyAreGone) {
  std::atomic<int> done{0};
  {
    Workers workers(2, "test", system_clock());
    for (int i = 0; i < 100; ++i) workers.submit([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(Attributes, OnlyWhatTheKernelAcceptsIsSentAsAnError) {
  EXPECT_EQ(reply_code({ENOSPC, ""}), ENOSPC);
  EXPECT_EQ(reply_code({EUCLEAN, ""}), EIO);
  EXPECT_EQ(reply_code({ENOSYS, ""}), EIO);
  EXPECT_EQ(reply_code({0, ""}), EIO);
  EXPECT_EQ(reply_code({512, ""}), EIO);
  EXPECT_EQ(reply_code({-5, ""}), EIO);
}

TEST(Attributes, OnlyTheFieldsThatAreSetChange) {
  struct stat values {};
  values.st_mode = S_IFREG | 0640;
  values.st_size = 77;
  const AttrChange nothing = to_change(values, 0);
  EXPECT_FALSE(nothing.mode || nothing.uid || nothing.gid || nothing.size || nothing.atime || nothing.mtime);
  const AttrChange some = to_change(values, FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME_NOW);
  EXPECT_EQ(some.mode, 0640u);
  EXPECT_EQ(some.size, 77u);
  EXPECT_TRUE(some.mtime && *some.mtime >= Time{1'000'000'000});
  EXPECT_FALSE(some.atime || some.uid);
}

TEST(Rings, ReadTheKernelsListsOfProcessors) {
  EXPECT_EQ(numbers_in_list("0"), (std::vector<unsigned>{0}));
  EXPECT_EQ(numbers_in_list("0-3"), (std::vector<unsigned>{0, 1, 2, 3}));
  EXPECT_EQ(numbers_in_list("0-1,4,7-8"), (std::vector<unsigned>{0, 1, 4, 7, 8}));
  for (const char* text : {"", "-", "0-", "1,", ",1", "3-1", "a", "0-99999999", "1 "}) {
    EXPECT_TRUE(numbers_in_list(text).empty()) << text;
  }
}

// A file in place of the kernel's switch.
class SwitchOfRings : public testing::Test {
 protected:
  SwitchOfRings() { ::close(mkstemp(path_)); }
  ~SwitchOfRings() override { ::unlink(path_); }
  void says(std::string_view text) { std::ofstream(path_) << text; }
  std::string said() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // The error's context; "": there are rings; "none": neither.
  std::string made(Choice choice, const std::string& path) {
    const auto rings = Rings::make(choice, 4096, [this](std::string_view line) { notices_.emplace_back(line); }, RingsSwitch(path));
    if (!rings) return rings.error().message();
    return *rings ? "" : "none";
  }

  char path_[32] = "/tmp/lsmfs-switch-XXXXXX";
  std::vector<std::string> notices_;
};

TEST_F(SwitchOfRings, IsReadAndTurnedOn) {
  const RingsSwitch kernel(path_);
  says("N\n");
  EXPECT_FALSE(kernel.is_on().value());
  ASSERT_TRUE(kernel.turn_on());
  EXPECT_EQ(said(), "Y\n");
  EXPECT_TRUE(kernel.is_on().value());
}

TEST_F(SwitchOfRings, IsTurnedOnByWhoInsistsAndByNobodyElse) {
  says("N\n");
  EXPECT_EQ(made(Choice::off, path_), "none");
  EXPECT_EQ(made(Choice::automatic, path_), "none");
  EXPECT_EQ(said(), "N\n");
  EXPECT_TRUE(notices_.empty());
  if (const std::string why = made(Choice::on, path_); !why.empty()) {
    EXPECT_EQ(said(), "N\n") << "it would do nothing";
    GTEST_SKIP() << "no rings here: " << why;
  }
  EXPECT_EQ(said(), "Y\n");
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find(path_), std::string::npos) << notices_[0];
  EXPECT_EQ(made(Choice::on, path_), "");
  EXPECT_EQ(made(Choice::automatic, path_), "");
  EXPECT_EQ(notices_.size(), 1u) << "told once";
}

TEST_F(SwitchOfRings, ThatIsMissingOrCannotBeTurnedIsAnErrorForWhoInsists) {
  const std::string missing = "/no/such/switch", fixed = "/proc/sys/kernel/ostype";  // which not even root may write
  for (const std::string& path : {missing, fixed}) {
    EXPECT_EQ(made(Choice::automatic, path), "none") << path;
    EXPECT_TRUE(made(Choice::on, path).starts_with("io_uring=on: ")) << made(Choice::on, path);
  }
  EXPECT_EQ(RingsSwitch(missing).is_on().error().code, ENOTSUP);
  const auto turned = RingsSwitch(fixed).turn_on();
  ASSERT_FALSE(turned);
  EXPECT_EQ(turned.error().code, EACCES);
  EXPECT_NE(turned.error().context.find(fixed), std::string::npos) << turned.error().context;
  EXPECT_TRUE(notices_.empty());
}

// A thread that waits for its end.
class Waiting {
 public:
  ~Waiting() {
    over_.set_value();
    thread_.join();
  }
  pid_t id() const { return id_; }

 private:
  std::promise<void> over_;
  std::promise<pid_t> begun_;
  std::thread thread_{[this] {
    begun_.set_value(::gettid());
    over_.get_future().wait();
  }};
  const pid_t id_ = begun_.get_future().get();
};

// The processors on which a thread may run; 0: this one.
std::set<int> processors(pid_t thread = 0) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  EXPECT_EQ(::sched_getaffinity(thread, sizeof allowed, &allowed), 0);
  std::set<int> numbers;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) numbers.insert(i);
  }
  return numbers;
}

TEST(MountProcess, HasThreadsOfTheProcessThatItServesStepBackAndNoOthers) {
  const auto mounter = mounter_apart(MountOptions{});
  ASSERT_TRUE(mounter);
  if (!(*mounter)->may_set_deferring()) GTEST_SKIP() << "this user may not take the policy back";
  const Waiting thread;
  ASSERT_TRUE((*mounter)->set_deferring(thread.id(), true));
  EXPECT_EQ(::sched_getscheduler(thread.id()), SCHED_IDLE);
  EXPECT_EQ(::sched_getscheduler(::gettid()), SCHED_OTHER);
  ASSERT_TRUE((*mounter)->set_deferring(thread.id(), false));
  EXPECT_EQ(::sched_getscheduler(thread.id()), SCHED_OTHER);

  const pid_t other = ::fork();
  if (other == 0) {
    ::pause();
    ::_exit(0);
  }
  for (const pid_t id : {other, 1, 0, -1, -::getpid()}) {
    const auto done = (*mounter)->set_deferring(id, true);
    EXPECT_TRUE(!done && done.error().code == ESRCH) << id;
  }
  EXPECT_EQ(::sched_getscheduler(other), SCHED_OTHER);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST(MountProcess, ShowsNothingWhereNothingIsToBeShown) {
  const auto mounter = mounter_apart(MountOptions{});
  ASSERT_TRUE(mounter);
  EXPECT_EQ((*mounter)->found().error().code, EINVAL);
  EXPECT_EQ((*mounter)->show().error().code, EINVAL);
}

TEST(MountProcess, KeepsAllThreadsButOneOffAProcessor) {
  const auto mounter = mounter_apart(MountOptions{});
  ASSERT_TRUE(mounter);
  const Waiting server, other;
  const std::set<int> any = processors(), of_parent = processors(::getppid());
  std::set<int> rest = any;
  if (any.size() > 1) rest.erase(rest.begin());  // who has no other may stay
  ASSERT_TRUE((*mounter)->keep_off(*any.begin(), server.id()));
  EXPECT_EQ(processors(server.id()), any);
  EXPECT_EQ(processors(other.id()), rest);
  EXPECT_EQ(processors(), rest);
  EXPECT_EQ(processors(::getppid()), of_parent) << "another process";
  ASSERT_TRUE((*mounter)->keep_off(kAnyProcessor, server.id()));
  EXPECT_EQ(processors(other.id()), any);
  EXPECT_EQ(processors(), any);
}

// With one thread that serves, whose state a test sets.
class DeferenceTest : public testing::Test, public Deferring {
 protected:
  std::uint64_t turns() const override { return turns_; }
  bool wanted() const override { return wanted_; }
  pid_t thread_id() const override { return 77; }
  void let_go() override { ++let_go_; }

  // Requests come, and it is looked after the thread once.
  void look() {
    deference_.request();
    ASSERT_TRUE(clock_.step(2ms, 1));
  }
  // Others keep the thread from its request for one look. How long it has the usual policy then.
  Clock::Duration penalty() {
    wanted_ = true;
    look();
    wanted_ = false;
    const auto begin = clock_.now();
    while (!defers_ && clock_.now() - begin < 1min && !HasFatalFailure()) look();
    return clock_.now() - begin;
  }

  SteppedClock clock_;
  std::atomic<std::uint64_t> turns_{0};
  std::atomic<bool> wanted_{false}, defers_{false};
  std::atomic<int> let_go_{0}, set_{0};
  Deference deference_{clock_, {this}, [this](pid_t thread, bool value) {
                         EXPECT_EQ(thread, 77);
                         defers_ = value;
                         ++set_;
                         return Result<void>();
                       }};
};

TEST_F(DeferenceTest, DefersWhileRequestsCome) {
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(1h));
  EXPECT_EQ(set_, 0);
  deference_.request();
  ASSERT_TRUE(clock_.step(0ms, 1));
  EXPECT_TRUE(defers_);
  ASSERT_TRUE(clock_.step(1h));
  EXPECT_FALSE(defers_);
  EXPECT_EQ(set_, 2);
}

TEST_F(DeferenceTest, EndsForAThreadThatIsHeldUpAndForLongerEachTime) {
  ASSERT_TRUE(clock_.await_waiting(1));
  look();
  for (int i = 0; i < 10; ++i) {
    wanted_ = true;
    ++turns_;
    look();
    EXPECT_TRUE(defers_) << "it gets on";
  }
  for (const auto expected : {8ms, 16ms, 32ms, 64ms, 128ms, 256ms, 512ms, 512ms}) EXPECT_EQ(penalty(), expected);
  for (int i = 0; i < 512 / 2; ++i) look();
  EXPECT_EQ(penalty(), 8ms) << "after a long time of getting on";
}

TEST_F(DeferenceTest, PausesUntilItResumes) {
  ASSERT_TRUE(clock_.await_waiting(1));
  look();
  EXPECT_TRUE(defers_);
  deference_.pause();
  EXPECT_FALSE(defers_);
  const int before = set_;
  for (int i = 0; i < 20; ++i) look();
  EXPECT_EQ(set_, before);
  deference_.resume();
  look();
  EXPECT_TRUE(defers_);
}

TEST_F(DeferenceTest, StopsForGood) {
  ASSERT_TRUE(clock_.await_waiting(1));
  look();
  EXPECT_TRUE(defers_);
  deference_.stop();
  EXPECT_FALSE(defers_);
  EXPECT_GT(let_go_, 0);
  const int before = set_;
  for (int i = 0; i < 20; ++i) look();
  EXPECT_EQ(set_, before);
}

TEST(Activity, GoesOnWhileRequestsComeAndForSomeTimeAfter) {
  SteppedClock clock;
  std::atomic<int> begun{0}, looks{0}, ended{0};
  {
    Activity activity(clock, "test", 5ms, {.begin = [&] { ++begun; }, .look = [&] { ++looks; }, .end = [&] { ++ended; }});
    ASSERT_TRUE(clock.await_waiting(1));
    ASSERT_TRUE(clock.step(1h));
    EXPECT_EQ(begun, 0);
    for (int round = 1; round <= 3; ++round) {
      looks = 0;
      activity.request();
      ASSERT_TRUE(clock.step(0ms, 1));
      EXPECT_EQ(begun, round);
      EXPECT_EQ(looks, 1) << "at once";
      for (int i = 2; i <= 100; ++i) {
        activity.request();
        ASSERT_TRUE(clock.step(5ms, 1));
        EXPECT_EQ(looks, i);
      }
      EXPECT_EQ(ended, round - 1);
      for (int i = 1; i <= 3; ++i) ASSERT_TRUE(clock.step(5ms));
      EXPECT_EQ(ended, round - 1);
      EXPECT_EQ(looks, 103);
      ASSERT_TRUE(clock.step(5ms));
      EXPECT_EQ(ended, round);
      ASSERT_TRUE(clock.step(1h));
      EXPECT_EQ(looks, 103);
    }
    activity.request();
    ASSERT_TRUE(clock.step(0ms, 1));
  }
  EXPECT_EQ(ended, 4) << "since it goes";
}

TEST(Turnstile, IsClosedWhenTheLastHasLeft) {
  for (int round = 0; round < 200; ++round) {
    Turnstile turnstile;
    turnstile.open();
    std::promise<void> inside;
    std::atomic<bool> left{false};
    std::thread server([&] {
      Turnstile::Pass pass(turnstile);
      EXPECT_TRUE(pass.enter());
      inside.set_value();
      while (!turnstile.closed()) std::this_thread::yield();
      left = true;
      pass.leave();
      EXPECT_FALSE(pass.enter());
    });
    inside.get_future().wait();
    turnstile.close();
    EXPECT_TRUE(left);
    server.join();
  }
}

TEST(Turnstile, LetsNobodyInBeforeItIsOpenedOrAfterItIsClosed) {
  Turnstile turnstile;
  Turnstile::Pass pass(turnstile);
  EXPECT_FALSE(pass.enter());
  std::thread waiting([&] { EXPECT_TRUE(turnstile.wait()); });
  turnstile.open();
  waiting.join();
  EXPECT_TRUE(pass.enter());
  pass.leave();
  turnstile.close();
  EXPECT_FALSE(turnstile.wait());
  EXPECT_FALSE(pass.enter());
}

TEST(ErrorLog, TellsOfADeviceInTroubleOnceASecond) {
  SteppedClock clock;
  std::vector<std::string> told;
  ErrorLog log(clock, [&](std::string_view line) { told.emplace_back(line); });
  for (const int code : {ENOENT, ENOSPC, EEXIST}) log.note(make_error(code, "every day"));
  EXPECT_TRUE(told.empty());
  for (const int code : {EIO, EUCLEAN, ENOMEM, EROFS}) {
    log.note(make_error(code, "first"));
    log.note(make_error(code, "second"));
    clock.advance(1s - 1ns);
    log.note(make_error(code, "third"));
    clock.advance(1ns);
  }
  ASSERT_EQ(told.size(), 4u);
  for (const auto& line : told) EXPECT_NE(line.find("first"), std::string::npos) << line;
}

TEST(Follower, IsBoundToTheProcessorOnWhichItsCallerStays) {
  const std::set<int> any = processors();
  const int processor = *any.rbegin();
  std::promise<pid_t> begun;
  std::promise<void> over;
  std::thread caller([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    begun.set_value(::gettid());
    over.get_future().wait();
  });
  const pid_t thread = begun.get_future().get();
  EXPECT_EQ(processor_of(thread), processor);
  const auto request = [](Follower& follower, pid_t by) {
    follower.begin(by);
    EXPECT_TRUE(follower.wanted());
    const std::set<int> during = processors();
    follower.end(true);
    EXPECT_FALSE(follower.wanted());
    return during;
  };
  {
    std::vector<int> kept_off;
    Follower follower(-1, [&](int from) { kept_off.push_back(from); });
    EXPECT_EQ(request(follower, thread), any);
    EXPECT_FALSE(follower.ready()) << "it may be on its way";
    EXPECT_TRUE(kept_off.empty());
    EXPECT_TRUE(follower.ready());
    EXPECT_EQ(kept_off, std::vector<int>{processor});
    EXPECT_EQ(request(follower, 0), std::set<int>{processor}) << "nobody's, as those of the kernel itself are";
    EXPECT_TRUE(follower.ready());
    EXPECT_EQ(kept_off.size(), 1u);
    follower.let_go();
    follower.let_go();
    EXPECT_EQ(kept_off, (std::vector<int>{processor, kAnyProcessor}));
    EXPECT_EQ(request(follower, thread), any);
    EXPECT_TRUE(follower.ready());
    EXPECT_EQ(request(follower, thread), std::set<int>{processor});
    follower.go_anywhere();
    EXPECT_EQ(request(follower, thread), any);
    EXPECT_TRUE(follower.ready());
    EXPECT_EQ(request(follower, thread), std::set<int>{processor});
    kept_off.clear();
    for (int i = 0; i < 2 * Follower::kRepeat; ++i) EXPECT_TRUE(follower.ready());
    EXPECT_EQ(kept_off, (std::vector<int>{processor, processor})) << "threads may have been made meanwhile";
  }
  EXPECT_EQ(processors(), any) << "as before it came";
  over.set_value();
  caller.join();
}

TEST(Follower, FollowsNobodyWhomMostlyWorkersServe) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  CPU_SET(*processors().begin(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);  // a caller who stays
  Follower follower(-1, [](int) {});
  const auto requests = [&](int answered, int handed_on) {
    for (int i = 0; i < answered + handed_on; ++i) {
      follower.begin(::gettid());
      follower.end(i < answered);
    }
  };
  requests(1, 0);
  (void)follower.ready();
  EXPECT_TRUE(follower.ready());
  constexpr int kHalf = Follower::kSample / 2;
  requests(0, kHalf);
  EXPECT_TRUE(follower.ready()) << "too few to tell";
  requests(kHalf, 2);
  EXPECT_FALSE(follower.ready());
  EXPECT_FALSE(follower.ready()) << "no request has come since";
  requests(kHalf, kHalf);
  EXPECT_TRUE(follower.ready());
  follower.go_anywhere();
  EXPECT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(Follower, FollowsNobodyWhoIsNotKnown) {
  EXPECT_EQ(processor_of(0), -1);
  Follower follower(-1, [](int) { ADD_FAILURE() << "nobody is kept off"; });
  EXPECT_FALSE(follower.ready());
  EXPECT_FALSE(follower.ready());
}

class LatencyDevice : public testing::Test {
 protected:
  LatencyDevice() {
    char name[] = "/tmp/lsmfs-latency-XXXXXX";
    ::close(mkstemp(name));
    path_ = name;
  }
  ~LatencyDevice() override { ::unlink(path_.c_str()); }
  // The latency that is demanded now, in microseconds; -1: none ever was.
  std::int32_t demanded() const {
    std::int32_t value = -1;
    const Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    return ::read(fd.get(), &value, sizeof value) == sizeof value ? value : -1;
  }
  bool held() const { return demanded() == 0; }
  std::string path_;
};

TEST_F(LatencyDevice, IsHeldWhileRequestsComeAndLetGoAfter) {
  auto device = LatencyHold::open_device(Choice::automatic, path_);
  ASSERT_TRUE(device);
  SteppedClock clock;
  LatencyHold hold(std::move(*device), clock);
  ASSERT_TRUE(clock.await_waiting(1));
  ASSERT_TRUE(clock.step(1h));
  EXPECT_FALSE(held());
  for (int round = 0; round < 3; ++round) {
    hold.request();
    ASSERT_TRUE(clock.step(0ms, 1));
    EXPECT_TRUE(held());
    hold.request();
    ASSERT_TRUE(clock.step(20ms, 1));
    EXPECT_TRUE(held());
    ASSERT_TRUE(clock.step(19ms));
    EXPECT_TRUE(held());
    ASSERT_TRUE(clock.step(1ms));
    EXPECT_FALSE(held());
    EXPECT_EQ(demanded(), INT32_MAX);
  }
}

TEST_F(LatencyDevice, ThatIsMissingIsAnErrorOnlyWhenAskedFor) {
  const auto without = LatencyHold::open_device(Choice::automatic, "/no/such/device");
  EXPECT_TRUE(without && !*without);
  const auto off = LatencyHold::open_device(Choice::off, path_);
  EXPECT_TRUE(off && !*off);
  EXPECT_EQ(demanded(), -1);
  EXPECT_EQ(LatencyHold::open_device(Choice::on, "/no/such/device").error().code, ENOENT);
}

}  // namespace
}  // namespace lsmfs::parts_test

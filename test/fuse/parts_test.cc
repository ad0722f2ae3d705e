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
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fuse/attributes.h"
#include "fuse/deference.h"
#include "fuse/follower.h"
#include "fuse/idle_latency.h"
#include "fuse/mount_process.h"
#include "fuse/rings.h"
#include "fuse/workers.h"

namespace lsmfs {
namespace {

TEST(Workers, RunEverythingBeforeDrainReturns) {
  Workers workers(4, "test");
  std::atomic<int> done{0};
  for (int i = 0; i < 1000; ++i) workers.submit([&] { ++done; });
  workers.drain();
  EXPECT_EQ(done, 1000);
}

TEST(Workers, RunWhatIsQueuedBeforeTheyAreGone) {
  std::atomic<int> done{0};
  {
    Workers workers(2, "test");
    for (int i = 0; i < 100; ++i) workers.submit([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(Attributes, OnlyWhatTheKernelAcceptsIsSentAsAnError) {
  EXPECT_EQ(reply_code({ENOSPC, ""}), ENOSPC);
  EXPECT_EQ(reply_code({EUCLEAN, ""}), EUCLEAN);
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
    ASSERT_FALSE(done) << id;
    EXPECT_EQ(done.error().code, ESRCH) << id;
  }
  EXPECT_EQ(::sched_getscheduler(other), SCHED_OTHER);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
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

TEST(Deference, StopsForGood) {
  class Idle final : public Deferring {
   public:
    std::uint64_t turns() const override { return 0; }
    bool wanted() const override { return false; }
    pid_t thread_id() const override { return 77; }
    void let_go() override { ++let_go_; }
    std::atomic<int> let_go_{0};
  } idle;
  std::atomic<bool> defers{false};
  std::atomic<int> set{0};
  Deference deference({&idle}, [&](pid_t thread, bool value) {
    EXPECT_EQ(thread, 77);
    defers = value;
    ++set;
    return Result<void>();
  });
  while (!defers) deference.request();
  deference.stop();
  EXPECT_FALSE(defers);
  EXPECT_GT(idle.let_go_, 0);
  const int before = set;
  for (int i = 0; i < 20; ++i) {
    deference.request();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(set, before);
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
    follower.end();
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
  bool becomes(bool expected) const {
    for (int i = 0; i < 2000; ++i) {
      if (held() == expected) return true;
      ::usleep(1000);
    }
    return false;
  }
  std::string path_;
};

TEST_F(LatencyDevice, IsHeldWhileRequestsComeAndLetGoAfter) {
  auto device = LatencyHold::open_device(Choice::automatic, path_);
  ASSERT_TRUE(device);
  LatencyHold hold(std::move(*device));
  EXPECT_TRUE(becomes(false));
  for (int round = 0; round < 3; ++round) {
    // A request just before the helper falls asleep may be missed; the next is not.
    for (int i = 0; i < 1000 && !held(); ++i) {
      hold.request();
      ::usleep(1000);
    }
    EXPECT_TRUE(held());
    EXPECT_TRUE(becomes(false));
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
}  // namespace lsmfs

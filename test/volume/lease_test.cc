// Leases: two hosts never write to a volume at the same time, and nobody waits for one that has gone.
#include "lsmfs/lease.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "clock.h"
#include "device/decorator.h"
#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::lease_test {
namespace {

using std::chrono::seconds;
using test::ok;
using test::SparseDevice;
using test::SparseImage;
using test::SteppedClock;

constexpr std::uint64_t kSize = 128 * MiB;
constexpr ByteOffset kBlockOfLease{4096};
constexpr ByteOffset kData{64 * MiB};

// Goes on by itself when somebody sleeps; what else happens in that time is `meanwhile`. Who waits for a change waits for that alone.
class JumpingClock final : public Clock {
 public:
  Time now() override { return now_; }
  std::chrono::system_clock::time_point wall() override {
    return std::chrono::system_clock::time_point(std::chrono::hours(24 * 365 * 30)) + now().time_since_epoch();
  }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time) override { changed.wait(lock); }
  void sleep_until(Time due) override {
    const Duration by = due - now();
    now_ = due;
    if (meanwhile) meanwhile(by);
  }
  Duration passed() { return now() - Time(); }

  std::function<void(Duration)> meanwhile;

 private:
  std::atomic<Time> now_{Time()};
};

LeaseHolder holder(const std::string& name) {
  LeaseHolder made{.name = name};
  for (std::size_t i = 0; i < made.host.size(); ++i) made.host[i] = static_cast<std::uint8_t>(name[i % name.size()]);
  return made;
}

AlignedBuffer block_of(char c) {
  AlignedBuffer buffer(kDeviceBlock);
  std::ranges::fill(buffer.bytes(), static_cast<std::byte>(c));
  return buffer;
}

class LeaseTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(ok(Volume::format(device_, {.label = "x", .lease = true}))); }

  Result<std::unique_ptr<Lease>> take(const std::string& host, Clock& clock) {
    const auto note = [this](std::string_view line) { notices_ += std::string(line) + "\n"; };
    return Lease::take(device_, {.holder = holder(host), .clock = &clock, .waiting = note, .notice = note});
  }
  char data() {
    AlignedBuffer buffer(kDeviceBlock);
    EXPECT_TRUE(ok(device_.read(kData, buffer.bytes())));
    return static_cast<char>(buffer.bytes()[0]);
  }
  std::string host() {
    const auto facts = read_lease(device_);
    EXPECT_TRUE(ok(facts));
    return facts && *facts ? (*facts)->holder.name : "";
  }

  SparseDevice device_{SparseImage(kSize)};
  std::string notices_;
};

TEST_F(LeaseTest, IsOfWhoWritesUntilHeGivesItBack) {
  JumpingClock clock;
  EXPECT_EQ(host(), "");
  auto lease = take("alpha", clock);
  ASSERT_TRUE(ok(lease));
  EXPECT_EQ(clock.passed(), seconds(1));
  EXPECT_EQ(host(), "host alpha");
  EXPECT_TRUE(ok((*lease)->device().write(kData, block_of('a').bytes())));
  EXPECT_EQ(data(), 'a');
  lease->reset();
  EXPECT_EQ(host(), "");
  EXPECT_TRUE(ok(take("beta", clock)));
  EXPECT_EQ(notices_, "");
}

TEST_F(LeaseTest, DoesNothingWithoutTheFeatureOrForWhoReadsOnly) {
  JumpingClock clock;
  SparseDevice reading(device_.image(), false);
  const auto for_reading = Lease::take(reading, {.holder = holder("alpha"), .clock = &clock});
  ASSERT_TRUE(ok(for_reading));
  EXPECT_EQ(&(*for_reading)->device(), &reading);
  {
    auto volume = Volume::open(device_);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE(ok((*volume)->change({.lease = false})));
  }
  const auto without = take("alpha", clock);
  ASSERT_TRUE(ok(without));
  EXPECT_EQ(&(*without)->device(), &device_);
  EXPECT_EQ(host(), "");
  EXPECT_EQ(clock.passed(), seconds(0));
}

TEST_F(LeaseTest, IsRefusedToOthersWhileItIsRenewed) {
  SteppedClock alphas;
  std::thread starting;
  Result<std::unique_ptr<Lease>> alpha = make_error(EIO, "");
  starting = std::thread([&] { alpha = take("alpha", alphas); });
  ASSERT_TRUE(alphas.await_waiting(1));
  alphas.advance(seconds(1));
  starting.join();
  ASSERT_TRUE(ok(alpha));
  for (int hour = 0; hour < 3; ++hour) {
    JumpingClock betas;
    betas.meanwhile = [&](Clock::Duration by) { EXPECT_TRUE(alphas.step(by, 1)); };
    const auto beta = take("beta", betas);
    ASSERT_FALSE(beta);
    EXPECT_EQ(beta.error().code, EBUSY);
    EXPECT_NE(beta.error().context.find("is in use by host alpha since 20"), std::string::npos) << beta.error().context;
    EXPECT_LE(betas.passed(), seconds(6));
    EXPECT_TRUE(ok((*alpha)->device().write(kData, block_of('a').bytes())));
  }
  EXPECT_NE(notices_.find("was in use by host alpha; waiting up to 20 s"), std::string::npos) << notices_;
}

TEST_F(LeaseTest, IsTakenFromAHostThatHasStopped) {
  JumpingClock alphas, betas;
  auto alpha = take("alpha", alphas);
  ASSERT_TRUE(ok(alpha));
  ASSERT_TRUE(ok((*alpha)->device().write(kData, block_of('a').bytes())));
  auto beta = take("beta", betas);
  ASSERT_TRUE(ok(beta));
  EXPECT_GE(betas.passed(), seconds(21));
  EXPECT_LE(betas.passed(), seconds(22));
  EXPECT_NE(notices_.find("host alpha does not renew its lease any more, so it is taken over"), std::string::npos) << notices_;
  ASSERT_TRUE(ok((*beta)->device().write(kData, block_of('b').bytes())));

  // It goes on, 30 s later.
  alphas.sleep(seconds(30));
  const auto late = (*alpha)->device().write(kData, block_of('a').bytes());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, EIO);
  EXPECT_NE(late.error().context.find("host beta has taken it over"), std::string::npos) << late.error().context;
  EXPECT_NE(notices_.find("nothing is written to it any more: unmount it"), std::string::npos) << notices_;
  EXPECT_FALSE((*alpha)->device().discard(kData, ByteCount{kDeviceBlock}));
  EXPECT_EQ(data(), 'b');
  alpha->reset();
  EXPECT_EQ(host(), "host beta") << "who lost it gives nothing back";
}

TEST_F(LeaseTest, IsTakenAtOnceWhereTheSameHostHadIt) {
  JumpingClock clock;
  auto first = take("alpha", clock);
  ASSERT_TRUE(ok(first));
  SparseDevice after_crash(device_.image());
  const auto begin = clock.now();
  const auto again = Lease::take(after_crash, {.holder = holder("alpha"), .clock = &clock});
  ASSERT_TRUE(ok(again));
  EXPECT_EQ(clock.now() - begin, seconds(1));
  // Of who does not know who he is nobody can say that.
  SparseDevice another(device_.image());
  const auto unknown = clock.now();
  ASSERT_TRUE(ok(Lease::take(another, {.holder = {.name = "alpha"}, .clock = &clock})));
  EXPECT_GE(clock.now() - unknown, seconds(21));
}

TEST_F(LeaseTest, ThatIsDamagedIsTakenAsOneThatIsStale) {
  JumpingClock clock;
  ASSERT_TRUE(ok(device_.write(kBlockOfLease, block_of('x').bytes())));
  EXPECT_EQ(read_lease(device_).error().code, EUCLEAN);
  ASSERT_TRUE(ok(take("alpha", clock)));
  EXPECT_GE(clock.passed(), seconds(21));
  EXPECT_NE(notices_.find("was in use by another host; waiting"), std::string::npos) << notices_;
}

TEST_F(LeaseTest, IsRefusedWhereItCannotBeRead) {
  JumpingClock clock;
  const auto broken = hooked_device(device_, [](const DeviceEvent& event, Bytes) -> Result<void> {
    return event.offset == kBlockOfLease ? Result<void>(make_error(EIO, "bad sector")) : Result<void>();
  });
  EXPECT_EQ(Lease::take(*broken, {.holder = holder("alpha"), .clock = &clock}).error().code, EIO);
}

// ---- hosts at random ------------------------------------------------------------------------

// A day of several hosts in a moment: one thread at a time goes on, that whose time has come.
class Day {
 public:
  using Time = Clock::Time;
  using Duration = Clock::Duration;

  explicit Day(int hosts) {
    for (int host = 0; host < hosts; ++host) due_[host] = Time();
    turn_ = 0;
  }
  Time now() {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void await_turn(int host) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == host; });
  }
  void pass(int host, Duration by) {
    std::unique_lock lock(mutex_);
    due_[host] = now_ + by;
    next();
    changed_.wait(lock, [&] { return turn_ == host; });
  }
  void leave(int host) {
    const std::lock_guard lock(mutex_);
    due_.erase(host);
    if (!due_.empty()) next();
  }

 private:
  void next() {
    const auto first = std::ranges::min_element(due_, {}, [](const auto& one) { return one.second; });
    now_ = std::max(now_, first->second);
    turn_ = first->first;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Time now_;
  std::map<int, Time> due_;
  int turn_;
};

// What all hosts do to one device. Once somebody else has written, who wrote before may not, unless he has taken the lease again.
struct World {
  explicit World(Device& of, int hosts) : device(of), day(hosts) {}
  Device& device;
  Day day;
  std::string last;             // what is random in the take of whoever wrote last
  std::set<std::string> ended;  // of those before him
  std::string log;              // for who looks for a fault
  std::uint64_t taken = 0, written = 0, refused = 0, lost = 0, violations = 0;
};

class Host final : public Clock, public DeviceDecorator {
 public:
  Host(World& world, int number, std::uint64_t seed)
      : DeviceDecorator(world.device), world_(world), number_(number), random_(seed), rate_(1 + (static_cast<double>(random_() % 101) - 50) / 1000),
        ahead_(std::chrono::hours(random_() % 20000)) {}

  void live(int actions, bool heeds_the_lease) {
    thread_ = std::this_thread::get_id();
    world_.day.await_turn(number_);
    for (int i = 0; i < actions; ++i) {
      world_.day.pass(number_, seconds(random_() % 40));
      crashed_ = false;
      auto lease = Lease::take(*this, {.holder = holder(std::string(1, static_cast<char>('a' + number_))), .clock = this});
      if (!lease) {
        EXPECT_EQ(lease.error().code, EBUSY) << lease.error().context;
        ++world_.refused;
        continue;
      }
      note("has taken it");
      ++world_.taken;
      for (int writes = static_cast<int>(random_() % 12); writes > 0; --writes) {
        world_.day.pass(number_, std::chrono::milliseconds(random_() % 12000));
        Device& device = heeds_the_lease ? (*lease)->device() : *this;
        if (!device.write(kData, block_.bytes())) {
          ++world_.lost;
          break;
        }
      }
      crashed_ = random_() % 3 == 0;
    }
    world_.day.leave(number_);
  }

  // For the thread that renews no time passes: nobody renews but who wants to write, so that most leases become nearly stale.
  Time now() override {
    if (std::this_thread::get_id() != thread_) return Time();
    return Time() + std::chrono::duration_cast<Duration>(rate_ * (world_.day.now() - Time()));
  }
  std::chrono::system_clock::time_point wall() override { return std::chrono::system_clock::time_point(ahead_) + (world_.day.now() - Time()); }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time) override { changed.wait(lock); }
  void sleep_until(Time due) override {
    while (now() < due) world_.day.pass(number_, std::chrono::duration_cast<Duration>((due - now()) / rate_) + std::chrono::microseconds(1));
    pause();
  }

  Result<void> read(ByteOffset from, MutableBytes to) override {
    if (crashed_) return make_error(EIO, "crashed");
    pause();
    const auto done = inner_.read(from, to);
    note("reads", to);
    pause();
    return done;
  }
  Result<void> write(ByteOffset to, Bytes data) override {
    if (crashed_) return make_error(EIO, "crashed");
    if (to == kData) {
      ++world_.written;
      note("writes data");
      if (world_.ended.contains(take_) && world_.violations++ == 0) std::printf("%s", world_.log.c_str());
      if (world_.last != take_) world_.ended.insert(std::exchange(world_.last, take_));
      return inner_.write(to, data);
    }
    if (data[4] != std::byte{0}) pause();  // what gives it back has nobody wait for it, as data
    take_ = as_text(data.subspan(16, 16));
    const auto done = inner_.write(to, data);
    note("writes", data);
    pause();
    return done;
  }

 private:
  void note(const char* what, Bytes block = {}) {
    world_.log += fmt::format("{:10.3f} host {} {}", std::chrono::duration<double>(world_.day.now() - Time()).count(), number_, what);
    if (!block.empty()) world_.log += fmt::format(" {:02x}{:02x} held {} sequence {}", static_cast<int>(block[16]), static_cast<int>(block[17]), static_cast<int>(block[4]), static_cast<int>(block[32]));
    world_.log += '\n';
  }
  // Mostly short; a host may also stop for a while.
  void pause() {
    world_.day.pass(number_, random_() % 20 == 0 ? Duration(std::chrono::milliseconds(random_() % 60000)) : Duration(std::chrono::microseconds(random_() % 30000)));
  }

  World& world_;
  const int number_;
  std::mt19937_64 random_;
  const double rate_;  // of its clock
  const std::chrono::hours ahead_;
  bool crashed_ = false;
  std::string take_;
  std::thread::id thread_;
  const AlignedBuffer block_ = block_of('d');
};

void spend(World& world, int hosts, std::uint64_t seed, bool heed_the_lease) {
  std::vector<std::unique_ptr<Host>> all;
  std::vector<std::thread> threads;
  for (int host = 0; host < hosts; ++host) all.push_back(std::make_unique<Host>(world, host, seed * 31 + static_cast<std::uint64_t>(host)));
  for (const auto& host : all) threads.emplace_back([&host, heed_the_lease] { host->live(60, heed_the_lease); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LeaseTest, OfHostsAtRandomNoTwoWriteAtOnce) {
  const std::uint64_t seed = test::drawn_seed();
  const int days = std::getenv("LSMFS_LONG") ? 1000 : 5;
  for (int number = 0; number < days && !HasFailure(); ++number) {
    World world(device_, 3);
    spend(world, 3, seed + static_cast<std::uint64_t>(number), true);
    EXPECT_EQ(world.violations, 0u);
    EXPECT_GT(world.taken, 20u);
    EXPECT_GT(world.written, 20u);
    EXPECT_GT(world.refused, 0u);
    EXPECT_GT(world.lost, 0u);
  }
}

TEST_F(LeaseTest, AHostThatWritesPastItsLeaseIsFound) {
  const std::uint64_t seed = test::drawn_seed();
  World world(device_, 3);
  spend(world, 3, seed, false);
  EXPECT_GT(world.violations, 0u);
}

}  // namespace
}  // namespace lsmfs::lease_test

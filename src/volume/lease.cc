#include "lsmfs/lease.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "lsmfs/mutex.h"
#include "volume/format.h"
#include "volume/superblock.h"

namespace lsmfs {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr auto kRenewEvery = seconds(5);
constexpr auto kTryAgainAfter = seconds(1);  // where that failed
constexpr auto kTrustedFor = seconds(15);    // without another look
constexpr auto kStaleAfter = seconds(20);
constexpr auto kLookEvery = seconds(1);
// Of two who find it free at the same time, the later record stays. Each has written within the first of these, and looks after the second.
constexpr auto kInTime = std::chrono::milliseconds(500);
constexpr auto kSettles = seconds(1);

std::uint64_t lease_checksum(const format::Lease& block, std::uint64_t seed) {
  format::Lease copy = block;
  copy.checksum = 0;
  return checksum({reinterpret_cast<const std::byte*>(&copy), sizeof copy}, seed);
}

std::string date(std::int64_t ns) {
  const std::time_t time = ns / 1'000'000'000;
  std::tm utc{};
  if (gmtime_r(&time, &utc) == nullptr) return "an unknown time";
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", utc);
}

// A moment by both clocks of a host. The time of day counts as well: the other clock may stand still while a machine sleeps.
struct Moment {
  std::int64_t steady_ns = 0, wall_ns = 0;

  static Moment now(Clock& clock) {
    return {clock.now_ns(), std::chrono::duration_cast<nanoseconds>(clock.wall().time_since_epoch()).count()};
  }
  nanoseconds since(const Moment& earlier) const { return nanoseconds(std::max(steady_ns - earlier.steady_ns, wall_ns - earlier.wall_ns)); }
};

// The block of the lease on one device.
class Record {
 public:
  Record(Device& device, std::uint64_t seed) : device_(device), seed_(seed) {}

  Result<format::Lease> read() const {
    AlignedBuffer buffer(sizeof(format::Lease));
    LSMFS_TRY(device_.read(ByteOffset{format::kLeaseAt}, buffer.bytes()));
    format::Lease block;
    std::memcpy(&block, buffer.data(), sizeof block);
    return block;
  }
  Result<void> write(format::Lease block) const {
    block.magic = format::kLeaseMagic;
    block.checksum = lease_checksum(block, seed_);
    AlignedBuffer buffer(sizeof block);
    std::memcpy(buffer.data(), &block, sizeof block);
    return device_.write(ByteOffset{format::kLeaseAt}, buffer.bytes());
  }
  bool sound(const format::Lease& block) const {
    return block.magic == format::kLeaseMagic && block.checksum == lease_checksum(block, seed_) && block.held <= 1 && block.name_length <= kHostNameMax;
  }
  bool is_of_take(const format::Lease& block, const format::Lease& other) const {
    return sound(block) && block.held == 1 && std::memcmp(block.take, other.take, sizeof block.take) == 0;
  }
  // As mkfs leaves it, too.
  bool is_free(const format::Lease& block) const {
    static constexpr format::Lease kZeros{};
    return sound(block) ? block.held == 0 : same(block, kZeros);
  }
  std::string host(const format::Lease& block) const {
    if (!sound(block)) return "another host";
    std::string name(block.name, block.name_length);
    const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
    return plain ? "host " + name : "another host";
  }
  LeaseHolder holder(const format::Lease& block) const {
    LeaseHolder made{.name = host(block)};
    std::memcpy(made.host.data(), block.host, sizeof block.host);
    return made;
  }
  static bool same(const format::Lease& a, const format::Lease& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

 private:
  Device& device_;
  std::uint64_t seed_;
};

class NoLease final : public Lease {
 public:
  explicit NoLease(Device& device) : device_(device) {}
  Device& device() override { return device_; }

 private:
  Device& device_;
};

// One that this host has.
class HeldLease final : public Lease {
 public:
  // `block` was last written after `looked`, when it was read that it may be.
  HeldLease(Device& device, Record record, const LeaseOptions& options, const format::Lease& block, const Moment& looked)
      : path_(device.path()), record_(record), options_(options), clock_(*options.clock), trusted_(looked), block_(block),
        guarded_(hooked_device(device, [this](const DeviceEvent& event, Bytes) { return check(event); })) {
    thread_ = named_thread("lsmfs-lease", [this] { run(); });
  }
  ~HeldLease() override {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
    const MutexLock lock(mutex_);
    if (lost_ || !renew()) return;
    block_.held = 0;
    if (record_.write(block_)) (void)guarded_->flush();
  }

  Device& device() override { return *guarded_; }

 private:
  Result<void> check(const DeviceEvent& event) {
    if (event.kind != DeviceEvent::Kind::write && event.kind != DeviceEvent::Kind::discard) return {};
    while (is_lost_ || Moment::now(clock_).since(trusted()) >= kTrustedFor) {
      const MutexLock lock(mutex_);
      LSMFS_TRY(renew());
    }
    return {};
  }

  Moment trusted() const {
    const MutexLock lock(trust_);
    return trusted_;
  }

  Result<void> renew() LSMFS_REQUIRES(mutex_) {
    if (lost_) return *lost_;
    const Moment looked = Moment::now(clock_);
    LSMFS_TRY(look());
    ++block_.sequence;
    block_.renewed_ns = looked.wall_ns;
    LSMFS_TRY(record_.write(block_));
    const Moment written = Moment::now(clock_);
    if (written.since(trusted()) >= kTrustedFor) {
      // Another host may have found it stale. If it has written since the look above, that is gone, and it does not find out at once.
      // If it is about to write, that is there soon.
      if (written.since(looked) >= kInTime) {
        block_.sequence = 0;
        std::memset(block_.host, 0, sizeof block_.host);  // so that this host, too, waits before it takes it again
        (void)record_.write(block_);
        return lose("this host did not renew its lease in time, and another one may have taken it over");
      }
      clock_.sleep(kSettles);
      LSMFS_TRY(look());
    }
    const MutexLock trust(trust_);
    trusted_ = looked;
    return {};
  }

  // Whether it is still there.
  Result<void> look() LSMFS_REQUIRES(mutex_) {
    LSMFS_ASSIGN(const format::Lease seen, record_.read());
    if (record_.is_of_take(seen, block_)) return {};
    return lose(fmt::format("{} has taken it over, since this host did not renew its lease in time", record_.host(seen)));
  }

  Result<void> lose(std::string_view why) LSMFS_REQUIRES(mutex_) {
    lost_ = make_error(EIO, fmt::format("{}: {}", path_, why));
    is_lost_ = true;
    options_.notice(fmt::format("{}; nothing is written to it any more: unmount it", lost_->context));
    return *lost_;
  }

  void run() {
    IoFor::all_of_this_thread(IoCause::metadata);
    MutexLock lock(mutex_);
    auto due = clock_.now() + kRenewEvery;
    bool failing = false;
    while (!clock_.wait(lock, changed_, due, [this]() LSMFS_REQUIRES(mutex_) { return stop_ || lost_.has_value(); })) {
      const auto renewed = renew();
      if (!renewed && !lost_ && !std::exchange(failing, true)) options_.notice(fmt::format("{}: its lease cannot be renewed: {}", path_, renewed.error().message()));
      if (renewed) failing = false;
      due = clock_.now() + (renewed ? kRenewEvery : kTryAgainAfter);
    }
  }

  const std::string path_;
  const Record record_;
  const LeaseOptions options_;
  Clock& clock_;
  std::atomic<bool> is_lost_{false};
  Mutex mutex_ LSMFS_ACQUIRED_BEFORE(trust_);
  mutable Mutex trust_;  // for moments only, since requests take it
  Moment trusted_ LSMFS_GUARDED_BY(trust_);  // no write needs another look until kTrustedFor later
  std::condition_variable changed_;
  format::Lease block_ LSMFS_GUARDED_BY(mutex_);
  std::optional<Error> lost_ LSMFS_GUARDED_BY(mutex_);
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  const std::unique_ptr<Device> guarded_;
  std::thread thread_;
};

class Taking {
 public:
  Taking(Device& device, std::uint64_t seed, const LeaseOptions& options)
      : device_(device), record_(device, seed), options_(options), clock_(*options.clock) {}

  Result<std::unique_ptr<Lease>> take() {
    for (;;) {
      LSMFS_TRY(look());
      if (!record_.is_free(seen_) && !was_here(seen_)) {
        LSMFS_ASSIGN(const bool stale, await_change());
        if (!stale) continue;
      }
      LSMFS_ASSIGN(auto lease, claim());
      if (lease) return lease;
    }
  }

 private:
  Result<void> look() {
    const Moment now = Moment::now(clock_);
    LSMFS_ASSIGN(seen_, record_.read());
    looked_ = now;
    return {};
  }

  bool was_here(const format::Lease& block) const {
    const auto& host = options_.holder.host;
    return record_.sound(block) && host != decltype(options_.holder.host){} && std::memcmp(block.host, host.data(), host.size()) == 0;
  }

  // Whether nothing has changed for so long that nobody has it. False: it was given back. EBUSY: somebody has it.
  Result<bool> await_change() {
    const format::Lease first = seen_;
    const std::string host = record_.host(first);
    options_.waiting(fmt::format("{}: was in use by {}; waiting up to {} s to see whether it is", device_.path(), host, seconds(kStaleAfter).count()));
    // From after the first look to before the last.
    for (const Clock::Time begin = clock_.now(); Clock::Duration(nanoseconds(looked_.steady_ns)) < begin.time_since_epoch() + kStaleAfter;) {
      clock_.sleep(kLookEvery);
      LSMFS_TRY(look());
      if (Record::same(first, seen_)) continue;
      if (record_.is_free(seen_)) return false;
      return make_error(EBUSY, fmt::format("is in use by {}{}; unmount it there first", record_.host(seen_),
                                           record_.sound(seen_) ? " since " + date(seen_.taken_ns) : ""));
    }
    options_.waiting(fmt::format("{}: {} does not renew its lease any more, so it is taken over", device_.path(), host));
    return true;
  }

  // Writes that it is taken, and looks whether that stays. Who wrote so late that it may be over the record of a new holder waits until
  // that one has noticed; and then looks once more before the first write, as after any pause. Null: somebody else has it.
  Result<std::unique_ptr<Lease>> claim() {
    const format::Lease claim = claim_now();
    const Moment looked = looked_;
    LSMFS_TRY(record_.write(claim));
    LSMFS_TRY(device_.flush());
    const bool in_time = Moment::now(clock_).since(looked) < kInTime;
    clock_.sleep(in_time ? kSettles : kStaleAfter);
    LSMFS_TRY(look());
    if (!record_.is_of_take(seen_, claim)) return std::unique_ptr<Lease>();
    return std::unique_ptr<Lease>(std::make_unique<HeldLease>(device_, record_, options_, claim, looked));
  }

  format::Lease claim_now() const {
    format::Lease claim{};
    const Uuid random = Uuid::random();
    static_assert(sizeof random.bytes == sizeof claim.take);
    std::memcpy(claim.take, random.bytes.data(), sizeof claim.take);
    claim.held = 1;
    claim.sequence = 1;
    std::memcpy(claim.host, options_.holder.host.data(), sizeof claim.host);
    claim.taken_ns = claim.renewed_ns = looked_.wall_ns;
    claim.name_length = static_cast<std::uint32_t>(std::min(options_.holder.name.size(), kHostNameMax));
    std::memcpy(claim.name, options_.holder.name.data(), claim.name_length);
    return claim;
  }

  Device& device_;
  const Record record_;
  const LeaseOptions& options_;
  Clock& clock_;
  format::Lease seen_{};
  Moment looked_;  // before that
};

}  // namespace

Result<std::unique_ptr<Lease>> Lease::take(Device& device, const LeaseOptions& options) {
  LSMFS_ASSIGN(const SuperblockInfo superblock, read_superblock(device, {}));
  if ((superblock.info.features.read_only & kLeaseFeature) == 0 || !device.writable()) return std::unique_ptr<Lease>(std::make_unique<NoLease>(device));
  return Taking(device, superblock.seed, options).take();
}

Result<std::optional<LeaseFacts>> read_lease(Device& device) {
  LSMFS_ASSIGN(const SuperblockInfo superblock, read_superblock(device, {}));
  if ((superblock.info.features.read_only & kLeaseFeature) == 0) return std::optional<LeaseFacts>();
  const Record record(device, superblock.seed);
  LSMFS_ASSIGN(const format::Lease block, record.read());
  if (record.is_free(block)) return std::optional<LeaseFacts>();
  if (!record.sound(block)) return make_error(EUCLEAN, fmt::format("{}: its lease is damaged", device.path()));
  return std::optional(LeaseFacts{.holder = record.holder(block), .taken_ns = block.taken_ns, .renewed_ns = block.renewed_ns});
}

}  // namespace lsmfs

#include "tree/lsm_tree.h"

#include <fmt/format.h>

#include <algorithm>

namespace lsmfs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kReapInterval = milliseconds(200);
constexpr std::size_t kReapBatch = 256;        // removed files erased in one commit
constexpr std::size_t kLazyTimesBatch = 512;   // records written in one commit
constexpr auto kParkedIdle = milliseconds(1000);

}  // namespace

Time Time::now() {
  timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return {ts.tv_sec, static_cast<std::uint32_t>(ts.tv_nsec)};
}

Result<void> Tree::format(Store& store) {
  Record root;
  root.ino = kRootIno;
  root.mode = S_IFDIR | 0755;
  root.nlink = 2;
  root.atime = root.mtime = root.ctime = root.btime = Time::now();
  State state;
  state.counts.directories = 1;
  Batch batch;
  batch.put(Family::names, keys::kRoot, encode(root));
  batch.put(Family::names, keys::kState, encode(state));
  LSMFS_TRY(store.commit(batch, Wait::yes));
  return store.sync();
}

Result<std::unique_ptr<Tree>> Tree::open(Store& store, const TreeOptions& options) {
  LSMFS_ASSIGN(const auto row, store.get(Family::names, keys::kState, Wait::yes));
  if (!row) return make_error(EUCLEAN, "the tree has no state row: it was never formatted, or is damaged");
  const auto state = decode_state(*row);
  if (!state) return make_error(EUCLEAN, "the tree's state row is damaged");
  auto tree = std::make_unique<LsmTree>(store, options, *state);
  LSMFS_TRY(tree->start());
  return std::unique_ptr<Tree>(std::move(tree));
}

LsmTree::LsmTree(Store& store, const TreeOptions& options, State state)
    : store_(store),
      options_(options),
      state_(state),
      names_ahead_(store, {.family = Family::names, .first_window = 64 * KiB, .last_window = 2 * MiB,
                           .device_read = ByteCount{256 * KiB}}),
      blocks_ahead_(store, {.family = Family::blocks}) {}

LsmTree::~LsmTree() {
  {
    Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (background_.joinable()) background_.join();
}

Result<void> LsmTree::start() {
  LSMFS_ASSIGN(const auto row, store_.get(Family::names, keys::kRoot, Wait::yes));
  if (!row) return make_error(EUCLEAN, "the root directory's record is missing");
  auto record = decode_record(*row);
  if (!record || record->ino != kRootIno || !record->is_directory()) {
    return make_error(EUCLEAN, "the root directory's record is damaged");
  }
  auto root = std::make_unique<Inode>();
  root->record = std::move(*record);
  root->parent = kRootIno;
  root->lookups = 1;  // the kernel never forgets the root
  inodes_.insert(std::move(root));
  if (options_.read_only) return {};
  LSMFS_TRY(sweep_orphans());
  background_ = std::thread([this] { background(); });
  return {};
}

Result<void> LsmTree::close() {
  {
    Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (background_.joinable()) background_.join();
  {
    std::lock_guard parked(parked_mutex_);
    parked_ = {};
  }
  Lock lock(mutex_);
  if (closed_ || options_.read_only) return {};
  closed_ = true;
  if (failure_) return *failure_;
  inodes_.for_each([this](const Inode& inode) {
    if (inode.removed() && inode.has_row) doomed_.push_back({inode.ino(), inode.home(), inode.record.size});
  });
  lock.unlock();
  LSMFS_TRY(write_lazy_times());
  LSMFS_TRY(reap(Wait::yes));
  return store_.sync();
}

Result<LsmTree::Lock> LsmTree::acquire(Wait wait) {
  if (wait == Wait::yes) return Lock(mutex_);
  Lock lock(mutex_, std::try_to_lock);
  if (!lock) return make_error(EAGAIN, "");
  return lock;
}

Result<LsmTree::Lock> LsmTree::acquire_for_change(Wait wait) {
  LSMFS_ASSIGN(Lock lock, acquire(wait));
  if (options_.read_only || failure_) return make_error(EROFS, "");
  return lock;
}

Result<void> LsmTree::commit(const Lock&, Batch& batch, Wait wait, bool touches_blocks) {
  auto done = store_.commit(batch, wait);
  if (!done) {
    if (done.error().code == EAGAIN) return done;
    failure_ = done.error();
    options_.notice(fmt::format("read-only from now on, since a commit failed: {}", done.error().message()));
    return make_error(EIO, done.error().context);
  }
  absent_.dir = Ino{};
  if (touches_blocks) ++blocks_epoch_;
  if (!dirty_since_) {
    dirty_since_ = steady_clock::now();
    wake_.notify_one();
  }
  return {};
}

Result<void> LsmTree::need_room(std::size_t bytes) const {
  if (store_.room().v < bytes) return make_error(ENOSPC, "");
  return {};
}

void LsmTree::put_state(Batch& batch, const State& state) const {
  batch.put(Family::names, keys::kState, encode(state));
}

Result<void> LsmTree::sync() {
  {
    Lock lock(mutex_);
    if (failure_) return make_error(EIO, failure_->context);
    dirty_since_.reset();
  }
  auto done = store_.sync();
  if (!done) {
    Lock lock(mutex_);
    if (!failure_) options_.notice(fmt::format("read-only from now on, since a sync failed: {}", done.error().message()));
    failure_ = done.error();
  }
  return done;
}

SpaceInfo LsmTree::space() const {
  const auto space = store_.space();
  SpaceInfo info;
  info.total = space.total;
  info.free = space.free;
  const TreeCounts c = counts();
  info.files = c.regular + c.directories + c.symlinks + c.others;
  info.files_free = space.free.v / kBlockSize;
  return info;
}

TreeCounts LsmTree::counts() const {
  Lock lock(mutex_);
  return state_.counts;
}

// ---- the background thread: syncs, access times, erasing of removed files ----------------------

void LsmTree::background() {
  const milliseconds interval(options_.sync_interval_ms);
  // The sync itself takes a while: begin early, so that nothing is older than the interval.
  const auto age = interval * 4 / 5;
  Lock lock(mutex_);
  while (!stop_) {
    auto deadline = steady_clock::now() + kReapInterval;
    if (doomed_.empty() && !dirty_since_ && lazy_times_.empty()) deadline += kParkedIdle;
    if (dirty_since_ && interval.count() > 0) deadline = std::min(deadline, *dirty_since_ + age);
    wake_.wait_until(lock, deadline, [&] { return stop_; });
    if (stop_) break;
    const bool erase = !doomed_.empty() && !failure_;
    const bool due = interval.count() > 0 && dirty_since_ && !failure_ && steady_clock::now() >= *dirty_since_ + age;
    const bool times = !lazy_times_.empty() && !failure_;
    lock.unlock();
    if (erase) (void)reap(Wait::yes);  // a failure has been reported by commit()
    if (due) {
      if (times) (void)write_lazy_times();
      (void)sync();
    }
    {
      std::lock_guard parked(parked_mutex_);
      if (parked_.cursor && steady_clock::now() - parked_.used > kParkedIdle) parked_ = {};
    }
    lock.lock();
    // Access times alone keep no promise but should not stay in memory for ever.
    if (times && !dirty_since_) dirty_since_ = steady_clock::now();
  }
}

Result<void> LsmTree::write_lazy_times() {
  std::vector<Ino> todo;
  {
    Lock lock(mutex_);
    todo.swap(lazy_times_);
  }
  for (std::size_t at = 0; at < todo.size();) {
    Lock lock(mutex_);
    if (failure_) return *failure_;
    Batch batch;
    const std::size_t end = std::min(at + kLazyTimesBatch, todo.size());
    std::vector<Inode*> written;
    for (; at < end; ++at) {
      Inode* inode = inodes_.find(todo[at]);
      if (!inode || !inode->atime_dirty) continue;
      if (!inode->removed()) save(batch, *inode, inode->record);
      written.push_back(inode);
    }
    if (!batch.empty()) LSMFS_TRY(commit(lock, batch, Wait::yes, false));
    for (Inode* inode : written) inode->atime_dirty = false;
  }
  return {};
}

Result<void> LsmTree::reap(Wait wait) {
  for (;;) {
    Lock lock(mutex_);
    if (doomed_.empty()) return {};
    if (failure_) return *failure_;
    Batch batch;
    const std::size_t n = std::min(doomed_.size(), kReapBatch);
    for (std::size_t i = 0; i < n; ++i) {
      const Doomed& d = doomed_[i];
      LSMFS_TRY(erase_blocks(batch, d.home, BlockIndex{0}, BlockIndex{div_up(d.size, kBlockSize)}, true));
      batch.erase(Family::names, keys::orphan(d.ino));
    }
    LSMFS_TRY(commit(lock, batch, wait, true));
    doomed_.erase(doomed_.begin(), doomed_.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

Result<void> LsmTree::sweep_orphans() {
  auto cursor = store_.cursor(Family::names, {.lower = std::string(keys::kOrphanPrefix),
                                              .upper = keys::prefix_end(keys::kOrphanPrefix)});
  std::size_t swept = 0;
  for (cursor->seek(keys::kOrphanPrefix); cursor->valid(); cursor->next()) {
    const auto record = decode_record(cursor->value());
    if (!record || keys::orphan(record->ino) != cursor->key()) {
      return make_error(EUCLEAN, "an orphan's record is damaged");
    }
    doomed_.push_back({record->ino, record->home, record->size});
    ++swept;
  }
  LSMFS_TRY(cursor->status());
  cursor.reset();
  if (swept > 0) options_.notice(fmt::format("erasing {} files that were removed while open", swept));
  return reap(Wait::yes);
}

}  // namespace lsmfs

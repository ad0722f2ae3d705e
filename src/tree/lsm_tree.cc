#include "tree/lsm_tree.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <random>

namespace lsmfs {
namespace {

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::string moment(const Time& time) {
  constexpr std::int64_t kYear10000 = 253'402'300'800;
  if (time.seconds < 0 || time.seconds >= kYear10000) return "when the clock was wrong";
  return fmt::format("at {:%F %T} UTC", fmt::gmtime(static_cast<std::time_t>(time.seconds)));
}

}  // namespace

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
  LSMFS_TRY(store.commit(batch));
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
      clock_(*options.clock),
      opened_read_only_(options.read_only),
      notice_(options.notice),
      options_(options),
      inodes_(store.cache_share(), [&store](ByteCount memory) { store.share_cache(memory); }),
      cookie_seed_(random_number()),
      state_(state),
      history_(store, clock_, *this, notice_),
      rows_(store, clock_, history_) {
  store.note_rows(state_.data_rows);
}

LsmTree::~LsmTree() {
  {
    Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (background_.joinable()) background_.join();
}

// It has a row only when something of it has changed, as by the first snapshot.
Result<Inode> LsmTree::directory_of_snapshots(const Record& root) {
  Inode made;
  made.parent = kRootIno;
  made.name = kSnapshotsName;
  made.lookups = 1;
  Record& record = made.record;
  LSMFS_ASSIGN(const auto row, store_.get(Family::names, keys::kSnapshots, Wait::yes));
  if (row) {
    auto known = decode_record(*row);
    if (!known || !is_of_snapshots(*known)) return make_error(EUCLEAN, "the record of the directory of snapshots is damaged");
    record = *std::move(known);
  } else {
    record.ino = kSnapshotsIno;
    record.mode = S_IFDIR | 0755;
    record.nlink = 2;
    record.atime = record.mtime = record.ctime = record.btime = root.btime;
    record.home = keys::far_home(kSnapshotsIno);
  }
  return made;
}

Result<void> LsmTree::start() {
  LSMFS_ASSIGN(const auto row, store_.get(Family::names, keys::kRoot, Wait::yes));
  if (!row) return make_error(EUCLEAN, "the root directory's record is missing");
  auto record = decode_record(*row);
  if (!record || !is_of_root(*record)) {
    return make_error(EUCLEAN, "the root directory's record is damaged");
  }
  Inode root;
  root.record = std::move(*record);
  root.parent = kRootIno;
  root.lookups = 1;  // the kernel never forgets the root
  LSMFS_ASSIGN(Inode snapshots, directory_of_snapshots(root.record));
  Lock lock(mutex_);
  snapshots.dir_home = inodes_.insert(std::move(root)).shared_home();
  inodes_.insert(std::move(snapshots));
  LSMFS_TRY(changes_.load(store_, notice_));
  if (state_.in_use) {
    notice_(fmt::format("was not unmounted: all that was synced is there, and is as it was {}", moment(state_.as_of)));
  }
  if (options_.read_only) return {};
  LSMFS_TRY(sweep_blobs());
  LSMFS_TRY(sweep_orphans(lock));
  LSMFS_TRY(find_unused());
  background_ = named_thread("lsmfs-upkeep", [this] { background(); });
  return {};
}

Result<void> LsmTree::close() {
  {
    Lock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (background_.joinable()) background_.join();
  rows_.let_go();
  {
    Lock lock(mutex_);
    if (closed_ || options_.read_only) return {};
    closed_ = true;
    while (!bulk_writers_.empty()) abandon_bulk(bulk_writers_.begin()->first);
    if (history_.failure()) return *history_.failure();
    inodes_.for_each([this](Inode& inode) LSMFS_LOCKED {
      if (inode.removed() && !inode.is_removed_tree()) erase_removed(inode);
    });
    LSMFS_TRY(commit_all(lock));
    end_streams();
  }
  return sync_store();
}

Result<void> LsmTree::begin_change(Lock& lock, Wait wait, Ino of) {
  if (streaming_.contains(of)) {
    LSMFS_TRY(let_others_pass(lock, wait, of));
  } else {
    give_way_.others_changed(of, clock_.now());
  }
  return begin_own_change(lock, wait, of);
}

Result<void> LsmTree::begin_own_change(Lock& lock, Wait wait, Ino of) {
  while (alone_ && !lock.is_alone()) {
    if (wait == Wait::no) return make_error(EAGAIN, "");
    no_longer_alone_.wait(lock);
  }
  if (!can_change()) return make_error(EROFS, "");
  if (!erased_matters()) return pass_on(lock, wait, of);
  if (wait == Wait::no) return make_error(EAGAIN, "");
  return commit_all(lock);
}

Ino LsmTree::inode_of(Ino dir, std::string_view name) {
  const Inode* const known = inodes_.find(dir, name);
  return known ? known->ino() : Ino{};
}

// Whether rows were erased that the store has not heard of, and there is little room without them.
bool LsmTree::erased_matters() const {
  const Store::Room room = store_.room();
  return state_.data_rows < room.rows && room.v < (room.rows - state_.data_rows) * kBlockSize + kLittleRoom;
}

void LsmTree::pass_on_for_access(Lock& lock) {
  (void)pass_on(lock, Wait::no, open_group().written);  // a failure is kept there
}

LsmTree::Alone::Alone(LsmTree& tree, Lock& lock) : tree_(tree) {
  while (tree_.alone_) tree_.no_longer_alone_.wait(lock);
  tree_.alone_ = true;
  lock.set_alone();
}

LsmTree::Alone::~Alone() {
  tree_.alone_ = false;
  tree_.no_longer_alone_.notify_all();
}

void LsmTree::begin_group() {
  if (upkeep_.is_dirty()) return;
  upkeep_.changed(clock_.now());
  look_again_in_time();
}

Result<void> LsmTree::let_others_pass(Lock& lock, Wait wait, Ino stream) {
  for (;;) {
    const Clock::Time now = clock_.now(), due = give_way_.due(stream, now);
    if (due <= now || lock.is_alone()) return {};
    if (wait == Wait::no) return make_error(EAGAIN, "");
    const Waiting waiting("others, as the writer of a large file");
    lock.without([&] { clock_.sleep_until(due); });
  }
}

Result<void> LsmTree::pass_on(Lock& lock, Wait wait, Ino of) {
  LSMFS_TRY(history_.finish_ended(lock));
  const bool streams = streaming_.contains(of);  // nobody else waits because the group has much for blobs
  const auto is_due = [&]() LSMFS_LOCKED {
    const bool cuts = (open_group().tail && open_group().tail->ino == of) || open_group().find_new(of);
    if ((streams || !history_.sealed()) && history_.has_streamed(cuts ? kStreamedMost : 1)) return true;
    return history_.larger_than(cuts ? kGroupMost : history_.sealed() ? kGroupGrowth : 1);
  };
  while (history_.sealed() && is_due()) {
    if (wait == Wait::no) return make_error(EAGAIN, "");
    await_commit(lock, history_.sealed()->number);
    if (!can_change()) return make_error(history_.failure() ? EIO : EROFS, history_.failure() ? history_.failure()->context : "");
  }
  if (is_due()) history_.pass_on(Committer::By::its_thread);
  return {};
}

Result<void> LsmTree::commit_all(Lock& lock) {
  if (history_.failure()) return make_error(EIO, history_.failure()->context);
  // The last commit says that no more comes; where nothing may be written, nobody says so.
  const bool last = ends() && state_.in_use && !opened_read_only_;
  if (last || !open_group().empty()) await_commit(lock, open_group().number);
  else if (history_.sealed()) await_commit(lock, history_.sealed()->number);
  if (history_.failure()) return make_error(EIO, history_.failure()->context);
  return {};
}

void LsmTree::await_commit(Lock& lock, std::uint64_t group) {
  if (history_.committed() >= group) return;
  const Rows::NobodyParks scope(rows_);
  history_.await(lock, group);
}

void LsmTree::put_records(Group& group) {
  seal_streams(group);
  // Records last: an entry that a row of the group takes away may have been given to another inode.
  for (const Ino ino : group.records) {
    Inode* inode = inodes_.find(ino);
    if (!inode || inode->record_group != group.number) continue;
    back_to_entry(*inode);
    count_displaced(*inode);
    // Without a name it needs a row only so that what lies below it is found and erased after a crash.
    if (inode->removed() && !inode->has_row && !inode->record.has_rows_below() && inode->record.blob_blocks == 0 && !inode->record.has_base()) continue;
    if (inode->removed()) inode->has_row = true;
    group.batch.put(Family::names, inode->row_key(), encode(inode->record));
  }
  state_.as_of = Time::now(clock_);
  state_.in_use = !ends();
  group.batch.put(Family::names, keys::kState, encode(state_));
  put_changes(group);
  group.batch.note_rows(state_.data_rows, group.bulked.size());
}

// Its rows are seen by readers of the store, so inodes that are not in use go.
void LsmTree::settled(const Group& group) {
  streams_settled(group);
  for (const Ino ino : group.records) {
    Inode* inode = inodes_.find(ino);
    if (inode && inode->record_group == group.number) drop_if_unused(inode);
  }
  rows_.settled(group);
}

void LsmTree::committed(const Group& group) {
  dropped_blobs_.insert(dropped_blobs_.end(), group.dropped_blobs.begin(), group.dropped_blobs.end());
  if (group.streamed_bytes > 0) give_way_.committed(group.commit_began, group.commit_ended);
  upkeep_.committed(group.batch.bytes());
  look_again_in_time();
  // Cursors keep the tables they read, also when those have been rewritten since.
  const Store::Space space = store_.space();
  if (space.free.v < space.total.v / 8) rows_.let_go_ahead();
}

std::uint64_t LsmTree::uncommitted_room(const Store::Room& room) const {
  const std::uint64_t rows = state_.data_rows - std::min(room.rows, state_.data_rows);
  return std::min(rows * kBlockSize, history_.uncommitted_bytes());
}

Result<void> LsmTree::need_rows(std::uint64_t rows) const {
  const Store::Room room = store_.room();
  // In place of rows that were removed and that the store has not heard of.
  if (state_.data_rows + rows <= room.rows) return need_room_to_replace(rows * kBlockSize);
  return need_room(room, std::min(rows, state_.data_rows + rows - room.rows) * kBlockSize);
}

Result<void> LsmTree::need_room(const Store::Room& room, std::uint64_t bytes) const {
  if (room.v < bytes + uncommitted_room(room)) return make_error(ENOSPC, "");
  return {};
}

Result<void> LsmTree::need_room_for_names(std::size_t bytes) const {
  const std::size_t records = open_group().records.size() + (history_.sealed() ? history_.sealed()->records.size() : 0);
  const Store::Room room = store_.room_for_names();
  if (room.v < bytes + uncommitted_room(room) + records * kRecordBytes + changes_.notes().bytes()) return make_error(ENOSPC, "");
  return {};
}

Result<void> LsmTree::need_room_to_replace(std::size_t bytes) const {
  if (store_.room_to_replace().v < bytes + history_.uncommitted_bytes()) return make_error(ENOSPC, "");
  return {};
}

Result<void> LsmTree::sync() {
  bool others = false;
  {
    const Lock lock(mutex_);
    others = give_way_.sync_began();
  }
  auto done = sync_changes();
  if (others) {
    const Lock lock(mutex_);
    give_way_.others_sync_ended(clock_.now());
  }
  return done;
}

Result<void> LsmTree::sync_changes() {
  {
    const Clock::Time began = clock_.now();
    Lock lock(mutex_);
    LSMFS_TRY(commit_all(lock));
    upkeep_.sync_began();
    if (history_.sealed() || !open_group().empty()) upkeep_.changed(began);  // meanwhile
  }
  auto done = sync_store();
  const Lock lock(mutex_);
  if (!done) {
    history_.fail("a sync", done.error());
  } else {
    upkeep_.synced(clock_.now());
    look_again_in_time();
  }
  return done;
}

// And then removes blobs that nobody wants any more.
Result<void> LsmTree::sync_store() {
  close_writers();
  std::vector<std::uint64_t> dropped;
  {
    const Lock lock(mutex_);
    dropped = std::exchange(dropped_blobs_, {});
    dropping_ += dropped.size();
  }
  auto done = store_.sync();
  if (dropped.empty()) return done;
  for (const std::uint64_t blob : dropped) blob_readers_.forget(blob);
  if (done) done = store_.remove_blobs(dropped);
  const Lock lock(mutex_);
  dropping_ -= dropped.size();
  return done;
}

Result<void> LsmTree::drop_caches() {
  LSMFS_TRY(sync());
  rows_.let_go();
  blob_readers_.clear();
  return store_.drop_caches();
}

Result<ScrubStep> LsmTree::scrub(ScrubPosition& position, const Stop& stop) {
  if (position.part == 0 && position.range.end == 0) LSMFS_TRY(know_what_is_nobodys(stop));
  if (position.part >= ScrubPosition::kStoreParts) return scrub_blobs(position, stop);
  LSMFS_ASSIGN(StoreScrubStep found, store_.scrub(position, stop));
  ScrubStep step{found.read, found.left + bytes_in_blobs(), {}};
  for (auto& [line, rows] : found.damage) {
    if (rows) line += "; " + rows_between(rows->family, rows->after, rows->before);
    notice_("scrub: " + line);
    step.damage.push_back(std::move(line));
  }
  return step;
}

Result<void> LsmTree::reconfigure(const TreeSettings& settings) {
  const MutexLock reconfiguring(reconfiguring_);
  if (settings.read_only) LSMFS_TRY(*settings.read_only ? stop_changing() : change_again());
  const Lock lock(mutex_);
  options_.atime = settings.atime.value_or(options_.atime);
  options_.directory_atime = settings.directory_atime.value_or(options_.directory_atime);
  options_.sync_interval_ms = settings.sync_interval_ms.value_or(options_.sync_interval_ms);
  wake_.notify_all();  // for the new interval
  return {};
}

Result<void> LsmTree::stop_changing() {
  {
    Lock lock(mutex_);
    if (options_.read_only) return {};
    options_.read_only = true;
    if (history_.failure()) return {};  // nothing is written any more as it is
    LSMFS_TRY(commit_all(lock));
    end_streams();
    upkeep_.sync_began();
  }
  auto done = sync_store();
  if (done) done = store_.set_read_only(true);
  if (!done) {
    const Lock lock(mutex_);
    history_.fail("a sync", done.error());
  }
  return done;
}

Result<void> LsmTree::change_again() {
  const Lock lock(mutex_);
  if (history_.failure()) return make_error(EIO, history_.failure()->context);
  if (!options_.read_only) return {};
  if (opened_read_only_) return make_error(EROFS, "");
  LSMFS_TRY(store_.set_read_only(false));
  options_.read_only = false;
  std::vector<Inode*> unused;
  inodes_.for_each([&](Inode& inode) {
    if (inode.removed() && inode.lookups == 0) unused.push_back(&inode);
  });
  for (Inode* inode : unused) drop_if_unused(inode);
  return {};
}

bool LsmTree::read_only() const {
  const Lock lock(mutex_);
  return !can_change();
}

bool LsmTree::room_comes(Wait wait, std::uint64_t& seen) {
  Lock lock(mutex_);
  if ((drops_blobs() || has_bases_to_look_at()) && can_change()) {
    const auto drop = [this] {
      for (auto dropped = drop_unused(); dropped && *dropped;) dropped = drop_unused();
      for (auto trimmed = trim_some(); trimmed && *trimmed;) trimmed = trim_some();
      (void)sync();  // a failure is kept there
    };
    if (wait == Wait::yes) lock.without(drop);
    return true;
  }
  if (!removed_trees_.empty() && can_change()) {
    bool swept = wait == Wait::no;
    if (!swept) lock.without([&] { swept = sweep_for_a_while(); });
    if (swept) return true;
  }
  if (leaving_.last == Clock::Time::min()) return false;
  const Clock::Time until = leaving_.last + kForgottenIn;
  if (wait == Wait::no) return clock_.now() < until;
  clock_.wait(lock, leaving_.changed, until, [&]() LSMFS_LOCKED { return leaving_.gone != seen || leaving_.files.empty(); });
  return std::exchange(seen, leaving_.gone) != leaving_.gone;
}

Result<SpaceInfo> LsmTree::space(Wait wait) {
  bool drops = false;
  LSMFS_TRY(attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    if (!leaving_.files.empty()) {
      const Clock::Time until = leaving_.last + kForgottenSoon;
      if (wait == Wait::no && clock_.now() < until) return make_error(EAGAIN, "");
      clock_.wait(lock, leaving_.changed, until, [this]() LSMFS_LOCKED { return leaving_.files.empty(); });
    }
    drops = drops_blobs() && can_change();
    if (drops && wait == Wait::no) return make_error(EAGAIN, "");
    if (state_.data_rows < store_.room().rows && can_change()) {
      if (wait == Wait::no) return make_error(EAGAIN, "");
      return commit_all(lock);
    }
    return {};
  }));
  if (drops) LSMFS_TRY(sync());
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
  const Lock lock(mutex_);
  return state_.counts;
}

TreeActivity LsmTree::activity() const {
  const Lock lock(mutex_);
  return {.uncommitted_bytes = history_.uncommitted_bytes(), .inodes = inodes_.size(), .inode_bytes = inodes_.size() * InodeTable::kInodeMemory,
          .removed_trees = removed_trees_.size()};
}

// ---- the background thread: does what is due (see upkeep.h), and lets go of what is not used

std::chrono::milliseconds LsmTree::interval() const { return std::chrono::milliseconds(can_change() ? options_.sync_interval_ms : 0); }

Clock::Time LsmTree::next_upkeep() const { return std::min(upkeep_.next(interval()), sweeps() ? upkeep_.next_sweep() : Clock::kNever); }

void LsmTree::look_again_in_time() {
  if (next_upkeep() < looks_again_) wake_.notify_one();
}

void LsmTree::background() {
  Lock lock(mutex_);
  while (!stop_) {
    const Upkeep::Due due = upkeep_.take(clock_.now(), interval());
    const bool sweep_is_due = sweeps() && upkeep_.next_sweep() <= clock_.now();
    (void)history_.finish_ended(lock);  // a failure is reported and kept there
    lock.unlock();
    if (due.sync) (void)sync_changes();       // as here
    if (due.store_sync) (void)store_.sync();  // there it is kept as well, and met by the next commit
    if (due.note) (void)store_.note_synced();
    const Clock::Time began = clock_.now();
    if (due.relocation) (void)relocate();  // what cannot be read stays
    const Clock::Time relocated = clock_.now();
    if (sweep_is_due) (void)sweep_for_a_while();  // what cannot be read stays
    const Clock::Time ended = clock_.now();
    rows_.let_go_of_idle();
    close_writers();
    lock.lock();
    if (due.relocation) upkeep_.relocated(began, relocated, !displaced_.empty() || has_bases_to_look_at());
    if (sweep_is_due) upkeep_.swept(relocated, ended, !removed_trees_.empty());
    end_idle_streams();
    if (stop_) return;
    looks_again_ = std::min(next_upkeep(), ended + ParkedCursors::kIdle);
    clock_.wait(lock, wake_, looks_again_);
  }
}

// After a crash there may be blobs that no row names. Numbers of blobs are those of inodes, and none is given twice.
Result<void> LsmTree::sweep_blobs() {
  std::vector<std::uint64_t> unnamed = store_.blobs();
  if (unnamed.empty()) return {};
  state_.next_ino = std::max(state_.next_ino, Ino{unnamed.back() + 1});
  std::vector<std::uint64_t> named;
  const auto cursor = store_.cursor(Family::names, {.lower = std::string(keys::kBlobPrefix), .upper = keys::prefix_end(keys::kBlobPrefix),
                                                    .readahead = kRowsReadahead});
  for (cursor->seek(keys::kBlobPrefix); cursor->valid(); cursor->next()) {
    const auto part = FileBlobs::decode(0, cursor->value());
    if (!part) return {};  // nobody knows which it was; fsck -y does
    if (!part->shared()) named.push_back(part->blob);
  }
  if (const auto ended = cursor->status(); !ended) return ended.error().code == EUCLEAN ? Result<void>() : ended;
  std::ranges::sort(named);
  std::erase_if(unnamed, [&](std::uint64_t blob) { return std::ranges::binary_search(named, blob); });
  return unnamed.empty() ? Result<void>() : store_.remove_blobs(unnamed);
}

Result<void> LsmTree::sweep_orphans(Lock& lock) {
  auto cursor = store_.cursor(Family::names, {.lower = std::string(keys::kOrphanPrefix),
                                              .upper = keys::prefix_end(keys::kOrphanPrefix)});
  std::size_t swept = 0;
  for (cursor->seek(keys::kOrphanPrefix); cursor->valid(); cursor->next()) {
    auto record = decode_record(cursor->value());
    if (!record || keys::orphan(record->ino) != cursor->key() || record->home.empty()) {
      return make_error(EUCLEAN, "an orphan's record is damaged");
    }
    Inode inode;
    inode.record = std::move(*record);
    inode.place = Inode::Place::orphan;
    inode.has_row = true;
    if (inode.is_removed_tree()) {
      if (inode.is_top() || (inode.ino() < kCountedMax && inode.ino() >= state_.next_ino)) return make_error(EUCLEAN, "the number of a removed directory is damaged");
      removed_trees_.push_front({inode.ino()});
      inodes_.insert(std::move(inode));
      continue;
    }
    while (inode.record.blob_blocks > 0 && !inode.large) {
      const auto known = large_file(lock, inode);
      if (!known && known.error().code != EAGAIN) return known.error();
      if (!known) lock.take_wanted().read();  // there is nobody else yet
    }
    erase_removed(inode);
    ++swept;
    if (history_.larger_than(1)) LSMFS_TRY(commit_all(lock));
  }
  if (const auto ended = cursor->status(); !ended && ended.error().code == EUCLEAN) {
    notice_("some files that were removed while open cannot be read; they take space until fsck -y: " + ended.error().context);
  } else if (!ended) {
    return ended.error();
  }
  cursor.reset();
  if (swept > 0) notice_(fmt::format("erased {} files that were removed while open", swept));
  if (!removed_trees_.empty()) {
    notice_(fmt::format("goes on to free what was below {} removed directories", removed_trees_.size()));
    upkeep_.removed_tree(clock_.now());
  }
  return commit_all(lock);
}

}  // namespace lsmfs

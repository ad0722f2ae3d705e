#include "tree/group.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "lsmfs/tree.h"

namespace lsmfs {
namespace {

// Spare memory of a group: for two streams, as much as a group usually has of each.
constexpr std::size_t kSpares = 2, kSpareMost = 2 * MiB;

}  // namespace

NewFile* Group::find_new(Ino ino) {
  const auto found = new_files.find(ino);
  return found == new_files.end() ? nullptr : &found->second;
}

void Group::write_new(NewFile& file, std::uint64_t index, std::size_t at, std::string_view bytes) {
  std::string& row = file.rows[index];
  const std::size_t before = row.size();
  if (at == before) {
    row.append(bytes);
  } else {
    row.resize(std::max(before, at + bytes.size()));
    bytes.copy(row.data() + at, bytes.size());
  }
  new_bytes += row.size() - before;
}

void Group::cut_new(NewFile& file, std::uint64_t size) {
  const std::uint64_t last = size / kBlockSize, left = size % kBlockSize;  // within the last block, if anything
  const auto cut = file.rows.find(last);
  if (left > 0 && cut != file.rows.end() && cut->second.size() > left) {
    new_bytes -= cut->second.size() - left;
    cut->second.resize(left);
  }
  for (auto row = file.rows.lower_bound(last + (left > 0 ? 1 : 0)); row != file.rows.end(); row = file.rows.erase(row)) new_bytes -= row->second.size();
}

bool Group::drop_new(Ino ino) {
  NewFile* const file = find_new(ino);
  if (!file) return false;
  cut_new(*file, 0);
  new_files.erase(ino);
  return true;
}

void Group::release_new(Ino ino) {
  const auto found = new_files.find(ino);
  if (found == new_files.end()) return;
  put_tail();
  auto& [home, rows] = found->second;
  for (auto& [index, row] : rows) {
    new_bytes -= row.size();
    std::string key = keys::block(home, BlockIndex{index});
    if (index == rows.rbegin()->first && row.size() < kBlockSize) {
      tail = Tail{ino, index, std::move(key), std::move(row)};
    } else {
      batch.put(Family::blocks, key, row);
    }
  }
  new_files.erase(found);
}

void Group::put_new_files() {
  for (const auto& [ino, file] : new_files) {
    for (const auto& [index, row] : file.rows) batch.put(Family::blocks, keys::block(file.home, BlockIndex{index}), row);
  }
}

Streamed& Group::streamed_to(Ino ino, Ino of_home, const std::shared_ptr<BlobWriter>& writer, std::uint64_t blob, std::uint64_t first) {
  const auto found = std::ranges::find(streamed, blob, &Streamed::blob);
  if (found != streamed.end()) return *found;
  BlockBuffer data;
  if (!spare.empty()) {
    data = std::move(spare.back());
    spare.pop_back();
  }
  return streamed.emplace_back(Streamed{ino, of_home, writer, blob, first, std::move(data), {}});
}

void Group::drop_streamed() {
  for (Streamed& one : streamed) {
    if (spare.size() == kSpares || one.data.capacity() > kSpareMost) continue;
    one.data.clear();
    spare.push_back(std::move(one.data));
  }
  streamed.clear();
}

void Group::bulk(const std::shared_ptr<BulkWriter>& to, std::string key, std::string_view row) {
  bulked_bytes += key.size() + row.size();
  bulked.push_back({to, std::move(key), std::string(row)});
}

void Group::put_bulked() {
  for (Bulked& one : bulked) one.to->put(std::move(one.key), std::move(one.row));
}

Result<void> Group::append_streamed() {
  for (Streamed& one : streamed) {
    LSMFS_TRY(one.writer->append(one.data.bytes()));
    LSMFS_ASSIGN(one.part.end, one.writer->precede_commits());
    batch.put(Family::names, keys::blob(one.number, BlockIndex{one.part.first}), FileBlobs::encode(one.part));
  }
  return {};
}

void Group::begin(std::uint64_t new_number) {
  number = new_number;
  batch.clear();
  records.clear();
  entries.clear();
  blocks = false;
  new_files.clear();
  new_bytes = sealed_bytes = 0;
  bulked.clear();
  bulked_bytes = 0;
  tail.reset();
  if (std::exchange(streamed_bytes, 0) == 0) spare.clear();  // no streams
  drop_streamed();
  dropped_blobs.clear();
  written = {};
}

Committer::Committer(Store& store, Clock& clock) : store_(store), clock_(clock), thread_(named_thread("lsmfs-commit", [this] { run(); })) {}

Committer::~Committer() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Committer::begin(Group& group, By by) {
  {
    const MutexLock lock(mutex_);
    assert(!group_ && !outcome_);
    group_ = &group;
  }
  if (by == By::its_thread) changed_.notify_all();
}

bool Committer::ended() const {
  const MutexLock lock(mutex_);
  return outcome_.has_value();
}

Result<void> Committer::finish() {
  const MutexLock lock(mutex_);
  assert(outcome_);
  return *std::exchange(outcome_, std::nullopt);
}

void Committer::wait() {
  MutexLock lock(mutex_);
  const Waiting waiting("a commit");
  if (group_ && !taken_) commit();
  changed_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return !group_; });
}

void Committer::run() {
  MutexLock lock(mutex_);
  while (true) {
    clock_.wait(lock, changed_, Clock::kNever, [this]() LSMFS_REQUIRES(mutex_) { return stop_ || (group_ && !taken_); });
    if (!group_ || taken_) return;
    commit();
  }
}

void Committer::commit() {
  taken_ = true;
  Group& group = *group_;
  Result<void> outcome;
  {
    const Unlocked unlocked(mutex_);
    group.commit_began = clock_.now();
    group.put_new_files();
    outcome = group.append_streamed();
    if (outcome) outcome = store_.commit(group.batch);
    if (outcome) group.put_bulked();
    group.commit_ended = clock_.now();
  }
  taken_ = false;
  group_ = nullptr;
  outcome_ = std::move(outcome);
  changed_.notify_all();
}

}  // namespace lsmfs

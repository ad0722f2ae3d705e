#include "volume/table_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "volume/shared.h"

namespace lsmfs {
namespace {

using format::kBlock;

class TableContents final : public Contents {
 public:
  TableContents(const Journal& journal, std::vector<Extent> extents, std::uint64_t size, std::string name)
      : journal_(journal), extents_(std::move(extents)), size_(size), name_(std::move(name)) {}

  std::uint64_t size() const override { return size_; }

  Result<void> read(std::uint64_t from, MutableBytes to) const override {
    const auto address = reinterpret_cast<std::uintptr_t>(to.data());
    if ((from | to.size() | address) % kBlock == 0) return read_extents(journal_, extents_, from, to, name_);
    // Not aligned: through a buffer that each thread keeps, in pieces.
    thread_local AlignedBuffer bounce;
    while (!to.empty()) {
      const std::uint64_t start = round_down(from, kBlock);
      const std::uint64_t length = std::min(round_up(from + to.size(), kBlock) - start, kBounceMax);
      if (bounce.size() < length) bounce = AlignedBuffer::of_any_contents(std::max(length, kBounceMin));
      LSMFS_TRY(read_extents(journal_, extents_, start, bounce.bytes().first(length), name_));
      const std::uint64_t take = std::min<std::uint64_t>(to.size(), start + length - from);
      std::memcpy(to.data(), bounce.data() + (from - start), take);
      from += take;
      to = to.subspan(take);
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kBounceMin = 64 * KiB, kBounceMax = MiB;
  const Journal& journal_;
  const std::vector<Extent> extents_;
  const std::uint64_t size_;
  const std::string name_;
};

}  // namespace

TableFile::TableFile(Shared& shared, const FileRecord& record)
    : File(shared, record),
      buffer_start_(round_down(record.size, kBlock)),
      used_(record.size % kBlock),
      written_(record.size),
      synced_(record.size),
      recorded_(allocated_) {}

Result<void> TableFile::load_tail() {
  if (buffer_.size() == 0) buffer_ = AlignedBuffer::of_any_contents(kBuffer);
  if (used_ == 0) return {};
  return read_extents(shared_.journal, extents_, buffer_start_, buffer_.bytes().first(kBlock), label());
}

Result<void> TableFile::begin_append() { return {}; }  // the first append does it; many only rename

// The last block holds synced bytes and must not be written in place: the granule it is in moves.
Result<void> TableFile::move_last_granule() {
  const std::uint64_t size = size_now();
  std::uint64_t from = 0;  // where the last granule begins
  if (size > 0) {
    std::uint64_t at = 0;
    for (const Extent& e : extents_) {
      if (size <= at + e.length) {
        from = at + round_down(size - 1 - at, shared_.space->granule_at(e.start));
        break;
      }
      at += e.length;
    }
  }
  AlignedBuffer moved = AlignedBuffer::of_any_contents(kBuffer);
  LSMFS_TRY(read_extents(shared_.journal, extents_, from, moved.bytes().first(buffer_start_ - from), label()));
  std::memcpy(moved.data() + (buffer_start_ - from), buffer_.data(), used_);

  const std::vector<Extent> before = extents_;
  std::vector<Extent> rest = cut_allocation(from);
  const std::vector<Extent> never_recorded = cut_extents(rest, recorded_ > from ? recorded_ - from : 0);
  if (auto r = ensure_allocated(size); !r) {
    set_extents(before);
    return r;
  }
  retire(never_recorded);
  replaced_.insert(replaced_.end(), rest.begin(), rest.end());
  recorded_ = std::min(recorded_, from);
  synced_ = written_ = buffer_start_ = from;
  used_ = size - from;
  buffer_ = std::move(moved);
  return {};
}

Result<void> TableFile::append(Bytes data) {
  const MutexLock lock(mutex_);
  LSMFS_TRY(shared_.journal.check());
  if (data.empty()) return {};
  if (buffer_.size() == 0) LSMFS_TRY(load_tail());
  if (synced_ > round_down(size_now(), kBlock)) LSMFS_TRY(move_last_granule());
  LSMFS_TRY(ensure_allocated(round_up(size_now() + data.size(), kBlock)));
  changed_ = true;
  // Much that is aligned is written from where it lies.
  if (used_ == 0 && data.size() >= kDirectly && reinterpret_cast<std::uintptr_t>(data.data()) % kBlock == 0) {
    const Bytes whole = data.first(round_down(data.size(), kBlock));
    LSMFS_TRY(write_extents(buffer_start_, whole));
    written_ = buffer_start_ += whole.size();
    data = data.subspan(whole.size());
  }
  while (!data.empty()) {
    const std::size_t n = std::min<std::size_t>(data.size(), buffer_.size() - used_);
    std::memcpy(buffer_.data() + used_, data.data(), n);
    used_ += n;
    data = data.subspan(n);
    if (used_ == buffer_.size()) LSMFS_TRY(write_buffer());
  }
  return {};
}

Result<void> TableFile::write_buffer() {
  if (size_now() == written_) return {};
  const std::uint64_t padded = round_up(used_, kBlock);
  std::memset(buffer_.data() + used_, 0, padded - used_);
  LSMFS_TRY(write_extents(buffer_start_, Bytes(buffer_.bytes()).first(padded)));
  written_ = size_now();
  const std::uint64_t whole = round_down(used_, kBlock);
  if (whole > 0 && used_ > whole) std::memcpy(buffer_.data(), buffer_.data() + whole, used_ - whole);
  buffer_start_ += whole;
  used_ -= whole;
  return {};
}

Result<void> TableFile::record() {
  LSMFS_TRY(shared_.journal.check());
  if (!changed_) return {};
  LSMFS_TRY(write_buffer());
  // Synced bytes that moved must be durable in their new place before a record points there; for
  // bytes that were never synced record and data may share a flush.
  if (!replaced_.empty()) LSMFS_TRY(shared_.journal.reach(shared_.journal.next_round()));
  const std::uint64_t end = whole_granules(size_now());
  std::string operations;
  if (recorded_ < end || !replaced_.empty()) {
    std::vector<Extent> extents = extents_;
    cut_extents(extents, std::max(end, recorded_));
    put_extents(operations, id_, recorded_, cut_extents(extents, recorded_));
    recorded_ = std::max(end, recorded_);
  }
  put_size(operations, id_, size_now());
  synced_ = size_now();
  changed_ = false;
  shared_.journal.change_file(shared_from_this(), std::move(operations), std::exchange(replaced_, {}));
  return {};
}

Result<void> TableFile::sync() {
  {
    const MutexLock lock(mutex_);
    LSMFS_TRY(record());
  }
  return shared_.journal.commit();
}

Result<void> TableFile::precede_logs() {
  {
    const MutexLock lock(mutex_);
    LSMFS_TRY(record());
  }
  shared_.queue.hold_until(shared_.journal.last_change());
  return {};
}

Result<void> TableFile::allocate(std::uint64_t bytes) {
  announce(bytes);  // else it would get what a file of unknown length is given
  const MutexLock lock(mutex_);
  LSMFS_TRY(shared_.journal.check());
  return ensure_allocated(round_up(bytes, kBlock));
}

Result<void> TableFile::truncate(std::uint64_t size) {
  const MutexLock lock(mutex_);
  LSMFS_TRY(shared_.journal.check());
  if (size > size_now()) return make_error(EINVAL, fmt::format("{} cannot grow by truncation", label()));
  if (size == size_now()) return {};
  changed_ = true;
  if (size >= buffer_start_) {
    used_ = size - buffer_start_;
    written_ = std::min(written_, size);
    return {};
  }
  buffer_start_ = round_down(size, kBlock);
  used_ = size - buffer_start_;
  written_ = size;
  return load_tail();
}

Result<void> TableFile::close() {
  const MutexLock lock(mutex_);
  Result<void> result = shared_.journal.check();
  if (result) result = write_buffer();
  // Beyond the last record nothing was promised, so what is not needed is free at once.
  const std::uint64_t keep = std::max(whole_granules(size_now()), recorded_);
  if (result && keep < allocated_) retire(cut_allocation(keep));
  buffer_ = AlignedBuffer();
  return result;
}

Result<std::uint64_t> TableFile::size() {
  const MutexLock lock(mutex_);
  return size_now();
}

std::uint64_t TableFile::scrub_bytes() {
  const MutexLock lock(mutex_);
  return kind_ == FileKind::small ? round_up(synced_, kBlock) : 0;
}

// Whether it can be read: what is in it has no checksum of the volume's.
Result<void> TableFile::scrub(const Stop& stop) {
  if (kind_ != FileKind::small) return {};
  std::vector<Extent> extents;
  std::uint64_t end = 0;
  {
    const MutexLock lock(mutex_);
    extents = extents_;
    end = round_up(synced_, kBlock);
  }
  AlignedBuffer buffer(std::min(end, kBuffer));
  for (std::uint64_t at = 0; at < end; at += buffer.size()) {
    if (stop()) return make_error(EINTR, "scrub");
    const MutableBytes piece = buffer.bytes().first(std::min<std::uint64_t>(buffer.size(), end - at));
    LSMFS_TRY(read_extents(shared_.journal, extents, at, piece, label()));
  }
  return {};
}

Result<std::unique_ptr<Contents>> TableFile::contents() {
  const MutexLock lock(mutex_);
  std::uint64_t size = size_now();
  // After a failure of the volume what could not be written is not there to be read.
  if (written_ != size && !(shared_.journal.check() && write_buffer())) size = std::min(size, written_);
  return std::unique_ptr<Contents>(std::make_unique<TableContents>(shared_.journal, extents_, size, label()));
}

}  // namespace lsmfs

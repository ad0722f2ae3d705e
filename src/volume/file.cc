#include "volume/file.h"

#include <fmt/format.h>

#include <algorithm>

#include "volume/shared.h"

namespace lsmfs {

File::File(Shared& shared, const FileRecord& record)
    : shared_(shared),
      id_(record.id),
      kind_(record.kind),
      seed_(record.seed),
      extents_(record.extents),
      allocated_(total_length(record.extents)),
      space_(shared.space),
      label_(record.name),
      charged_name_(record.name.size()) {
  space_->charge_existing(kSnapshotFileBytes + charged_name_ + kSnapshotExtentBytes * extents_.size());
}

File::~File() {
  space_->uncharge(kSnapshotFileBytes + charged_name_ + kSnapshotExtentBytes * extents_.size());
  // Without a durable removal the extents belong to the file after the next open; nobody may have
  // them until then. That happens only when the volume itself goes away.
  if (!removal_durable()) return;
  space_->release(extents_);
  space_->release(retired_);
}

bool File::set_label(std::string_view name) {
  const MutexLock lock(label_mutex_);
  if (name.size() > charged_name_) {
    if (!space_->charge(name.size() - charged_name_)) return false;
    charged_name_ = name.size();
  }
  label_ = name;
  return true;
}

std::string File::label() const {
  const MutexLock lock(label_mutex_);
  return label_;
}

void File::announce(std::uint64_t expected) {
  const MutexLock lock(mutex_);
  announced_ = expected;
}

void File::set_lifetime(Lifetime lifetime) {
  const MutexLock lock(mutex_);
  lifetime_ = lifetime;
}

Result<void> File::ensure_allocated(std::uint64_t total) {
  if (total <= allocated_) return {};
  Space::Request request{kind_, lifetime_, total - allocated_, announced_ > allocated_ ? announced_ - allocated_ : 0,
                         extents_.empty() ? 0 : extents_.back().end()};
  auto taken = space_->take(request);
  if (!taken && shared_.journal.frees_pending()) {
    // What was removed can be had once its removal is durable.
    LSMFS_TRY(shared_.journal.commit());
    taken = space_->take(request);
  }
  if (!taken) {
    return make_error(ENOSPC, fmt::format("no room for {} more bytes of {}", request.need, label()));
  }
  std::vector<Extent> extents = extents_;
  for (const Extent& e : *taken) append_extent(extents, e);
  const std::size_t more = extents.size() - extents_.size();
  if (more > 0 && !space_->charge(kSnapshotExtentBytes * more)) {
    space_->release(*taken);
    return make_error(ENOSPC, fmt::format("the list of files has no room for more extents of {}", label()));
  }
  extents_ = std::move(extents);
  allocated_ = total_length(extents_);
  return {};
}

void File::set_extents(std::vector<Extent> extents) {
  if (extents.size() < extents_.size()) {
    space_->uncharge(kSnapshotExtentBytes * (extents_.size() - extents.size()));
  } else {
    space_->charge_existing(kSnapshotExtentBytes * (extents.size() - extents_.size()));
  }
  extents_ = std::move(extents);
  allocated_ = total_length(extents_);
}

std::vector<Extent> File::cut_allocation(std::uint64_t from) {
  std::vector<Extent> kept = extents_;
  std::vector<Extent> rest = cut_extents(kept, from);
  set_extents(std::move(kept));
  return rest;
}

std::vector<Extent> File::places(const std::vector<Extent>& extents, std::uint64_t from, std::uint64_t length) {
  std::vector<Extent> found;
  std::uint64_t at = 0;
  for (const Extent& e : extents) {
    if (length == 0) break;
    if (from < at + e.length) {
      const std::uint64_t skip = from - at, take = std::min(length, e.length - skip);
      found.push_back({e.start + skip, take});
      from += take;
      length -= take;
    }
    at += e.length;
  }
  return found;
}

Result<void> File::write_extents(std::uint64_t from, Bytes data) {
  for (const Extent& place : places(extents_, from, data.size())) {
    LSMFS_TRY(shared_.journal.write(place.start, data.first(place.length)));
    data = data.subspan(place.length);
  }
  return {};
}

std::uint64_t File::whole_granules(std::uint64_t length) const {
  std::uint64_t at = 0;
  for (const Extent& e : extents_) {
    if (length <= at + e.length) {
      return length <= at ? at : at + round_up(length - at, space_->granule_at(e.start));
    }
    at += e.length;
  }
  return at;
}

void File::add_reader() {
  const MutexLock lock(retire_mutex_);
  ++readers_;
}

void File::drop_reader() {
  const MutexLock lock(retire_mutex_);
  if (--readers_ > 0) return;
  space_->release(retired_);
  retired_.clear();
}

void File::abandon(const std::vector<Extent>& extents) {
  const MutexLock lock(retire_mutex_);
  retired_.insert(retired_.end(), extents.begin(), extents.end());
}

void File::retire(std::vector<Extent> extents) {
  const MutexLock lock(retire_mutex_);
  if (readers_ == 0) {
    space_->release(extents);
  } else {
    retired_.insert(retired_.end(), extents.begin(), extents.end());
  }
}

Result<void> read_extents(const Journal& journal, const std::vector<Extent>& extents, std::uint64_t from,
                          MutableBytes to, std::string_view name) {
  std::uint64_t at = 0;
  for (const Extent& e : extents) {
    if (to.empty()) return {};
    if (from < at + e.length) {
      const std::uint64_t skip = from - at, take = std::min<std::uint64_t>(to.size(), e.length - skip);
      LSMFS_TRY(journal.read(e.start + skip, to.first(take), fmt::format("{} at {}", name, from)));
      from += take;
      to = to.subspan(take);
    }
    at += e.length;
  }
  if (!to.empty()) return make_error(EIO, fmt::format("{} has no bytes at {}", name, from));
  return {};
}

}  // namespace lsmfs

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <unordered_map>

#include "lsmfs/mutex.h"
#include "volume/file.h"
#include "volume/handles.h"
#include "volume/scrub.h"
#include "volume/trim.h"

namespace lsmfs {
namespace {

Error no_such_file(std::string_view name) { return make_error(ENOENT, fmt::format("no file {} on the volume", name)); }

Result<void> check_name(std::string_view name) {
  if (name.empty() || name.size() > kFileNameMax) {
    return make_error(EINVAL, fmt::format("a file name of {} bytes; 1 to {} are allowed", name.size(), kFileNameMax));
  }
  return {};
}

std::uint64_t random_seed() {
  std::random_device source;
  return std::uint64_t{source()} << 32 | source();
}

class VolumeImpl final : public Volume {
 public:
  VolumeImpl(Device& device, const SuperblockInfo& superblock, const VolumeOptions& options, Catalog catalog, MetadataLog log)
      : device_(device), next_id_(catalog.next_id()) {
    const std::map<std::uint64_t, FileRecord> records = catalog.files();
    shared_ = std::make_shared<Shared>(device, superblock, options, std::move(catalog), std::move(log));
    for (const auto& [id, record] : records) files_.emplace(record.name, make_file(*shared_, record, false));
  }

  ~VolumeImpl() override {
    shared_->queue.stop();
    shared_->journal.close();
  }

  Result<std::unique_ptr<FileWriter>> create(std::string_view name, FileKind kind) override {
    LSMFS_TRY(shared_->journal.check());
    LSMFS_TRY(check_name(name));
    const std::uint64_t room = kSnapshotFileBytes + name.size();
    if (!shared_->space->can_charge(room) && shared_->journal.frees_pending()) LSMFS_TRY(shared_->journal.commit());
    FileRecord record;
    record.kind = kind;
    record.seed = kind == FileKind::log ? random_seed() : 0;
    record.name = name;
    FilePtr file, replaced;
    {
      const MutexLock lock(mutex_);
      if (!shared_->space->can_charge(room)) {
        return make_error(ENOSPC, fmt::format("the list of files has no room for {}", name));
      }
      record.id = next_id_++;
      file = make_file(*shared_, record, true);
      FilePtr& slot = files_[record.name];
      replaced = std::exchange(slot, file);
      std::string operations;
      put_create(operations, record.id, kind, record.seed, name);
      shared_->journal.change(std::move(operations), replaced);
    }
    return open_writer(std::move(file));
  }

  Result<std::unique_ptr<FileWriter>> reopen(std::string_view name) override {
    LSMFS_TRY(shared_->journal.check());
    LSMFS_ASSIGN(auto file, find(name));
    return open_writer(std::move(file));
  }

  Result<std::unique_ptr<FileReader>> open_reader(std::string_view name) override {
    LSMFS_ASSIGN(auto file, find(name));
    return make_reader(shared_, std::move(file));
  }

  Result<void> rename(std::string_view from, std::string_view to) override {
    LSMFS_TRY(shared_->journal.check());
    LSMFS_TRY(check_name(to));
    const MutexLock lock(mutex_);
    auto it = files_.find(std::string(from));
    if (it == files_.end()) return no_such_file(from);
    if (from == to) return {};
    FilePtr file = it->second;
    if (!file->set_label(to)) {
      return make_error(ENOSPC, fmt::format("the list of files has no room for the name {}", to));
    }
    files_.erase(it);
    FilePtr replaced = std::exchange(files_[std::string(to)], file);
    std::string operations;
    put_rename(operations, file->id(), to);
    shared_->journal.change(std::move(operations), replaced);
    return {};
  }

  Result<void> remove(std::string_view name) override {
    LSMFS_TRY(shared_->journal.check());
    const MutexLock lock(mutex_);
    auto it = files_.find(std::string(name));
    if (it == files_.end()) return no_such_file(name);
    const FilePtr file = it->second;
    files_.erase(it);
    std::string operations;
    put_remove(operations, file->id());
    shared_->journal.change(std::move(operations), file);
    return {};
  }

  Result<ByteCount> size_of(std::string_view name) override {
    LSMFS_ASSIGN(auto file, find(name));
    LSMFS_ASSIGN(const std::uint64_t size, file->size());
    return ByteCount{size};
  }

  bool exists(std::string_view name) const override {
    const MutexLock lock(mutex_);
    return files_.contains(std::string(name));
  }

  std::vector<std::string> list() const override {
    std::vector<std::string> names;
    {
      const MutexLock lock(mutex_);
      for (const auto& [name, file] : files_) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<void> commit() override { return shared_->journal.commit(); }

  Result<void> note_synced() override {
    std::vector<FilePtr> files;
    {
      const MutexLock lock(mutex_);
      for (const auto& [name, file] : files_) files.push_back(file);
    }
    for (const FilePtr& file : files) file->note_synced();
    return shared_->journal.commit();
  }

  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override {
    return lsmfs::trim(*shared_, range, stop);
  }

  Result<ScrubStep> scrub(ScrubRange& range, const Stop& stop) override {
    std::vector<FilePtr> files;
    {
      const MutexLock lock(mutex_);
      if (range.end == 0) range = {0, next_id_};
      for (const auto& [name, file] : files_) files.push_back(file);
    }
    std::ranges::sort(files, {}, &File::id);
    return lsmfs::scrub(*shared_, files, range, stop);
  }

  bool writable() const override { return shared_->journal.writable(); }
  std::optional<Error> failure() const override { return shared_->journal.failure(); }

  Result<void> change(const VolumeChange& change) override {
    if (change.label) LSMFS_TRY(check_label(*change.label));
    if (change.mount_options) LSMFS_TRY(check_mount_options(*change.mount_options));
    return shared_->superblocks.change(shared_->journal, [&](SuperblockInfo& superblock) {
      VolumeInfo& info = superblock.info;
      info.label = change.label.value_or(info.label);
      info.uuid = change.uuid.value_or(info.uuid);
      info.mount_options = change.mount_options.value_or(info.mount_options);
      if (change.lease) info.features.read_only = (info.features.read_only & ~kLeaseFeature) | (*change.lease ? kLeaseFeature : 0);
    });
  }

  Result<void> grow(std::optional<ByteCount> wanted) override {
    LSMFS_TRY(shared_->journal.check());
    const MutexLock growing(growing_);
    const SuperblockInfo now = shared_->superblocks.now();
    LSMFS_TRY(device_.look_again());
    const ByteCount size = wanted.value_or(device_.size());
    if (size < now.info.device_size) return make_error(EINVAL, "a volume in use cannot shrink");
    if (size > device_.size()) return make_error(ENOSPC, fmt::format("{} has {} bytes", device_.path(), device_.size().v));
    LSMFS_ASSIGN(const Layout layout, layout_for(now.layout, size.v));
    // Nothing may lie behind the old end before both copies of the superblock know of the new one.
    LSMFS_TRY(shared_->superblocks.change(shared_->journal, [&](SuperblockInfo& superblock) {
      superblock.info.device_size = size;
      superblock.layout = layout;
    }));
    const std::uint64_t more = layout.table.length - now.layout.table.length;
    shared_->journal.grow(more);
    shared_->space->grow(more);
    return {};
  }

  Result<ByteCount> table_total_with(ByteCount size) const override {
    LSMFS_ASSIGN(const Layout layout, layout_for(shared_->superblocks.now().layout, size.v));
    return ByteCount{layout.table.length};
  }

  VolumeInfo info() const override { return shared_->superblocks.now().info; }

  VolumeUsage usage() const override {
    VolumeUsage usage;
    shared_->space->fill(usage);
    const MutexLock lock(mutex_);
    usage.files = files_.size();
    return usage;
  }

 private:
  using FilePtr = std::shared_ptr<File>;

  Result<FilePtr> find(std::string_view name) const {
    const MutexLock lock(mutex_);
    auto it = files_.find(std::string(name));
    if (it == files_.end()) return no_such_file(name);
    return it->second;
  }

  Result<std::unique_ptr<FileWriter>> open_writer(FilePtr file) {
    if (!file->take_writer()) {
      return make_error(EBUSY, fmt::format("{} is being written already", file->label()));
    }
    if (auto r = file->begin_append(); !r) {
      file->give_writer();
      return std::move(r.error());
    }
    return make_writer(shared_, std::move(file));
  }

  std::shared_ptr<Shared> shared_;
  Device& device_;
  Mutex growing_;  // taken before all others
  mutable Mutex mutex_;  // taken before the journal's; never held during I/O
  std::unordered_map<std::string, FilePtr> files_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t next_id_ LSMFS_GUARDED_BY(mutex_);
};

Result<void> write_zeros(Device& device, std::uint64_t at, std::uint64_t length) {
  AlignedBuffer zeros(std::min(length, MiB));
  for (std::uint64_t done = 0; done < length; done += zeros.size()) {
    LSMFS_TRY(device.write(ByteOffset{at + done},
                           Bytes(zeros.bytes()).first(std::min<std::uint64_t>(zeros.size(), length - done))));
  }
  return {};
}

}  // namespace

Result<void> Volume::format(Device& device, const FormatOptions& options) {
  LSMFS_TRY(check_label(options.label));
  if (!device.writable()) return make_error(EROFS, fmt::format("{} is open read-only", device.path()));
  SuperblockInfo superblock;
  const std::uint64_t size = device.size().v;
  LSMFS_ASSIGN(superblock.layout, plan_layout(size));
  superblock.info.version = kFormatVersion;
  superblock.info.uuid = options.uuid;
  superblock.seed = seed_for(options.uuid);
  superblock.info.label = options.label;
  superblock.info.made_by = options.made_by;
  if (options.lease) superblock.info.features.read_only = kLeaseFeature;
  superblock.info.created_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(options.clock->wall().time_since_epoch()).count();
  superblock.info.device_size = ByteCount{size};

  // First nothing at all is on the device, then the volume without superblocks, then the whole:
  // a device with half a volume is never taken for one.
  LSMFS_TRY(write_zeros(device, 0, MiB));
  LSMFS_TRY(write_zeros(device, superblock.layout.second_superblock, size - superblock.layout.second_superblock));
  LSMFS_TRY(device.flush());
  if (auto r = device.discard(ByteOffset{0}, ByteCount{size}); !r) {
    // Only advice; what the volume needs is written below in any case.
  }
  LSMFS_TRY(write_zeros(device, 0, MiB));
  LSMFS_TRY(write_zeros(device, superblock.layout.second_superblock, size - superblock.layout.second_superblock));
  for (const Extent& area : superblock.layout.metadata) LSMFS_TRY(write_zeros(device, area.start, format::kBlock));
  LSMFS_TRY(MetadataLog::format(device, superblock, Catalog(superblock.layout).snapshot()));
  LSMFS_TRY(device.flush());
  LSMFS_TRY(write_superblocks(device, superblock));
  return device.flush();
}

Result<std::unique_ptr<Volume>> Volume::open(Device& device, const VolumeOptions& options) {
  LSMFS_ASSIGN(const auto superblock, read_superblock(device, options));
  Catalog catalog(superblock.layout);
  const auto apply = [&](std::string_view payload) { return catalog.apply(payload); };
  LSMFS_ASSIGN(auto log, MetadataLog::load(device, superblock, apply, options));
  // What was read may still be in the device's volatile cache, left there by a process that died.
  // Nothing may be built upon it before it is durable.
  if (device.writable()) LSMFS_TRY(device.flush());
  if (options.salvage && device.writable() && !log.whole()) {
    LSMFS_TRY(log.append({}, [&] { return catalog.snapshot(); }));
    LSMFS_TRY(device.flush());
  }
  return std::unique_ptr<Volume>(std::make_unique<VolumeImpl>(device, superblock, options, std::move(catalog), std::move(log)));
}

}  // namespace lsmfs

// kv/store: Store on RocksDB.
//
// Locks, outermost first: writing_mutex_, commit_mutex_, sync_mutex_; then RocksDB's own; then those of SpaceGauge, Keeper,
// FailStop. No lock is held while a caller's function runs but FailStop's notice.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <condition_variable>
#include <memory>

#include "kv/blob.h"
#include "kv/blob_space.h"
#include "kv/cache_ticks.h"
#include "kv/database.h"
#include "kv/fail_stop.h"
#include "kv/give_way.h"
#include "kv/keeper.h"
#include "kv/lost.h"
#include "kv/overlay.h"
#include "kv/quarantine.h"
#include "kv/set_aside.h"
#include "kv/sizing.h"
#include "kv/space.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class RocksStore final : public Store {
 public:
  // Two steps because RocksDB calls back into the parts while it opens; only Store::open does both, with the sizes that
  // Sizing::plan() gives.
  RocksStore(Volume& volume, const StoreOptions& options, const kv::Sizing& sizing);
  Result<void> open();
  ~RocksStore() override;

  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override;
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override;
  Result<void> commit(Batch& batch) override;
  void keep_in_memory(const Batch& batch) override;
  Result<void> sync() override;
  Result<void> note_synced() override;
  Result<void> flush() override;
  Result<void> drop_caches() override;
  void share_cache(ByteCount taken) override;
  ByteCount cache_share() const override { return ByteCount{sizing_.cache / 4}; }
  Result<std::vector<std::string>> verify(Family family, const std::function<void(ByteCount)>& progress) override;
  Result<StoreScrubStep> scrub(ScrubPosition& position, const Stop& stop) override;
  Result<void> compact(Family family, std::string_view from, std::string_view to) override;
  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override;
  Result<std::unique_ptr<BlobWriter>> create_blob(std::uint64_t number, ByteCount data) override;
  Result<std::unique_ptr<BlobReader>> open_blob(std::uint64_t number, const BlobEnd& end) override { return kv::open_blob(volume_, number, end); }
  Result<void> remove_blobs(const std::vector<std::uint64_t>& numbers) override;
  std::vector<std::uint64_t> blobs() const override;
  std::unique_ptr<BulkWriter> bulk_writer() override;
  Result<void> close() override;
  Result<void> set_read_only(bool read_only) override;
  void note_rows(std::uint64_t rows) override { space_.note_rows(rows); }
  Room room_to_replace() const override { return space_.room_to_replace(); }
  Room room_for_names() const override { return options_.read_only ? Room{} : space_.room_for_names(); }
  Room room() const override { return options_.read_only ? Room{} : space_.room(); }
  Store::Space space() const override { return space_.space(); }
  Result<void> grow(std::optional<ByteCount> size) override;
  ByteCount least_tables() const override { return ByteCount{space_.least_total(volume_.usage(), options_.cache)}; }
  bool suits(ByteCount tables) const override;
  StoreStats stats() const override;
  StoreActivity activity() const override;
  std::vector<LostRange> lost() const override { return lost_.all(); }
  bool is_lost(Family family, std::string_view from, std::string_view to) const override {
    return lost_.meets(lost_.view(), family, from, to);
  }
  bool has_lost() const override { return lost_.any(); }
  std::uint64_t losses() const override { return lost_.losses(); }
  // RocksDB does nothing in the background, nor will it before something is written or erased ranges have rested. For tests.
  bool idle() const;

 private:
  void reclaimed();  // tables have gone: their space can be had
  class Listener;

  Result<void> take_in(const std::string& path, std::uint64_t rows);  // a table of rows that came in bulk
  Result<void> commit_few(const std::vector<std::pair<std::string, std::string>>& rows);  // that did
  Result<void> load_damage();  // what earlier openings wrote down about it
  Result<void> settle();       // what close() and set_read_only() do first
  // The error to report for a failed call: what stopped the store, or the call's own.
  Error failure(const rocksdb::Status& status, std::string_view what);
  rocksdb::DB& db() const { return database_->db(); }
  rocksdb::ColumnFamilyHandle* handle(Family family) const { return database_->handle(family); }

  Volume& volume_;
  const StoreOptions options_;
  std::atomic<bool> read_only_;
  // Shared by those who write to the volume beside RocksDB and look at read_only_ under it.
  SharedMutex writing_mutex_;
  const kv::Sizing sizing_;
  kv::FailStop fail_stop_;
  kv::GiveWay give_way_;
  const std::shared_ptr<kv::Merges> merges_;
  kv::Keeper keeper_;
  kv::BlobSpace blob_space_;
  kv::SpaceGauge space_;
  kv::Overlay overlay_;
  kv::SetAside set_aside_;
  kv::LostRanges lost_;
  Mutex commit_mutex_;  // a commit is being written: what is lost changes with it
  kv::Quarantine quarantine_;
  std::optional<kv::Database> database_;

  // Since it was opened, see StoreActivity.
  struct Done {
    std::atomic<std::uint64_t> committed_bytes = 0, syncs = 0, flushes = 0, compactions = 0, compaction_ns = 0, stream_bytes = 0;
  };
  Done done_;
  const std::shared_ptr<kv::CacheTicks> ticks_ = std::make_shared<kv::CacheTicks>();

  std::atomic<std::uint64_t> bulk_tables_ = 0;  // numbers of their files
  std::atomic<int> bulk_writers_ = 0;

  std::atomic<std::uint64_t> committed_ = 0;  // commits that returned, or are about to
  Mutex sync_mutex_;
  std::condition_variable sync_done_;
  bool syncing_ LSMFS_GUARDED_BY(sync_mutex_) = false;
  std::uint64_t synced_ LSMFS_GUARDED_BY(sync_mutex_) = 0;  // the value of committed_ that is durable
};

}  // namespace lsmfs

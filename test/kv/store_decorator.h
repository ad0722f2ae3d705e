// A store that passes everything on to another one: the base of those that get something wrong.
#pragma once

#include <memory>
#include <utility>

#include "lsmfs/kv.h"

namespace lsmfs::test {

class StoreDecorator : public Store {
 public:
  explicit StoreDecorator(std::unique_ptr<Store> inner) : inner_(std::move(inner)) {}

  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override { return inner_->get(family, key, wait); }
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override { return inner_->cursor(family, options); }
  Result<void> commit(Batch& batch) override { return inner_->commit(batch); }
  void keep_in_memory(const Batch& batch) override { inner_->keep_in_memory(batch); }
  Result<void> sync() override { return inner_->sync(); }
  Result<void> note_synced() override { return inner_->note_synced(); }
  Result<void> flush() override { return inner_->flush(); }
  Result<void> drop_caches() override { return inner_->drop_caches(); }
  void share_cache(ByteCount taken) override { inner_->share_cache(taken); }
  ByteCount cache_share() const override { return inner_->cache_share(); }
  Result<std::vector<std::string>> verify(Family family, const std::function<void(ByteCount)>& progress) override {
    return inner_->verify(family, progress);
  }
  Result<void> compact(Family family, std::string_view from, std::string_view to) override { return inner_->compact(family, from, to); }
  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override { return inner_->trim(range, stop); }
  Result<StoreScrubStep> scrub(ScrubPosition& position, const Stop& stop) override { return inner_->scrub(position, stop); }
  Result<void> set_read_only(bool read_only) override { return inner_->set_read_only(read_only); }
  Result<std::unique_ptr<BlobWriter>> create_blob(std::uint64_t number, ByteCount data) override { return inner_->create_blob(number, data); }
  Result<std::unique_ptr<BlobReader>> open_blob(std::uint64_t number, const BlobEnd& end) override { return inner_->open_blob(number, end); }
  Result<void> remove_blobs(const std::vector<std::uint64_t>& numbers) override { return inner_->remove_blobs(numbers); }
  std::vector<std::uint64_t> blobs() const override { return inner_->blobs(); }
  std::unique_ptr<BulkWriter> bulk_writer() override { return inner_->bulk_writer(); }
  Result<void> close() override { return inner_->close(); }
  void note_rows(std::uint64_t rows) override { inner_->note_rows(rows); }
  Room room_for_names() const override { return inner_->room_for_names(); }
  Room room_to_replace() const override { return inner_->room_to_replace(); }
  Room room() const override { return inner_->room(); }
  Space space() const override { return inner_->space(); }
  Result<void> grow(std::optional<ByteCount> size) override { return inner_->grow(size); }
  ByteCount least_tables() const override { return inner_->least_tables(); }
  bool suits(ByteCount tables) const override { return inner_->suits(tables); }
  StoreStats stats() const override { return inner_->stats(); }
  StoreActivity activity() const override { return inner_->activity(); }
  std::vector<LostRange> lost() const override { return inner_->lost(); }
  bool is_lost(Family family, std::string_view from, std::string_view to) const override { return inner_->is_lost(family, from, to); }
  bool has_lost() const override { return inner_->has_lost(); }
  std::uint64_t losses() const override { return inner_->losses(); }

 protected:
  Store& inner() { return *inner_; }

 private:
  std::unique_ptr<Store> inner_;
};

// A fault that several engines must find.
class ForgetsSyncs : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> sync() override { return {}; }
};

}  // namespace lsmfs::test

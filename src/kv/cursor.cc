#include "kv/cursor.h"

#include <utility>

#include "kv/guarded.h"
#include "kv/memory_only.h"
#include "kv/options.h"
#include "kv/status.h"

namespace lsmfs::kv {

namespace {

using rocksdb::Slice;

class RocksCursor final : public Cursor {
 public:
  RocksCursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const CursorOptions& options,
              const FailStop& fail_stop)
      : lower_(options.lower), upper_(options.upper), memory_only_(options.wait == Wait::no), fail_stop_(fail_stop) {
    read_failures_ = fail_stop_.read_failures();
    rocksdb::ReadOptions o = cursor_options(options);
    // RocksDB keeps pointers to the bounds: they point into this object.
    if (!lower_.empty()) {
      lower_slice_ = lower_;
      o.iterate_lower_bound = &lower_slice_;
    }
    if (!upper_.empty()) {
      upper_slice_ = upper_;
      o.iterate_upper_bound = &upper_slice_;
    }
    move([&] { iterator_.reset(db.NewIterator(o, family)); });
  }

  void seek(std::string_view key) override {
    if (!upper_.empty() && key >= std::string_view(upper_)) {
      past_end_ = true;  // outside of the bounds RocksDB's answer is undefined
      return;
    }
    past_end_ = false;
    if (key < std::string_view(lower_)) key = lower_;
    if (missed_ || !thrown_.ok()) return;
    move([&] { iterator_->Seek(Slice(key.data(), key.size())); });
  }

  void next() override {
    move([&] { iterator_->Next(); });
  }

  bool valid() const override { return !missed_ && thrown_.ok() && !past_end_ && iterator_->Valid() && sound(); }

  std::string_view key() const override { return view(iterator_->key()); }
  std::string_view value() const override { return view(iterator_->value()); }

  Result<void> status() const override {
    if (!sound()) {
      return make_error(EIO, "cursor: a read of the device failed; the rows after it cannot be trusted");
    }
    if (missed_) return make_error(EAGAIN, "cursor");
    if (!thrown_.ok()) return to_error(thrown_, "cursor");
    if (past_end_) return {};
    return to_result(iterator_->status(), "cursor");
  }

 private:
  static std::string_view view(const Slice& slice) { return {slice.data(), slice.size()}; }
  template <class Step>
  void move(const Step& step) {
    const MemoryOnly scope(memory_only_);
    rocksdb::Status status = guarded([&] {
      step();
      return rocksdb::Status::OK();
    });
    if (!status.ok()) thrown_ = std::move(status);
    missed_ = scope.refused();
  }
  bool sound() const { return read_failures_ == fail_stop_.read_failures(); }

  const std::string lower_, upper_;
  Slice lower_slice_, upper_slice_;
  const bool memory_only_;
  bool missed_ = false;  // a row may be missing: from then on the iterator is not to be trusted
  rocksdb::Status thrown_;  // the iterator is not touched any more then
  const FailStop& fail_stop_;
  std::uint64_t read_failures_ = 0;
  bool past_end_ = true;  // until the first seek
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

}  // namespace

std::unique_ptr<Cursor> make_cursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                    const CursorOptions& options, const FailStop& fail_stop) {
  return std::make_unique<RocksCursor>(db, family, options, fail_stop);
}

}  // namespace lsmfs::kv

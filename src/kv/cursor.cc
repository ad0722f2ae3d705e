#include "kv/cursor.h"

#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include <utility>

#include "kv/damaged_blocks.h"
#include "kv/guarded.h"
#include "kv/library_bytes.h"
#include "kv/memory_only.h"
#include "kv/options.h"
#include "kv/status.h"

namespace lsmfs::kv {

namespace {

using rocksdb::Slice;

class RocksCursor final : public Cursor {
 public:
  RocksCursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, Family of, const CursorOptions& options, const FailStop& fail_stop,
              const LostRanges& lost, Passed passed, Met met)
      : passed_(std::move(passed)), met_(std::move(met)), of_(of), lower_(options.lower), upper_(options.upper),
        memory_only_(options.wait == Wait::no), fail_stop_(fail_stop), lost_(lost), view_(lost.view()) {
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
    from_ = key;
    whole_to_ = key;
    stopped_ = false;
    move([&] { iterator_->Seek(Slice(key.data(), key.size())); });
    if (lost_.any()) stop_at_lost();
  }

  void next() override {
    if (lost_.any()) whole_to_ = next_key(of_, key());
    move([&] { iterator_->Next(); });
    if (lost_.any()) stop_at_lost();
  }

  bool valid() const override { return !stopped_ && can_be_read(); }

  std::string_view key() const override { return key_.of(iterator_->key()); }
  std::string_view value() const override { return value_.of(iterator_->value()); }

  Result<void> status() const override {
    if (!sound()) {
      return make_error(EIO, "cursor: a read of the device failed; the rows after it cannot be trusted");
    }
    if (missed_) return make_error(EAGAIN, "cursor");
    if (!thrown_.ok()) return to_error(thrown_, "cursor");
    if (past_end_) return {};
    // Perhaps only behind what is asked for, which a cursor with Wait::yes has a bound for.
    if (stopped_) return memory_only_ ? make_error(EAGAIN, "cursor") : lost_error();
    LSMFS_TRY(to_result(iterator_->status(), "cursor"));
    if (damaged_) return make_error(EUCLEAN, "cursor: a block is damaged; the rows after it cannot be trusted");
    return {};
  }

 private:
  template <class Step>
  void move(const Step& step) {
    const MemoryOnly scope(memory_only_);
    const std::uint64_t before = skipped_by_this_thread(), damaged_before = damaged_blocks_of_this_thread();
    rocksdb::Status status = guarded([&] {
      step();
      return rocksdb::Status::OK();
    });
    if (!status.ok()) thrown_ = std::move(status);
    missed_ = scope.refused();
    damaged_ = damaged_ || damaged_blocks_of_this_thread() != damaged_before;
    if (iterator_ && !iterator_->Valid() && !iterator_->status().ok() && !missed_) met_(iterator_->status());
    if (const std::uint64_t skipped = skipped_by_this_thread() - before; skipped >= kPassedAtOnce) tell_passed(skipped);
  }
  static std::uint64_t skipped_by_this_thread() {
    static thread_local rocksdb::PerfContext* context = nullptr;
    if (context == nullptr) {
      rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
      context = rocksdb::get_perf_context();
    }
    return context->internal_delete_skipped_count + context->internal_key_skipped_count;
  }
  bool can_be_read() const { return !missed_ && !damaged_ && thrown_.ok() && !past_end_ && iterator_->Valid() && sound(); }
  // Whether something is lost between the last place that was looked at and where it is now. Passes over the rows that say so.
  void stop_at_lost() {
    while (of_ == Family::names && can_be_read() && key().starts_with(kLostPrefix)) move([&] { iterator_->Next(); });
    if (!can_be_read() && !status()) return;  // which says why
    static const std::string end(64, '\xff');
    const std::string to = can_be_read() ? next_key(of_, key()) : upper_.empty() ? end : upper_;
    stopped_ = lost_.meets(view_, of_, whole_to_, to);
  }
  // Where in what it has walked over since then, it does not know: to remember the last key would cost each step.
  void tell_passed(std::uint64_t skipped) {
    if (!sound()) return;
    static const std::string end(32, '\xff');
    std::string to(valid() ? key() : upper_.empty() ? std::string_view(end) : std::string_view(upper_));
    passed_(from_, to, skipped);
    from_ = std::move(to);
  }
  bool sound() const { return read_failures_ == fail_stop_.read_failures(); }

  const Passed passed_;
  const Met met_;
  const Family of_;
  std::string from_;  // where it began, or told last
  std::string whole_to_;  // so far nothing is lost, when something is at all
  bool stopped_ = false;  // since something is lost before where it is now
  const std::string lower_, upper_;
  Slice lower_slice_, upper_slice_;
  const bool memory_only_;
  bool missed_ = false;  // a row may be missing: from then on the iterator is not to be trusted
  bool damaged_ = false;    // likewise
  rocksdb::Status thrown_;  // the iterator is not touched any more then
  const FailStop& fail_stop_;
  const LostRanges& lost_;
  const LostRanges::View view_;  // from before the iterator
  std::uint64_t read_failures_ = 0;
  bool past_end_ = true;  // until the first seek
  std::unique_ptr<rocksdb::Iterator> iterator_;
  mutable LibraryBytes key_, value_;
};

}  // namespace

std::unique_ptr<Cursor> make_cursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, Family of, const CursorOptions& options,
                                    const FailStop& fail_stop, const LostRanges& lost, Passed passed, Met met) {
  return std::make_unique<RocksCursor>(db, family, of, options, fail_stop, lost, std::move(passed), std::move(met));
}

}  // namespace lsmfs::kv

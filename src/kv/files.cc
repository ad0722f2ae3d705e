#include "kv/files.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "kv/footer.h"
#include "kv/memory_only.h"
#include "kv/status.h"

namespace lsmfs::kv {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus stop_writing(FailStop& fail_stop, const Error& error) {
  fail_stop.set(error);
  // A plain I/O error is fatal to RocksDB in every place; no space, fenced or busy are not.
  return IOStatus::IOError(error.message());
}

namespace {

constexpr auto kSpacePause = std::chrono::milliseconds(50);
// How long a table waits for space. A compaction gives up early, and what it has written can be had by a flush, which must not fail.
constexpr auto kFlushPatience = std::chrono::seconds(60), kCompactionPatience = std::chrono::seconds(5);
constexpr auto kAwaitedPatience = std::chrono::seconds(1);

class WritableFile final : public rocksdb::FSWritableFile {
 public:
  WritableFile(std::shared_ptr<FileWriter> writer, Volume& volume, FailStop& fail_stop, GiveWay& give_way, Clock& clock,
               const WritableFileOptions& options)
      : writer_(std::move(writer)), volume_(volume), fail_stop_(fail_stop), give_way_(give_way), clock_(clock), options_(options) {}

  ~WritableFile() override = default;

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    return guarded([&] { return append({reinterpret_cast<const std::byte*>(data.data()), data.size()}); });
  }

  IOStatus Truncate(std::uint64_t size, const IOOptions&, IODebugContext*) override {
    return guarded([&]() -> Result<void> {
      if (size == writer_->size().v) return {};
      return writer_->truncate(ByteCount{size});
    });
  }

  IOStatus Close(const IOOptions&, IODebugContext*) override {
    if (std::exchange(closed_, true)) return IOStatus::OK();
    return guarded([&] { return writer_->close(); });
  }

  // Nothing to do: what was appended can be read and synced without it.
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return guarded([] { return Result<void>(); }); }

  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return guarded([&] { return writer_->sync(); });
  }

  // Without this RocksDB refuses SyncWAL(). The volume's writers lock inside.
  bool IsSyncThreadSafe() const override { return true; }
  bool use_direct_io() const override { return false; }
  std::size_t GetRequiredBufferAlignment() const override { return kDeviceBlock; }
  IOStatus InvalidateCache(std::size_t, std::size_t) override { return IOStatus::OK(); }

  std::uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return writer_->size().v; }

  // RocksDB announces here how large the file will get, before it appends to it.
  void SetPreallocationBlockSize(std::size_t size) override {
    FSWritableFile::SetPreallocationBlockSize(size);
    announced_ = ByteCount{size};
  }
  void PrepareWrite(std::size_t, std::size_t, const IOOptions&, IODebugContext*) override {}

 private:
  IoCause cause() const {
    if (options_.is_wal) return IoCause::log;
    if (!options_.is_table) return IoCause::metadata;
    return compacted() && !options_.is_bulk ? IoCause::compaction : IoCause::flush;
  }

  template <class Operation>
  IOStatus guarded(Operation operation) {
    const IoFor what_it_is(cause());
    if (auto error = fail_stop_.error()) {
      return options_.is_wal ? IOStatus::OK() : IOStatus::IOError(error->message());
    }
    if (starved_) return no_space_now();
    if (Result<void> done = operation(); !done) {
      if (starved_) return no_space_now();
      const IOStatus status = stop_writing(fail_stop_, done.error());
      return options_.is_wal ? IOStatus::OK() : status;
    }
    return IOStatus::OK();
  }

  Result<void> append(Bytes data) {
    give_way_.let_readers_pass();
    if (!std::exchange(started_, true)) LSMFS_TRY(reserve());
    Result<void> done = writer_->append(data);
    if (done || done.error().code != ENOSPC || !options_.is_table) return done;
    // The reserve is used up by tables that are obsolete but not gone yet. Their space returns when
    // the last cursor lets go of them and their removal is durable.
    const auto patience = !compacted() ? kFlushPatience : give_way_.awaited() ? kAwaitedPatience : kCompactionPatience;
    const Clock::Time last = clock_.now() + patience;
    while (true) {
      LSMFS_TRY(volume_.commit());
      done = writer_->append(data);
      if (done || done.error().code != ENOSPC || clock_.now() >= last) break;
      clock_.sleep(kSpacePause);
    }
    starved_ = !done && done.error().code == ENOSPC && compacted() && !volume_.failure();
    return done;
  }

  // Only compactions announce the size of a table. What comes in bulk is as theirs.
  bool compacted() const { return options_.is_table && (announced_.v > 0 || options_.is_bulk); }

  // Of a compaction RocksDB takes this for something that passes: it removes what has been written, and tries again. "No space"
  // it would make an error of everything.
  static IOStatus no_space_now() {
    IOStatus status = IOStatus::IOError(rocksdb::Status::SubCode::kSpaceLimit);
    status.SetRetryable(true);
    return status;
  }

  // What compactions write lives long.
  Result<void> reserve() {
    if (options_.is_table) writer_->set_lifetime(compacted() ? Lifetime::lasting : Lifetime::brief);
    const ByteCount size = announced_.v > 0 || !options_.is_table ? announced_ : options_.flush_size;
    if (size.v == 0 || writer_->size().v > 0) return {};
    Result<void> done = writer_->reserve(size);
    // Less may be needed than was announced: the appends will tell.
    if (!done && done.error().code == ENOSPC) return {};
    return done;
  }

  const std::shared_ptr<FileWriter> writer_;
  Volume& volume_;
  FailStop& fail_stop_;
  GiveWay& give_way_;
  Clock& clock_;
  const WritableFileOptions options_;
  ByteCount announced_{0};
  bool started_ = false;
  bool starved_ = false;  // a compaction's, for which there was no space
  bool closed_ = false;
};

Result<std::size_t> try_to_read(const FileReader& reader, ByteOffset from, MutableBytes to) {
  constexpr int kTries = 3;
  for (int attempt = 1;; ++attempt) {
    Result<std::size_t> got = reader.read(from, to);
    if (got || attempt == kTries) return got;
  }
}

// A read error that stays stops all writing: RocksDB 7.8 can lose rows in a compaction that met
// one, so no such compaction may ever be installed.
Result<std::size_t> or_stop(Result<std::size_t> got, FailStop& fail_stop) {
  if (!got) {
    fail_stop.count_read_failure();
    fail_stop.set(got.error());
  }
  return got;
}

// Reads from a table of which a part cannot be read: something else is in its place, whose checksum is wrong, so that it is
// taken for damaged. The error: nothing of the table can be read, or the device is away.
Result<std::size_t> read_around(const FileReader& reader, ByteOffset from, MutableBytes to) {
  constexpr std::byte kFiller{0xdb};
  const std::uint64_t size = reader.size().v, end = std::min(from.v + to.size(), size);
  bool any = false;
  std::optional<Error> failure;
  for (std::uint64_t at = from.v, next = 0; at < end; at = next) {
    next = std::min(round_down(at, kDeviceBlock) + kDeviceBlock, end);
    const MutableBytes piece = to.subspan(at - from.v, next - at);
    if (auto got = try_to_read(reader, ByteOffset{at}, piece); got) {
      any = true;
    } else {
      if (got.error().code != EIO) return got.error();
      failure = got.error();
      std::ranges::fill(piece, kFiller);
    }
  }
  // One small read may lie in what is lost as a whole.
  std::byte byte{};
  if (failure && !any && !reader.read(ByteOffset{0}, {&byte, 1}) && !reader.read(ByteOffset{size - 1}, {&byte, 1})) return *failure;
  return end - from.v;
}

class SequentialFile final : public rocksdb::FSSequentialFile {
 public:
  SequentialFile(std::unique_ptr<FileReader> reader, FailStop& fail_stop)
      : reader_(std::move(reader)), fail_stop_(fail_stop) {}

  IOStatus Read(std::size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) override {
    *result = Slice(scratch, 0);
    const auto got = or_stop(try_to_read(*reader_, ByteOffset{position_}, {reinterpret_cast<std::byte*>(scratch), n}), fail_stop_);
    if (!got) return to_io_status(got.error());
    position_ += *got;
    *result = Slice(scratch, *got);
    return IOStatus::OK();
  }

  IOStatus Skip(std::uint64_t n) override {
    const std::uint64_t size = reader_->size().v;
    position_ += std::min(n, size - std::min(size, position_));
    return IOStatus::OK();
  }

  IOStatus InvalidateCache(std::size_t, std::size_t) override { return IOStatus::OK(); }

 private:
  const std::unique_ptr<FileReader> reader_;
  FailStop& fail_stop_;
  std::uint64_t position_ = 0;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFile {
 public:
  RandomAccessFile(std::unique_ptr<FileReader> reader, FailStop& fail_stop, GiveWay& give_way, const SetAside& set_aside, std::uint64_t table)
      : reader_(std::move(reader)), fail_stop_(fail_stop), give_way_(give_way), set_aside_(set_aside), table_(table) {}

  IOStatus Read(std::uint64_t offset, std::size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    *result = Slice(scratch, 0);
    if (MemoryOnly::refuse()) return IOStatus::Aborted("not in memory");
    const GiveWay::Read read(give_way_);
    const MutableBytes to{reinterpret_cast<std::byte*>(scratch), n};
    auto got = try_to_read(*reader_, ByteOffset{offset}, to);
    if (!got && table_ != 0 && got.error().code == EIO) {
      got = read_around(*reader_, ByteOffset{offset}, to);
      if (got) fail_stop_.count_unreadable();
    }
    got = or_stop(std::move(got), fail_stop_);
    if (!got) return to_io_status(got.error());
    set_aside_.cover(table_, offset, {reinterpret_cast<std::byte*>(scratch), *got});
    const std::uint64_t size = reader_->size().v;
    if (table_ != 0 && *got >= kFooterSize && offset + *got == size &&
        !sound_footer({scratch + *got - kFooterSize, kFooterSize}, size)) {
      return IOStatus::Corruption("a table's footer is damaged");
    }
    *result = Slice(scratch, *got);
    return IOStatus::OK();
  }

  // Prefetch stays NotSupported: it would only be true of a file that caches.
  bool use_direct_io() const override { return true; }
  std::size_t GetRequiredBufferAlignment() const override { return kDeviceBlock; }
  IOStatus InvalidateCache(std::size_t, std::size_t) override { return IOStatus::OK(); }

 private:
  const std::unique_ptr<FileReader> reader_;
  FailStop& fail_stop_;
  GiveWay& give_way_;
  const SetAside& set_aside_;
  const std::uint64_t table_;
};

}  // namespace

std::unique_ptr<rocksdb::FSWritableFile> make_writable_file(std::shared_ptr<FileWriter> writer, Volume& volume,
                                                            FailStop& fail_stop, GiveWay& give_way, Clock& clock,
                                                            const WritableFileOptions& options) {
  return std::make_unique<WritableFile>(std::move(writer), volume, fail_stop, give_way, clock, options);
}

std::unique_ptr<rocksdb::FSSequentialFile> make_sequential_file(std::unique_ptr<FileReader> reader,
                                                                FailStop& fail_stop) {
  return std::make_unique<SequentialFile>(std::move(reader), fail_stop);
}

std::unique_ptr<rocksdb::FSRandomAccessFile> make_random_access_file(std::unique_ptr<FileReader> reader, FailStop& fail_stop,
                                                                     GiveWay& give_way, const SetAside& set_aside, std::uint64_t table) {
  return std::make_unique<RandomAccessFile>(std::move(reader), fail_stop, give_way, set_aside, table);
}

}  // namespace lsmfs::kv

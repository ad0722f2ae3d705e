#include "kv/file_system.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "clock.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::file_system_test {
namespace {

using kv_test::assert_ok;
using kv_test::Disk;
using rocksdb::FileOptions;
using rocksdb::IOOptions;
using rocksdb::Slice;

// Counts what RocksDB asks of log files.
class CountingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit CountingFileSystem(const std::shared_ptr<rocksdb::FileSystem>& inner) : FileSystemWrapper(inner) {}
  const char* Name() const override { return "counting"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override {
    auto status = target()->NewWritableFile(path, options, result, debug);
    if (status.ok() && path.ends_with(".log")) *result = std::make_unique<File>(std::move(*result), *this);
    return status;
  }

  int appends = 0, syncs = 0;

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> inner, CountingFileSystem& counts)
        : FSWritableFileOwnerWrapper(std::move(inner)), counts_(counts) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const Slice& data, const IOOptions& options, rocksdb::IODebugContext* debug) override {
      ++counts_.appends;
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    rocksdb::IOStatus Sync(const IOOptions& options, rocksdb::IODebugContext* debug) override {
      ++counts_.syncs;
      return FSWritableFileOwnerWrapper::Sync(options, debug);
    }

   private:
    CountingFileSystem& counts_;
  };
};

class FileSystemContract : public testing::Test {
 protected:
  void SetUp() override {
    assert_ok(disk_.format());
    auto volume = Volume::open(disk_.device());
    ASSERT_TRUE(volume.has_value());
    volume_ = std::move(*volume);
    fs_ = kv::make_file_system(*volume_, fail_stop_, give_way_, set_aside_, clock_, ByteCount{2 * MiB});
  }

  std::unique_ptr<rocksdb::FSWritableFile> create(const std::string& name) {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(fs_->NewWritableFile(path(name), {}, &file, nullptr).ok());
    return file;
  }
  void write(const std::string& name, std::string_view text) {
    auto file = create(name);
    EXPECT_TRUE(file->Append(Slice(text.data(), text.size()), {}, nullptr).ok());
    EXPECT_TRUE(file->Sync({}, nullptr).ok());
    EXPECT_TRUE(file->Close({}, nullptr).ok());
  }
  std::string read(const std::string& name) {
    std::unique_ptr<rocksdb::FSSequentialFile> file;
    EXPECT_TRUE(fs_->NewSequentialFile(path(name), {}, &file, nullptr).ok());
    std::string text;
    char buffer[1000];
    while (true) {
      Slice got;
      EXPECT_TRUE(file->Read(sizeof buffer, {}, &got, buffer, nullptr).ok());
      if (got.empty()) return text;
      text.append(got.data(), got.size());
    }
  }
  static std::string path(const std::string& name) { return std::string(kv::kDirectory) + "/" + name; }

  Disk disk_;
  kv::FailStop fail_stop_{[](std::string_view) {}};
  test::SteppedClock clock_;
  kv::GiveWay give_way_{clock_};
  kv::SetAside set_aside_;
  std::unique_ptr<Volume> volume_;
  std::shared_ptr<rocksdb::FileSystem> fs_;
};

TEST_F(FileSystemContract, ASynchronousPutIsOneAppendAndOneSync) {
  auto counting = std::make_shared<CountingFileSystem>(fs_);
  auto env = rocksdb::NewCompositeEnv(counting);
  rocksdb::Options options;
  options.env = env.get();
  options.create_if_missing = true;
  options.info_log = nullptr;
  options.use_direct_reads = true;
  options.max_manifest_file_size = MiB;
  options.manifest_preallocation_size = 64 * KiB;
  options.write_buffer_size = MiB;
  class Silent final : public rocksdb::Logger {
    using Logger::Logv;
    void Logv(const char*, va_list) override {}
  };
  options.info_log = std::make_shared<Silent>();
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::DB* raw = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, kv::kDirectory, &raw).ok());
  db.reset(raw);
  counting->appends = counting->syncs = 0;
  const std::uint64_t flushes = disk_.flushes;
  rocksdb::WriteOptions write;
  write.sync = true;
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(db->Put(write, "key", "value").ok());
    EXPECT_EQ(counting->appends, i);
    EXPECT_EQ(counting->syncs, i);
  }
  EXPECT_GE(disk_.flushes, flushes + 10);
}

TEST_F(FileSystemContract, WritableFilesDenyDirectIoAndTablesToReadClaimIt) {
  for (const char* name : {"000001.log", "000002.sst", "MANIFEST-000003", "CURRENT"}) {
    auto file = create(name);
    EXPECT_FALSE(file->use_direct_io()) << "RocksDB would skip Sync";
    EXPECT_TRUE(file->IsSyncThreadSafe()) << "RocksDB would refuse SyncWAL";
  }
  write("000009.sst", "text");
  std::unique_ptr<rocksdb::FSRandomAccessFile> table;
  ASSERT_TRUE(fs_->NewRandomAccessFile(path("000009.sst"), {}, &table, nullptr).ok());
  EXPECT_TRUE(table->use_direct_io());
  EXPECT_EQ(table->GetRequiredBufferAlignment(), 4096u);
  EXPECT_TRUE(table->Prefetch(0, 4096, {}, nullptr).IsNotSupported());
}

TEST_F(FileSystemContract, ReadsEndAtTheExactSize) {
  const std::string text(10'000, 'x');
  write("000001.sst", text);
  std::uint64_t size = 0;
  ASSERT_TRUE(fs_->GetFileSize(path("000001.sst"), {}, &size, nullptr).ok());
  EXPECT_EQ(size, 10'000u);
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  ASSERT_TRUE(fs_->NewRandomAccessFile(path("000001.sst"), {}, &file, nullptr).ok());
  AlignedBuffer buffer(16 * KiB);
  Slice got;
  ASSERT_TRUE(file->Read(8192, 8192, {}, &got, reinterpret_cast<char*>(buffer.data()), nullptr).ok());
  EXPECT_EQ(got.ToString(), std::string(1808, 'x'));
  ASSERT_TRUE(file->Read(12288, 4096, {}, &got, reinterpret_cast<char*>(buffer.data()), nullptr).ok());
  EXPECT_TRUE(got.empty());
  EXPECT_EQ(read("000001.sst"), text);
}

TEST_F(FileSystemContract, MissingFilesAreNotFoundInEveryCall) {
  std::unique_ptr<rocksdb::FSSequentialFile> sequential;
  std::unique_ptr<rocksdb::FSRandomAccessFile> random;
  std::unique_ptr<rocksdb::FSDirectory> directory;
  std::vector<std::string> children;
  std::uint64_t number = 0;
  for (const std::string& name : {path("missing"), std::string("/elsewhere/file"), path("sub/file")}) {
    EXPECT_TRUE(fs_->NewSequentialFile(name, {}, &sequential, nullptr).IsNotFound());
    EXPECT_TRUE(fs_->NewRandomAccessFile(name, {}, &random, nullptr).IsNotFound());
    EXPECT_TRUE(fs_->FileExists(name, {}, nullptr).IsNotFound());
    EXPECT_TRUE(fs_->GetFileSize(name, {}, &number, nullptr).IsNotFound());
    EXPECT_TRUE(fs_->GetFileModificationTime(name, {}, &number, nullptr).IsNotFound());
    EXPECT_TRUE(fs_->DeleteFile(name, {}, nullptr).IsNotFound());
    EXPECT_TRUE(fs_->RenameFile(name, path("target"), {}, nullptr).IsNotFound());
  }
  EXPECT_TRUE(fs_->GetChildren("/elsewhere", {}, &children, nullptr).IsNotFound());
  EXPECT_TRUE(fs_->NewDirectory("/elsewhere", {}, &directory, nullptr).IsNotFound());
  EXPECT_FALSE(fail_stop_.failed()) << "a missing file is no failure";
}

TEST_F(FileSystemContract, TheDirectoryListsTheVolume) {
  write("CURRENT", "a");
  write("000001.sst", "b");
  std::vector<std::string> children;
  ASSERT_TRUE(fs_->GetChildren(kv::kDirectory, {}, &children, nullptr).ok());
  EXPECT_EQ(children, (std::vector<std::string>{"000001.sst", "CURRENT"}));
  EXPECT_TRUE(fs_->FileExists(kv::kDirectory, {}, nullptr).ok());
  EXPECT_TRUE(fs_->CreateDirIfMissing(kv::kDirectory, {}, nullptr).ok());
  EXPECT_FALSE(fs_->CreateDirIfMissing("/elsewhere", {}, nullptr).ok());
  bool is_directory = false;
  ASSERT_TRUE(fs_->IsDirectory(kv::kDirectory, {}, &is_directory, nullptr).ok());
  EXPECT_TRUE(is_directory);
}

TEST_F(FileSystemContract, RenameReplacesAndTheDirectorySyncMakesItDurable) {
  write("CURRENT", "old");
  write("000001.dbtmp", "new");
  ASSERT_TRUE(fs_->RenameFile(path("000001.dbtmp"), path("CURRENT"), {}, nullptr).ok());
  std::unique_ptr<rocksdb::FSDirectory> directory;
  ASSERT_TRUE(fs_->NewDirectory(kv::kDirectory, {}, &directory, nullptr).ok());
  ASSERT_TRUE(directory->Fsync({}, nullptr).ok());
  auto after = disk_.copy();
  auto volume = Volume::open(after->device());
  ASSERT_TRUE(volume.has_value());
  EXPECT_EQ((*volume)->list(), (std::vector<std::string>{"CURRENT"}));
}

TEST_F(FileSystemContract, AReopenedLogGoesOnWhereItEnded) {
  write("000001.log", "first");
  std::unique_ptr<rocksdb::FSWritableFile> file;
  ASSERT_TRUE(fs_->ReopenWritableFile(path("000001.log"), {}, &file, nullptr).ok());
  EXPECT_EQ(file->GetFileSize({}, nullptr), 5u);
  ASSERT_TRUE(file->Append("second", {}, nullptr).ok());
  ASSERT_TRUE(file->Truncate(8, {}, nullptr).ok());
  ASSERT_TRUE(file->Sync({}, nullptr).ok());
  ASSERT_TRUE(file->Close({}, nullptr).ok());
  EXPECT_EQ(read("000001.log"), "firstsec");
}

// Else a power cut could leave frames of the next one without the end of this one: RocksDB sees no gap between two logs.
TEST_F(FileSystemContract, AWriteAheadLogIsDurableBeforeTheNextOneBegins) {
  auto first = create("000001.log");
  ASSERT_TRUE(first->Append("the end of it", {}, nullptr).ok());
  auto second = create("000002.log");
  auto after = disk_.copy();
  auto volume = Volume::open(after->device());
  ASSERT_TRUE(volume.has_value());
  ASSERT_TRUE((*volume)->exists("000001.log"));
  auto reader = (*volume)->open_reader("000001.log");
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ((*reader)->size().v, 13u);
}

TEST_F(FileSystemContract, KindsFollowTheNames) {
  EXPECT_EQ(kv::file_kind("000001.log"), FileKind::log);
  EXPECT_EQ(kv::file_kind("MANIFEST-000001"), FileKind::log);
  EXPECT_EQ(kv::file_kind("000001.sst"), FileKind::table);
  for (const char* name : {"CURRENT", "IDENTITY", "OPTIONS-000001", "000001.dbtmp", "OPTIONS-000001.dbtmp"}) {
    EXPECT_EQ(kv::file_kind(name), FileKind::small) << name;
  }
}

TEST_F(FileSystemContract, AfterAnErrorNothingIsWrittenAndOnlyLogsPretendOtherwise) {
  auto log = create("000001.log");
  auto table = create("000002.sst");
  disk_.fail_writes_from = disk_.writes + disk_.flushes + 1;
  ASSERT_TRUE(table->Append(Slice("x"), {}, nullptr).ok());
  EXPECT_TRUE(table->Sync({}, nullptr).IsIOError());
  disk_.fail_writes_from = 0;
  ASSERT_TRUE(fail_stop_.failed());
  EXPECT_EQ(fail_stop_.error()->code, EIO);
  const std::uint64_t writes = disk_.writes;
  EXPECT_FALSE(table->Append(Slice("x"), {}, nullptr).ok());
  EXPECT_TRUE(log->Append(Slice("x"), {}, nullptr).ok()) << "RocksDB aborts when a log is used after an error";
  EXPECT_TRUE(log->Sync({}, nullptr).ok());
  EXPECT_FALSE(fs_->DeleteFile(path("000002.sst"), {}, nullptr).ok());
  std::unique_ptr<rocksdb::FSWritableFile> file;
  EXPECT_FALSE(fs_->NewWritableFile(path("000003.sst"), {}, &file, nullptr).ok());
  EXPECT_EQ(disk_.writes, writes);
}

TEST_F(FileSystemContract, RocksDbNeverHearsOfNoSpace) {
  auto table = create("000002.sst");
  disk_.fail_code = ENOSPC;
  disk_.fail_writes_from = disk_.writes + disk_.flushes + 1;
  ASSERT_TRUE(table->Append(Slice("x"), {}, nullptr).ok());
  const auto status = table->Sync({}, nullptr);
  EXPECT_TRUE(status.IsIOError());
  EXPECT_FALSE(status.IsNoSpace());
  EXPECT_EQ(fail_stop_.error()->code, ENOSPC);
}

TEST_F(FileSystemContract, AnnouncedSpaceIsTakenAtOnceAndTheRestGivenBack) {
  const std::uint64_t before = volume_->usage().table_free.v;
  auto file = create("000001.sst");
  file->SetPreallocationBlockSize(8 * MiB);
  ASSERT_TRUE(file->Append(std::string(100, 'x'), {}, nullptr).ok());
  EXPECT_LE(volume_->usage().table_free.v, before - 8 * MiB);
  ASSERT_TRUE(file->Sync({}, nullptr).ok());
  ASSERT_TRUE(file->Close({}, nullptr).ok());
  assert_ok(volume_->commit());
  EXPECT_EQ(volume_->usage().table_free.v, before - kTableGranule);
}

// ---- tables that find no space, on a clock that the tests move

class FullVolume : public FileSystemContract {
 protected:
  void SetUp() override {
    FileSystemContract::SetUp();
    auto writer = volume_->create("ballast", FileKind::table);
    ASSERT_TRUE(writer);
    assert_ok((*writer)->reserve(volume_->usage().table_free));
    assert_ok((*writer)->append(as_bytes(std::string(kDeviceBlock, 'b'))));
    assert_ok((*writer)->sync());
    ballast_ = std::move(*writer);
    ASSERT_EQ(volume_->usage().table_free.v, 0u);
    table_ = create("000001.sst");
  }
  void TearDown() override { table_->Close({}, nullptr).PermitUncheckedError(); }
  void give_space_back() {
    ballast_.reset();
    assert_ok(volume_->remove("ballast"));
  }
  // Of such a table RocksDB says how large it will get.
  void is_compacted() { table_->SetPreallocationBlockSize(2 * MiB); }

  std::unique_ptr<FileWriter> ballast_;
  std::unique_ptr<rocksdb::FSWritableFile> table_;
};

// An append to a table, in a thread of its own.
class TableAppend {
 public:
  TableAppend(test::SteppedClock& clock, rocksdb::FSWritableFile& table) : clock_(clock), thread_([this, &table] {
    status_ = table.Append(std::string(2 * MiB, 't'), {}, nullptr);
    ended_ = true;
  }) {}
  ~TableAppend() { clock_.advance(std::chrono::hours(1)); }  // whatever is wrong, it does not wait any more
  bool waits() const { return !ended_; }
  bool ends() const {
    return test::until([this] { return ended_.load(); });
  }
  const rocksdb::IOStatus& status() const { return status_; }  // when it has ended

 private:
  test::SteppedClock& clock_;
  rocksdb::IOStatus status_;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

using namespace std::chrono_literals;
constexpr auto kLook = 50ms;  // how often a table looks for space

TEST_F(FullVolume, AFlushedTableWaitsForSpace) {
  const TableAppend append(clock_, *table_);
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(59s));
  EXPECT_TRUE(append.waits());
  give_space_back();
  clock_.advance(kLook);
  ASSERT_TRUE(append.ends());
  EXPECT_TRUE(append.status().ok());
  EXPECT_FALSE(fail_stop_.failed());
}

TEST_F(FullVolume, AFlushThatFindsNoSpaceInAMinuteStopsWriting) {
  const TableAppend append(clock_, *table_);
  ASSERT_TRUE(clock_.await_waiting(1));
  clock_.advance(60s);
  ASSERT_TRUE(append.ends());
  EXPECT_TRUE(append.status().IsIOError());
  EXPECT_FALSE(append.status().GetRetryable());
  ASSERT_TRUE(fail_stop_.failed());
  EXPECT_EQ(fail_stop_.error()->code, ENOSPC);
}

TEST_F(FullVolume, ACompactionGivesUpEarlyAndStopsNothing) {
  is_compacted();
  {
    const TableAppend append(clock_, *table_);
    ASSERT_TRUE(clock_.await_waiting(1));
    ASSERT_TRUE(clock_.step(4s));
    EXPECT_TRUE(append.waits());
    clock_.advance(1s);
    ASSERT_TRUE(append.ends());
    EXPECT_EQ(append.status().subcode(), rocksdb::Status::kSpaceLimit);
    EXPECT_TRUE(append.status().GetRetryable());
  }
  give_space_back();
  assert_ok(volume_->commit());
  EXPECT_EQ(table_->Append("more", {}, nullptr).subcode(), rocksdb::Status::kSpaceLimit) << "a part of it is missing";
  EXPECT_FALSE(fail_stop_.failed());
  EXPECT_FALSE(volume_->failure());
}

TEST_F(FullVolume, ACompactionWhoseEndIsAwaitedGivesUpSoon) {
  is_compacted();
  const kv::GiveWay::Hurry hurry(give_way_);
  const TableAppend append(clock_, *table_);
  ASSERT_TRUE(clock_.await_waiting(1));
  clock_.advance(1s);
  ASSERT_TRUE(append.ends());
  EXPECT_EQ(append.status().subcode(), rocksdb::Status::kSpaceLimit);
}

}  // namespace
}  // namespace lsmfs::file_system_test

#include "kv/file_system.h"

#include <rocksdb/version.h>

#include <optional>
#include <utility>
#include <vector>

#include "kv/blob.h"
#include "kv/bulk.h"
#include "kv/files.h"
#include "kv/status.h"

namespace lsmfs::kv {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

namespace {

struct Path {
  bool is_directory = false;
  std::string name;  // of a file
};

// nullopt: outside of the directory. RocksDB joins paths with one or more slashes.
std::optional<Path> parse(std::string_view path) {
  const std::string_view directory = kDirectory;
  if (!path.starts_with(directory)) return std::nullopt;
  path.remove_prefix(directory.size());
  if (!path.empty() && path.front() != '/') return std::nullopt;
  while (path.starts_with('/')) path.remove_prefix(1);
  if (path.empty()) return Path{true, {}};
  if (path.find('/') != std::string_view::npos) return std::nullopt;
  return Path{false, std::string(path)};
}

IOStatus no_such_file(const std::string& path) { return IOStatus::NotFound(path, "no such file"); }

class VolumeDirectory final : public rocksdb::FSDirectory {
 public:
  VolumeDirectory(Volume& volume, FailStop& fail_stop) : volume_(volume), fail_stop_(fail_stop) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    if (auto error = fail_stop_.error()) return IOStatus::IOError(error->message());
    if (auto done = volume_.commit(); !done) return stop_writing(fail_stop_, done.error());
    return IOStatus::OK();
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  Volume& volume_;
  FailStop& fail_stop_;
};

class VolumeFileSystem final : public rocksdb::FileSystem {
 public:
  VolumeFileSystem(Volume& volume, FailStop& fail_stop, GiveWay& give_way, const SetAside& set_aside, Clock& clock, ByteCount flush_size)
      : volume_(volume), fail_stop_(fail_stop), give_way_(give_way), set_aside_(set_aside), clock_(clock), flush_size_(flush_size) {}

  const char* Name() const override { return "lsmfs-volume"; }

#if ROCKSDB_MAJOR > 8 || (ROCKSDB_MAJOR == 8 && ROCKSDB_MINOR >= 4)
  void SupportedOps(std::int64_t& supported_ops) override { supported_ops = 0; }
#endif

  // ---- opening files

  IOStatus NewSequentialFile(const std::string& path, const FileOptions&,
                             std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) override {
    std::unique_ptr<FileReader> reader;
    if (IOStatus s = open_reader(path, reader); !s.ok()) return s;
    *result = make_sequential_file(std::move(reader), fail_stop_);
    return IOStatus::OK();
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result, IODebugContext*) override {
    std::unique_ptr<FileReader> reader;
    if (IOStatus s = open_reader(path, reader); !s.ok()) return s;
    *result = make_random_access_file(std::move(reader), fail_stop_, give_way_, set_aside_, table_number(path).value_or(0));
    return IOStatus::OK();
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext*) override {
    const auto parsed = parse(path);
    if (!parsed || parsed->is_directory) return outside(path);
    if (auto error = fail_stop_.error()) return IOStatus::IOError(error->message());
    const bool wal = parsed->name.ends_with(".log");
    // What comes into the new write-ahead log is younger than all in the last one, whose end may still be in memory. A power cut
    // that takes that and leaves frames of the new one would leave a gap, which RocksDB does not see between two logs.
    if (const auto last = wal ? wal_.lock() : nullptr) {
      if (auto done = last->sync(); !done) return stop_writing(fail_stop_, done.error());
    }
    auto created = volume_.create(parsed->name, file_kind(parsed->name));
    if (!created) return stop_writing(fail_stop_, created.error());
    const std::shared_ptr<FileWriter> writer = std::move(*created);
    if (wal) wal_ = writer;
    *result = wrap(parsed->name, writer);
    return IOStatus::OK();
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) override {
    const auto parsed = parse(path);
    if (!parsed || parsed->is_directory) return outside(path);
    // RocksDB would sync a table that it takes in, which who wrote it has done.
    if (file_kind(parsed->name) == FileKind::table) return IOStatus::NotSupported(path, "a table is written once");
    if (auto error = fail_stop_.error()) return IOStatus::IOError(error->message());
    auto writer = volume_.reopen(parsed->name);
    if (!writer) {
      if (writer.error().code == ENOENT) return NewWritableFile(path, options, result, debug);
      return stop_writing(fail_stop_, writer.error());
    }
    *result = wrap(parsed->name, std::move(*writer));
    return IOStatus::OK();
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions&, std::unique_ptr<rocksdb::FSDirectory>* result,
                        IODebugContext*) override {
    const auto parsed = parse(path);
    if (!parsed || !parsed->is_directory) return no_such_file(path);
    *result = std::make_unique<VolumeDirectory>(volume_, fail_stop_);
    return IOStatus::OK();
  }

  // ---- names

  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    const auto parsed = parse(path);
    if (!parsed) return no_such_file(path);
    if (parsed->is_directory || volume_.exists(parsed->name)) return IOStatus::OK();
    return no_such_file(path);
  }

  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result,
                       IODebugContext*) override {
    const auto parsed = parse(path);
    if (!parsed || !parsed->is_directory) return no_such_file(path);
    *result = volume_.list();
    std::erase_if(*result, [](const std::string& name) { return blob_number(name).has_value() || name.starts_with(kBulkPrefix); });
    return IOStatus::OK();
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    const auto parsed = parse(path);
    if (!parsed || parsed->is_directory) return no_such_file(path);
    // Of a table that was taken in: LinkFile() has moved it.
    if (parsed->name.starts_with(kBulkPrefix) && !volume_.exists(parsed->name)) return IOStatus::OK();
    return change_names([&] { return volume_.remove(parsed->name); });
  }

  // RocksDB does so with a table that it takes in, and removes its first name then.
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options, IODebugContext* debug) override {
    const auto source = parse(from);
    if (!source || !source->name.starts_with(kBulkPrefix)) return IOStatus::NotSupported(from, "files have one name");
    return RenameFile(from, to, options, debug);
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) override {
    const auto source = parse(from);
    const auto target = parse(to);
    if (!source || source->is_directory) return no_such_file(from);
    if (!target || target->is_directory) return outside(to);
    return change_names([&] { return volume_.rename(source->name, target->name); });
  }

  IOStatus CreateDir(const std::string& path, const IOOptions& options, IODebugContext* debug) override {
    return CreateDirIfMissing(path, options, debug);
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) override {
    const auto parsed = parse(path);
    return parsed && parsed->is_directory ? IOStatus::OK() : outside(path);
  }
  IOStatus DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) override { return outside(path); }

  // ---- facts

  IOStatus GetFileSize(const std::string& path, const IOOptions&, std::uint64_t* size, IODebugContext*) override {
    const auto parsed = parse(path);
    if (!parsed || parsed->is_directory) return no_such_file(path);
    const auto found = volume_.size_of(parsed->name);
    if (!found) return to_io_status(found.error());
    *size = found->v;
    return IOStatus::OK();
  }

  // The volume keeps no times; RocksDB asks only for files in its archive, which is not used.
  IOStatus GetFileModificationTime(const std::string& path, const IOOptions& options, std::uint64_t* time,
                                   IODebugContext* debug) override {
    if (IOStatus s = FileExists(path, options, debug); !s.ok()) return s;
    const std::int64_t created = volume_.info().created_ns;
    *time = created > 0 ? static_cast<std::uint64_t>(created) / 1'000'000'000 : 0;
    return IOStatus::OK();
  }

  IOStatus NumFileLinks(const std::string& path, const IOOptions& options, std::uint64_t* count,
                        IODebugContext* debug) override {
    if (IOStatus s = FileExists(path, options, debug); !s.ok()) return s;
    *count = 1;
    return IOStatus::OK();
  }

  IOStatus AreFilesSame(const std::string& first, const std::string& second, const IOOptions& options, bool* same,
                        IODebugContext* debug) override {
    if (IOStatus s = FileExists(first, options, debug); !s.ok()) return s;
    if (IOStatus s = FileExists(second, options, debug); !s.ok()) return s;
    *same = parse(first)->name == parse(second)->name;
    return IOStatus::OK();
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* is_directory,
                       IODebugContext* debug) override {
    if (IOStatus s = FileExists(path, options, debug); !s.ok()) return s;
    *is_directory = parse(path)->is_directory;
    return IOStatus::OK();
  }

  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                           IODebugContext*) override {
    *absolute = path;
    return IOStatus::OK();
  }

  IOStatus GetFreeSpace(const std::string&, const IOOptions&, std::uint64_t* free, IODebugContext*) override {
    *free = volume_.usage().table_free.v;
    return IOStatus::OK();
  }

  IOStatus GetTestDirectory(const IOOptions&, std::string*, IODebugContext*) override {
    return IOStatus::NotSupported("GetTestDirectory");
  }

  // ---- what has no use here

  IOStatus LockFile(const std::string&, const IOOptions&, rocksdb::FileLock** lock, IODebugContext*) override {
    *lock = new rocksdb::FileLock;  // owned by RocksDB until UnlockFile
    return IOStatus::OK();
  }
  IOStatus UnlockFile(rocksdb::FileLock* lock, const IOOptions&, IODebugContext*) override {
    delete lock;
    return IOStatus::OK();
  }
  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>*,
                     IODebugContext*) override {
    return IOStatus::NotSupported("NewLogger");  // the default one would write a file
  }

 private:
  IOStatus outside(const std::string& path) const { return IOStatus::NotSupported(path, "not in the volume"); }

  IOStatus open_reader(const std::string& path, std::unique_ptr<FileReader>& reader) {
    const auto parsed = parse(path);
    if (!parsed || parsed->is_directory) return no_such_file(path);
    auto opened = volume_.open_reader(parsed->name);
    if (!opened) return to_io_status(opened.error());
    reader = std::move(*opened);
    return IOStatus::OK();
  }

  template <class Operation>
  IOStatus change_names(Operation operation) {
    if (auto error = fail_stop_.error()) return IOStatus::IOError(error->message());
    Result<void> done = operation();
    if (done) return IOStatus::OK();
    if (done.error().code == ENOENT) return to_io_status(done.error());
    return stop_writing(fail_stop_, done.error());
  }

  std::unique_ptr<rocksdb::FSWritableFile> wrap(const std::string& name, std::shared_ptr<FileWriter> writer) {
    WritableFileOptions options;
    options.is_wal = name.ends_with(".log");
    options.is_table = file_kind(name) == FileKind::table;
    options.is_bulk = name.starts_with(kBulkPrefix);
    options.flush_size = flush_size_;
    return make_writable_file(std::move(writer), volume_, fail_stop_, give_way_, clock_, options);
  }

  Volume& volume_;
  FailStop& fail_stop_;
  GiveWay& give_way_;
  const SetAside& set_aside_;
  Clock& clock_;
  const ByteCount flush_size_;
  std::weak_ptr<FileWriter> wal_;  // the last one, open until after the next is made; RocksDB makes one at a time
};

}  // namespace

std::string newest_file(const Volume& volume, std::string_view prefix) {
  std::string newest;
  for (const std::string& name : volume.list()) {
    // The numbers have six digits, or more: the longer one is the greater.
    if (name.starts_with(prefix) && std::pair(name.size(), name) > std::pair(newest.size(), newest)) newest = name;
  }
  return newest;
}

FileKind file_kind(std::string_view name) {
  if (name.ends_with(".sst") || blob_number(name) || name.starts_with(kBulkPrefix)) return FileKind::table;
  if (name.ends_with(".log") || name.starts_with("MANIFEST-")) return FileKind::log;
  return FileKind::small;
}

std::shared_ptr<rocksdb::FileSystem> make_file_system(Volume& volume, FailStop& fail_stop, GiveWay& give_way, const SetAside& set_aside,
                                                      Clock& clock, ByteCount flush_size) {
  return std::make_shared<VolumeFileSystem>(volume, fail_stop, give_way, set_aside, clock, flush_size);
}

}  // namespace lsmfs::kv

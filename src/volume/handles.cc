#include "volume/handles.h"

#include <fmt/format.h>

#include <algorithm>

#include "volume/log_file.h"
#include "volume/table_file.h"

namespace lsmfs {
namespace {

class Writer final : public FileWriter {
 public:
  Writer(std::shared_ptr<Shared> shared, std::shared_ptr<File> file)
      : shared_(std::move(shared)), file_(std::move(file)) {}

  ~Writer() override {
    if (auto r = close(); !r) {
      // Nobody is left to tell; the volume keeps its failure.
    }
  }

  Result<void> append(Bytes data) override {
    LSMFS_TRY(check());
    return file_->append(data);
  }
  Result<void> sync() override {
    LSMFS_TRY(check());
    return file_->sync();
  }
  Result<void> precede_logs() override {
    LSMFS_TRY(check());
    return file_->precede_logs();
  }
  Result<void> reserve(ByteCount expected) override {
    LSMFS_TRY(check());
    file_->announce(expected.v);
    return {};
  }
  Result<void> allocate(ByteCount bytes) override {
    LSMFS_TRY(check());
    return file_->allocate(bytes.v);
  }
  void set_lifetime(Lifetime lifetime) override { file_->set_lifetime(lifetime); }
  Result<void> truncate(ByteCount size) override {
    LSMFS_TRY(check());
    return file_->truncate(size.v);
  }
  Result<void> close() override {
    if (closed_.exchange(true)) return {};
    auto result = file_->close();
    file_->give_writer();
    return result;
  }
  ByteCount size() const override {
    auto size = file_->size();  // of a file that is open for writing: known, no I/O
    return ByteCount{size ? *size : 0};
  }

 private:
  Result<void> check() const {
    if (closed_) return make_error(EBADF, fmt::format("{} is closed", file_->label()));
    return {};
  }

  // The file must go before what it refers to.
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<File> file_;
  std::atomic<bool> closed_{false};
};

class FileReaderImpl final : public FileReader {
 public:
  FileReaderImpl(std::shared_ptr<Shared> shared, std::shared_ptr<File> file, std::unique_ptr<Contents> contents)
      : shared_(std::move(shared)), file_(std::move(file)), contents_(std::move(contents)) {}

  ~FileReaderImpl() override { file_->drop_reader(); }

  Result<std::size_t> read(ByteOffset from, MutableBytes to) const override {
    const std::uint64_t size = contents_->size();
    if (from.v >= size || to.empty()) return std::size_t{0};
    const std::uint64_t n = std::min<std::uint64_t>(to.size(), size - from.v);
    // An aligned request reads whole blocks into the caller's memory, also at the end of the file.
    const auto bits = from.v | to.size() | reinterpret_cast<std::uintptr_t>(to.data());
    LSMFS_TRY(contents_->read(from.v, to.first(bits % format::kBlock == 0 ? round_up(n, format::kBlock) : n)));
    return static_cast<std::size_t>(n);
  }
  ByteCount size() const override { return ByteCount{contents_->size()}; }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<File> file_;
  const std::unique_ptr<Contents> contents_;
};

}  // namespace

std::shared_ptr<File> make_file(Shared& shared, const FileRecord& record, bool fresh) {
  if (record.kind == FileKind::log) return std::make_shared<LogFile>(shared, record, fresh);
  return std::make_shared<TableFile>(shared, record);
}

std::unique_ptr<FileWriter> make_writer(std::shared_ptr<Shared> shared, std::shared_ptr<File> file) {
  return std::make_unique<Writer>(std::move(shared), std::move(file));
}

Result<std::unique_ptr<FileReader>> make_reader(std::shared_ptr<Shared> shared, std::shared_ptr<File> file) {
  file->add_reader();
  auto contents = file->contents();
  if (!contents) {
    file->drop_reader();
    return std::move(contents.error());
  }
  return std::unique_ptr<FileReader>(
      std::make_unique<FileReaderImpl>(std::move(shared), std::move(file), std::move(*contents)));
}

}  // namespace lsmfs

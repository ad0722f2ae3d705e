// A volume that passes everything on to another one, and a writer that does: the bases of those that get something wrong.
#pragma once

#include <memory>
#include <utility>

#include "lsmfs/volume.h"

namespace lsmfs::test {

class WriterDecorator : public FileWriter {
 public:
  explicit WriterDecorator(std::unique_ptr<FileWriter> inner) : inner_(std::move(inner)) {}

  Result<void> append(Bytes data) override { return inner_->append(data); }
  Result<void> sync() override { return inner_->sync(); }
  Result<void> precede_logs() override { return inner_->precede_logs(); }
  Result<void> reserve(ByteCount expected) override { return inner_->reserve(expected); }
  Result<void> allocate(ByteCount bytes) override { return inner_->allocate(bytes); }
  void set_lifetime(Lifetime lifetime) override { inner_->set_lifetime(lifetime); }
  Result<void> truncate(ByteCount size) override { return inner_->truncate(size); }
  Result<void> close() override { return inner_->close(); }
  ByteCount size() const override { return inner_->size(); }

 protected:
  FileWriter& inner() { return *inner_; }

 private:
  std::unique_ptr<FileWriter> inner_;
};

class VolumeDecorator : public Volume {
 public:
  explicit VolumeDecorator(std::unique_ptr<Volume> inner) : inner_(std::move(inner)) {}

  Result<std::unique_ptr<FileWriter>> create(std::string_view name, FileKind kind) override { return inner_->create(name, kind); }
  Result<std::unique_ptr<FileWriter>> reopen(std::string_view name) override { return inner_->reopen(name); }
  Result<std::unique_ptr<FileReader>> open_reader(std::string_view name) override { return inner_->open_reader(name); }
  Result<void> rename(std::string_view from, std::string_view to) override { return inner_->rename(from, to); }
  Result<void> remove(std::string_view name) override { return inner_->remove(name); }
  Result<ByteCount> size_of(std::string_view name) override { return inner_->size_of(name); }
  bool exists(std::string_view name) const override { return inner_->exists(name); }
  std::vector<std::string> list() const override { return inner_->list(); }
  Result<void> commit() override { return inner_->commit(); }
  Result<void> note_synced() override { return inner_->note_synced(); }
  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override { return inner_->trim(range, stop); }
  Result<ScrubStep> scrub(ScrubRange& range, const Stop& stop) override { return inner_->scrub(range, stop); }
  bool writable() const override { return inner_->writable(); }
  std::optional<Error> failure() const override { return inner_->failure(); }
  VolumeInfo info() const override { return inner_->info(); }
  Result<void> grow(std::optional<ByteCount> size) override { return inner_->grow(size); }
  Result<ByteCount> table_total_with(ByteCount size) const override { return inner_->table_total_with(size); }
  Result<void> change(const VolumeChange& change) override { return inner_->change(change); }
  VolumeUsage usage() const override { return inner_->usage(); }

 protected:
  Volume& inner() { return *inner_; }
  const Volume& inner() const { return *inner_; }

 private:
  std::unique_ptr<Volume> inner_;
};

}  // namespace lsmfs::test

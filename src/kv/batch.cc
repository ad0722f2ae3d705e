#include "kv/batch.h"

#include <rocksdb/comparator.h>

#include <cassert>

#include "kv/options.h"
#include "kv/patch.h"

namespace lsmfs {

using rocksdb::Slice;
using rocksdb::Status;

namespace {

// Stands for a family's handle in a WriteBatch.
class FamilyTag final : public rocksdb::ColumnFamilyHandle {
 public:
  FamilyTag(const char* name, std::uint32_t number) : name_(name), number_(number) {}
  const std::string& GetName() const override { return name_; }
  std::uint32_t GetID() const override { return number_; }
  Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override { return Status::NotSupported(); }
  const rocksdb::Comparator* GetComparator() const override { return rocksdb::BytewiseComparator(); }

 private:
  const std::string name_;
  const std::uint32_t number_;
};

rocksdb::ColumnFamilyHandle* tag(Family family) {
  static FamilyTag names(kv::kNamesFamily, kv::family_number(Family::names));
  static FamilyTag blocks(kv::kBlocksFamily, kv::family_number(Family::blocks));
  return family == Family::names ? &names : &blocks;
}

Slice slice(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

Batch::Batch() : rep_(std::make_unique<Rep>()) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

void Batch::put(Family family, std::string_view key, std::string_view value) {
  rep_->note(rep_->out.Put(tag(family), slice(key), slice(value)));
}

void Batch::patch(Family family, std::string_view key, std::uint32_t offset, std::string_view bytes) {
  assert(std::uint64_t{offset} + bytes.size() <= kv::kPatchEndMax);
  rep_->note(
      rep_->out.Merge(tag(family), slice(key), slice(kv::Patch::overwrite(offset, bytes).encode())));
}

void Batch::cut(Family family, std::string_view key, std::uint32_t length) {
  rep_->note(rep_->out.Merge(tag(family), slice(key), slice(kv::Patch::cut(length).encode())));
}

void Batch::erase(Family family, std::string_view key) {
  rep_->note(rep_->out.Delete(tag(family), slice(key)));
  rep_->erased[kv::family_number(family)].add(key, key, 1);
}

void Batch::erase_range(Family family, std::string_view from, std::string_view to, std::uint64_t rows) {
  if (from >= to) return;  // nothing lies in it, and RocksDB refuses it when it is the wrong way round
  rep_->note(rep_->out.DeleteRange(tag(family), slice(from), slice(to)));
  // RocksDB cuts tables between keys only. One that held nothing but ranges from all over the tree would stay in one piece, and
  // its compaction would take in every table that lies between the first and the last. So each range begins with a key.
  rep_->note(rep_->out.Delete(tag(family), slice(from)));
  rep_->ranges.push_back({family, std::string(from), std::string(to), rows});
}

void Batch::know(Family family, std::string_view from, std::string_view to, std::optional<std::uint64_t> as_of) {
  if (from < to) rep_->known.push_back({{family, std::string(from), std::string(to)}, as_of});
}

void Batch::note_rows(std::uint64_t rows, std::uint64_t in_bulk) {
  rep_->rows = rows;
  rep_->in_bulk = in_bulk;
}

void Batch::save() { rep_->out.SetSavePoint(); }
void Batch::go_back() { rep_->note(rep_->out.RollbackToSavePoint()); }
void Batch::keep() { rep_->note(rep_->out.PopSavePoint()); }

bool Batch::empty() const { return rep_->out.Count() == 0 && rep_->known.empty(); }
std::size_t Batch::bytes() const { return rep_->out.GetDataSize(); }

void Batch::clear() {
  rep_->out.Clear();
  rep_->status = Status::OK();
  rep_->ranges.clear();
  rep_->known.clear();
  for (auto& erased : rep_->erased) erased = {};
  rep_->rows.reset();
}

}  // namespace lsmfs

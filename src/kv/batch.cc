#include "kv/batch.h"

#include <cassert>

#include "kv/patch.h"

namespace lsmfs {

using rocksdb::Slice;
using rocksdb::Status;

void Batch::Rep::add(Op op, Family family, std::string_view key, std::string_view value) {
  put_u8(log, static_cast<std::uint8_t>(op));
  put_u8(log, static_cast<std::uint8_t>(family));
  put_string(log, key);
  put_string(log, value);
  ++count;
}

Status Batch::Rep::write_to(rocksdb::WriteBatch& out, rocksdb::ColumnFamilyHandle* const (&handles)[2]) const {
  Reader in(log);
  Status status;
  while (status.ok() && !in.at_end()) {
    const Op op = static_cast<Op>(in.u8());
    rocksdb::ColumnFamilyHandle* handle = handles[in.u8()];
    const std::string_view key_view = in.string();
    const std::string_view value_view = in.string();
    const Slice key(key_view.data(), key_view.size());
    const Slice value(value_view.data(), value_view.size());
    switch (op) {
      case Op::put:
        status = out.Put(handle, key, value);
        break;
      case Op::merge:
        status = out.Merge(handle, key, value);
        break;
      case Op::erase:
        status = out.Delete(handle, key);
        break;
      case Op::erase_range:
        status = out.DeleteRange(handle, key, value);
        break;
    }
  }
  return status;
}

Batch::Batch() : rep_(std::make_unique<Rep>()) {}
Batch::~Batch() = default;
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;

void Batch::put(Family family, std::string_view key, std::string_view value) {
  rep_->add(Rep::Op::put, family, key, value);
}

void Batch::patch(Family family, std::string_view key, std::uint32_t offset, std::string_view bytes) {
  assert(std::uint64_t{offset} + bytes.size() <= kv::kPatchEndMax);
  rep_->add(Rep::Op::merge, family, key, kv::Patch::overwrite(offset, bytes).encode());
}

void Batch::cut(Family family, std::string_view key, std::uint32_t length) {
  rep_->add(Rep::Op::merge, family, key, kv::Patch::cut(length).encode());
}

void Batch::erase(Family family, std::string_view key) { rep_->add(Rep::Op::erase, family, key, {}); }

void Batch::erase_range(Family family, std::string_view from, std::string_view to) {
  if (from >= to) return;  // nothing lies in it, and RocksDB refuses it when it is the wrong way round
  rep_->add(Rep::Op::erase_range, family, from, to);
  rep_->ranges.push_back({family, std::string(from), std::string(to)});
}

bool Batch::empty() const { return rep_->count == 0; }
std::size_t Batch::bytes() const { return rep_->log.size(); }

void Batch::clear() {
  rep_->log.clear();
  rep_->count = 0;
  rep_->ranges.clear();
}

}  // namespace lsmfs

#include "volume/catalog.h"

#include <fmt/format.h>

#include <algorithm>

namespace lsmfs {
namespace {

using format::kBlock;
using format::Op;

void put_op(std::string& out, Op op, std::uint64_t id) {
  put_u8(out, static_cast<std::uint8_t>(op));
  put_varint(out, id);
}

Error impossible(std::string_view what) {
  return make_error(EUCLEAN, fmt::format("metadata log is damaged: {}", what));
}

bool known_kind(std::uint8_t kind) {
  return kind >= static_cast<std::uint8_t>(FileKind::table) && kind <= static_cast<std::uint8_t>(FileKind::small);
}

}  // namespace

void append_extent(std::vector<Extent>& extents, const Extent& extent) {
  if (extent.length == 0) return;
  if (!extents.empty() && extents.back().end() == extent.start) {
    extents.back().length += extent.length;
  } else {
    extents.push_back(extent);
  }
}

std::uint64_t total_length(const std::vector<Extent>& extents) {
  std::uint64_t total = 0;
  for (const Extent& e : extents) total += e.length;
  return total;
}

std::vector<Extent> cut_extents(std::vector<Extent>& extents, std::uint64_t from, std::uint64_t total) {
  std::vector<Extent> rest;  // the last one first
  while (total > from) {
    Extent& last = extents.back();
    total -= last.length;
    const std::uint64_t keep = from > total ? from - total : 0;
    rest.push_back({last.start + keep, last.length - keep});
    last.length = keep;
    if (keep > 0) break;
    extents.pop_back();
  }
  std::reverse(rest.begin(), rest.end());
  return rest;
}

std::vector<Extent> cut_extents(std::vector<Extent>& extents, std::uint64_t from) {
  return cut_extents(extents, from, total_length(extents));
}

void put_create(std::string& out, std::uint64_t id, FileKind kind, std::uint64_t seed, std::string_view name) {
  put_op(out, Op::create, id);
  put_u8(out, static_cast<std::uint8_t>(kind));
  put_le64(out, seed);
  put_string(out, name);
}

void put_extents(std::string& out, std::uint64_t id, std::uint64_t from, const std::vector<Extent>& extents) {
  put_op(out, Op::extents, id);
  put_varint(out, from);
  put_varint(out, extents.size());
  for (const Extent& e : extents) {
    put_varint(out, e.start / kBlock);
    put_varint(out, e.length / kBlock);
  }
}

void put_size(std::string& out, std::uint64_t id, std::uint64_t size) {
  put_op(out, Op::size, id);
  put_varint(out, size);
}

void put_rename(std::string& out, std::uint64_t id, std::string_view name) {
  put_op(out, Op::rename, id);
  put_string(out, name);
}

void put_remove(std::string& out, std::uint64_t id) { put_op(out, Op::remove, id); }

void put_cut(std::string& out, std::uint64_t id, std::uint64_t sequence, std::uint64_t size) {
  put_op(out, Op::cut, id);
  put_varint(out, sequence);
  put_varint(out, size);
}

void put_synced(std::string& out, std::uint64_t id, std::uint64_t sequence) {
  put_op(out, Op::synced, id);
  put_varint(out, sequence);
}

void put_next_id(std::string& out, std::uint64_t id) { put_op(out, Op::next_id, id); }

Catalog::Catalog(const Layout& layout)
    : fixed_(layout.fixed.start, layout.fixed.length, format::kFixedGranule),
      table_(layout.table.start, layout.table.length, format::kTableGranule) {}

FileRecord* Catalog::find(std::uint64_t id) {
  auto it = files_.find(id);
  return it == files_.end() ? nullptr : &it->second;
}

Result<void> Catalog::release(const std::vector<Extent>& extents) {
  for (const Extent& e : extents) {
    if (!fixed_.release(e) && !table_.release(e)) return impossible("an extent is given back that is not in use");
  }
  return {};
}

Result<void> Catalog::erase(std::uint64_t id) {
  auto it = files_.find(id);
  LSMFS_TRY(release(it->second.extents));
  names_.erase(it->second.name);
  files_.erase(it);
  return {};
}

Result<void> Catalog::give_name(std::uint64_t id, std::string_view name) {
  if (name.empty() || name.size() > kFileNameMax) return impossible("length of a name");
  FileRecord& file = files_.at(id);
  if (file.name == name) return {};
  if (auto old = names_.find(std::string(name)); old != names_.end()) LSMFS_TRY(erase(old->second));
  names_.erase(file.name);
  file.name = name;
  names_.emplace(file.name, id);
  return {};
}

Result<void> Catalog::set_extents(FileRecord& file, std::uint64_t from, const std::vector<Extent>& added) {
  if (from > file.allocated) return impossible("extents beyond the end of a file");
  LSMFS_TRY(release(cut_extents(file.extents, from, file.allocated)));
  file.allocated = from;
  for (const Extent& e : added) {
    // Tables never lie in the fixed region; take() refuses what overlaps another file.
    if (!table_.take(e) && (file.kind == FileKind::table || !fixed_.take(e))) {
      return impossible(fmt::format("extent at {} of {} bytes", e.start, e.length));
    }
    append_extent(file.extents, e);
    file.allocated += e.length;
  }
  if (file.kind != FileKind::log) file.size = std::min(file.size, file.allocated);
  return {};
}

Result<void> Catalog::apply_one(Reader& in) {
  const auto op = static_cast<Op>(in.u8());
  const std::uint64_t id = in.varint();
  if (!in.ok()) return impossible("a record ends early");

  if (op == Op::next_id) {
    if (id < next_id_) return impossible("file ids go backwards");
    next_id_ = id;
    return {};
  }
  if (op == Op::create) {
    const std::uint8_t kind = in.u8();
    const std::uint64_t seed = in.le64();
    const std::string_view name = in.string();
    if (!in.ok() || !known_kind(kind)) return impossible("creation of a file");
    if (id < next_id_ || id == UINT64_MAX) return impossible("a file id is used again");
    next_id_ = id + 1;
    FileRecord& file = files_[id];
    file.id = id;
    file.kind = static_cast<FileKind>(kind);
    file.seed = seed;
    return give_name(id, name);
  }

  FileRecord* file = find(id);
  if (!file) return impossible(fmt::format("file id {} does not exist", id));
  switch (op) {
    case Op::extents: {
      const std::uint64_t from = in.varint();
      const std::uint64_t count = in.varint();
      if (!in.ok() || count > in.rest().size() / 2) return impossible("count of extents");
      std::vector<Extent> added;
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t start = in.varint(), length = in.varint();
        if (!in.ok() || start > UINT64_MAX / kBlock || length > UINT64_MAX / kBlock) return impossible("an extent");
        added.push_back({start * kBlock, length * kBlock});
      }
      return set_extents(*file, from, added);
    }
    case Op::size: {
      const std::uint64_t size = in.varint();
      if (!in.ok() || file->kind == FileKind::log || size > file->allocated)
        return impossible("size of a file");
      file->size = size;
      return {};
    }
    case Op::rename: {
      const std::string_view name = in.string();
      if (!in.ok()) return impossible("a name");
      return give_name(id, name);
    }
    case Op::remove:
      return erase(id);
    case Op::cut: {
      const std::uint64_t sequence = in.varint(), size = in.varint();
      if (!in.ok() || file->kind != FileKind::log) return impossible("cut of a file");
      file->cut_sequence = sequence;
      file->cut_size = size;
      return {};
    }
    case Op::synced: {
      const std::uint64_t sequence = in.varint();
      if (!in.ok() || file->kind != FileKind::log) return impossible("synced frames of a file");
      file->synced_sequence = std::max(file->synced_sequence, sequence);
      return {};
    }
    default:
      return impossible(fmt::format("unknown operation {}", static_cast<unsigned>(op)));
  }
}

Result<void> Catalog::apply(std::string_view payload) {
  Reader in(payload);
  while (!in.at_end()) LSMFS_TRY(apply_one(in));
  return {};
}

std::string Catalog::snapshot() const {
  std::string out;
  for (const auto& [id, file] : files_) {
    put_create(out, id, file.kind, file.seed, file.name);
    if (!file.extents.empty()) put_extents(out, id, 0, file.extents);
    if (file.size > 0) put_size(out, id, file.size);
    if (file.cut_sequence > 0) put_cut(out, id, file.cut_sequence, file.cut_size);
    if (file.synced_sequence > 0) put_synced(out, id, file.synced_sequence);
  }
  put_next_id(out, next_id_);
  return out;
}

}  // namespace lsmfs

#include "fuzz/prepared.h"

#include <fcntl.h>
#include <linux/posix_acl.h>

#include "fuzz/rocksdb_seals.h"
#include "fuzz/target.h"
#include "tree/acl.h"
#include "tree/harness.h"
#include "volume/frames.h"
#include "volume/metadata_log.h"
#include "volume/support.h"

namespace lsmfs::fuzz {
namespace {

using format::kBlock;
using test::SparseDevice;
using test::SparseImage;
using test::Stack;

constexpr std::uint32_t kNobody = ACL_UNDEFINED_ID;

template <class T>
T must(Result<T> result) {
  check(result.has_value(), result ? "" : "the example: " + result.error().message());
  return std::move(*result);
}
void must(const Result<void>& result) { check(result.has_value(), result ? "" : "the example: " + result.error().message()); }

class Maker {
 public:
  explicit Maker(Tree& tree) : tree_(tree) {}

  Ino make(Ino dir, std::string_view name, std::uint32_t mode, std::string_view symlink = {}) {
    return must(tree_.make(dir, name, {.mode = mode, .uid = 1000, .rdev = 0x501, .symlink = symlink}, Wait::yes)).ino;
  }
  Ino mkdir(Ino dir, std::string_view name) { return make(dir, name, S_IFDIR | 0755); }
  Ino find(Ino dir, std::string_view name) {
    const auto found = must(tree_.lookup(dir, name, Wait::yes));
    check(found.has_value(), "the example: a name that is not there");
    return found->ino;
  }
  Ino file(Ino dir, std::string_view name, std::size_t size, std::uint64_t at = 0) {
    const Ino ino = make(dir, name, S_IFREG | 0644);
    write(ino, at, size);
    return ino;
  }
  void write(Ino ino, std::uint64_t at, std::size_t size) { must(tree_.write(ino, ByteOffset{at}, as_bytes(test::pattern(size, ino.v)), Wait::yes)); }
  void set(Ino ino, std::string_view name, std::string_view value) { must(tree_.setxattr(ino, name, value, 0, Wait::yes)); }

  // Files that share blocks with a source that was changed since, and with one that is gone.
  void share() {
    const Ino changed = file(a_, "changed", 300'000), gone = file(a_, "gone", 300'000);
    for (const auto& [source, name] : {std::pair(changed, "shares"), std::pair(gone, "shares with none")}) {
      must(tree_.copy_range(source, ByteOffset{0}, make(a_, name, S_IFREG | 0644), ByteOffset{0}, ByteCount{300'000}, Wait::yes));
    }
    write(changed, 100'000, 5'000);
    must(tree_.unlink(a_, "gone", Wait::yes));
    tree_.forget(gone, 1);
  }

  // A directory and its clone, in which something was changed, and a copy of one that has names of files that have others.
  void clone() {
    const Ino source = mkdir(kRootIno, "source"), below = mkdir(source, "below"), deep = mkdir(below, "deep");
    file(source, "small", 5'000);
    file(below, "large", 300'000);
    file(deep, "x", 100);
    set(below, "user.large", test::pattern(6'000, 2));
    must(tree_.clone(source, kRootIno, "clone", Wait::yes));
    must(tree_.clone(source, kRootIno, "unchanged", Wait::yes));
    must(tree_.clone(a_, kRootIno, "copy", Wait::yes));
    file(find(find(kRootIno, "clone"), "below"), "new", 3'000);
  }

  // Of a directory, of everything, and of a part of a snapshot. What they are of has changed since.
  void take_snapshots() {
    const Ino source = find(kRootIno, "source");
    must(tree_.clone(source, kSnapshotsIno, "of source", Wait::yes));
    must(tree_.clone(kRootIno, kSnapshotsIno, "of all", Wait::yes));
    must(tree_.clone(find(find(kSnapshotsIno, "of source"), "below"), kSnapshotsIno, "of below", Wait::yes));
    file(find(source, "below"), "since then", 2'000);
  }

  // A directory that is again what it was.
  void roll_back() {
    const Ino dir = mkdir(kRootIno, "rolled back"), below = mkdir(dir, "below");
    file(below, "kept", 4'000);
    must(tree_.clone(dir, kSnapshotsIno, "of before", Wait::yes));
    file(below, "since then", 3'000);
    must(tree_.roll_back(dir, find(kSnapshotsIno, "of before"), Wait::yes));
  }

  // `frozen`: the root has another home than at first, since a snapshot shows that.
  void first_half(bool frozen) {
    a_ = mkdir(kRootIno, "A");
    if (frozen) {
      file(a_, "early", 1'000);
      must(tree_.clone(kRootIno, kSnapshotsIno, "early", Wait::yes));
    }
    const Ino b = mkdir(kRootIno, "B"), c = mkdir(a_, "C");
    foo_ = file(kRootIno, "foo", 9'000);
    file(a_, "foo", 14'000);
    file(c, "x", 300'000);
    file(b, "sparse", 3'000, MiB);
    must(tree_.link(foo_, a_, "second name", Wait::yes));
    make(b, "symlink", S_IFLNK | 0777, "../foo");
    make(b, "pipe", S_IFIFO | 0600);
    make(b, "device", S_IFCHR | 0600);
    const Ino many = mkdir(b, "many");
    for (int i = 0; i < 40; ++i) file(many, "file " + std::to_string(i), static_cast<std::size_t>(i) * 100);
    const Ino before = mkdir(kRootIno, "before");
    file(before, "inside", 5'000);
    must(tree_.rename(kRootIno, "before", a_, "after", 0, Wait::yes));
    share();
    clone();
    take_snapshots();
    roll_back();
    set(foo_, "user.small", "value");
    set(foo_, "user.large", test::pattern(6'000, 1));
    const acl::List list{{ACL_USER_OBJ, 7, kNobody}, {ACL_USER, 6, 1000}, {ACL_GROUP_OBJ, 5, kNobody},
                         {ACL_MASK, 7, kNobody},     {ACL_OTHER, 0, kNobody}};
    set(b, acl::kDefault, acl::encode(list));
    set(foo_, acl::kAccess, acl::encode(list));
    file(b, "of the list", 10);
    must(tree_.setattr(file(a_, "append only", 100), {.flags = 0x20}, Wait::yes));
    must(tree_.sync());
  }

  void second_half() {
    write(foo_, 50, 100);
    must(tree_.setattr(foo_, {.size = 5'000}, Wait::yes));
    file(a_, "new", 7'000);
    must(tree_.rename(kRootIno, "B", a_, "D", 0, Wait::yes));
    const Ino open = must(tree_.make_unnamed(a_, {.mode = S_IFREG | 0600}, Wait::yes)).ino;
    write(open, 0, 6'000);
    must(tree_.sync());
  }

 private:
  Tree& tree_;
  Ino a_, foo_;
};

void add_structures(Prepared& p) {
  SparseDevice device(p.image);
  const auto superblock = must(read_superblock(device, {}));
  const auto pieces = [&p](Place place) -> std::vector<Piece>& { return p.pieces[static_cast<std::size_t>(place)]; };
  const auto block_at = [&](std::uint64_t at) {
    AlignedBuffer block(kBlock);
    p.image.read(at, block.bytes());
    return block;
  };

  const Piece first{0, offsetof(format::Superblock, rest), kBlock, 0};
  pieces(Place::first_superblock) = {first};
  pieces(Place::superblocks) = {first, {superblock.layout.second_superblock, first.length, kBlock, 0}};

  for (const Extent& area : superblock.layout.metadata) {
    for (std::uint64_t at = area.start; at < area.end(); at += kBlock) {
      format::RecordHeader header;
      std::memcpy(&header, block_at(at).data(), sizeof header);
      if (header.magic != format::kRecordMagic) continue;
      pieces(Place::records).push_back({at, sizeof header + header.payload_length, area.end() - at, superblock.seed});
    }
  }

  Catalog catalog(superblock.layout);
  must(MetadataLog::load(device, superblock, [&](std::string_view payload) { return catalog.apply(payload); }));
  for (const auto& [id, file] : catalog.files()) {
    const std::uint64_t seed = frame_seed(superblock.seed, id, file.seed);
    std::uint64_t left = file.size;
    for (const Extent& extent : file.extents) {
      if (file.kind != FileKind::log) {
        const std::uint64_t length = std::min(left, extent.length);
        if (length > 0) pieces(file.kind == FileKind::table ? Place::tables : Place::small_files).push_back({extent.start, length, extent.length, 0});
        left -= length;
        continue;
      }
      for (std::uint64_t at = extent.start; at < extent.end(); at += kBlock) {
        format::FrameHeader header;
        std::memcpy(&header, block_at(at).data(), sizeof header);
        if (header.magic != format::kFrameMagic || header.file_id != id) continue;
        pieces(Place::frames).push_back({at, sizeof header + header.payload_length, extent.end() - at, seed});
      }
    }
  }

  // Wherever there is anything; the table region's last part is as empty as the rest of it.
  pieces(Place::anywhere) = {{0, 24 * MiB, 24 * MiB, 0}};
}

void add_rows(Prepared& p) {
  SparseDevice device(p.image, false);
  const auto volume = must(Volume::open(device));
  const auto store = must(Store::open(*volume, {.cache = ByteCount{32 * MiB}, .read_only = true}));
  for (const Family family : {Family::names, Family::blocks}) {
    const auto cursor = store->cursor(family, {});
    for (cursor->seek(""); cursor->valid(); cursor->next()) p.rows.push_back({family, std::string(cursor->key()), std::string(cursor->value())});
    must(cursor->status());
  }
}

void add_blocks(Prepared& p) {
  for (const Piece& table : p.pieces[static_cast<std::size_t>(Place::tables)]) {
    for (const auto& [offset, size] : blocks_of(bytes_at(p.image, table.at, table.length))) p.table_blocks.emplace_back(table.at + offset, size);
  }
}

Prepared prepare(bool in_log) {
  SparseDevice device{SparseImage(kDeviceMin)};
  must(Stack::format(device));
  auto stack = must(Stack::mount(device));
  Maker maker(*stack.tree);
  maker.first_half(in_log);
  must(stack.store->flush());
  maker.second_half();
  Prepared p;
  if (in_log) {
    p.image = device.image();
    stack.crash();
  } else {
    must(stack.close());
    p.image = device.image();
  }
  add_structures(p);
  add_rows(p);
  if (seals_rocksdb()) add_blocks(p);
  for (const auto& pieces : p.pieces) check(!pieces.empty(), "the example: nothing of a kind");
  return p;
}

}  // namespace

std::string bytes_at(const SparseImage& image, std::uint64_t at, std::uint64_t length) {
  AlignedBuffer blocks(round_up(at % kBlock + length, kBlock));
  image.read(round_down(at, kBlock), blocks.bytes());
  return std::string(as_text(blocks.bytes()).substr(at % kBlock, length));
}

const Prepared& prepared(bool in_log) {
  static const Prepared tables = prepare(false), log = prepare(true);
  return in_log ? log : tables;
}

}  // namespace lsmfs::fuzz

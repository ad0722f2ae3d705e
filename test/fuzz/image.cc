// The target of whole images: changes of a sound one, and then all that is done with an image: the volume, the store, the
// check and the tree are opened for reading, everything is read; they are opened for writing, and used. Or it is repaired first.
//
// An input is a byte of mode and a list of changes, all of numbers as varints. Either of bytes on the device (place, which
// structure, offset in it, bytes), after which the checksums of superblocks, metadata log and frames are put right unless
// the mode says no; those inside of RocksDB's files stay wrong. Or of rows (operation, which row, number, text), which are
// written through a store, so that RocksDB's checksums are right and the rows are not.
//
// Beside crashes, endless loops and sizes that are believed: what check_tree() finds nothing in can be read to the end and
// used, and has as many files as its rows say. So can what was repaired, in which it finds nothing any more.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <deque>
#include <map>
#include <set>
#include <unordered_map>

#include "fuzz/prepared.h"
#include "fuzz/rocksdb_seals.h"
#include "fuzz/seals.h"
#include "fuzz/target.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::fuzz {
namespace {

using test::both_ways;
using test::SparseDevice;
using test::SparseImage;
using test::Stack;

enum Mode : std::uint8_t { kSealed = 1, kRows = 2, kInLog = 4, kFlushed = 8, kRepaired = 16 };

constexpr std::size_t kChangesMax = 8, kBytesMax = 64;
constexpr std::size_t kStepsMax = 1000;               // entries that a walk looks at
constexpr std::size_t kLargestPiece = 64 * MiB;       // that anybody may ask operator new for
constexpr ByteCount kCache{32 * MiB};

// ---- changes of bytes

void overwrite(SparseImage& image, const Piece& piece, std::uint64_t offset, std::string_view bytes) {
  offset %= piece.length;
  image.write_sectors(piece.at + offset, as_bytes(bytes.substr(0, std::min(kBytesMax, piece.length - offset))));
}

// Those inside of RocksDB's files.
void seal_rocksdb(SparseImage& image, Place place, const Piece& piece, const Prepared& from) {
  if (place == Place::frames) {
    std::string frame = bytes_at(image, piece.at, piece.length);
    format::FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    std::string payload = frame.substr(sizeof header);
    seal_log_records(payload, header.offset);
    image.write_sectors(piece.at + sizeof header, as_bytes(payload));
  } else if (place == Place::tables) {
    for (const auto& [at, size] : from.table_blocks) {
      if (at < piece.at || at >= piece.at + piece.length) continue;
      std::string sum;
      put_le32(sum, block_checksum(bytes_at(image, at, size)));
      image.write_sectors(at + size, as_bytes(sum));
    }
  }
}

// The checksums of a structure that was changed.
void seal_piece(SparseImage& image, Place place, const Piece& piece) {
  if (place == Place::superblocks || place == Place::first_superblock) {
    format::Superblock block;
    const MutableBytes bytes{reinterpret_cast<std::byte*>(&block), sizeof block};
    image.read(piece.at, bytes);
    seal(block);
    image.write(piece.at, bytes);
  } else if (place == Place::records || place == Place::frames) {
    // Up to the longest that a frame may be; a record here is shorter.
    AlignedBuffer buffer(std::min(piece.room, format::kFrameMax));
    image.read(piece.at, buffer.bytes());
    place == Place::records ? seal_record(buffer.bytes(), piece.seed) : seal_if_frame(buffer.bytes(), piece.seed);
    image.write(piece.at, Bytes(buffer.bytes()).first(format::kBlock));
  }
}

SparseImage change_bytes(const Prepared& from, Reader& in, bool sealed) {
  SparseImage image = from.image;
  std::map<std::uint64_t, std::pair<Place, Piece>> touched;  // by place on the device
  for (std::size_t i = 0; i < kChangesMax && !in.at_end(); ++i) {
    const Place place = static_cast<Place>(in.varint() % kPlaces);
    const std::uint64_t which = in.varint(), offset = in.varint();
    const std::string_view bytes = in.string();
    if (!in.ok()) break;
    const std::vector<Piece>& pieces = from.pieces[static_cast<std::size_t>(place)];
    for (std::size_t n = 0; n < pieces.size(); ++n) {
      if (place != Place::superblocks && n != which % pieces.size()) continue;
      overwrite(image, pieces[n], offset, bytes);
      touched.emplace(pieces[n].at, std::pair(place, pieces[n]));
    }
  }
  if (sealed) {
    if (seals_rocksdb()) {
      for (const auto& [at, piece] : touched) seal_rocksdb(image, piece.first, piece.second, from);
    }
    for (const auto& [at, piece] : touched) seal_piece(image, piece.first, piece.second);
  }
  return image;
}

// ---- changes of rows

std::string home_of(const Row& row) {
  const auto parsed = keys::parse_names(row.key);
  const auto record = decode_record(row.value);
  if (!parsed || !record) return {};
  return record->home.empty() ? keys::child_home(parsed->home, parsed->name, record->number()) : record->home;
}

// The value with one of its fields set, whatever follows from that.
std::string with_field(const std::string& value, std::uint64_t field, std::uint64_t number, std::string_view text) {
  if (auto state = lsmfs::decode_state(value)) {
    (field % 2 ? state->counts.regular : state->next_ino.v) = number;
    return encode(*state);
  }
  auto row = decode_entry(value);
  if (!row) return value;
  if (auto* link = std::get_if<Link>(&*row)) {
    if (field % 2) {
      link->type = static_cast<std::uint32_t>(number % 16) << 12;
    } else {
      link->ino = Ino{number};
    }
    return encode(*link);
  }
  Record& r = std::get<Record>(*row);
  switch (field % 18) {
    case 0: r.ino = Ino{number}; break;
    case 1: r.mode = static_cast<std::uint32_t>(number % 16) << 12 | (r.mode & 07777); break;
    case 2: r.nlink = static_cast<std::uint32_t>(number); break;
    case 3: r.size = number; break;
    case 4: r.blocks = number; break;
    case 5: r.home = text; break;
    case 6: r.home = keys::child_home(text, "x", r.number()); break;
    case 7: r.flags = static_cast<std::uint32_t>(number); break;
    case 8: r.mtime.seconds = r.ctime.seconds = static_cast<std::int64_t>(number); break;
    case 9: r.atime.seconds = static_cast<std::int64_t>(number); break;
    case 10: r.set_xattr({std::string(text), "", static_cast<std::uint32_t>(number)}); break;
    case 11: r.home_number = Ino{number}; break;
    case 12: r.base.reset(); break;
    case 13: r.base = r.has_base() && !r.base->empty() ? keys::with_number(*r.base, Ino{number}) : keys::child_home(text, "x", Ino{number}); break;
    case 14: r.shift = number; break;
    case 15: r.snapshot_of = text; break;
    case 16: r.snapshot_of.reset(); break;
    default: r.set_xattr({number % 2 ? "system.posix_acl_access" : "system.posix_acl_default", std::string(text), 0}); break;
  }
  return encode(r);
}

// The value of a record with another base.
std::string showing(const std::string& value, const std::string& base) {
  auto record = decode_record(value);
  if (!record) return value;
  record->base = base;
  return encode(*record);
}

void change_row(Batch& batch, const std::vector<Row>& rows, Reader& in) {
  const std::uint64_t operation = in.varint();
  const Row& row = rows[in.varint() % rows.size()];
  const std::uint64_t number = in.varint();
  const std::string_view text = in.string().substr(0, 1024);
  if (!in.ok()) return;
  const Row& other = rows[number % rows.size()];
  const auto patched = [&](std::string bytes) {
    const std::size_t at = bytes.empty() ? 0 : number % bytes.size();
    return bytes.replace(at, std::min(text.size(), bytes.size() - at), text);
  };
  const auto parsed = keys::parse_names(row.key);
  const auto put = [&](std::string_view key, std::string_view value) { batch.put(row.family, key, value); };
  switch (operation % 9) {
    case 0: return put(row.key, patched(row.value));
    case 1: return put(row.key, with_field(row.value, text.empty() ? 0 : static_cast<std::uint8_t>(text.front()), number, text));
    case 2: return put(patched(row.key), row.value);
    case 3: return batch.erase(row.family, row.key);
    case 4: return put(row.key, other.value);
    case 5: return put(keys::entry(parsed ? parsed->home : "", text), row.value);                  // a name more
    case 6: return put(keys::entry(home_of(other), parsed ? parsed->name : text), row.value);      // in another directory
    case 7: return put(row.key, showing(row.value, home_of(other)));
    default: return batch.patch(row.family, row.key, static_cast<std::uint32_t>(number % 5000), text);
  }
}

SparseImage change_rows(const Prepared& from, Reader& in, bool flushed) {
  SparseDevice device(from.image);
  {
    const auto volume = Volume::open(device);
    check(volume.has_value(), "the example has no volume");
    const auto store = Store::open(**volume, {.cache = kCache});
    check(store.has_value(), "the example has no store");
    Batch batch;
    for (std::size_t i = 0; i < kChangesMax && !in.at_end(); ++i) change_row(batch, from.rows, in);
    check((*store)->commit(batch) && (flushed ? (*store)->flush() : (*store)->sync()) && (*store)->close(), "rows cannot be written");
  }
  return device.image();
}

// ---- reading

// Goes through a tree and reads all there is. Holds on to what it found, as the kernel does.
class Walk {
 public:
  struct Found {
    Ino dir;
    std::string name;
    Attr attr;
  };

  explicit Walk(Tree& tree) : tree_(tree) {}
  ~Walk() {
    for (const auto& [ino, lookups] : lookups_) tree_.forget(ino, lookups);
  }

  void run() {
    std::deque<Ino> directories{kRootIno, kSnapshotsIno};
    seen_.insert(directories.begin(), directories.end());
    while (!directories.empty() && found_.size() < kStepsMax) {
      const std::size_t first = found_.size();
      list(directories.front());
      directories.pop_front();
      for (std::size_t i = first; i < found_.size(); ++i) {
        const Attr attr = found_[i].attr;
        if (!seen_.insert(attr.ino).second) continue;
        look(attr);
        if (S_ISDIR(attr.mode)) directories.push_back(attr.ino);
      }
    }
    whole_ = directories.empty();
  }

  const std::vector<Found>& found() const { return found_; }
  const std::optional<Error>& error() const { return error_; }  // the first
  bool whole() const { return whole_; }
  std::size_t inodes() const { return seen_.size(); }

 private:
  template <class T>
  bool good(const Result<T>& result) {
    if (!result && !error_) error_ = result.error();
    return result.has_value();
  }

  void list(Ino dir) {
    std::uint64_t cookie = 0;
    std::size_t dots = 0;
    for (bool more = true; more && found_.size() < kStepsMax;) {
      std::size_t given = 0;
      const auto visit = [&](const DirEntry& entry) {
        if (given == 7) return false;
        ++given;
        cookie = entry.next_cookie;
        if (entry.name == "." || entry.name == "..") {
          check(++dots <= 3, "a dot is listed as an entry");  // the third stands for nothing
          return true;
        }
        check(!entry.name.empty() && entry.name.size() <= kNameMax && entry.name.find('/') == entry.name.npos &&
                  entry.name.find('\0') == entry.name.npos,
              "a name that cannot be is listed");
        check(entry.attr.ino.v != 0, "an entry without an inode is listed");
        ++lookups_[entry.attr.ino];
        found_.push_back({dir, std::string(entry.name), entry.attr});
        return true;
      };
      const auto listed = both_ways([&](Wait wait) { return tree_.readdir(dir, cookie, AttrsOf::all, visit, wait); });
      more = good(listed) && given > 0;
    }
  }

  void look(const Attr& attr) {
    const Ino ino = attr.ino;
    const auto again = both_ways([&](Wait wait) { return tree_.getattr(ino, wait); });
    if (good(again)) check(again->ino == ino && (again->mode & S_IFMT) == (attr.mode & S_IFMT), "attributes of another inode");
    if (const auto names = both_ways([&](Wait wait) { return tree_.listxattr(ino, wait); }); good(names)) {
      for (std::size_t at = 0; at < names->size();) {
        const std::string name = names->c_str() + at;
        at += name.size() + 1;
        if (const auto value = both_ways([&](Wait wait) { return tree_.getxattr(ino, name, wait); }); good(value)) {
          check(value->size() <= kXattrSizeMax, "an attribute that is too large");
        }
      }
    }
    if (S_ISLNK(attr.mode)) {
      const auto target = both_ways([&](Wait wait) { return tree_.readlink(ino, wait); });
      if (good(target)) check(!target->empty() && target->size() <= kSymlinkMax, "a link's target");
    }
    if (S_ISREG(attr.mode)) read(ino, attr.size);
  }

  // The beginning, the end, and where there is data in between.
  void read(Ino ino, std::uint64_t size) {
    check(size <= kFileSizeMax, "the size of a file");
    std::vector<std::uint64_t> places{0, size / 2, size - std::min<std::uint64_t>(size, 5000)};
    std::uint64_t at = 0;
    for (int hops = 0; hops < 20; ++hops) {
      const auto data = both_ways([&](Wait wait) { return tree_.seek(ino, ByteOffset{at}, SEEK_DATA, wait); });
      if (!data && data.error().code == ENXIO) break;
      if (!good(data)) break;
      check(data->v >= at && data->v < size, "data outside of a file");
      places.push_back(data->v);
      const auto hole = both_ways([&](Wait wait) { return tree_.seek(ino, *data, SEEK_HOLE, wait); });
      if (!good(hole)) break;
      check(hole->v > data->v && hole->v <= size, "a hole outside of a file");
      at = hole->v;
    }
    for (const std::uint64_t place : places) {
      const auto got = both_ways([&](Wait wait) { return tree_.read(ino, ByteOffset{place}, buffer_, wait); });
      if (good(got)) check(*got == std::min<std::uint64_t>(buffer_.size(), size - std::min(size, place)), "a read of another length");
    }
  }

  Tree& tree_;
  std::vector<Found> found_;
  std::set<Ino> seen_;
  std::unordered_map<Ino, std::uint64_t> lookups_;
  std::optional<Error> error_;
  bool whole_ = false;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(128 * KiB);
};

void read_files(Volume& volume) {
  for (const std::string& name : volume.list()) {
    check(!name.empty() && name.size() <= 255, "a file's name");
    const auto reader = volume.open_reader(name);
    if (!reader) continue;
    const std::uint64_t size = (*reader)->size().v;
    check(size <= kDeviceMin, "a file that is larger than the device");
    std::vector<std::byte> buffer(70'000);
    for (const std::uint64_t from : {std::uint64_t{0}, size / 2, size - std::min<std::uint64_t>(size, 10)}) {
      const auto got = (*reader)->read(ByteOffset{from}, buffer);
      if (got) check(*got == std::min<std::uint64_t>(buffer.size(), size - std::min(size, from)), "a read of another length");
    }
  }
}

// To its end, whatever it finds.
void scrub(Volume& volume) {
  ScrubRange range;
  for (std::size_t steps = 0; !range.done(); ++steps) {
    check(steps < volume.list().size() + 2, "a scrub without an end");
    const auto step = volume.scrub(range, [] { return false; });
    check(step.has_value(), "a scrub that fails: " + (step ? "" : step.error().message()));
  }
}

// ---- using

// Does a little of everything to what a walk found. The result is the first error that no sound tree gives.
std::optional<Error> use(Tree& tree, const std::vector<Walk::Found>& found) {
  std::optional<Error> unsound;
  const auto note = [&](const auto& result) {
    static const std::set<int> kUnsound{EUCLEAN, EIO, ESTALE, EAGAIN, ENOMEM};
    if (!result && kUnsound.contains(result.error().code) && !unsound) unsound = result.error();
    return result.has_value();
  };
  const auto make = [&](Ino dir) {
    const auto made = both_ways([&](Wait wait) { return tree.make(dir, "made", {.mode = S_IFREG | 0644}, wait); });
    if (!note(made)) return;
    note(both_ways([&](Wait wait) { return tree.write(made->ino, ByteOffset{3000}, as_bytes("written"), wait); }));
    note(both_ways([&](Wait wait) { return tree.rename(dir, "made", kRootIno, "moved", 0, wait); }));
    tree.forget(made->ino, 1);
  };
  make(kRootIno);
  if (found.size() % 2 == 0) note(both_ways([&](Wait wait) { return tree.clone(kRootIno, kSnapshotsIno, "made", wait); }));
  for (int i = 0; i < 20; ++i) note(tree.relocate());  // what the walk has found to lie elsewhere
  for (std::size_t i = 0; i < found.size() && i < 60; ++i) {
    const Ino parent = found[i].dir, ino = found[i].attr.ino;
    const std::string entry = found[i].name;
    const Attr attr = found[i].attr;
    if (S_ISDIR(attr.mode)) make(ino);
    switch (i % 9) {
      case 0: note(both_ways([&](Wait wait) { return tree.unlink(parent, entry, wait); })); break;
      case 1: note(both_ways([&](Wait wait) { return tree.rename(parent, entry, kRootIno, "renamed " + std::to_string(i), 0, wait); })); break;
      case 2: note(both_ways([&](Wait wait) { return tree.rename(parent, entry, found[i / 2].dir, found[i / 2].name, RENAME_EXCHANGE, wait); })); break;
      case 3:
        if (const auto linked = both_ways([&](Wait wait) { return tree.link(ino, kRootIno, "link " + std::to_string(i), wait); }); note(linked)) tree.forget(ino, 1);
        break;
      case 4: note(both_ways([&](Wait wait) { return tree.setattr(ino, {.mode = 0640}, wait); })); break;
      case 5: note(both_ways([&](Wait wait) { return tree.write(ino, ByteOffset{i * 50}, as_bytes(entry), wait); })); break;
      case 6: note(both_ways([&](Wait wait) { return tree.setxattr(ino, "user.used", entry, 0, wait); })); break;
      case 7:
        note(both_ways([&](Wait wait) { return tree.setattr(ino, {.size = i * 100}, wait); }));
        note(both_ways([&](Wait wait) { return tree.fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{100}, ByteCount{8192}, wait); }));
        break;
      default: note(both_ways([&](Wait wait) { return tree.rmdir(parent, entry, wait); })); break;
    }
    if (parent != kSnapshotsIno) continue;
    note(tree.snapshot_sizes(ino, [] { return false; }));
    if (i % 3 == 0) note(both_ways([&](Wait wait) { return tree.roll_back(kRootIno, ino, wait); }));
    if (i % 3 == 1) note(both_ways([&](Wait wait) { return tree.roll_back(found[i / 2].attr.ino, ino, wait); }));
    if (i % 2 == 0) note(both_ways([&](Wait wait) { return tree.remove_tree(ino, parent, wait); }));
  }
  // In snapshots nothing changes. Elsewhere the same error tells of one before.
  if (tree.read_only() && !unsound) unsound = make_error(EROFS, "");
  return unsound;
}

// ---- judging

// How many inodes can be seen, by the rows of a sound tree: what clones show is there once for each of them. Or any number over kStepsMax.
std::size_t inodes_in(Store& store) {
  std::deque<std::string> homes{keys::far_home(kSnapshotsIno)};
  const auto row_of_root = store.get(Family::names, keys::kRoot, Wait::yes);
  if (const auto root = row_of_root && *row_of_root ? decode_record(**row_of_root) : std::nullopt) homes.push_back(root->has_base() ? *root->base : root->home);
  std::set<Ino> linked;
  std::size_t named = 2;  // the root, and the directory of snapshots
  for (; !homes.empty() && named <= kStepsMax; homes.pop_front()) {
    const std::string home = homes.front(), end = keys::entries_end(home);
    const auto cursor = store.cursor(Family::names, {});
    for (cursor->seek(keys::entries_begin(home)); cursor->valid() && cursor->key() < end; cursor->next()) {
      const auto row = decode_entry(cursor->value());
      const Record* const record = row ? std::get_if<Record>(&*row) : nullptr;
      if (row && !record) linked.insert(std::get<Link>(*row).ino);
      if (!record) continue;
      ++named;
      if (!record->is_directory() || record->size == 0) continue;
      const std::string own = record->home.empty() ? keys::child_home(home, keys::entry_name(home, cursor->key()), record->number()) : record->home;
      homes.push_back(record->has_base() ? *record->base : own);
    }
  }
  return named + linked.size();
}

bool is_opening_error(int code) { return code == EMEDIUMTYPE || code == EPROTONOSUPPORT || code == EUCLEAN || code == ENOSPC || code == EIO || code == ENOMEM; }

// Opens everything for reading; gives whether check_tree() found nothing.
bool judge_reading(const SparseImage& image, bool& opened) {
  SparseDevice device(image, false);
  Stack stack;
  auto volume = Volume::open(device);
  if (!volume) {
    check(is_opening_error(volume.error().code), "the volume: an error that is not promised: " + volume.error().message());
    return false;
  }
  ++image_counts.volumes;
  stack.volume = std::move(*volume);
  read_files(*stack.volume);
  scrub(*stack.volume);
  auto store = Store::open(*stack.volume, {.cache = kCache, .read_only = true});
  if (!store) {
    check(is_opening_error(store.error().code), "the store: an error that is not promised: " + store.error().message());
    return false;
  }
  ++image_counts.stores;
  opened = true;
  stack.store = std::move(*store);
  const auto report = check_tree(*stack.store);
  const bool clean = report && (report->clean() || planted == Planted::damage_not_reported);
  auto tree = Tree::open(*stack.store, {.read_only = true, .sync_interval_ms = 0});
  if (!tree) {
    check(!clean, "nothing is wrong with a tree that cannot be opened: " + tree.error().message());
    check(is_opening_error(tree.error().code), "the tree: an error that is not promised: " + tree.error().message());
    return false;
  }
  ++image_counts.trees;
  image_counts.clean += clean;
  stack.tree = std::move(*tree);
  {
    Walk walk(*stack.tree);
    walk.run();
    if (clean) {
      check(!walk.error(), "nothing is wrong with a tree that cannot be read: " + (walk.error() ? walk.error()->message() : ""));
      const std::size_t inodes = inodes_in(*stack.store);
      check(!walk.whole() || walk.inodes() == inodes, fmt::format("{} inodes have rows, and {} are there", inodes, walk.inodes()));
    }
  }
  const auto closed = stack.close();
  check(closed || !clean, "nothing is wrong with a tree that cannot be closed");
  return clean;
}

// Opens everything for writing and uses it. `clean`: nothing may go wrong.
void judge_writing(const SparseImage& image, bool clean) {
  SparseDevice device(image);
  auto stack = Stack::mount(device);
  if (!stack) {
    check(!clean, "nothing is wrong with an image that cannot be mounted: " + stack.error().message());
    return;
  }
  std::optional<Error> error;
  {
    Walk walk(*stack->tree);
    walk.run();
    error = use(*stack->tree, walk.found());
  }
  Result<bool> swept = true;
  while (swept && *swept) swept = stack->tree->sweep();
  check(!clean || swept, "nothing is wrong with a tree that cannot be swept");
  check(!clean || !error, "nothing is wrong with a tree that cannot be used: " + (error ? error->message() : ""));
  const auto synced = stack->tree->sync();
  check(!clean || synced, "nothing is wrong with a tree that cannot be synced");
  if (clean) {
    const auto report = check_tree(*stack->store);
    check(report && report->clean(), "a sound tree is damaged by use: " + (report && !report->clean() ? report->problems.front() : ""));
  }
  const auto closed = stack->close();
  check(!clean || closed, "nothing is wrong with a tree that cannot be closed");
}

// As lsmfs fsck -y does it, but once.
Result<void> repair(Device& device) {
  LSMFS_TRY(Volume::repair(device, [](std::string_view) {}));
  LSMFS_ASSIGN(const auto volume, Volume::open(device));
  LSMFS_TRY(Store::repair(*volume, {.cache = kCache}));
  LSMFS_ASSIGN(const auto store, Store::open(*volume, {.cache = kCache}));
  if (planted != Planted::damage_not_repaired) {
    LSMFS_ASSIGN(const RepairReport rows, repair_tree(*store));
    if (!rows.left.clean()) return make_error(EUCLEAN, rows.left.problems.front());
  }
  return store->close();
}

// It is repaired, and then there is nothing wrong with it; or it is beyond repair, and that is said.
bool judge_repair(const SparseImage& image) {
  SparseDevice device(image);
  if (const auto repaired = repair(device); !repaired) {
    check(is_opening_error(repaired.error().code), "the repair: an error that is not promised: " + repaired.error().message());
    return false;
  }
  ++image_counts.repaired;
  bool opened = false;
  check(judge_reading(device.image(), opened), "a repair leaves something that is wrong");
  judge_writing(device.image(), true);
  return opened;
}

bool run_image(std::string_view input) {
  if (input.empty()) return false;
  const auto mode = static_cast<std::uint8_t>(input.front());
  Reader in(input.substr(1));
  const Prepared& from = prepared(mode & kInLog);
  const SparseImage image = mode & kRows ? change_rows(from, in, mode & kFlushed) : change_bytes(from, in, mode & kSealed);
  ++image_counts.images;
  const Memory memory;
  bool opened = false;
  if (mode & kRepaired) {
    opened = judge_repair(image);
  } else {
    const bool clean = judge_reading(image, opened);
    // Of the volume's own damage the check of the tree knows nothing.
    judge_writing(image, clean && (mode & kRows));
  }
  check(Memory::largest_piece() <= kLargestPiece, fmt::format("{} bytes are asked for at once", Memory::largest_piece()));
  return opened;
}

std::vector<std::string> image_examples() {
  std::vector<std::string> all;
  const auto change = [](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::string_view text) {
    std::string bytes;
    for (const std::uint64_t n : {a, b, c}) put_varint(bytes, n);
    put_string(bytes, text);
    return bytes;
  };
  // One byte changed, of each kind of structure, here and there. Each second one is repaired.
  const auto add = [&](int mode, const std::string& changes) {
    all.push_back(static_cast<char>(mode | (all.size() % 2 ? int{kRepaired} : 0)) + changes);
  };
  for (const int mode : {int{kSealed}, int{kInLog}}) {
    for (std::uint64_t place = 0; place < kPlaces; ++place) {
      for (const std::uint64_t offset : {50u, 4097u}) add(mode, change(place, offset * 7, offset, "\x7f"));
    }
  }
  for (const int mode : {kRows | kInLog, kRows | kFlushed}) {
    for (std::uint64_t operation = 0; operation < 9; ++operation) {
      for (const std::uint64_t row : {0u, 8u}) add(mode, change(operation, row, row + operation, std::string("\3abc", 4)));
    }
  }
  return all;
}

}  // namespace

ImageCounts image_counts;

const Target kImage{"image", run_image, image_examples, 512, 0, 160};

}  // namespace lsmfs::fuzz

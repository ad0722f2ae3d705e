// The target of imports: a stream of records that anybody may send who can make a directory.
#include <sys/stat.h>

#include "fuse/memory_tree.h"
#include "fuzz/target.h"
#include "lsmfs/import.h"

namespace lsmfs::fuzz {
namespace {

// The input has for each record its length in two bytes, and its body.
std::string with_lengths(std::string_view input) {
  std::string stream;
  while (input.size() > 2) {
    const std::size_t size = Reader(input).le16();
    const std::string_view body = input.substr(2, size);
    put_le32(stream, static_cast<std::uint32_t>(body.size()));
    stream += body;
    input.remove_prefix(2 + body.size());
  }
  return stream;
}

// Files are in memory with their holes, so that they must be small.
class SmallFiles : public test::MemoryTree {
 public:
  Result<Attr> setattr(Ino ino, const AttrChange& change, Wait wait) override {
    if (change.size && *change.size > MiB) return make_error(EFBIG, "");
    return MemoryTree::setattr(ino, change, wait);
  }
  Result<void> write(Ino ino, ByteOffset offset, Bytes data, Wait wait, ChangeTime time) override {
    if (offset.v > MiB) return make_error(EFBIG, "");
    return MemoryTree::write(ino, offset, data, wait, time);
  }
};

// What comes of a stream lies in the directory that it is for; and nobody is held on to when it has ended.
bool run_import(std::string_view input) {
  if (input.empty()) return false;
  const auto options = static_cast<std::uint8_t>(input.front());
  const std::string stream = options & 1 ? with_lengths(input.substr(1)) : std::string(input.substr(1));
  SmallFiles tree;
  const auto kept = tree.make(kRootIno, "kept", {.mode = S_IFREG | 0600}, Wait::yes);
  const auto staged = tree.stage(kRootIno, "d", {.mode = S_IFDIR | 0755}, Wait::yes);
  check(kept && staged, "there is nothing to begin with");
  const std::uint64_t lookups = tree.total_lookups();
  bool sound = false;
  {
    Importer importer(tree, staged->ino, {.as_root = (options & 2) != 0, .uid = 1000, .gid = 100});
    const std::size_t cut = stream.size() * (options >> 2) / 64;
    const bool fed = importer.feed(as_bytes(stream.substr(0, cut))).has_value() && importer.feed(as_bytes(stream.substr(cut))).has_value();
    sound = importer.finish().has_value();
    check(fed || !sound, "a stream that was refused ends well");
    check(importer.finish().has_value() == sound, "it ends in two ways");
  }
  check(tree.total_lookups() == lookups, "something is still held on to");
  std::vector<std::string> names;
  (void)tree.readdir(kRootIno, 0, AttrsOf::none, [&](const DirEntry& entry) { names.emplace_back(entry.name); return true; }, Wait::yes, AccessTime::stays);
  check(names == std::vector<std::string>({".", "..", "kept"}), "something lies outside of the directory");
  check(tree.getattr(kept->ino, Wait::yes)->nlink == 1, "a file outside of the directory has another name");
  tree.forget(staged->ino, 1);
  check(tree.inodes() == 2, "something is left of what was given up");
  return sound;
}

std::vector<std::string> import_examples() {
  ImportedInode directory{.path = "a", .mode = S_IFDIR | 0755, .uid = 1, .gid = 2};
  directory.mtime = Time{1'700'000'000, 5};
  directory.xattrs = {{"system.posix_acl_default", "list"}};
  ImportedInode file{.path = "a/f", .mode = S_IFREG | 0644, .size = 9000};
  file.atime = file.mtime = Time{-7, 999'999'999};
  file.xattrs = {{"user.name", "value"}, {"trusted.x", ""}};
  ImportedInode second;
  second.path = "a/b/g";
  second.target = "a/f";
  second.is_link = true;
  const ImportedInode symlink{.path = "a/f", .mode = S_IFLNK | 0777, .target = "../where"};
  const ImportedInode below{.path = "a/f/x", .mode = S_IFREG | 0644};
  const ImportedInode device{.path = "null", .mode = S_IFCHR | 0666, .rdev = 0x103};
  const ImportedInode top{.path = "", .mode = S_IFDIR | 0700};
  std::vector<std::string> all;
  for (const auto& inodes : std::vector<std::vector<ImportedInode>>{{directory, file, second}, {file, symlink, below}, {device, top, second}, {file, file, directory}}) {
    std::string whole = "\x02", pieces = "\x03";
    for (const ImportedInode& inode : inodes) {
      std::string record;
      put_record(record, inode);
      if (S_ISREG(inode.mode) && inode.size > 0) put_record(record, 4096, "data");
      whole += record;
      for (std::string_view rest = record; !rest.empty();) {
        const std::uint32_t size = Reader(rest).le32();
        put_le16(pieces, static_cast<std::uint16_t>(size));
        pieces += rest.substr(4, size);
        rest.remove_prefix(4 + size);
      }
    }
    all.push_back(whole);
    all.push_back(pieces);
  }
  return all;
}

}  // namespace

const Target kImport{"import", run_import, import_examples, 2048, 0, 50'000};

}  // namespace lsmfs::fuzz

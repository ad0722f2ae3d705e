// A tree that comes as a stream is what the stream says, however it is cut, and there as a whole or not at all.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>
#include <random>

#include "lsmfs/import.h"
#include "noise.h"
#include "tree/harness.h"
#include "tree/import_records.h"
#include "tree/keys.h"

namespace lsmfs::test::importer_test {
namespace {

constexpr Importing kRoot{.as_root = true, .uid = 0, .gid = 0};
constexpr Importing kUser{.as_root = false, .uid = 1000, .gid = 100};
constexpr Time kThen{1'000'000'000, 7};

ImportedInode file(std::string path, std::uint64_t size = 0) {
  ImportedInode inode{.path = std::move(path), .mode = S_IFREG | 0640, .uid = 5, .gid = 6, .size = size};
  inode.mtime = kThen;
  return inode;
}
ImportedInode directory(std::string path) {
  ImportedInode inode{.path = std::move(path), .mode = S_IFDIR | 0750, .uid = 5, .gid = 6};
  inode.mtime = kThen;
  return inode;
}
ImportedInode second_name(std::string path, std::string of) {
  ImportedInode inode;
  inode.path = std::move(path);
  inode.target = std::move(of);
  inode.is_link = true;
  return inode;
}
ImportedInode of_kind(std::string path, std::uint32_t mode, std::string target = "") {
  ImportedInode inode{.path = std::move(path), .mode = mode, .target = std::move(target)};
  return inode;
}

std::string stream_of(const std::vector<ImportedInode>& inodes) {
  std::string stream;
  for (const ImportedInode& inode : inodes) put_record(stream, inode);
  return stream;
}

class Import : public testing::Test {
 protected:
  // Into a directory without a name; gives its number, which is held on to.
  Ino stage(std::string_view name = "d") {
    const auto made = h.tree().stage(kRootIno, name, {.mode = S_IFDIR | 0755}, Wait::yes);
    EXPECT_TRUE(made) << made.error().message();
    return made->ino;
  }
  // "CODE PATH" of the error, or "".
  std::string import(Ino top, const std::string& stream, const Importing& who = kRoot, std::size_t at_a_time = SIZE_MAX) {
    Importer importer(h.tree(), top, who);
    std::string_view rest = stream;
    std::string failed;
    while (!rest.empty() && failed.empty()) {
      const std::string_view piece = rest.substr(0, at_a_time);
      rest.remove_prefix(piece.size());
      if (const auto fed = importer.feed(as_bytes(piece)); !fed) failed = said(fed.error());
    }
    const auto finished = importer.finish();
    if (!finished) return said(finished.error());
    EXPECT_EQ(failed, "") << "an error stays one";
    counts = *finished;
    return "";
  }
  // The error of a stream of these, which leaves nothing.
  std::string refused(const std::vector<ImportedInode>& inodes, const Importing& who = kRoot) {
    const Ino top = stage("refused");
    std::string why = import(top, stream_of(inodes), who);
    h.tree().forget(top, 1);
    EXPECT_EQ(h.walk("refused"), Ino{});
    return why;
  }
  static std::string said(const Error& error) { return std::to_string(error.code) + " " + error.context; }
  void name(Ino top, std::string_view name = "d") {
    ASSERT_TRUE(h.tree().link(top, kRootIno, name, Wait::yes));
    h.tree().forget(top, 2);
  }
  // Imports it as `d`.
  void made(const std::string& stream, const Importing& who = kRoot) {
    const Ino top = stage();
    ASSERT_EQ(import(top, stream, who), "");
    name(top);
  }
  void sweep() {
    for (auto more = h.tree().sweep(); more && *more;) more = h.tree().sweep();
  }
  Attr attr(const std::string& path) {
    const Ino ino = h.walk(path);
    EXPECT_NE(ino, Ino{}) << path;
    return h.attr(ino);
  }
  std::string xattr(const std::string& path, std::string_view name) {
    const auto value = h.tree().getxattr(h.walk(path), name, Wait::yes);
    return value ? *value : "error " + std::to_string(value.error().code);
  }

  Harness h{ByteCount{256 * MiB}};
  ImportCounts counts;
};

TEST_F(Import, MakesAllKinds) {
  std::string stream;
  put_record(stream, directory(""));
  put_record(stream, directory("a"));
  auto f = file("a/f", 10'000);
  f.xattrs = {{"user.name", "value"}, {"trusted.t", std::string(3000, 'v')}};
  f.mode |= S_ISUID;
  put_record(stream, f);
  put_record(stream, 0, std::string(5000, 'x'));
  put_record(stream, 8192, "end");
  put_record(stream, second_name("a/g", "a/f"));
  put_record(stream, of_kind("link", S_IFLNK | 0777, "../where ever"));
  put_record(stream, of_kind("a/fifo", S_IFIFO | 0600));
  auto device = of_kind("a/device", S_IFCHR | 0600);
  device.rdev = 0x103;
  put_record(stream, device);
  put_record(stream, file("no/entry/before/f"));
  made(stream);
  EXPECT_EQ(counts, (ImportCounts{.files = 3, .directories = 1, .others = 3, .bytes = 5003}));
  for (int mounts = 0; mounts < 2; ++mounts) {
    EXPECT_EQ(attr("d/a").mode, S_IFDIR | 0750u);
    EXPECT_EQ(attr("d/a").uid, 5u);
    EXPECT_EQ(attr("d/a").mtime, kThen);
    EXPECT_EQ(attr("d").mtime, kThen);
    EXPECT_EQ(attr("d").nlink, 4u);
    EXPECT_EQ(attr("d/a/f").ino, attr("d/a/g").ino);
    EXPECT_EQ(attr("d/a/f").nlink, 2u);
    EXPECT_EQ(attr("d/a/f").mode, S_IFREG | S_ISUID | 0640u);
    EXPECT_EQ(attr("d/a/f").size, 10'000u);
    EXPECT_EQ(attr("d/a/f").mtime, kThen);
    EXPECT_EQ(h.read_path("d/a/g"), std::string(5000, 'x') + std::string(3192, '\0') + "end" + std::string(1805, '\0'));
    EXPECT_EQ(xattr("d/a/f", "user.name"), "value");
    EXPECT_EQ(xattr("d/a/f", "trusted.t"), std::string(3000, 'v'));
    EXPECT_EQ(*h.tree().readlink(h.walk("d/link"), Wait::yes), "../where ever");
    EXPECT_EQ(attr("d/a/device").rdev, 0x103u);
    EXPECT_EQ(attr("d/no/entry").mode, S_IFDIR | 0777u);
    EXPECT_EQ(attr("d/no/entry/before/f").gid, 6u);
    h.remount();
    EXPECT_EQ(h.check(), "");
  }
}

TEST_F(Import, IsTheSameHoweverTheStreamIsCut) {
  std::string stream;
  std::mt19937_64 draw(3);
  std::map<std::string, std::string> contents;
  for (int i = 0; i < 60; ++i) {
    const std::string path = "a" + std::to_string(draw() % 3) + "/b" + std::to_string(draw() % 4) + "/f" + std::to_string(i);
    const std::string data(draw() % 9000, static_cast<char>('a' + i % 26));
    put_record(stream, file(path, data.size()));
    if (!data.empty()) put_record(stream, 0, data);
    contents[path] = data;
  }
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, stream.size()}) {
    const Ino top = stage("to" + std::to_string(piece));
    ASSERT_EQ(import(top, stream, kRoot, piece), "");
    name(top, "to" + std::to_string(piece));
    for (const auto& [path, data] : contents) EXPECT_EQ(h.read_path("to" + std::to_string(piece) + "/" + path), data);
  }
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, LaterEntriesTakeThePlaceOfEarlierOnes) {
  std::string stream;
  put_record(stream, directory("a"));
  put_record(stream, file("a/f", 3));
  put_record(stream, 0, "old");
  put_record(stream, second_name("a/g", "a/f"));
  put_record(stream, file("a/f", 3));
  put_record(stream, 0, "new");
  put_record(stream, of_kind("a/h", S_IFLNK | 0777, "f"));
  put_record(stream, second_name("a/h", "a/g"));
  put_record(stream, second_name("a/h", "a/h"));
  put_record(stream, directory("b"));
  put_record(stream, file("b"));
  auto again = directory("a");
  again.mode = S_IFDIR | 0500;
  put_record(stream, again);
  put_record(stream, file("c"));
  put_record(stream, directory("c"));
  made(stream);
  EXPECT_EQ(h.read_path("d/a/f"), "new");
  EXPECT_EQ(h.read_path("d/a/h"), "old");
  EXPECT_EQ(attr("d/a/h").nlink, 2u);
  EXPECT_EQ(attr("d/a").mode, S_IFDIR | 0500u);
  EXPECT_EQ(attr("d/a").mtime, kThen) << "whatever came into it later";
  EXPECT_EQ(attr("d/b").mode & S_IFMT, unsigned{S_IFREG});
  EXPECT_EQ(attr("d/c").mode & S_IFMT, unsigned{S_IFDIR});
  EXPECT_EQ(attr("d").nlink, 4u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, ADirectoryThatIsLeftAndEnteredAgainKeepsItsTime) {
  made(stream_of({directory("a"), file("a/f"), directory("b"), file("a/g"), file("b/f"), file("a/h")}));
  EXPECT_EQ(attr("d/a").mtime, kThen);
  EXPECT_EQ(attr("d/b").mtime, kThen);
}

TEST_F(Import, WhatIsNotRootOwnsAllAndGetsNoPrivileges) {
  auto f = file("a/f");
  f.mode |= S_ISUID | S_ISGID;
  made(stream_of({directory("a"), f}), kUser);
  EXPECT_EQ(attr("d/a").uid, 1000u);
  EXPECT_EQ(attr("d/a/f").uid, 1000u);
  EXPECT_EQ(attr("d/a/f").gid, 100u);
  EXPECT_EQ(attr("d/a/f").mode, S_IFREG | S_ISUID | S_ISGID | 0640u) << "of a group that is his";
  const Ino top = stage("e");
  Importing stranger = kUser;
  stranger.is_member = false;
  ASSERT_EQ(import(top, stream_of({f}), stranger), "");
  name(top, "e");
  EXPECT_EQ(attr("e/a/f").mode, S_IFREG | S_ISUID | 0640u);

  EXPECT_EQ(refused({of_kind("null", S_IFCHR | 0666)}, kUser), std::to_string(EPERM) + " null");
  auto privileged = file("f");
  for (const char* attribute : {"trusted.x", "security.capability"}) {
    privileged.xattrs = {{attribute, "v"}};
    EXPECT_EQ(refused({privileged}, kUser), std::to_string(EPERM) + " f");
  }
}

TEST_F(Import, RefusesWhatCannotBe) {
  const std::string invalid = std::to_string(EINVAL) + " ";
  for (const char* path : {"/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/."}) {
    EXPECT_EQ(refused({file(path)}), invalid + path);
    EXPECT_EQ(refused({file("f"), second_name("g", path)}), invalid + path);
  }
  EXPECT_EQ(refused({file(std::string("a\0b", 3))}), invalid + std::string("a\0b", 3));
  EXPECT_EQ(refused({of_kind("f", 0600)}), invalid + "f");
  EXPECT_EQ(refused({of_kind("f", S_IFREG | S_IFIFO)}), invalid + "f");
  EXPECT_EQ(refused({second_name("g", "f")}), std::to_string(ENOENT) + " f");
  EXPECT_EQ(refused({directory("a"), second_name("g", "a")}), std::to_string(EPERM) + " g");
  EXPECT_EQ(refused({second_name("g", "")}), std::to_string(EPERM) + " ");
  EXPECT_EQ(refused({of_kind("l", S_IFLNK | 0777, "/etc"), file("l/passwd")}), std::to_string(ENOTDIR) + " l");
  EXPECT_EQ(refused({of_kind("l", S_IFLNK | 0777, "a"), directory("a"), file("a/f"), second_name("g", "l/f")}), std::to_string(ENOTDIR) + " l/f");
  EXPECT_EQ(refused({file("f"), file("f/g")}), std::to_string(ENOTDIR) + " f");
  EXPECT_EQ(refused({directory("a"), file("a/f"), file("a")}), std::to_string(ENOTEMPTY) + " a");
  EXPECT_EQ(refused({file(std::string(256, 'n'))}), std::to_string(ENAMETOOLONG) + " " + std::string(256, 'n'));
  EXPECT_EQ(refused({of_kind("l", S_IFLNK | 0777, std::string(4096, 't'))}), std::to_string(ENAMETOOLONG) + " l");
  EXPECT_EQ(refused({of_kind("l", S_IFLNK | 0777)}), std::to_string(ENOENT) + " l");
  EXPECT_EQ(refused({file("f", std::uint64_t{1} << 63), file("g")}), std::to_string(EFBIG) + " f");
  EXPECT_EQ(refused({file("")}), std::to_string(ENOTDIR) + " ");
  auto attributes = file("f");
  attributes.xattrs = {{"system.other", "v"}};
  EXPECT_EQ(refused({attributes}), std::to_string(EOPNOTSUPP) + " f");
  attributes.xattrs = {{"user.x", std::string(kXattrSizeMax + 1, 'v')}};
  EXPECT_EQ(refused({attributes}), std::to_string(E2BIG) + " f");
  attributes.xattrs = {{"system.posix_acl_access", "garbage"}};
  EXPECT_EQ(refused({attributes}), std::to_string(EINVAL) + " f");
  sweep();
  EXPECT_EQ(h.check(), "");
  EXPECT_EQ(h.tree().counts().regular, 0u);
}

TEST_F(Import, AsRootWithoutCapabilitiesIsRefusedWhatTheseAreFor) {
  Importing less = kRoot;
  less.devices = less.trusted = less.capabilities = false;
  EXPECT_EQ(refused({of_kind("null", S_IFCHR | 0666)}, less), std::to_string(EPERM) + " null");
  auto privileged = file("f");
  for (const char* attribute : {"trusted.x", "security.selinux", "security.capability"}) {
    privileged.xattrs = {{attribute, "v"}};
    EXPECT_EQ(refused({privileged}, less), std::to_string(EPERM) + " f");
  }
  less.trusted = true;
  EXPECT_EQ(refused({privileged}, less), std::to_string(EPERM) + " f");
  made(stream_of({file("f")}), less);
  EXPECT_EQ(attr("d/f").uid, 5u);
}

TEST_F(Import, NobodyIsNoOwner) {
  auto f = file("f");
  f.uid = UINT32_MAX;
  EXPECT_EQ(refused({f}), std::to_string(EINVAL) + " f");
  f = file("f");
  f.gid = UINT32_MAX;
  EXPECT_EQ(refused({f}), std::to_string(EINVAL) + " f");
  auto top = directory("");
  top.uid = UINT32_MAX;
  EXPECT_EQ(refused({top}), std::to_string(EINVAL) + " ");
}

// As an access control list of the kernel's form: version 2, the owner rwx, user 7 rwx, group r-x, the mask rwx, others nothing.
const std::string kAcl("\2\0\0\0\1\0\7\0\377\377\377\377\2\0\7\0\7\0\0\0\4\0\5\0\377\377\377\377\20\0\7\0\377\377\377\377\40\0\0\0\377\377\377\377", 44);

TEST_F(Import, NoAccessControlListIsInherited) {
  auto a = directory("a");
  a.xattrs = {{"system.posix_acl_default", kAcl}, {"system.posix_acl_access", kAcl}};
  made(stream_of({a, file("a/f"), directory("a/sub"), directory("b")}));
  EXPECT_EQ(xattr("d/a", "system.posix_acl_default"), kAcl);
  EXPECT_EQ(xattr("d/a", "system.posix_acl_access"), kAcl);
  EXPECT_EQ(attr("d/a").mode, S_IFDIR | 0770u) << "as the list says";
  EXPECT_EQ(attr("d/a").mtime, kThen);
  EXPECT_EQ(xattr("d/a/f", "system.posix_acl_access"), "error " + std::to_string(ENODATA));
  EXPECT_EQ(xattr("d/a/sub", "system.posix_acl_default"), "error " + std::to_string(ENODATA));
  EXPECT_EQ(attr("d/a/f").mode, S_IFREG | 0640u);
}

TEST_F(Import, AListOfWhatIsReplacedGoesWithIt) {
  auto a = directory("a");
  a.xattrs = {{"system.posix_acl_default", kAcl}};
  made(stream_of({a, file("a"), a, file("a"), directory("a")}));
  EXPECT_EQ(xattr("d/a", "system.posix_acl_default"), "error " + std::to_string(ENODATA));
}

TEST_F(Import, RefusesADamagedStream) {
  std::string stream = stream_of({file("f", 4)});
  put_record(stream, 0, "data");
  put_record(stream, file("g"));
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    const Ino top = stage();
    const std::string why = import(top, stream.substr(0, cut));
    EXPECT_TRUE(why.empty() || why == std::to_string(EINVAL) + " ") << cut;
    h.tree().forget(top, 1);
  }
  // Whatever a byte says, it is refused or something else is made: nothing worse.
  for (std::size_t at = 0; at < stream.size(); ++at) {
    for (const unsigned flip : {1u, 0x80u, 0xffu}) {
      std::string damaged = stream;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(damaged[at]) ^ flip);
      const Ino top = stage();
      (void)import(top, damaged);
      h.tree().forget(top, 1);
    }
  }
  std::string before_file;
  put_record(before_file, 0, "data");
  Ino top = stage();
  EXPECT_EQ(import(top, before_file), std::to_string(EINVAL) + " ");
  h.tree().forget(top, 1);
  std::string backwards = stream_of({file("f", 4)});
  put_record(backwards, 2, "ta");
  put_record(backwards, 0, "da");
  top = stage();
  EXPECT_EQ(import(top, backwards), std::to_string(EINVAL) + " f");
  h.tree().forget(top, 1);
  sweep();
  EXPECT_EQ(h.check(), "");
}

TEST(ImportRecords, ComeBackAsTheyWere) {
  auto inode = file("a/f", 10'000);
  inode.atime = Time{-5, 999'999'999};
  inode.xattrs = {{"user.a", ""}, {"user.b", std::string(300, '\0')}};
  for (const ImportedInode& each : {inode, directory(""), second_name("a", "b"), of_kind("l", S_IFLNK | 0777, "t"), of_kind("c", S_IFCHR)}) {
    std::string stream;
    put_record(stream, each);
    EXPECT_EQ(stream.size(), record_size(each));
    const auto back = decode_inode(std::string_view(stream).substr(kRecordHeader));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, each);
    EXPECT_FALSE(decode_data(std::string_view(stream).substr(kRecordHeader)));
  }
  std::string stream;
  put_record(stream, 77, "bytes");
  const auto data = decode_data(std::string_view(stream).substr(kRecordHeader));
  ASSERT_TRUE(data);
  EXPECT_EQ(data->offset, 77u);
  EXPECT_EQ(data->bytes, "bytes");
}

// ---- directories without a name

TEST_F(Import, WhatHasNoNameYetIsNowhere) {
  const Ino top = stage();
  ASSERT_EQ(import(top, stream_of({directory("a"), file("a/f")})), "");
  EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{});
  EXPECT_EQ(h.list(top), std::vector<std::string>{"a"});
  EXPECT_EQ(h.attr(top).nlink, 0u);
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(code(h.tree().link(top, top, "itself", Wait::yes)), EINVAL);
  name(top);
  EXPECT_EQ(h.attr(kRootIno).nlink, 3u);
  EXPECT_EQ(attr("d").nlink, 3u);
  EXPECT_EQ(h.tree().counts().displaced, 0u) << "it lies where its name says";
  EXPECT_EQ(code(h.tree().link(h.walk("d"), kRootIno, "again", Wait::yes)), EPERM);
  h.remount();
  EXPECT_EQ(attr("d/a/f").mtime, kThen);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, ElsewhereThanWhereItWasStagedItIsThereToo) {
  const Ino top = stage("one");
  ASSERT_EQ(import(top, stream_of({file("f")})), "");
  name(top, "two");
  EXPECT_NE(attr("two/f").ino, Ino{});
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.tree().counts().displaced, 1u);
  h.remount();
  EXPECT_NE(attr("two/f").ino, Ino{});
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, WhatIsGivenUpGoes) {
  const std::uint64_t names = h.rows(Family::names), blocks = h.rows(Family::blocks);
  const Ino top = stage();
  std::string stream = stream_of({directory("a"), file("a/f", 10'000)});
  put_record(stream, 0, std::string(10'000, 'x'));
  ASSERT_EQ(import(top, stream), "");
  ASSERT_TRUE(h.tree().sync());
  h.tree().forget(top, 1);
  EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{});
  sweep();
  EXPECT_EQ(h.tree().counts().regular, 0u);
  EXPECT_EQ(h.tree().counts().directories, 1u);
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::names), names);
  EXPECT_EQ(h.rows(Family::blocks), blocks);
  EXPECT_EQ(h.check(), "");
}

// At any time: nothing is there, and nothing is left of it later.
TEST_F(Import, ACrashLeavesAllOrNothing) {
  const std::uint64_t names = h.rows(Family::names), blocks = h.rows(Family::blocks);
  std::string stream = stream_of({directory("a"), file("a/f", 10'000)});
  put_record(stream, 0, std::string(10'000, 'x'));
  put_record(stream, directory("b"));
  const std::string whole = stream + stream_of({file("b/g"), second_name("b/h", "b/g")});
  for (const bool all : {false, true}) {
    for (const bool synced : {false, true}) {
      const Ino top = stage();
      ASSERT_EQ(import(top, all ? whole : stream), "");
      ASSERT_TRUE(!synced || h.tree().sync());
      h.crash();
      EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{});
      EXPECT_EQ(h.check(), "");
      sweep();
      EXPECT_EQ(h.tree().counts().directories, 1u);
      EXPECT_EQ(h.tree().counts().regular, 0u);
      ASSERT_TRUE(h.tree().sync());
      EXPECT_EQ(h.rows(Family::names), names);
      EXPECT_EQ(h.rows(Family::blocks), blocks);
    }
  }
  made(whole);
  ASSERT_TRUE(h.tree().sync());
  h.crash();
  EXPECT_EQ(attr("d/b/h").nlink, 2u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, AnUnmountWhileItGoesOnLeavesNothing) {
  const Ino top = stage();
  Importer importer(h.tree(), top, kRoot);
  ASSERT_TRUE(importer.feed(as_bytes(stream_of({directory("a"), file("a/f")}))));
  h.tree().forget(top, 1);
  sweep();
  std::string more;
  put_record(more, 0, "of a/f");
  put_record(more, file("a/g"));
  EXPECT_NE(code(importer.feed(as_bytes(more))), 0);
  EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{});
}

TEST_F(Import, WhereItWasToBeIsGone) {
  const Ino parent = h.mkdir(kRootIno, "parent");
  const auto staged = h.tree().stage(parent, "d", {.mode = S_IFDIR | 0755}, Wait::yes);
  ASSERT_TRUE(staged);
  ASSERT_TRUE(h.tree().rmdir(kRootIno, "parent", Wait::yes));
  EXPECT_EQ(import(staged->ino, stream_of({file("f")})), "");
  EXPECT_EQ(code(h.tree().link(staged->ino, parent, "d", Wait::yes)), ENOENT);
  EXPECT_EQ(code(h.tree().stage(parent, "e", {.mode = S_IFDIR | 0755}, Wait::yes)), ENOENT);
  h.tree().forget(staged->ino, 1);
  sweep();
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, AFullDiskIsSaid) {
  const Ino top = stage();
  std::string stream;
  std::string noise(MiB / 2, '\0');
  fill_with_noise(1, noise);
  std::string why;
  {
    Importer importer(h.tree(), top, kRoot);
    for (int i = 0; i < 2000 && why.empty(); ++i) {
      stream.clear();
      put_record(stream, file("f" + std::to_string(i), noise.size()));
      put_record(stream, 0, noise);
      if (const auto fed = importer.feed(as_bytes(stream)); !fed) why = said(fed.error());
    }
  }
  EXPECT_TRUE(why.starts_with(std::to_string(ENOSPC) + " f")) << why;
  h.tree().forget(top, 1);
  sweep();
  EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{});
  EXPECT_EQ(h.tree().counts().regular, 0u);
  EXPECT_EQ(h.check(), "");
}

// ---- what comes past the log

std::string noise(std::size_t size, std::uint64_t seed) {
  std::string bytes(size, '\0');
  fill_with_noise(seed, bytes);
  return bytes;
}

// Files of 20,000 bytes in directories of ten each, and some have a second name.
std::string many_files(std::size_t count) {
  std::string stream;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string path = "d" + std::to_string(i / 10) + "/f" + std::to_string(i);
    put_record(stream, file(path, 20'000));
    put_record(stream, 0, noise(20'000, i));
    if (i % 50 == 7) put_record(stream, second_name("links/" + std::to_string(i), path));
  }
  return stream;
}
constexpr std::size_t kMany = 1500;  // of which there are several tables

TEST_F(Import, FilesOfAnySizeAreWhatTheStreamSays) {
  struct Piece {
    std::uint64_t at;
    std::size_t size;
  };
  const std::vector<std::pair<std::uint64_t, std::vector<Piece>>> files{
      {0, {}},
      {1, {{0, 1}}},
      {4096, {{0, 4096}}},
      {4097, {{0, 4097}}},
      {9000, {{0, 3000}, {3000, 3000}, {6000, 3000}}},
      {8192, {{0, 1}, {1, 4095}, {4096, 4096}}},
      {20'000, {{5000, 100}, {6000, 100}, {12'288, 7712}}},   // holes
      {50'000, {{0, 100}, {40'000, 1}}},                      // one at its end, too
      {50'000, {{4095, 2}, {8191, 4097}, {20'479, 8194}}},
      {700'000, {{0, 300'001}, {300'001, 399'999}}},
      {5 * MiB, {{0, MiB}, {MiB, MiB}, {2 * MiB, MiB}, {3 * MiB, MiB}, {4 * MiB, MiB}}},
      {1000, {{0, 1000}, {1000, 9000}}},                      // more than it said
  };
  std::string stream;
  std::vector<std::string> wanted;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [size, pieces] = files[i];
    put_record(stream, file("f" + std::to_string(i), size));
    std::string bytes;
    for (const Piece& piece : pieces) {
      const std::string data = noise(piece.size, 1000 * i + piece.at);
      bytes.resize(piece.at);
      bytes += data;
      put_record(stream, piece.at, data);
    }
    bytes.resize(std::max<std::size_t>(size, bytes.size()));
    wanted.push_back(bytes);
  }
  made(stream);
  for (int mounts = 0; mounts < 2; ++mounts) {
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(h.read_path("d/f" + std::to_string(i)) == wanted[i]) << i;
    EXPECT_EQ(h.check(), "");
    h.remount();
  }
}

TEST_F(Import, ManyFilesAreThere) {
  made(many_files(kMany));
  for (int mounts = 0; mounts < 2; ++mounts) {
    for (std::size_t i = 0; i < kMany; i += 7) {
      ASSERT_TRUE(h.read_path("d/d" + std::to_string(i / 10) + "/f" + std::to_string(i)) == noise(20'000, i)) << i;
    }
    EXPECT_EQ(h.check(), "");
    h.remount();
  }
}

TEST_F(Import, ACrashInTheMiddleOfManyLeavesNothing) {
  const std::uint64_t names = h.rows(Family::names), blocks = h.rows(Family::blocks);
  const std::string stream = many_files(kMany);
  bool any = false;
  for (int tenths = 3; tenths <= 10; ++tenths) {
    auto importer = std::make_unique<Importer>(h.tree(), stage(), kRoot);
    ASSERT_TRUE(importer->feed(as_bytes(std::string_view(stream).substr(0, stream.size() / 10 * static_cast<std::size_t>(tenths)))));
    ASSERT_TRUE(tenths % 2 != 0 || h.tree().sync());
    any |= h.rows(Family::blocks) > blocks;
    importer.reset();
    h.crash();
    EXPECT_EQ(h.check(), "") << tenths;
    EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{});
    sweep();
    ASSERT_TRUE(h.tree().sync());
    EXPECT_EQ(h.tree().counts().regular, 0u);
    EXPECT_EQ(h.rows(Family::names), names) << tenths;
    EXPECT_EQ(h.rows(Family::blocks), blocks) << tenths;
    EXPECT_EQ(h.check(), "") << tenths;
  }
  EXPECT_TRUE(any) << "nothing had come yet";
}

TEST_F(Import, OfManyThatAreGivenUpNothingIsLeft) {
  const std::uint64_t names = h.rows(Family::names), blocks = h.rows(Family::blocks);
  const std::string stream = many_files(kMany);
  for (const std::size_t tenths : {3, 6, 9}) {
    const Ino top = stage();
    {
      Importer importer(h.tree(), top, kRoot);
      ASSERT_TRUE(importer.feed(as_bytes(std::string_view(stream).substr(0, stream.size() / 10 * tenths))));
    }
    h.tree().forget(top, 1);
    sweep();
    ASSERT_TRUE(h.tree().sync());
    EXPECT_EQ(h.tree().counts().regular, 0u);
    EXPECT_EQ(h.rows(Family::names), names) << tenths;
    EXPECT_EQ(h.rows(Family::blocks), blocks) << tenths;
  }
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), blocks);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, OfWhatIsReplacedAfterManyNothingIsLeft) {
  std::string stream = many_files(kMany);
  for (std::size_t i = 0; i < kMany; i += 100) {
    const std::string path = "d" + std::to_string(i / 10) + "/f" + std::to_string(i);
    put_record(stream, file(path, 5000));
    put_record(stream, 0, std::string(5000, 'n'));
  }
  made(stream);
  ASSERT_TRUE(h.tree().sync());
  for (std::size_t i = 0; i < kMany; i += 50) {
    const bool is_new = i % 100 == 0;
    ASSERT_TRUE(h.read_path("d/d" + std::to_string(i / 10) + "/f" + std::to_string(i)) == (is_new ? std::string(5000, 'n') : noise(20'000, i))) << i;
  }
  EXPECT_EQ(h.check(), "");
}

// A cursor that was kept from before does not show what has come since.
TEST_F(Import, WhoHasReadBesideItSeesWhatComes) {
  h.create(kRootIno, "c", std::string(5000, 'c'));
  const Ino beside = h.create(kRootIno, "e", std::string(5000, 'e'));
  ASSERT_TRUE(h.tree().sync());
  const Ino top = stage();
  const auto f = h.tree().make(top, "f", {.mode = S_IFREG | 0644}, Wait::yes);
  ASSERT_TRUE(f);
  ASSERT_TRUE(h.tree().write_staged(top, f->ino, ByteOffset{0}, as_bytes(std::string(5000, 'f'))));
  ASSERT_TRUE(h.tree().sync());  // so no commit follows, for which such cursors go
  std::string bytes(5000, '\0');
  const auto read = [&](Ino ino) { return both_ways([&](Wait wait) { return h.tree().read(ino, ByteOffset{0}, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, wait, AccessTime::stays); }); };
  ASSERT_TRUE(read(beside));
  ASSERT_TRUE(read(h.walk("c")));  // last: a cursor stays between the two
  ASSERT_TRUE(h.tree().settle_staged(top));
  ASSERT_TRUE(read(f->ino));
  EXPECT_EQ(bytes, std::string(5000, 'f'));
  h.tree().forget(f->ino, 1);
}

TEST_F(Import, NothingGetsANameBeforeAllOfItIsThere) {
  const Ino top = stage();
  Importer importer(h.tree(), top, kRoot);
  std::string stream = stream_of({file("f", 3)});
  put_record(stream, 0, "abc");
  put_record(stream, file("g"));
  ASSERT_TRUE(importer.feed(as_bytes(stream)));
  EXPECT_EQ(code(h.tree().link(top, kRootIno, "d", Wait::yes)), EBUSY);
  ASSERT_TRUE(importer.finish());
  EXPECT_EQ(code(h.tree().link(top, kRootIno, "d", Wait::yes)), 0);
  EXPECT_EQ(h.read_path("d/f"), "abc");
}

TEST_F(Import, ThereMayBeMoreThanHaveTablesOfTheirOwn) {
  std::vector<Ino> tops;
  std::vector<std::unique_ptr<Importer>> importers;
  const std::string stream = many_files(100);
  for (int i = 0; i < 5; ++i) {
    tops.push_back(stage("to" + std::to_string(i)));
    importers.push_back(std::make_unique<Importer>(h.tree(), tops.back(), kRoot));
  }
  for (std::size_t at = 0; at < stream.size(); at += 100'000) {
    for (const auto& importer : importers) ASSERT_TRUE(importer->feed(as_bytes(std::string_view(stream).substr(at, 100'000))));
  }
  for (std::size_t i = 0; i < tops.size(); ++i) {
    ASSERT_TRUE(importers[i]->finish());
    name(tops[i], "to" + std::to_string(i));
    for (std::size_t n = 0; n < 100; n += 9) {
      ASSERT_TRUE(h.read_path("to" + std::to_string(i) + "/d" + std::to_string(n / 10) + "/f" + std::to_string(n)) == noise(20'000, n));
    }
  }
  EXPECT_EQ(h.check(), "");
}

TEST_F(Import, BulkIsRefusedWhereItDoesNotFit) {
  const Ino top = stage();
  const auto made = h.tree().make(top, "f", {.mode = S_IFREG | 0644}, Wait::yes);
  ASSERT_TRUE(made);
  const std::string block(4096, 'x');
  const auto write = [&](std::uint64_t at, std::string_view bytes) { return code(h.tree().write_staged(top, made->ino, ByteOffset{at}, as_bytes(bytes))); };
  EXPECT_EQ(write(1, block), EINVAL);
  EXPECT_EQ(write(0, block), 0);
  EXPECT_EQ(write(0, block), EINVAL);
  EXPECT_EQ(write(8192, "end"), 0);
  EXPECT_EQ(write(12288, block), EINVAL) << "the block before is not whole";
  EXPECT_EQ(code(h.tree().write_staged(top, top, ByteOffset{0}, as_bytes(block))), EINVAL);
  ASSERT_TRUE(h.tree().settle_staged(top));
  EXPECT_EQ(write(12288, block), 0) << "as any other";
  h.tree().forget(made->ino, 1);
  name(top);
  EXPECT_EQ(h.read_path("d/f"), block + std::string(4096, '\0') + "end" + std::string(4093, '\0') + block);
  EXPECT_EQ(h.check(), "");
}

}  // namespace
}  // namespace lsmfs::test::importer_test

// What programs do on a mount, through the kernel.

#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "fuse/operations.h"
#include "until.h"

namespace lsmfs::test {
namespace {

TEST_F(Operations, AFileGivesBackWhatWasWritten) {
  std::string data(3 * MiB + 123, 'x');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  ASSERT_EQ(write_file(path("f"), data), 0);
  EXPECT_EQ(read_file(path("f")), data);
  EXPECT_EQ(facts("f").st_size, static_cast<off_t>(data.size()));
}

TEST_F(Operations, OpeningWithTruncateEmptiesAFile) {
  ASSERT_EQ(write_file(path("f"), "long contents"), 0);
  ASSERT_EQ(write_file(path("f"), "new", O_TRUNC), 0);
  EXPECT_EQ(read_file(path("f")), "new");
  ASSERT_EQ(write_file(path("f"), "", O_TRUNC), 0);
  EXPECT_EQ(facts("f").st_size, 0);
}

TEST_F(Operations, AppendingWritersDoNotOverwriteEachOther) {
  const int a = ::open(path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int b = ::open(path("log").c_str(), O_WRONLY | O_APPEND);
  ASSERT_GE(a, 0);
  ASSERT_GE(b, 0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(::write(a, "aa", 2), 2);
    EXPECT_EQ(::write(b, "b", 1), 1);
  }
  ::close(a);
  ::close(b);
  EXPECT_EQ(read_file(path("log")), "aabaabaabaabaabaabaabaabaabaab");
}

TEST_F(Operations, AnUnlinkedFileStaysUsableUntilItIsClosed) {
  const int fd = ::open(path("f").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "before", 6), 6);
  ASSERT_EQ(::unlink(path("f").c_str()), 0);
  EXPECT_TRUE(until([&] { return tree_.inodes() == 2; }));  // FORGET comes when the kernel likes
  ASSERT_EQ(::write(fd, " after", 6), 6);
  char data[13]{};
  EXPECT_EQ(::pread(fd, data, 12, 0), 12);
  EXPECT_STREQ(data, "before after");
  struct stat out {};
  ASSERT_EQ(::fstat(fd, &out), 0);
  EXPECT_EQ(out.st_nlink, 0u);
  EXPECT_EQ(out.st_size, 12);
  ::close(fd);
  ASSERT_EQ(::access(path("f").c_str(), F_OK), -1);
  // FORGET is not answered, so nothing waits for it.
  EXPECT_TRUE(until([&] { return tree_.inodes() == 1; }));
}

// Since Linux 6.18; before, all stay.
TEST_F(Operations, TheKernelLetsGoOfInodesThatNobodyUsesWhenItIsAskedTo) {
  ASSERT_EQ(::mkdir(path("dir").c_str(), 0755), 0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(write_file(path("dir/f" + std::to_string(i)), "data"), 0);
  const int open = ::open(path("dir/f7").c_str(), O_RDWR);
  ASSERT_GE(open, 0);
  std::vector<Ino> all{Ino{facts("dir").st_ino}};
  for (int i = 0; i < 100; ++i) all.push_back(Ino{facts("dir/f" + std::to_string(i)).st_ino});
  EXPECT_EQ(names("dir").size(), 102u);
  const auto in_use = [&] {
    return std::count_if(all.begin(), all.end(), [&](Ino ino) { return tree_.lookups(ino) > 0; });
  };
  ASSERT_EQ(in_use(), 101);
  tree_.set_surplus(all);
  struct statvfs space {};
  ASSERT_EQ(::statvfs(mounted_->root().c_str(), &space), 0);  // any request
  const KernelCache& kernel_cache = mounted_->mount().kernel_cache();
  EXPECT_TRUE(until([&] { return in_use() <= 2 || !kernel_cache.can_drop_inodes(); })) << in_use() << " are in use";
  if (!kernel_cache.can_drop_inodes()) {
    EXPECT_EQ(in_use(), 101);
    ::close(open);
    GTEST_SKIP() << "this kernel lets go of inodes by itself only";
  }
  EXPECT_EQ(in_use(), 2);  // the open file and its directory
  EXPECT_GT(tree_.lookups(Ino{facts("dir/f7").st_ino}), 0u);
  EXPECT_EQ(::pwrite(open, "D", 1, 0), 1);
  ::close(open);
  EXPECT_EQ(read_file(path("dir/f7")), "Data");
  EXPECT_EQ(read_file(path("dir/f8")), "data");
  EXPECT_EQ(facts("dir/f9").st_size, 4);
  EXPECT_EQ(names("dir").size(), 102u);
}

TEST_F(Operations, AMappingReadsAndWritesTheFile) {
  ASSERT_EQ(write_file(path("f"), std::string(10'000, 'a')), 0);
  const int fd = ::open(path("f").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  auto* memory = static_cast<char*>(::mmap(nullptr, 10'000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(memory[9'999], 'a');
  memory[0] = 'm';
  memory[5'000] = 'm';
  ASSERT_EQ(::msync(memory, 10'000, MS_SYNC), 0);
  ::munmap(memory, 10'000);
  ::close(fd);
  Attr attr;
  std::string stored(10'000, 0);
  ASSERT_EQ(tree_.read(Ino{2}, ByteOffset{0}, {reinterpret_cast<std::byte*>(stored.data()), stored.size()}, Wait::yes, AccessTime::stays)
                .value(),
            10'000u);
  EXPECT_EQ(stored[0], 'm');
  EXPECT_EQ(stored[5'000], 'm');
  EXPECT_EQ(stored[5'001], 'a');
}

TEST_F(Operations, TenThousandNamesAreListedOnceEachAndInOrder) {
  ASSERT_EQ(::mkdir(path("d").c_str(), 0755), 0);
  std::vector<std::string> expected{".", ".."};
  for (int i = 0; i < 10'000; ++i) {
    char name[64];
    ::snprintf(name, sizeof name, "name-%05d-with-some-length", i);
    ASSERT_EQ(::mknod(path(std::string("d/") + name).c_str(), S_IFREG | 0600, 0), 0);
    expected.emplace_back(name);
  }
  EXPECT_EQ(names("d"), expected);
  EXPECT_EQ(names("d"), expected) << "the second time, from the kernel's cache";
  mounted_->stop();
}

TEST_F(Operations, AListingFollowsChanges) {
  ASSERT_EQ(write_file(path("a"), ""), 0);
  EXPECT_EQ(names(""), (std::vector<std::string>{".", "..", "a"}));
  ASSERT_EQ(write_file(path("b"), ""), 0);
  EXPECT_EQ(names(""), (std::vector<std::string>{".", "..", "a", "b"}));
  ASSERT_EQ(::rename(path("a").c_str(), path("c").c_str()), 0);
  EXPECT_EQ(names(""), (std::vector<std::string>{".", "..", "b", "c"}));
  ASSERT_EQ(::unlink(path("b").c_str()), 0);
  EXPECT_EQ(names(""), (std::vector<std::string>{".", "..", "c"}));
  EXPECT_EQ(names("nothing"), std::vector<std::string>{});
}

TEST_F(Operations, SeekingInADirectoryComesBackToTheSamePlace) {
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(write_file(path("n" + std::to_string(1000 + i)), ""), 0);
  DIR* dir = ::opendir(mounted_->root().c_str());
  ASSERT_NE(dir, nullptr);
  for (int i = 0; i < 500; ++i) ASSERT_NE(::readdir(dir), nullptr);
  const long place = ::telldir(dir);
  const std::string next = ::readdir(dir)->d_name;
  while (::readdir(dir) != nullptr) {
  }
  ::seekdir(dir, place);
  EXPECT_EQ(::readdir(dir)->d_name, next);
  ::rewinddir(dir);
  EXPECT_STREQ(::readdir(dir)->d_name, ".");
  ::closedir(dir);
}

TEST_F(Operations, RenameMovesReplacesAndExchanges) {
  ASSERT_EQ(write_file(path("a"), "A"), 0);
  ASSERT_EQ(write_file(path("b"), "B"), 0);
  EXPECT_EQ(result_of(::renameat2(AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(), RENAME_NOREPLACE)), EEXIST);
  EXPECT_EQ(result_of(::renameat2(AT_FDCWD, path("a").c_str(), AT_FDCWD, path("b").c_str(), RENAME_EXCHANGE)), 0);
  EXPECT_EQ(read_file(path("a")), "B");
  EXPECT_EQ(read_file(path("b")), "A");
  ASSERT_EQ(::rename(path("a").c_str(), path("b").c_str()), 0);
  EXPECT_EQ(read_file(path("b")), "B");
  EXPECT_EQ(result_of(::access(path("a").c_str(), F_OK)), ENOENT);
  EXPECT_TRUE(until([&] { return tree_.inodes() == 2; }));  // FORGET comes when the kernel likes
}

TEST_F(Operations, EveryKindOfFileCanBeMade) {
  ASSERT_EQ(::mkdir(path("dir").c_str(), 0750), 0);
  ASSERT_EQ(::symlink("/some/where", path("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mknod(path("null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
  ASSERT_EQ(::mknod(path("socket").c_str(), S_IFSOCK | 0600, 0), 0);
  EXPECT_EQ(facts("dir").st_mode, S_IFDIR | 0750u);
  EXPECT_TRUE(S_ISFIFO(facts("fifo").st_mode));
  EXPECT_TRUE(S_ISSOCK(facts("socket").st_mode));
  EXPECT_EQ(facts("null").st_rdev, makedev(1, 3));
  char target[64]{};
  EXPECT_EQ(::readlink(path("link").c_str(), target, sizeof target), 11);
  EXPECT_STREQ(target, "/some/where");
  EXPECT_EQ(write_file(path("null"), "to a device"), 0) << "device files work when root mounts";
}

// The oracle is again a directory outside: what each call gives, and what is then to be seen.
TEST_F(Operations, ExtendedAttributesAreThoseOfANativeFileSystem) {
  char place[] = "/var/tmp/lsmfs-native-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const std::string native = place;
  if (::setxattr(place, "user.probe", "x", 1, 0) != 0) {
    ::rmdir(place);
    GTEST_SKIP() << "/var/tmp has no user extended attributes to compare with";
  }
  ASSERT_EQ(::removexattr(place, "user.probe"), 0);
  const auto show = [](ssize_t got, const std::string& buffer) {
    return got < 0 ? "errno " + std::to_string(errno) : std::to_string(got) + ":" + buffer.substr(0, static_cast<std::size_t>(got));
  };
  const auto get = [&](const std::string& file, const char* name, std::size_t room) {
    std::string buffer(room, '?');
    const ssize_t got = ::lgetxattr(file.c_str(), name, buffer.data(), room);
    return room == 0 && got >= 0 ? "size " + std::to_string(got) : show(got, buffer);
  };
  const auto list = [&](const std::string& file, std::size_t room) {
    std::string buffer(room, '?');
    const ssize_t got = ::llistxattr(file.c_str(), buffer.data(), room);
    if (got < 0) return "errno " + std::to_string(errno);
    std::vector<std::string> names;  // their order is the file system's own
    for (ssize_t at = 0; room > 0 && at < got; at += static_cast<ssize_t>(names.back().size()) + 1) names.emplace_back(buffer.data() + at);
    std::sort(names.begin(), names.end());
    std::string out = std::to_string(got);
    for (const auto& name : names) out += " " + name;
    return out;
  };
  using Step = std::function<std::string(const std::string&)>;
  const auto set = [](const char* name, std::string value, int flags = 0) -> Step {
    return [=](const std::string& file) {
      return std::to_string(result_of(::lsetxattr(file.c_str(), name, value.data(), value.size(), flags)));
    };
  };
  const std::string long_name = "user." + std::string(251, 'n');  // one too many
  const std::vector<std::pair<const char*, Step>> steps = {
      {"get none", [&](const std::string& f) { return get(f, "user.a", 100); }},
      {"list none", [&](const std::string& f) { return list(f, 100); }},
      {"replace none", set("user.a", "1", XATTR_REPLACE)},
      {"create", set("user.a", "1", XATTR_CREATE)},
      {"create again", set("user.a", "2", XATTR_CREATE)},
      {"replace", set("user.a", std::string("2\0two", 5), XATTR_REPLACE)},
      {"get", [&](const std::string& f) { return get(f, "user.a", 100); }},
      {"get size", [&](const std::string& f) { return get(f, "user.a", 0); }},
      {"get too small", [&](const std::string& f) { return get(f, "user.a", 4); }},
      {"empty", set("user.empty", "")},
      {"get empty", [&](const std::string& f) { return get(f, "user.empty", 10); }},
      {"large", set("user.large", std::string(2000, 'l'))},
      {"get large", [&](const std::string& f) { return get(f, "user.large", 4000); }},
      {"trusted", set("trusted.t", "t")},
      {"security", set("security.s", "s")},
      {"unknown namespace", set("other.x", "x")},
      {"no namespace", set("x", "x")},
      {"long name", set(long_name.c_str(), "x")},
      {"list", [&](const std::string& f) { return list(f, 1000); }},
      {"list size", [&](const std::string& f) { return list(f, 0); }},
      {"list too small", [&](const std::string& f) { return list(f, 3); }},
      {"list as a user", [&](const std::string& f) {
         return std::to_string(as_user([&] { return list(f, 1000).find("trusted") == std::string::npos ? 1 : 2; }));
       }},
      {"trusted as a user", [&](const std::string& f) {
         return std::to_string(as_user([&] { return get(f, "trusted.t", 10) == "errno " + std::to_string(ENODATA) ? 1 : 2; }));
       }},
      {"set as a user", [&](const std::string& f) {
         return std::to_string(as_user([&] { return result_of(::lsetxattr(f.c_str(), "user.u", "u", 1, 0)); }));
       }},
      {"remove", [](const std::string& f) { return std::to_string(result_of(::lremovexattr(f.c_str(), "user.a"))); }},
      {"remove none", [](const std::string& f) { return std::to_string(result_of(::lremovexattr(f.c_str(), "user.a"))); }},
      {"list at last", [&](const std::string& f) { return list(f, 1000); }},
  };
  ASSERT_EQ(::chmod(place, 0755), 0);
  ASSERT_EQ(::chmod(mounted_->root().c_str(), 0755), 0);
  for (const char* kind : {"file", "directory", "link", "fifo"}) {
    for (const auto& dir : {native, mounted_->root()}) {
      const std::string path = dir + "/" + kind;
      if (*kind == 'd') ASSERT_EQ(::mkdir(path.c_str(), 0755), 0);
      else if (*kind == 'l') ASSERT_EQ(::symlink("nowhere", path.c_str()), 0);
      else if (kind[1] == 'i' && kind[2] == 'f') ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0);
      else ASSERT_EQ(write_file(path, "data"), 0);
    }
    for (const auto& [what, step] : steps) {
      const std::string expected = step(native + "/" + kind);
      EXPECT_EQ(step(mounted_->root() + "/" + kind), expected) << what << " of a " << kind;
    }
  }
  std::filesystem::remove_all(place);
}

TEST_F(Operations, HolesAndCopiesAreThoseOfANativeFileSystem) {
  char place[] = "/var/tmp/lsmfs-native-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const auto work = [&](const std::string& dir) {
    std::string said;
    const auto note = [&](const char* what, long result) {
      said += std::string(what) + " " + std::to_string(result < 0 ? -errno : result) + "\n";
    };
    const int fd = ::open((dir + "/f").c_str(), O_RDWR | O_CREAT, 0644);
    const int copy = ::open((dir + "/copy").c_str(), O_RDWR | O_CREAT, 0644);
    const std::string data(100'000, 'd');
    note("write", ::pwrite(fd, data.data(), data.size(), 0));
    note("punch", ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096 * 3, 4096 * 4));
    note("punch parts", ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 50'001, 3));
    note("punch without KEEP_SIZE", ::fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096));
    note("data", ::lseek(fd, 4096 * 3, SEEK_DATA));
    note("hole", ::lseek(fd, 0, SEEK_HOLE));
    note("the end as a hole", ::lseek(fd, 60'000, SEEK_HOLE));
    note("data past the end", ::lseek(fd, 200'000, SEEK_DATA));
    note("lengthen", ::fallocate(fd, 0, 90'000, 20'000));
    note("nothing", ::fallocate(fd, 0, 0, 0));
    note("keep", ::fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 500'000));
    note("posix", -::posix_fallocate(fd, 0, 120'000));
    off_t from = 1000, to = 5000;
    note("copy", ::copy_file_range(fd, &from, copy, &to, 70'000, 0));
    note("copied from", from);
    note("copied to", to);
    from = 119'990;
    note("copy of the end", ::copy_file_range(fd, &from, copy, nullptr, 70'000, 0));
    note("copy at the end", ::copy_file_range(fd, nullptr, copy, nullptr, 10, 0));
    struct stat out {};
    note("stat", ::fstat(fd, &out));
    note("size", out.st_size);
    note("stat", ::fstat(copy, &out));
    note("size", out.st_size);
    ::close(fd);
    ::close(copy);
    const std::string read[2] = {read_file(dir + "/f"), read_file(dir + "/copy")};
    for (const auto& text : read) said += std::to_string(std::hash<std::string>()(text)) + "\n";
    return said;
  };
  EXPECT_EQ(work(mounted_->root()), work(place));
  std::filesystem::remove_all(place);
}

TEST_F(Operations, ACopyThatFailsPartWayIsAsLongAsItCame) {
  const std::string data(3 * MiB, 'd');
  ASSERT_EQ(write_file(path("f"), data), 0);
  ASSERT_EQ(write_file(path("copy"), "old"), 0);
  const int from = ::open(path("f").c_str(), O_RDONLY | O_CLOEXEC), to = ::open(path("copy").c_str(), O_RDWR | O_CLOEXEC);
  char old[3]{};
  EXPECT_EQ(::pread(to, old, sizeof old, 0), 3);  // which the kernel keeps
  unsigned reads = 0;
  tree_.set_hook([&](const std::string& call, Wait) -> Result<void> {
    if (call == "read" && ++reads > 1) return make_error(EIO, "device");
    return {};
  });
  const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, data.size(), 0);
  EXPECT_EQ(result_of(static_cast<int>(::copy_file_range(from, nullptr, to, nullptr, data.size(), 0))), EIO);
  tree_.set_hook({});
  ASSERT_GT(copied, 0);
  ASSERT_LT(copied, static_cast<ssize_t>(data.size()));
  EXPECT_EQ(facts("copy").st_size, copied);
  EXPECT_TRUE(read_file(path("copy")) == data.substr(0, static_cast<std::size_t>(copied)));
  ::close(from);
  ::close(to);
}

TEST_F(Operations, SmallFilesAreCopiedAtOnceAndLargeOnesByAWorker) {
  constexpr std::size_t kEdge = 128 * KiB;
  for (const std::size_t size : {std::size_t{1}, kEdge - 1, kEdge, kEdge + 1, 2 * kEdge}) {
    std::string data(size, 0);
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i >> 10 ^ i);
    ASSERT_EQ(write_file(path("f"), data), 0);
    ASSERT_EQ(write_file(path("copy"), ""), 0);
    const int from = ::open(path("f").c_str(), O_RDONLY | O_CLOEXEC), to = ::open(path("copy").c_str(), O_RDWR | O_CLOEXEC);
    std::atomic<unsigned> waited = 0;
    tree_.set_hook([&](const std::string&, Wait wait) -> Result<void> {
      waited += wait == Wait::yes;
      return {};
    });
    EXPECT_EQ(::copy_file_range(from, nullptr, to, nullptr, 1 << 30, 0), static_cast<ssize_t>(size));
    tree_.set_hook({});
    EXPECT_EQ(waited > 0, size >= kEdge) << size;
    EXPECT_TRUE(read_file(path("copy")) == data) << size;
    ::close(from);
    ::close(to);
  }
}

TEST_F(Operations, TheTimeOfBirthIsThere) {
  struct statx before {}, after {};
  ASSERT_EQ(write_file(path("f"), "data"), 0);
  ASSERT_EQ(::statx(AT_FDCWD, path("f").c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &before), 0);
  if (mounted_->requests(52) == 0) GTEST_SKIP() << "the kernel asks no FUSE daemon for it (before 6.6)";
  EXPECT_TRUE(before.stx_mask & STATX_BTIME);
  EXPECT_GT(before.stx_btime.tv_sec, 1'700'000'000);
  EXPECT_EQ(before.stx_size, 4u);
  EXPECT_EQ(before.stx_mode, S_IFREG | 0644);
  ASSERT_EQ(write_file(path("f"), "more"), 0);
  ASSERT_EQ(::chmod(path("f").c_str(), 0600), 0);
  ASSERT_EQ(::statx(AT_FDCWD, path("f").c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &after), 0);
  EXPECT_EQ(after.stx_btime.tv_sec, before.stx_btime.tv_sec);
  EXPECT_EQ(after.stx_btime.tv_nsec, before.stx_btime.tv_nsec);
  EXPECT_EQ(after.stx_mode, S_IFREG | 0600);
  // What a device file and a directory say, as stat(2) does.
  ASSERT_EQ(::mknod(path("device").c_str(), S_IFCHR | 0600, makedev(300, 70'000)), 0);
  ASSERT_EQ(::statx(AT_FDCWD, path("device").c_str(), 0, STATX_BTIME | STATX_BASIC_STATS, &after), 0);
  EXPECT_EQ(after.stx_rdev_major, 300u);
  EXPECT_EQ(after.stx_rdev_minor, 70'000u);
  ASSERT_EQ(::statx(AT_FDCWD, mounted_->root().c_str(), 0, STATX_BTIME | STATX_BASIC_STATS, &after), 0);
  EXPECT_TRUE(S_ISDIR(after.stx_mode));
}

TEST_F(Operations, AFileWithoutANameCanGetOne) {
  ASSERT_EQ(::mkdir(path("d").c_str(), 0755), 0);
  const int fd = ::open(path("d").c_str(), O_TMPFILE | O_RDWR, 0640);
  if (fd < 0 && errno == EOPNOTSUPP) GTEST_SKIP() << "the kernel knows no TMPFILE of FUSE (before 6.2)";
  ASSERT_GE(fd, 0) << strerror(errno);
  EXPECT_EQ(::write(fd, "data", 4), 4);
  struct stat out {};
  ASSERT_EQ(::fstat(fd, &out), 0);
  EXPECT_EQ(out.st_nlink, 0u);
  EXPECT_EQ(out.st_mode, S_IFREG | 0640u);
  EXPECT_EQ(names("d").size(), 2u) << "the dots";
  ASSERT_EQ(::linkat(fd, "", AT_FDCWD, path("d/named").c_str(), AT_EMPTY_PATH), 0) << strerror(errno);
  ASSERT_EQ(::fstat(fd, &out), 0);
  EXPECT_EQ(out.st_nlink, 1u);
  ::close(fd);
  EXPECT_EQ(read_file(path("d/named")), "data");
  const int gone = ::open(path("d").c_str(), O_TMPFILE | O_RDWR | O_EXCL, 0600);
  ASSERT_GE(gone, 0);
  EXPECT_EQ(result_of(::linkat(gone, "", AT_FDCWD, path("d/never").c_str(), AT_EMPTY_PATH)), ENOENT);
  ::close(gone);
  EXPECT_TRUE(until([&] { return tree_.inodes() == 3; })) << tree_.inodes() << ", not the root, d and d/named";
}

TEST_F(Operations, TimesCanBeSetToTheNanosecondAndToNow) {
  ASSERT_EQ(write_file(path("f"), "x"), 0);
  const timespec old_times[2]{{-5, 123'456'789}, {1'000'000'000, 1}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path("f").c_str(), old_times, 0), 0);
  EXPECT_EQ(facts("f").st_atim.tv_sec, -5);
  EXPECT_EQ(facts("f").st_atim.tv_nsec, 123'456'789);
  EXPECT_EQ(facts("f").st_mtim.tv_sec, 1'000'000'000);
  EXPECT_EQ(facts("f").st_mtim.tv_nsec, 1);
  const timespec now_and_omit[2]{{0, UTIME_OMIT}, {0, UTIME_NOW}};
  const auto before = std::chrono::system_clock::to_time_t(system_clock().wall());
  ASSERT_EQ(::utimensat(AT_FDCWD, path("f").c_str(), now_and_omit, 0), 0);
  EXPECT_EQ(facts("f").st_atim.tv_sec, -5);
  EXPECT_GE(facts("f").st_mtim.tv_sec, before);
}

TEST_F(Operations, CountsOfLinksAreRightAfterEveryChange) {
  ASSERT_EQ(write_file(path("a"), "x"), 0);
  EXPECT_EQ(facts("a").st_nlink, 1u);
  ASSERT_EQ(::link(path("a").c_str(), path("b").c_str()), 0);
  EXPECT_EQ(facts("a").st_nlink, 2u);
  EXPECT_EQ(facts("b").st_nlink, 2u);
  const auto before = facts("b");
  ASSERT_EQ(::unlink(path("a").c_str()), 0);
  EXPECT_EQ(facts("b").st_nlink, 1u);
  EXPECT_GT(std::make_pair(facts("b").st_ctim.tv_sec, facts("b").st_ctim.tv_nsec),
            std::make_pair(before.st_ctim.tv_sec, before.st_ctim.tv_nsec));
  ASSERT_EQ(::link(path("b").c_str(), path("c").c_str()), 0);
  ASSERT_EQ(write_file(path("d"), ""), 0);
  ASSERT_EQ(::rename(path("d").c_str(), path("c").c_str()), 0);
  EXPECT_EQ(facts("b").st_nlink, 1u) << "the other name was replaced";

  EXPECT_EQ(facts("").st_nlink, 2u);
  ASSERT_EQ(::mkdir(path("x").c_str(), 0755), 0);
  ASSERT_EQ(::mkdir(path("y").c_str(), 0755), 0);
  EXPECT_EQ(facts("").st_nlink, 4u);
  EXPECT_EQ(facts("y").st_nlink, 2u);
  ASSERT_EQ(::rename(path("x").c_str(), path("y/x").c_str()), 0);
  EXPECT_EQ(facts("").st_nlink, 3u);
  EXPECT_EQ(facts("y").st_nlink, 3u);
  ASSERT_EQ(::rmdir(path("y/x").c_str()), 0);
  EXPECT_EQ(facts("y").st_nlink, 2u);
}

TEST_F(Operations, AReaderWhoAsksForItLeavesNoAccessTime) {
  ASSERT_EQ(write_file(path("f"), "read"), 0);
  KernelCaches().drop();
  const auto read_with = [&](int flags) {
    char byte = 0;
    const int fd = ::open(path("f").c_str(), O_RDONLY | O_CLOEXEC | flags);
    EXPECT_EQ(::read(fd, &byte, 1), 1);
    ::close(fd);
    return facts("f").st_atim;
  };
  const timespec made = facts("f").st_atim;
  const timespec quietly = read_with(O_NOATIME);
  EXPECT_EQ(quietly.tv_sec, made.tv_sec);
  EXPECT_EQ(quietly.tv_nsec, made.tv_nsec);
  KernelCaches().drop();
  const timespec read = read_with(0);
  EXPECT_GT(std::pair(read.tv_sec, read.tv_nsec), std::pair(made.tv_sec, made.tv_nsec));
}

TEST_F(Operations, TimesOfADirectoryFollowItsChanges) {
  struct stat before = facts("");
  const auto changes = [&](const char* what, const std::function<int()>& change) {
    EXPECT_EQ(change(), 0) << what;
    const struct stat after = facts("");
    EXPECT_TRUE(std::make_pair(after.st_mtim.tv_sec, after.st_mtim.tv_nsec) >
                std::make_pair(before.st_mtim.tv_sec, before.st_mtim.tv_nsec)) << what;
    before = after;
  };
  changes("create", [&] { return write_file(path("a"), ""); });
  changes("link", [&] { return ::link(path("a").c_str(), path("b").c_str()); });
  changes("rename", [&] { return ::rename(path("b").c_str(), path("c").c_str()); });
  changes("unlink", [&] { return ::unlink(path("c").c_str()); });
  changes("mkdir", [&] { return ::mkdir(path("d").c_str(), 0755); });
  changes("rmdir", [&] { return ::rmdir(path("d").c_str()); });
  changes("symlink", [&] { return ::symlink("x", path("s").c_str()); });
}

TEST_F(Operations, WritesShowInSizeAndTimeAtOnce) {
  ASSERT_EQ(write_file(path("f"), "x"), 0);
  const auto before = facts("f");
  ASSERT_EQ(write_file(path("f"), "longer"), 0);
  const auto after = facts("f");
  EXPECT_EQ(after.st_size, 6);
  EXPECT_GT(std::make_pair(after.st_mtim.tv_sec, after.st_mtim.tv_nsec),
            std::make_pair(before.st_mtim.tv_sec, before.st_mtim.tv_nsec));
}

TEST_F(Operations, LocksWorkWithoutTheDaemon) {
  ASSERT_EQ(write_file(path("f"), "x"), 0);
  const int a = ::open(path("f").c_str(), O_RDWR);
  const int b = ::open(path("f").c_str(), O_RDWR);
  ASSERT_EQ(::flock(a, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(result_of(::flock(b, LOCK_EX | LOCK_NB)), EWOULDBLOCK);
  ::close(a);
  EXPECT_EQ(::flock(b, LOCK_EX | LOCK_NB), 0);
  ::close(b);
}

TEST_F(Operations, SyncReachesTheTree) {
  const int fd = ::open(path("f").c_str(), O_RDWR | O_CREAT, 0644);
  const int dir = ::open(mounted_->root().c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(::fsync(fd), 0);
  EXPECT_EQ(::fdatasync(fd), 0);
  EXPECT_EQ(::fsync(dir), 0);
  ::close(fd);
  ::close(dir);
  EXPECT_EQ(tree_.calls("sync"), 3u);
}

TEST_F(Operations, ErrorsOfTheTreeReachTheProgram) {
  ASSERT_EQ(write_file(path("f"), "x"), 0);
  tree_.set_hook([](const std::string& call, Wait) -> Result<void> {
    if (call == "write") return make_error(ENOSPC, "full");
    if (call == "make") return make_error(EROFS, "stopped after an error");
    if (call == "sync") return make_error(EIO, "device");
    if (call == "unlink") return make_error(ENOSYS, "must not switch off unlink for ever");
    return {};
  });
  EXPECT_EQ(write_file(path("f"), "y"), ENOSPC);
  EXPECT_EQ(write_file(path("g"), "y"), EROFS);
  const int fd = ::open(path("f").c_str(), O_RDWR);
  EXPECT_EQ(result_of(::fsync(fd)), EIO);
  ::close(fd);
  EXPECT_EQ(result_of(::unlink(path("f").c_str())), EIO);
  EXPECT_NE(mounted_->notices().find("stopped after an error"), std::string::npos) << mounted_->notices();
}

TEST_F(Operations, StatfsTellsTheTreesNumbers) {
  struct statvfs out {};
  ASSERT_EQ(::statvfs(mounted_->root().c_str(), &out), 0);
  EXPECT_EQ(out.f_bsize, 4096u);
  EXPECT_EQ(out.f_blocks, 1 * GiB / 4096);
  EXPECT_EQ(out.f_bavail, 512 * MiB / 4096);
  EXPECT_EQ(out.f_namemax, 255u);
  EXPECT_EQ(out.f_ffree, 1000u);
}

TEST_F(Operations, LookupCountsReachZeroWhenTheKernelForgets) {
  for (int i = 0; i < 300; ++i) ASSERT_EQ(write_file(path("f" + std::to_string(i)), "data"), 0);
  names("");
  for (int i = 0; i < 300; i += 2) ASSERT_EQ(::unlink(path("f" + std::to_string(i)).c_str()), 0);
  EXPECT_GT(tree_.total_lookups(), 0u);
  KernelCaches().drop();
  EXPECT_TRUE(until([&] { return tree_.total_lookups() == 0; })) << tree_.total_lookups();
  EXPECT_EQ(tree_.inodes(), 151u);
}

}  // namespace
}  // namespace lsmfs::test

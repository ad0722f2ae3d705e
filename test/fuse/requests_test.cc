// How many requests common sequences cost. A number that grows here is a round trip that every
// program pays; one that shrinks is a gift of a newer kernel, so the numbers are upper bounds.

#include <dirent.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "fuse/mounted.h"

namespace lsmfs::test::requests_test {
namespace {

class Requests : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    mounted_ = std::make_unique<Mounted>(tree_, options_);
    // The kernel learns once that there is no OPEN and OPENDIR.
    ASSERT_EQ(write_file(path("first"), "x"), 0);
    read_file(path("first"));
    list("");
    ::chmod(path("first").c_str(), 0600);
    write_file(path("first"), "y");
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  // As ls -l does: names, then attributes of each.
  int list(const std::string& name) {
    int count = 0;
    DIR* dir = ::opendir(path(name).c_str());
    EXPECT_NE(dir, nullptr);
    while (const dirent* entry = ::readdir(dir)) {
      struct stat out {};
      EXPECT_EQ(::fstatat(::dirfd(dir), entry->d_name, &out, AT_SYMLINK_NOFOLLOW), 0);
      ++count;
    }
    ::closedir(dir);
    return count;
  }
  std::uint64_t cost(const std::function<void()>& work) {
    const auto before = mounted_->requests();
    work();
    return mounted_->requests() - before;
  }
  // As tar does with a file of its archive.
  void unpack(const std::string& name) {
    const int fd = ::open(path(name).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::write(fd, "data", 4), 4);
    const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 5}};
    EXPECT_EQ(::futimens(fd, times), 0);
    EXPECT_EQ(::fchown(fd, 1000, 1000), 0);
    EXPECT_EQ(::fchmod(fd, 0644), 0);
    ::close(fd);
  }
  // As git does with a file that it puts into the working tree.
  void check_out(const std::string& name) {
    struct stat out {};
    EXPECT_NE(::lstat(path(name).c_str(), &out), 0);
    const int fd = ::open(path(name).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0666);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::write(fd, "data", 4), 4);
    EXPECT_EQ(::fstat(fd, &out), 0);
    ::close(fd);
  }
  std::uint64_t cost_of_ten(const std::function<void(const std::string&)>& work) {
    work("one");
    return cost([&] {
      for (int i = 0; i < 10; ++i) work("f" + std::to_string(i));
    });
  }
  std::uint64_t cost_of_unpacking_ten() { return cost_of_ten([this](const std::string& name) { unpack(name); }); }
  std::uint64_t cost_of_checking_out_ten() { return cost_of_ten([this](const std::string& name) { check_out(name); }); }
  void forget_everything() { caches_.drop(); }
  // Reads in another directory, and waits for what the kernel is told to forget: pages that a direct write makes old come after it.
  void let_the_kernel_forget() {
    EXPECT_EQ(read_file(path("first")), "y");
    const int fd = ::open(path("first").c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
    EXPECT_EQ(::pwrite(fd, "y", 1, 0), 1);
    ::close(fd);
  }

  MountOptions options_;
  KernelCaches caches_;
  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;
};

TEST_F(Requests, ReadingACachedFileCostsNone) {
  ASSERT_EQ(write_file(path("f"), "data"), 0);
  EXPECT_EQ(read_file(path("f")), "data");
  EXPECT_EQ(cost([&] { EXPECT_EQ(read_file(path("f")), "data"); }), 0u);
  EXPECT_EQ(cost([&] { EXPECT_EQ(read_file(path("f")), "data"); }), 0u);
}

// No OPEN or RELEASE, and no attributes of the file; those of the directory, which changes with each file, are asked for once for
// each. The kernel wants to know of each new file whether it has security.capability, when it is first written and when its owner
// changes.
TEST_F(Requests, UnpackingAFileCostsWhatItSays) {
  const auto of_file_attributes = mounted_->requests(FUSE_GETATTR);
  const auto releases = mounted_->requests(FUSE_RELEASE);
  EXPECT_LE(cost_of_unpacking_ten(), 10u * 9);  // GETATTR of the directory, LOOKUP, MKNOD, WRITE, three SETATTR, two GETXATTR
  EXPECT_LE(mounted_->requests(FUSE_GETATTR) - of_file_attributes, 11u);
  EXPECT_EQ(mounted_->requests(FUSE_RELEASE), releases);
}

TEST_F(Requests, CheckingOutAFileCostsWhatItSays) {
  EXPECT_LE(cost_of_checking_out_ten(), 10u * 7);  // GETATTR of the directory, two LOOKUP, MKNOD, GETXATTR, WRITE, GETATTR
}

class RequestsWithoutXattrs : public Requests {
 protected:
  RequestsWithoutXattrs() { options_.xattr = false; }
};

TEST_F(RequestsWithoutXattrs, UnpackingAFileCostsTwoLess) {
  EXPECT_LE(cost_of_unpacking_ten(), 10u * 7);
  EXPECT_EQ(mounted_->requests(FUSE_GETXATTR), 1u) << "by which the kernel learned it";
}

TEST_F(RequestsWithoutXattrs, CheckingOutAFileCostsOneLess) {
  EXPECT_LE(cost_of_checking_out_ten(), 10u * 6);
  EXPECT_EQ(mounted_->requests(FUSE_GETXATTR), 1u);
}

TEST_F(RequestsWithoutXattrs, EachKindIsAskedForOnce) {
  const std::string file = path("first");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(result_of(static_cast<int>(::getxattr(file.c_str(), "user.x", nullptr, 0))), EOPNOTSUPP);
    EXPECT_EQ(result_of(static_cast<int>(::listxattr(file.c_str(), nullptr, 0))), EOPNOTSUPP);
    EXPECT_EQ(result_of(::setxattr(file.c_str(), "user.x", "v", 1, 0)), EOPNOTSUPP);
    EXPECT_EQ(result_of(::removexattr(file.c_str(), "user.x")), EOPNOTSUPP);
  }
  for (const unsigned kind : {FUSE_GETXATTR, FUSE_LISTXATTR, FUSE_SETXATTR, FUSE_REMOVEXATTR}) EXPECT_EQ(mounted_->requests(kind), 1u) << kind;
  EXPECT_EQ(tree_.calls("setxattr"), 0u);
}

// An access control list would say whether somebody else is let in, and the kernel would ask for it.
TEST_F(RequestsWithoutXattrs, PermissionsAreCheckedWithoutARequest) {
  ASSERT_EQ(::chmod(path("first").c_str(), 0640), 0);
  const auto asks = [&] { return mounted_->requests(FUSE_GETXATTR); };
  const auto before = asks();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setgid(65534) == 0 && ::setuid(65534) == 0 && ::access(path("first").c_str(), R_OK) != 0 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(asks(), before);
}

TEST_F(Requests, ReadingAColdSmallFileCostsALookupAndARead) {
  ASSERT_EQ(write_file(path("f"), "data"), 0);
  forget_everything();
  EXPECT_LE(cost([&] { EXPECT_EQ(read_file(path("f")), "data"); }), 3u);  // and attributes of the root
}

TEST_F(Requests, AColdWalkOfADirectoryCostsOneReadAFile) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(write_file(path("f" + std::to_string(i)), "data"), 0);
  forget_everything();
  std::vector<std::string> names;
  EXPECT_LE(cost([&] {
    DIR* dir = ::opendir(mounted_->root().c_str());
    while (const dirent* entry = ::readdir(dir)) names.emplace_back(entry->d_name);
    ::closedir(dir);
    for (const auto& name : names) {
      if (name.starts_with("f") && name != "first") {
        EXPECT_EQ(read_file(path(name)), "data");
      }
    }
  }), 103u);
}

// The kernel knows no access time of what has been read. The listing brings them all once more, and then it knows.
TEST_F(Requests, AWalkOfWhatHasBeenReadCostsTwoListingsAndNothingForAFile) {
  ASSERT_EQ(::mkdir(path("dir").c_str(), 0755), 0);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(write_file(path("dir/f" + std::to_string(i)), "data"), 0);
  const auto walk = [&] {
    EXPECT_EQ(list("dir"), 102);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(read_file(path("dir/f" + std::to_string(i))), "data");
  };
  forget_everything();
  walk();
  let_the_kernel_forget();
  const auto reads = mounted_->requests(FUSE_READ), attributes = mounted_->requests(FUSE_GETATTR);
  EXPECT_LE(cost(walk), 8u);
  EXPECT_EQ(mounted_->requests(FUSE_READ), reads);
  EXPECT_LE(mounted_->requests(FUSE_GETATTR) - attributes, 3u) << "of the root, if it is not known, and of the directory before and after its listing";
  EXPECT_LE(cost(walk), 1u) << "the kernel has all now, but the directory's access time";
  EXPECT_EQ(cost(walk), 0u);
}

TEST_F(Requests, ListingACachedDirectoryCostsNone) {
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(write_file(path("f" + std::to_string(i)), ""), 0);
  EXPECT_EQ(list(""), 1003);
  // The listing above made the directory's access time unknown to the kernel.
  EXPECT_LE(cost([&] { EXPECT_EQ(list(""), 1003); }), 1u);
  EXPECT_EQ(cost([&] { EXPECT_EQ(list(""), 1003); }), 0u);
}

TEST_F(Requests, ListingAColdDirectoryCostsABufferfulEach) {
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(write_file(path("f" + std::to_string(i)), ""), 0);
  forget_everything();
  // An entry takes 160 bytes; kernels before 6.16 ask for 4 KiB at a time.
  const auto spent = cost([&] { EXPECT_EQ(list(""), 1003); });
  EXPECT_LE(spent, 1003 * 160 / 4096 + 5u);
  EXPECT_EQ(mounted_->requests(FUSE_READDIR), 0u) << "every buffer comes with attributes";
}

// The kernel takes attributes that it asked for before it let go of any inode for old ones.
TEST_F(Requests, AListingWhileTheKernelLetsGoOfInodesDoesNotCostAttributesOfEachFile) {
  constexpr int kOld = 4000, kNew = 500;
  const auto fill = [&](const std::string& dir, int count) {
    ASSERT_EQ(::mkdir(path(dir).c_str(), 0755), 0);
    for (int i = 0; i < count; ++i) ASSERT_EQ(::mknod(path(dir + "/" + std::to_string(i)).c_str(), S_IFREG | 0600, 0), 0);
  };
  fill("old", kOld);
  fill("new", kNew);
  forget_everything();
  std::vector<Ino> old;
  DIR* dir = ::opendir(path("old").c_str());
  ASSERT_NE(dir, nullptr);
  while (const dirent* entry = ::readdir(dir)) {
    if (entry->d_name[0] != '.') old.push_back(Ino{entry->d_ino});
  }
  ::closedir(dir);
  ASSERT_EQ(old.size(), std::size_t{kOld});
  KernelCache& kernel_cache = mounted_->mount().kernel_cache();
  // The first part of the listing is answered when they have gone.
  std::atomic<int> parts{0};
  tree_.set_hook([&](const std::string& call, Wait) -> Result<void> {
    if (call == "readdir" && parts++ == 0) kernel_cache.drain();
    return {};
  });
  kernel_cache.drop_inodes(old);
  const auto attributes = mounted_->requests(FUSE_GETATTR);
  EXPECT_EQ(list("new"), kNew + 2);
  EXPECT_LE(mounted_->requests(FUSE_GETATTR) - attributes, 50u);
  EXPECT_GT(parts, 1);
  tree_.set_hook({});
}

TEST_F(Requests, ANameThatIsMissingIsAskedForOnce) {
  EXPECT_EQ(cost([&] { EXPECT_NE(::access(path("missing").c_str(), F_OK), 0); }), 1u);
  EXPECT_EQ(cost([&] { EXPECT_NE(::access(path("missing").c_str(), F_OK), 0); }), 0u);
  EXPECT_EQ(cost([&] { ASSERT_EQ(write_file(path("missing"), ""), 0); }), 1u) << "MKNOD alone";
  EXPECT_EQ(::access(path("missing").c_str(), F_OK), 0);
}

TEST_F(Requests, ASmallNewFileCostsLookupMknodGetxattrAndWrite) {
  EXPECT_LE(cost([&] { ASSERT_EQ(write_file(path("new"), "data"), 0); }), 4u);
}

TEST_F(Requests, WritesOfAMebibyteGoInOnePiece) {
  const std::string data(8 * MiB, 'x');
  const int fd = ::open(path("big").c_str(), O_WRONLY | O_CREAT, 0644);
  ASSERT_GE(fd, 0);
  EXPECT_LE(cost([&] { EXPECT_EQ(::write(fd, data.data(), data.size()), static_cast<ssize_t>(data.size())); }), 9u);
  ::close(fd);
}

TEST_F(Requests, ReadsOfALargeFileAreLarge) {
  ASSERT_EQ(write_file(path("big"), std::string(8 * MiB, 'x')), 0);
  forget_everything();
  const auto before = mounted_->requests(FUSE_READ);
  EXPECT_EQ(read_file(path("big")), std::string(8 * MiB, 'x'));
  EXPECT_LE(mounted_->requests(FUSE_READ) - before, 24u);
}

TEST_F(Requests, WritingAsksForExtendedAttributesOnce) {
  ASSERT_EQ(write_file(path("f"), ""), 0);
  const int fd = ::open(path("f").c_str(), O_WRONLY);
  EXPECT_LE(cost([&] {
    for (int i = 0; i < 10; ++i) EXPECT_EQ(::write(fd, "x", 1), 1);
  }), 11u);
  ::close(fd);
}

TEST_F(Requests, SymbolicLinksAreCached) {
  ASSERT_EQ(::symlink("first", path("link").c_str()), 0);
  struct stat out {};
  ASSERT_EQ(::stat(path("link").c_str(), &out), 0);
  EXPECT_EQ(cost([&] { ASSERT_EQ(::stat(path("link").c_str(), &out), 0); }), 0u);
}

}  // namespace
}  // namespace lsmfs::test::requests_test

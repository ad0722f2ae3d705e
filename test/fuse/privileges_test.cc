// Who may do what, and what becomes of the bits and attributes that give rights.

#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include "fuse/operations.h"

namespace lsmfs::test::privileges_test {
namespace {

// A file capability: vfs_cap_data of version 2 with CAP_NET_BIND_SERVICE.
const std::string kCapability("\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);

class Privileges : public Operations {
 protected:
  // Past the mount, which may have no attributes.
  void make_capable_below(const std::string& name) {
    ASSERT_TRUE(tree_.setxattr(Ino{facts(name).st_ino}, "security.capability", kCapability, 0, Wait::yes));
  }
  bool capable_below(const std::string& name) { return tree_.getxattr(Ino{facts(name).st_ino}, "security.capability", Wait::yes).has_value(); }
  void check_that_deeds_are_as_on_a_native_file_system();
};

class PrivilegesWithoutXattrs : public Privileges {
 protected:
  PrivilegesWithoutXattrs() { options_.xattr = false; }
};

class PrivilegesWithoutXattrsAndWriteback : public PrivilegesWithoutXattrs {
 protected:
  PrivilegesWithoutXattrsAndWriteback() { options_.writeback = true; }
};

TEST_F(Privileges, TheUmaskAndTheCallerDecideTheModeAndTheOwner) {
  ASSERT_EQ(::chmod(mounted_->root().c_str(), 0777), 0);
  EXPECT_EQ(as_user([&] {
    ::umask(027);
    return ::open(path("f").c_str(), O_CREAT | O_WRONLY, 0666) >= 0 ? 0 : 1;
  }), 0);
  EXPECT_EQ(facts("f").st_mode, S_IFREG | 0640u);
  EXPECT_EQ(facts("f").st_uid, 65534u);
  EXPECT_EQ(facts("f").st_gid, 65534u);
}

// What a file's mode becomes must be what a native file system makes of it: the oracle is a directory outside.
void Privileges::check_that_deeds_are_as_on_a_native_file_system() {
  char place[] = "/tmp/lsmfs-native-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  const std::string native = place;
  ASSERT_EQ(::chmod(place, 0777), 0);
  ASSERT_EQ(::chmod(mounted_->root().c_str(), 0777), 0);

  struct Deed {
    const char* name;
    bool by_root;
    std::function<int(const std::string&)> run;
  };
  const auto write_one = [](const std::string& file) {
    const int fd = ::open(file.c_str(), O_WRONLY);
    if (fd < 0) return errno;
    const int code = ::pwrite(fd, "x", 1, 3) == 1 ? 0 : errno;
    ::close(fd);
    return code;
  };
  const auto truncate_open = [](const std::string& file) { return write_file(file, "", O_TRUNC); };
  const auto cut = [](const std::string& file) { return result_of(::truncate(file.c_str(), 1)); };
  const auto change = [](uid_t uid, gid_t gid) {
    return [=](const std::string& file) { return result_of(::chown(file.c_str(), uid, gid)); };
  };
  const std::vector<Deed> deeds = {
      {"write by root", true, write_one},          {"write by a user", false, write_one},
      {"truncate by root", true, cut},             {"truncate by a user", false, cut},
      {"O_TRUNC by root", true, truncate_open},    {"O_TRUNC by a user", false, truncate_open},
      {"chown", true, change(65534, 65534)},       {"chown of the owner", true, change(65534, -1u)},
      {"chown of the group", true, change(-1u, 65534)}, {"chown to the same", true, change(0, 0)},
      {"chown of nothing", true, change(-1u, -1u)},
      {"chmod", true, [](const std::string& file) { return result_of(::chmod(file.c_str(), 06755)); }},
      {"times", true, [](const std::string& file) { return result_of(::utimensat(AT_FDCWD, file.c_str(), nullptr, 0)); }},
      {"read", false, [](const std::string& file) { return read_file(file) == "data" ? 0 : 1; }},
  };
  // A file capability goes when the bits do.
  for (const mode_t mode : {04777, 02777, 02767, 06777, 06766, 01777, 0777}) {
    for (std::size_t i = 0; i < 4 * deeds.size(); ++i) {
      const Deed& deed = deeds[i / 4];
      const bool capable = i % 4 >= 2;
      const gid_t group = i % 2 ? 65534 : 0;  // is the user in it?
      struct stat got[2] {};
      bool left[2]{};
      int code[2]{};
      int n = 0;
      for (const std::string& dir : {native, mounted_->root()}) {
        const std::string file = dir + "/f";
        ASSERT_EQ(write_file(file, "data"), 0);
        ASSERT_EQ(::chown(file.c_str(), 0, group), 0);
        ASSERT_EQ(::chmod(file.c_str(), mode), 0);
        if (capable && n == 1) {
          make_capable_below("f");
        } else if (capable) {
          ASSERT_EQ(::setxattr(file.c_str(), "security.capability", kCapability.data(), kCapability.size(), 0), 0);
        }
        code[n] = deed.by_root ? deed.run(file) : as_user([&] { return deed.run(file); });
        ASSERT_EQ(::stat(file.c_str(), &got[n]), 0);
        left[n] = n == 1 ? capable_below("f") : ::getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
        ASSERT_EQ(::unlink(file.c_str()), 0);
        ++n;
      }
      const std::string what = std::string(deed.name) + " of mode " + std::to_string(mode) + ", group " + std::to_string(group);
      EXPECT_EQ(code[0], code[1]) << what;
      // Of a chown that changes nothing the kernel tells so little that it looks like a write by root.
      if (!(capable && deed.name == std::string("chown of nothing"))) {
        EXPECT_EQ(got[0].st_mode, got[1].st_mode) << what << " (decimal)" << (capable ? ", capable" : "");
      }
      EXPECT_EQ(got[0].st_uid, got[1].st_uid) << what;
      EXPECT_EQ(left[0], left[1]) << "the file capability after " << what;
    }
  }
  for (const std::string& dir : {native, mounted_->root()}) {
    ASSERT_EQ(::mkdir((dir + "/d").c_str(), 0755), 0);
    ASSERT_EQ(::chmod((dir + "/d").c_str(), 06777), 0);
    ASSERT_EQ(::chown((dir + "/d").c_str(), 65534, 65534), 0);
    struct stat out {};
    ASSERT_EQ(::stat((dir + "/d").c_str(), &out), 0);
    EXPECT_EQ(out.st_mode, S_IFDIR | 06777u) << dir;
    ::rmdir((dir + "/d").c_str());
  }
  ::rmdir(place);
}

TEST_F(Privileges, SetUserIdBitsGoWhenOwnersOrDataChangeAsTheyDoElsewhere) { check_that_deeds_are_as_on_a_native_file_system(); }

TEST_F(PrivilegesWithoutXattrs, SetUserIdBitsAndCapabilitiesBelowGoAsTheyDoElsewhere) { check_that_deeds_are_as_on_a_native_file_system(); }

// The kernel knows nothing of the capability, and a mount to which it shows would run the file with it.
TEST_F(PrivilegesWithoutXattrs, NoWayOfWritingLeavesACapability) {
  struct Way {
    const char* name;
    std::function<bool(int)> write;
  };
  const std::string program(4096, 'p');
  const std::vector<Way> ways = {
      {"pwrite", [](int fd) { return ::pwrite(fd, "x", 1, 0) == 1; }},
      {"fallocate", [](int fd) { return ::fallocate(fd, 0, 4096, 1) == 0; }},
      {"hole", [](int fd) { return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0; }},
      {"ftruncate", [](int fd) { return ::ftruncate(fd, 1) == 0; }},
      {"copy_file_range", [](int fd) {
         off_t from = 0, to = 4096;
         return ::copy_file_range(fd, &from, fd, &to, 1, 0) == 1;
       }},
      {"mapping", [](int fd) {
         void* const at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
         if (at == MAP_FAILED) return false;
         *static_cast<volatile char*>(at) = 'x';
         return ::msync(at, 4096, MS_SYNC) == 0 && ::munmap(at, 4096) == 0;
       }},
      {"direct", [](int fd) {
         const int direct = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_DIRECT);
         const bool done = ::pwrite(direct, "x", 1, 0) == 1;
         ::close(direct);
         return done;
       }},
  };
  for (const Way& way : ways) {
    ASSERT_EQ(write_file(path(way.name), program), 0);
    make_capable_below(way.name);
    const int fd = ::open(path(way.name).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_TRUE(capable_below(way.name)) << "opened";
    EXPECT_TRUE(way.write(fd)) << way.name;
    ::close(fd);
    EXPECT_FALSE(capable_below(way.name)) << way.name;
  }
}

TEST_F(PrivilegesWithoutXattrs, WhatIsNotWrittenKeepsItsCapabilityAndOtherAttributes) {
  ASSERT_EQ(write_file(path("f"), "data"), 0);
  make_capable_below("f");
  const Ino ino{facts("f").st_ino};
  ASSERT_TRUE(tree_.setxattr(ino, "user.note", "kept", 0, Wait::yes));
  EXPECT_EQ(read_file(path("f")), "data");
  EXPECT_EQ(::chmod(path("f").c_str(), 0755), 0);
  EXPECT_EQ(::utimensat(AT_FDCWD, path("f").c_str(), nullptr, 0), 0);
  EXPECT_EQ(::link(path("f").c_str(), path("g").c_str()), 0);
  EXPECT_EQ(::rename(path("g").c_str(), path("h").c_str()), 0);
  EXPECT_EQ(as_user([&] { return result_of(::chown(path("f").c_str(), -1u, -1u)); }), 0);
  EXPECT_EQ(as_user([&] { return result_of(::truncate(path("f").c_str(), 1)); }), EACCES);
  EXPECT_TRUE(capable_below("f"));
  EXPECT_EQ(write_file(path("h"), "over"), 0);
  EXPECT_FALSE(capable_below("f"));
  EXPECT_EQ(tree_.getxattr(ino, "user.note", Wait::yes).value(), "kept");
}

TEST_F(PrivilegesWithoutXattrsAndWriteback, WhatTheKernelWritesLateLeavesNoCapability) {
  ASSERT_EQ(write_file(path("f"), "data"), 0);
  make_capable_below("f");
  const int fd = ::open(path("f").c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), 1);
  EXPECT_EQ(::fsync(fd), 0);
  ::close(fd);
  EXPECT_FALSE(capable_below("f"));
}

// Nor does the kernel go on with the attributes that it has: nobody asks for them between these writes and the execution.
TEST_F(Privileges, AProgramIsNotRunWithTheBitsThatAWriteTookAway) {
  struct Way {
    const char* name;
    std::function<ssize_t(int, off_t)> write;
  };
  const std::vector<Way> ways = {
      {"write", [](int fd, off_t end) { return ::pwrite(fd, "x", 1, end); }},
      {"fallocate", [](int fd, off_t end) -> ssize_t { return ::fallocate(fd, 0, end, 1) == 0 ? 1 : -1; }},
      {"copy_file_range",
       [](int fd, off_t end) {
         off_t from = 0;
         return ::copy_file_range(fd, &from, fd, &end, 1, 0);
       }},
  };
  const std::string program = read_file("/usr/bin/test");
  ASSERT_FALSE(program.empty());
  for (const Way& way : ways) {
    const std::string file = path(way.name);
    ASSERT_EQ(write_file(file, program), 0);
    ASSERT_EQ(::chmod(file.c_str(), 04777), 0);
    const auto runs_as_root = [&] {
      return as_user([&] {
        ::execl(file.c_str(), "test", "-O", "/", nullptr);  // is it the effective user's?
        return 201;
      });
    };
    EXPECT_EQ(runs_as_root(), 0) << "before a " << way.name;
    EXPECT_EQ(as_user([&] {
                const int fd = ::open(file.c_str(), O_RDWR);
                return fd >= 0 && way.write(fd, static_cast<off_t>(program.size())) == 1 ? 0 : 202;
              }), 0) << way.name;
    EXPECT_EQ(runs_as_root(), 1) << "after a " << way.name;
  }
}

TEST_F(Privileges, TheKernelChecksPermissions) {
  ASSERT_EQ(write_file(path("secret"), "s"), 0);
  ASSERT_EQ(::chmod(path("secret").c_str(), 0600), 0);
  EXPECT_EQ(as_user([&] { return result_of(::open(path("secret").c_str(), O_RDONLY)); }), EACCES);
  EXPECT_EQ(as_user([&] { return result_of(::mkdir(path("d").c_str(), 0755)); }), EACCES);
  EXPECT_EQ(as_user([&] { return result_of(::chmod(path("secret").c_str(), 0666)); }), EPERM);
}

TEST_F(Privileges, WritingTruncatingAndGivingAwayClearSetUserId) {
  ASSERT_EQ(write_file(path("f"), "data"), 0);
  const auto set = [&] { ASSERT_EQ(::chmod(path("f").c_str(), 06777), 0); };
  const auto bits = [&] { return facts("f").st_mode & 07000; };
  set();
  EXPECT_EQ(bits(), 06000u);
  EXPECT_EQ(as_user([&] { return write_file(path("f"), "x"); }), 0);
  EXPECT_EQ(bits(), 0u) << "write";
  set();
  EXPECT_EQ(as_user([&] { return result_of(::truncate(path("f").c_str(), 1)); }), 0);
  EXPECT_EQ(bits(), 0u) << "truncate";
  set();
  EXPECT_EQ(as_user([&] { return write_file(path("f"), "x", O_TRUNC); }), 0);
  EXPECT_EQ(bits(), 0u) << "open with truncate";
  set();
  ASSERT_EQ(::chown(path("f").c_str(), 1, 1), 0);
  EXPECT_EQ(bits(), 0u) << "chown";
  set();
  const timespec changed = facts("f").st_ctim;
  EXPECT_EQ(as_user([&] { return result_of(::chown(path("f").c_str(), -1u, -1u)); }), 0);
  EXPECT_EQ(bits(), 06000u) << "chown of nothing by somebody who does not own it";
  EXPECT_EQ(facts("f").st_ctim.tv_nsec, changed.tv_nsec) << "which is how a write begins that may yet be refused";
  ASSERT_EQ(::chmod(path("f").c_str(), 0777), 0);
  const timespec plain = facts("f").st_ctim;
  EXPECT_EQ(as_user([&] { return result_of(::chown(path("f").c_str(), -1u, -1u)); }), 0);
  EXPECT_NE(facts("f").st_ctim.tv_nsec, plain.tv_nsec) << "chown of nothing where there is nothing to lose";
  ASSERT_EQ(::chown(path("f").c_str(), 65534, 65534), 0);
  set();
  EXPECT_EQ(as_user([&] { return result_of(::chown(path("f").c_str(), -1u, -1u)); }), 0);
  EXPECT_EQ(bits(), 0u) << "chown of nothing by its owner";
}

}  // namespace
}  // namespace lsmfs::test::privileges_test

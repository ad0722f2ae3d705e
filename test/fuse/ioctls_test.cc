// The ioctls of a mount, each with what it gives and every errno.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include "fuse/facts_ioctl.h"
#include "fuse/mounted.h"

namespace lsmfs::test {
namespace {

class Ioctls : public MountTest {
 protected:
  void mount(Administration administration = {}) {
    mounted_ = std::make_unique<Mounted>(tree_, MountOptions{}, std::move(administration));
  }

  // 0 or errno.
  int call(const std::string& path, unsigned long command, void* argument) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    const int result = result_of(::ioctl(fd, command, argument));
    ::close(fd);
    return result;
  }
  int call(unsigned long command, void* argument) { return call(mounted_->root(), command, argument); }

  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;
};

TEST_F(Ioctls, FactsAreGivenOnFilesAndDirectories) {
  mount({.info_json = [] { return std::string(R"({"label":"x"})"); }});
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  EXPECT_EQ(query_mount(mounted_->root()).value(), R"({"label":"x"})");
  EXPECT_EQ(query_mount(mounted_->path("f")).value(), R"({"label":"x"})");
  EXPECT_EQ(query_mount("/tmp").error().code, ENOTTY);
  EXPECT_EQ(query_mount("/dev/null").error().code, ENOTTY);
  EXPECT_EQ(query_mount("/etc/passwd").error().code, ENOTTY);
  EXPECT_EQ(query_mount("/no/such/path").error().code, ENOENT);
}

TEST_F(Ioctls, FactsThatAreTooLongAreRefused) {
  std::string facts;
  mount({.info_json = [&] { return facts; }});
  facts.assign(kFactsMax, ' ');
  facts.front() = '{';
  EXPECT_EQ(query_mount(mounted_->root()).value(), facts);
  facts += ' ';
  EXPECT_EQ(query_mount(mounted_->root()).error().code, EMSGSIZE);
}

TEST_F(Ioctls, AnUnknownCommandIsNone) {
  mount();
  std::uint64_t argument[4] = {};
  EXPECT_EQ(call(_IO('L', 1), argument), ENOTTY);
  EXPECT_EQ(call(_IOWR('L', 2, std::uint64_t), argument), ENOTTY);
  EXPECT_EQ(call(_IOWR('L', 0xf5, char[16]), argument), ENOTTY);  // not of the size of ours
}

}  // namespace
}  // namespace lsmfs::test

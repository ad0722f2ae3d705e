#include "fuse/mounted.h"

#include <fcntl.h>
#include <sys/file.h>
#include <linux/fuse.h>

namespace lsmfs::test {

std::uint64_t Mounted::requests() const {
  std::uint64_t sum = 0;
  for (unsigned opcode = 1; opcode < 64; ++opcode) {
    if (opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT && opcode != FUSE_INIT) {
      sum += requests(opcode);
    }
  }
  return sum;
}

Choice transport() {
  const char* word = getenv("LSMFS_TEST_IO_URING");
  return word != nullptr && std::string_view(word) == "on" ? Choice::on : Choice::off;
}

int result_of(int returned) { return returned < 0 ? errno : 0; }

KernelCaches::KernelCaches() : fd_(::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC)) {
  if (fd_ < 0) return;  // not root, and nothing will be mounted
  EXPECT_EQ(::flock(fd_, LOCK_EX), 0);
}

KernelCaches::~KernelCaches() { ::close(fd_); }

// At the beginning: the kernel ignores what is written further on.
void KernelCaches::drop() { EXPECT_EQ(::pwrite(fd_, "3", 1, 0), 1); }

std::string read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "open: " + std::string(strerror(errno));
  std::string data;
  char chunk[65536];
  ssize_t got = 0;
  while ((got = ::read(fd, chunk, sizeof chunk)) > 0) data.append(chunk, static_cast<std::size_t>(got));
  if (got < 0) data = "read: " + std::string(strerror(errno));
  ::close(fd);
  return data;
}

int write_file(const std::string& path, std::string_view data, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return errno;
  int code = 0;
  while (!data.empty()) {
    const ssize_t put = ::write(fd, data.data(), data.size());
    if (put < 0) {
      code = errno;
      break;
    }
    data.remove_prefix(static_cast<std::size_t>(put));
  }
  ::close(fd);
  return code;
}

}  // namespace lsmfs::test

#include "fuse/mounted.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/file.h>
#include <sys/mount.h>

#include <cstdio>
#include <future>
#include <stdexcept>

#include "fuse/mounting/mounter.h"
#include "until.h"

namespace lsmfs::test {

Mounted::Mounted(Tree& tree, MountOptions options, Administration administration, std::function<void()> on_destroy) {
  char name[] = "/tmp/lsmfs-fuse-test-XXXXXX";
  root_ = mkdtemp(name);
  if (options.source.empty()) options.source = "memory";
  options.mount_point = root_;
  options.latency = Choice::off;
  options.io_uring = transport();
  options.notice = [this](std::string_view line) {
    std::lock_guard lock(mutex_);
    notices_ += std::string(line) + "\n";
  };
  // In the thread that serves: the kernel takes a ring apart in the thread that made it, which therefore must not wait for a
  // request of its own mount when that is over.
  std::promise<Result<void>> beginning;
  auto begun = beginning.get_future();
  server_ = std::thread([this, &tree, options, administration = std::move(administration), on_destroy = std::move(on_destroy),
                         beginning = std::move(beginning)]() mutable {
    auto outcome = begin(tree, std::move(options), std::move(administration));
    const bool usable = outcome.has_value();
    beginning.set_value(std::move(outcome));
    if (!usable) return;
    served_ = mount_->serve([] {}, [&] {
      on_destroy();
      ++destroyed_;
    });
  });
  if (const auto outcome = begun.get(); !outcome) {
    server_.join();
    mount_.reset();
    ::rmdir(root_.c_str());
    throw std::runtime_error("no mount: " + outcome.error().message());
  }
}

Mounted::~Mounted() {
  stop();
  mount_.reset();
  ::rmdir(root_.c_str());
}

Result<void> Mounted::begin(Tree& tree, MountOptions options, Administration administration) {
  if (options.clock != &system_clock()) {
    LSMFS_ASSIGN(options.prepared, prepare_here(options));
    options.prepared->nearness.may_defer = false;
  }
  mount_ = std::make_unique<FuseMount>(tree, options, std::move(administration));
  return mount_->begin();
}

void Mounted::abort() { ::umount2(root_.c_str(), MNT_FORCE | MNT_DETACH); }

void Mounted::stop() {
  if (!server_.joinable()) return;
  if (!unmount_when_free(root_)) abort();
  server_.join();
  EXPECT_TRUE(served_.has_value());
}

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

Result<void> unmount_when_free(const std::string& mount_point) {
  Result<void> done;
  (void)until([&] {
    done = unmount(mount_point, false);
    return done || done.error().code != EBUSY;
  });
  return done;
}

int result_of(int returned) { return returned < 0 ? errno : 0; }

KernelCaches::KernelCaches() : fd_(::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC)) {
  if (fd_ < 0) return;  // not root, and nothing will be mounted
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  std::puts("another program has the kernel's caches: waiting");
  std::fflush(stdout);
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

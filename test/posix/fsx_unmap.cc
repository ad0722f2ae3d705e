// Preloaded into fsx, it takes away what fsx leaves mapped: the range of its file that it has read last through a mapping.
// Else a million operations leave tens of thousands of mappings of one file, more than the kernel permits, and each
// truncation looks through them all.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace {

void* left = nullptr;
std::size_t left_size = 0;

void* map(void* wanted, std::size_t size, int protection, int flags, int fd, std::int64_t offset) {
  const bool of_the_file = fd >= 0 && (flags & MAP_SHARED) == MAP_SHARED;
  if (of_the_file && left != nullptr) syscall(SYS_munmap, left, left_size);
  const auto place = syscall(SYS_mmap, wanted, size, protection, flags, fd, offset);
  void* const mapped = reinterpret_cast<void*>(place);  // -1 is MAP_FAILED
  if (of_the_file) {
    left = mapped == MAP_FAILED ? nullptr : mapped;
    left_size = size;
  }
  return mapped;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* mmap(void* wanted, std::size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  return map(wanted, size, protection, flags, fd, offset);
}

__attribute__((visibility("default"))) void* mmap64(void* wanted, std::size_t size, int protection, int flags, int fd, off64_t offset) noexcept {
  return map(wanted, size, protection, flags, fd, offset);
}

__attribute__((visibility("default"))) int munmap(void* mapped, std::size_t size) noexcept {
  if (mapped == left) left = nullptr;
  return static_cast<int>(syscall(SYS_munmap, mapped, size));
}

}  // extern "C"

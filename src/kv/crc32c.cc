// RocksDB's CRC-32C, with the processor's instruction for it.
//
// RocksDB sums up each record of the write-ahead log, so all that is written goes through this function once. Distributions
// build it for processors that may lack the instruction, and it then has only a table: 0.8 GB/s, half of what a commit of
// file data costs. The dynamic linker takes the program's definition of a symbol before a library's, and so gives the library
// this one. It computes the same, so nothing depends on it; where the library calls its own without asking the dynamic linker,
// or for other processors, everything is as without it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace rocksdb::crc32c {
namespace {

using Function = std::uint32_t (*)(std::uint32_t, const char*, std::size_t);

#ifdef __x86_64__
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t before, const char* data, std::size_t size) {
  std::uint64_t sum = before ^ 0xffffffffu;
  for (; size >= sizeof(std::uint64_t); data += sizeof(std::uint64_t), size -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, sizeof word);
    sum = _mm_crc32_u64(sum, word);
  }
  auto rest = static_cast<std::uint32_t>(sum);
  for (; size > 0; ++data, --size) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(*data));
  return rest ^ 0xffffffffu;
}
#endif

Function best() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return by_instruction;
#endif
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, "_ZN7rocksdb6crc32c6ExtendEjPKcm"));
}

}  // namespace

// As declared in RocksDB's util/crc32c.h, which is not installed: the sum of what `before` is the sum of and `data` after it.
__attribute__((visibility("default"))) std::uint32_t Extend(std::uint32_t before, const char* data, std::size_t size) {
  static const Function function = best();
  return function(before, data, size);
}

}  // namespace rocksdb::crc32c

// How much memory is in use.
#pragma once

#include <malloc.h>

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // g++ comes without the header
#endif

namespace lsmfs::test {

// Of all threads, and of all libraries.
inline std::size_t allocated_bytes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return __sanitizer_get_current_allocated_bytes();
#else
  const auto facts = mallinfo2();
  return facts.uordblks + facts.hblkhd;
#endif
}

}  // namespace lsmfs::test

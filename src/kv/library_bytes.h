// LibraryBytes: what we read of memory that RocksDB has written.
//
// A view, and nothing else. But RocksDB orders such reads after its writes by atomics, and ThreadSanitizer does not see these in a
// library that was built without it. There the bytes are copied first, without its looking, and the copy is given.
#pragma once

#include <rocksdb/slice.h>

#include <string>
#include <string_view>

#if defined(__SANITIZE_THREAD__)
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);  // g++'s header does not have them
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace lsmfs::kv {

class LibraryBytes {
 public:
  // Valid until RocksDB's are not any more, and until the next call.
  std::string_view of(const rocksdb::Slice& slice) {
#if defined(__SANITIZE_THREAD__)
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    copy_.assign(slice.data(), slice.size());
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    return copy_;
#else
    return {slice.data(), slice.size()};
#endif
  }

#if defined(__SANITIZE_THREAD__)
 private:
  std::string copy_;
#endif
};

}  // namespace lsmfs::kv

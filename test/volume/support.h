// Helpers that the tests of the volume share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lsmfs/volume.h"

namespace lsmfs::test {

// For ASSERT_TRUE(ok(f())): says the error.
template <class T>
::testing::AssertionResult ok(const Result<T>& result) {
  if (result.has_value()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.error().message() << " (" << result.error().code << ")";
}

// Bytes that depend on `seed` and the position.
inline std::string pattern(std::size_t size, std::uint64_t seed) {
  std::string text(size, '\0');
  std::uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::size_t i = 0; i < size; i += sizeof x) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    std::memcpy(text.data() + i, &x, std::min(sizeof x, size - i));
  }
  return text;
}

inline Result<void> write_file(Volume& volume, std::string_view name, FileKind kind, std::string_view contents) {
  LSMFS_ASSIGN(auto writer, volume.create(name, kind));
  LSMFS_TRY(writer->append(as_bytes(contents)));
  LSMFS_TRY(writer->sync());
  return writer->close();
}

inline std::string read_all(const FileReader& reader) {
  std::string text(reader.size().v, '\0');
  auto n = reader.read(ByteOffset{0}, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  EXPECT_TRUE(ok(n));
  EXPECT_EQ(n ? *n : 0, text.size());
  return text;
}

inline std::string contents_of(Volume& volume, std::string_view name) {
  auto reader = volume.open_reader(name);
  EXPECT_TRUE(ok(reader));
  return reader ? read_all(**reader) : std::string("(no reader)");
}

}  // namespace lsmfs::test

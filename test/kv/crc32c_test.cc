// The checksum that the store has RocksDB use in place of its own.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include <rocksdb/db.h>

namespace rocksdb::crc32c {
std::uint32_t Extend(std::uint32_t before, const char* data, std::size_t size);
}

namespace lsmfs::test::crc32c_test {
namespace {

constexpr const char* kSymbol = "_ZN7rocksdb6crc32c6ExtendEjPKcm";
using Function = std::uint32_t (*)(std::uint32_t, const char*, std::size_t);

std::uint32_t sum(const std::string& text) { return rocksdb::crc32c::Extend(0, text.data(), text.size()); }

// The file that `address` comes from.
std::string origin(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 ? "" : info.dli_fname;
}
std::string library() { return origin(reinterpret_cast<const void*>(&rocksdb::DestroyDB)); }

// RFC 3720, B.4.
TEST(Crc32c, OfKnownTextsIsRight) {
  EXPECT_EQ(sum("123456789"), 0xe3069283u);
  EXPECT_EQ(sum(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(sum(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(sum(""), 0u);
}

TEST(Crc32c, IsTheLibrarysAtAnyPlaceAndInAnyPieces) {
  const auto theirs = reinterpret_cast<Function>(dlsym(dlopen(library().c_str(), RTLD_NOLOAD | RTLD_LAZY), kSymbol));
  ASSERT_NE(theirs, nullptr);
  ASSERT_NE(theirs, &rocksdb::crc32c::Extend);
  std::mt19937_64 random(1);
  std::string bytes(5000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (int i = 0; i < 2000; ++i) {
    const std::size_t from = random() % bytes.size(), size = random() % (bytes.size() - from), middle = size == 0 ? 0 : random() % size;
    const char* data = bytes.data() + from;
    const std::uint32_t expected = theirs(0, data, size);
    EXPECT_EQ(rocksdb::crc32c::Extend(0, data, size), expected);
    EXPECT_EQ(rocksdb::crc32c::Extend(rocksdb::crc32c::Extend(0, data, middle), data + middle, size - middle), expected);
  }
}

// What the dynamic linker finds for the library is the program's.
TEST(Crc32c, IsWhatTheLibraryUses) {
  const void* found = dlsym(RTLD_DEFAULT, kSymbol);
  EXPECT_EQ(found, reinterpret_cast<const void*>(&rocksdb::crc32c::Extend));
  EXPECT_NE(origin(found), library());
}

}  // namespace
}  // namespace lsmfs::test::crc32c_test

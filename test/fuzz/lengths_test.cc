// A length that RocksDB believes, because its checksum is right, and for which nobody has memory. A test of its own: in
// this program operator new refuses such lengths, also with the address sanitizer, which else ends the process.
#include <gtest/gtest.h>

#include "fuzz/prepared.h"
#include "fuzz/rocksdb_seals.h"
#include "volume/support.h"

namespace lsmfs::fuzz {
namespace {

using test::ok;
using test::SparseDevice;
using test::SparseImage;

// Puts an index into the table that consists of one block of 2^62 bytes.
void break_index(SparseImage& image, const Piece& table) {
  const std::uint64_t footer_at = table.at + table.length - kv::kFooterSize;
  const std::string footer = bytes_at(image, footer_at, kv::kFooterSize);
  Reader in(footer);
  in.u8();
  const std::uint64_t meta_offset = in.varint(), meta_size = in.varint(), offset = in.varint(), size = in.varint();
  const std::string before = bytes_at(image, table.at + offset, size + 5);
  ASSERT_EQ(Reader(std::string_view(before).substr(size + 1)).le32(), block_checksum(std::string_view(before).substr(0, size + 1)));

  std::string index;
  const std::string key(9, '\xff');
  put_varint(index, 0);  // shared with the key before
  put_varint(index, key.size());
  index += key;
  put_varint(index, 0);
  put_varint(index, std::uint64_t{1} << 62);
  put_le32(index, 0);  // where the one entry begins
  put_le32(index, 1);  // how many do
  const std::uint64_t index_size = index.size();
  ASSERT_LE(index_size, size);
  index.push_back('\0');  // not compressed
  put_le32(index, block_checksum(index));
  image.write_sectors(table.at + offset, as_bytes(index));

  std::string handles;
  for (const std::uint64_t n : {meta_offset, meta_size, offset, index_size}) put_varint(handles, n);
  image.write_sectors(footer_at + 1, as_bytes(handles));
}

TEST(Lengths, OfBlocksThatNobodyHasMemoryForAreErrors) {
  SparseImage image = prepared(false).image;
  for (const Piece& table : prepared(false).pieces[static_cast<std::size_t>(Place::tables)]) break_index(image, table);
  SparseDevice device(image, false);
  const auto volume = Volume::open(device);
  ASSERT_TRUE(ok(volume));
  const auto store = Store::open(**volume, {.cache = ByteCount{32 * MiB}, .read_only = true});
  ASSERT_TRUE(ok(store));
  for (const Family family : {Family::names, Family::blocks}) {
    EXPECT_EQ((*store)->get(family, "a key", Wait::yes).error().code, ENOMEM);
    const auto cursor = (*store)->cursor(family, {});
    cursor->seek("");
    EXPECT_FALSE(cursor->valid());
    EXPECT_EQ(cursor->status().error().code, ENOMEM);
    cursor->seek("b");
    EXPECT_FALSE(cursor->valid());
    const auto damaged = (*store)->verify(family);
    ASSERT_TRUE(ok(damaged));
    EXPECT_FALSE(damaged->empty());
  }
}

}  // namespace
}  // namespace lsmfs::fuzz

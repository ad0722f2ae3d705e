// A length that RocksDB believes, because its checksum is right, and for which nobody has memory. A test of its own: in
// this program operator new refuses such lengths, also with the address sanitizer, which else ends the process.
#include <gtest/gtest.h>

#include <algorithm>

#include "fuzz/prepared.h"
#include "fuzz/rocksdb_seals.h"
#include "volume/support.h"

namespace lsmfs::fuzz::lengths_test {
namespace {

using test::ok;
using test::SparseDevice;
using test::SparseImage;

constexpr std::uint64_t kTooLong = std::uint64_t{1} << 40;

// Gives the table an index, in place of its first data, by which it consists of one block of kTooLong bytes.
void break_index(SparseImage& image, const Piece& table) {
  const std::uint64_t footer_at = table.at + table.length - kv::kFooterSize;
  const std::string footer = bytes_at(image, footer_at, kv::kFooterSize);
  Reader in(footer);
  in.u8();
  const std::uint64_t meta_offset = in.varint(), meta_size = in.varint(), offset = in.varint(), size = in.varint();
  const std::string before = bytes_at(image, table.at + offset, size + 5);
  ASSERT_EQ(Reader(std::string_view(before).substr(size + 1)).le32(), block_checksum(std::string_view(before).substr(0, size + 1)));

  std::string index;
  Reader entry(before);
  ASSERT_EQ(entry.varint(), 0u);  // what the first key shares with the one before
  const std::string_view key = entry.string();
  put_varint(index, 0);
  put_string(index, key);
  put_varint(index, 64);  // where the block begins: not where the index does, which is cached under its place
  put_varint(index, kTooLong);
  put_le32(index, 0);  // where the one entry begins
  put_le32(index, 1);  // how many do
  const std::uint64_t index_size = index.size();
  ASSERT_LT(index_size + 5, offset);
  index.push_back('\0');  // not compressed
  put_le32(index, block_checksum(index));
  image.write_sectors(table.at, as_bytes(index));

  std::string handles;
  for (const std::uint64_t n : {meta_offset, meta_size, std::uint64_t{0}, index_size}) put_varint(handles, n);
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
    const auto& rows = prepared(false).rows;
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& some) { return some.family == family; });
    const auto got = (*store)->get(family, row->key, Wait::yes);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ENOMEM) << got.error().message();
    const auto cursor = (*store)->cursor(family, {});
    cursor->seek("");
    EXPECT_FALSE(cursor->valid());
    ASSERT_FALSE(cursor->status());
    EXPECT_EQ(cursor->status().error().code, ENOMEM);
    cursor->seek("b");
    EXPECT_FALSE(cursor->valid());
    const auto damaged = (*store)->verify(family);
    ASSERT_TRUE(ok(damaged));
    EXPECT_FALSE(damaged->empty());
  }
}

}  // namespace
}  // namespace lsmfs::fuzz::lengths_test

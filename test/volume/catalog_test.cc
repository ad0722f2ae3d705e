#include "volume/catalog.h"

#include <gtest/gtest.h>

#include <random>

#include "seed.h"
#include "volume/support.h"

namespace lsmfs::catalog_test {
namespace {

using test::ok;

class CatalogTest : public ::testing::Test {
 protected:
  const Layout layout_ = *plan_layout(256 * MiB);
  Catalog catalog_{layout_};

  static constexpr std::uint64_t kGranule = format::kTableGranule;
  Extent table(std::uint64_t i, std::uint64_t n = 1) const { return {layout_.table.start + i * kGranule, n * kGranule}; }
  Extent fixed(std::uint64_t i, std::uint64_t n = 1) const {
    return {layout_.fixed.start + i * 64 * KiB, n * 64 * KiB};
  }

  // One operation on a catalog that holds table 1 "t" with extents and log 2 "l".
  int refused(const std::function<void(std::string&)>& operation) {
    Catalog c(layout_);
    std::string before, payload;
    put_create(before, 1, FileKind::table, 0, "t");
    put_extents(before, 1, 0, {table(0, 3)});
    put_create(before, 2, FileKind::log, 5, "l");
    put_extents(before, 2, 0, {fixed(0)});
    EXPECT_TRUE(ok(c.apply(before)));
    operation(payload);
    auto r = c.apply(payload);
    return r ? 0 : r.error().code;
  }
};

// A metadata area has room for so many operations, and none may look at all the others.
TEST_F(CatalogTest, TakesAMillionExtentsOfOneFileOneByOne) {
  const Layout layout = *plan_layout(4096 * GiB);
  Catalog catalog(layout);
  std::string payload;
  put_create(payload, 1, FileKind::table, 0, "t");
  std::uint64_t length = 0;
  for (std::uint64_t i = 0; i < 500'000; ++i) {
    put_extents(payload, 1, length, {{layout.table.start + 2 * i * kGranule, kGranule}});
    put_extents(payload, 1, length, {{layout.table.start + 2 * i * kGranule, kGranule}});  // in its place
    length += kGranule;
  }
  ASSERT_LE(payload.size(), layout.metadata[0].length);
  ASSERT_TRUE(ok(catalog.apply(payload)));
  EXPECT_EQ(catalog.files().at(1).extents.size(), 500'000u);
  EXPECT_EQ(catalog.table().free(), layout.table.length - length);
}

TEST_F(CatalogTest, TellsItsStateInASnapshot) {
  std::string ops;
  put_create(ops, 3, FileKind::table, 0, "a");
  put_extents(ops, 3, 0, {table(5, 2), table(9)});
  put_size(ops, 3, 2 * kGranule + 5);
  put_create(ops, 4, FileKind::log, 99, "b");
  put_extents(ops, 4, 0, {fixed(0, 4), table(0)});
  put_cut(ops, 4, 7, 1000);
  put_synced(ops, 4, 9);
  put_create(ops, 8, FileKind::small, 0, "gone");
  put_remove(ops, 8);
  put_rename(ops, 3, "c");
  ASSERT_TRUE(ok(catalog_.apply(ops)));
  Catalog copy(layout_);
  ASSERT_TRUE(ok(copy.apply(catalog_.snapshot())));
  EXPECT_EQ(copy.snapshot(), catalog_.snapshot());
  EXPECT_EQ(copy.next_id(), 9u);
  EXPECT_EQ(copy.table().free(), layout_.table.length - 4 * kGranule);
  EXPECT_EQ(copy.fixed().free(), layout_.fixed.length - 256 * KiB);
  const FileRecord& log = copy.files().at(4);
  EXPECT_EQ(log.seed, 99u);
  EXPECT_EQ(log.cut_size, 1000u);
  EXPECT_EQ(log.synced_sequence, 9u);
  EXPECT_EQ(copy.files().at(3).name, "c");
}

TEST_F(CatalogTest, ReplacesTheFileThatHadTheName) {
  std::string ops;
  put_create(ops, 1, FileKind::table, 0, "a");
  put_extents(ops, 1, 0, {table(0)});
  put_create(ops, 2, FileKind::table, 0, "a");
  put_create(ops, 3, FileKind::small, 0, "b");
  put_rename(ops, 3, "a");
  ASSERT_TRUE(ok(catalog_.apply(ops)));
  EXPECT_EQ(catalog_.files().size(), 1u);
  EXPECT_EQ(catalog_.table().free(), layout_.table.length);
}

TEST_F(CatalogTest, CutsAndReplacesTheEndOfAListOfExtents) {
  std::string ops;
  put_create(ops, 1, FileKind::table, 0, "a");
  put_extents(ops, 1, 0, {table(0, 4)});
  put_size(ops, 1, 4 * kGranule);
  put_extents(ops, 1, 2 * kGranule, {table(8), table(9)});
  ASSERT_TRUE(ok(catalog_.apply(ops)));
  EXPECT_EQ(catalog_.files().at(1).extents, (std::vector<Extent>{table(0, 2), table(8, 2)}));
  ops.clear();
  put_extents(ops, 1, kGranule, {});
  ASSERT_TRUE(ok(catalog_.apply(ops)));
  EXPECT_EQ(catalog_.files().at(1).size, kGranule);
  EXPECT_EQ(catalog_.table().free(), layout_.table.length - kGranule);
}

TEST_F(CatalogTest, RefusesWhatCannotBe) {
  EXPECT_EQ(refused([](auto&) {}), 0);
  EXPECT_EQ(refused([](auto& s) { put_create(s, 2, FileKind::table, 0, "x"); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_create(s, 3, FileKind::table, 0, ""); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_create(s, 3, FileKind::table, 0, std::string(256, 'x')); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_create(s, 3, FileKind::table, 0, std::string(255, 'x')); }), 0);
  EXPECT_EQ(refused([](auto& s) { put_create(s, 3, static_cast<FileKind>(9), 0, "x"); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_rename(s, 7, "x"); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_remove(s, 7); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_size(s, 1, 3 * kGranule + 1); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_size(s, 2, 1); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_cut(s, 1, 1, 1); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_synced(s, 1, 1); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_next_id(s, 1); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_u8(s, 200), put_varint(s, 1); }), EUCLEAN);
  EXPECT_EQ(refused([](auto& s) { put_u8(s, 1); }), EUCLEAN);
  // Extents: of another file, twice, out of the region, crooked, of the wrong region, too many, beyond the end.
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {fixed(0)}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {fixed(5)}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 2, 64 * KiB, {table(1)}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {table(5), table(5)}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {{layout_.table.end(), kGranule}}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {{0, kGranule}}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {{table(5).start + 4096, kGranule}}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {{table(5).start, 4096}}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 3 * kGranule, {{table(5).start, 0}}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, 4 * kGranule, {table(5)}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_extents(s, 1, kGranule / 2, {}); }), EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) { put_u8(s, 2), put_varint(s, 1), put_varint(s, 0), put_varint(s, UINT64_MAX); }),
            EUCLEAN);
  EXPECT_EQ(refused([&](auto& s) {
              put_u8(s, 2), put_varint(s, 1), put_varint(s, 0), put_varint(s, 1), put_varint(s, UINT64_MAX),
                  put_varint(s, UINT64_MAX);
            }),
            EUCLEAN);
}

TEST_F(CatalogTest, NeverCrashesOnRandomBytes) {
  std::mt19937_64 random(test::drawn_seed());
  std::string whole;
  put_create(whole, 1, FileKind::table, 0, "t");
  put_extents(whole, 1, 0, {table(0, 3), table(7)});
  put_size(whole, 1, 1000);
  put_create(whole, 2, FileKind::log, 5, "l");
  put_extents(whole, 2, 0, {fixed(0)});
  put_cut(whole, 2, 5, 5);
  put_rename(whole, 2, "t");
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 1 + i % 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    Catalog c(layout_);
    if (auto r = c.apply(bytes); !r) {
      ASSERT_EQ(r.error().code, EUCLEAN);
    } else {
      Catalog copy(layout_);
      ASSERT_TRUE(ok(copy.apply(c.snapshot())));
    }
  }
}

}  // namespace
}  // namespace lsmfs::catalog_test

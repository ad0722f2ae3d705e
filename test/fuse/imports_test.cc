// Imports: what is written to a file without a name is made into a tree, however the kernel cuts it, and in whatever order it comes.
#include "fuse/serving/imports.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fuse/memory_tree.h"

namespace lsmfs::test::imports_test {
namespace {

constexpr Importing kRoot{.as_root = true, .uid = 0, .gid = 0};

int code(const Result<void>& result) { return result ? 0 : result.error().code; }

class ImportsOf : public testing::Test {
 protected:
  Ino unnamed() { return tree.make_unnamed(kRootIno, {.mode = S_IFREG | 0600}, Wait::yes)->ino; }
  static std::string stream() {
    std::string records;
    put_record(records, ImportedInode{.path = "a", .mode = S_IFDIR | 0755});
    put_record(records, ImportedInode{.path = "a/f", .mode = S_IFREG | 0644, .size = 4});
    put_record(records, 0, "data");
    return records;
  }
  static int written(Import& import, std::uint64_t at, std::string_view bytes) {
    const auto result = import.write(at, as_bytes(bytes));
    return result ? 0 : result.error().code;
  }
  // Where it lies below the directory that was imported; 0: nowhere.
  Ino found(Ino top, std::string_view directory, std::string_view name) {
    const auto dir = tree.lookup(top, directory, Wait::yes);
    if (!dir || !*dir) return Ino{};
    const auto file = tree.lookup((*dir)->ino, name, Wait::yes);
    return file && *file ? (*file)->ino : Ino{};
  }

  MemoryTree tree;
  Imports imports;
};

TEST_F(ImportsOf, OnlyAFileWithoutANameCanBeOne) {
  const Ino file = tree.make(kRootIno, "f", {.mode = S_IFREG | 0600}, Wait::yes)->ino;
  EXPECT_EQ(code(imports.begin(tree, file, "d", kRoot)), EPERM);
  EXPECT_EQ(code(imports.begin(tree, kRootIno, "d", kRoot)), EPERM);
  EXPECT_EQ(imports.find(file), nullptr);
  const Ino with_data = unnamed();
  ASSERT_TRUE(tree.write(with_data, ByteOffset{0}, as_bytes("x"), Wait::yes, ChangeTime::now));
  EXPECT_EQ(code(imports.begin(tree, with_data, "d", kRoot)), EPERM);
  const Ino empty = unnamed();
  EXPECT_EQ(code(imports.begin(tree, empty, "d", kRoot)), 0);
  EXPECT_EQ(code(imports.begin(tree, empty, "d", kRoot)), EEXIST);
  EXPECT_NE(imports.find(empty), nullptr);
  imports.forget(empty);
  EXPECT_EQ(imports.find(empty), nullptr);
}

TEST_F(ImportsOf, PiecesMayComeEarly) {
  const std::string records = stream();
  const std::size_t third = records.size() / 3;
  const Ino file = unnamed();
  ASSERT_EQ(code(imports.begin(tree, file, "d", kRoot)), 0);
  const auto import = imports.find(file);
  EXPECT_EQ(written(*import, 2 * third, std::string_view(records).substr(2 * third)), 0);
  EXPECT_EQ(written(*import, third, std::string_view(records).substr(third, third)), 0);
  EXPECT_EQ(found(import->staged(), "a", "f"), Ino{});
  EXPECT_EQ(written(*import, 0, std::string_view(records).substr(0, third)), 0);
  EXPECT_EQ(written(*import, 0, "again"), EINVAL);
  const auto counts = import->finish();
  ASSERT_TRUE(counts);
  EXPECT_EQ(*counts, (ImportCounts{.files = 1, .directories = 1, .others = 0, .bytes = 4}));
  EXPECT_NE(found(import->staged(), "a", "f"), Ino{});
  EXPECT_EQ(written(*import, records.size(), "more"), EINVAL) << "it has ended";
}

TEST_F(ImportsOf, AGapIsNoEnd) {
  const Ino file = unnamed();
  ASSERT_EQ(code(imports.begin(tree, file, "d", kRoot)), 0);
  const auto import = imports.find(file);
  EXPECT_EQ(written(*import, 100, "later"), 0);
  const auto counts = import->finish();
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, EINVAL);
}

TEST_F(ImportsOf, TooMuchComesEarly) {
  const Ino file = unnamed();
  ASSERT_EQ(code(imports.begin(tree, file, "d", kRoot)), 0);
  const auto import = imports.find(file);
  int refused = 0;
  for (std::uint64_t at = 1; at < 1000 && refused == 0; ++at) refused = written(*import, at, "x");
  EXPECT_EQ(refused, EINVAL);
}

TEST_F(ImportsOf, NothingIsHeldWhenAllIsForgotten) {
  const std::uint64_t before = tree.total_lookups();
  for (int i = 0; i < 3; ++i) {
    const Ino file = unnamed();
    ASSERT_EQ(code(imports.begin(tree, file, "d", kRoot)), 0);
    ASSERT_EQ(written(*imports.find(file), 0, stream()), 0);
    if (i == 0) imports.forget(file);
    tree.forget(file, 1);
  }
  imports.forget_all();
  EXPECT_EQ(tree.total_lookups(), before);
}

}  // namespace
}  // namespace lsmfs::test::imports_test

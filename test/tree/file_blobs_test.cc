#include "tree/file_blobs.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "seed.h"
#include "tree/keys.h"

namespace lsmfs::file_blobs_test {
namespace {

// Rows as the store would have them, and the blobs that nobody wants any more.
class StoredRows final : public FileBlobs::Rows {
 public:
  void put(std::uint64_t first, std::string_view row) override { rows[first] = row; }
  void patch(std::uint64_t first, std::uint32_t offset, std::string_view bytes) override {
    ASSERT_TRUE(rows.contains(first));
    std::string& row = rows[first];
    if (row.size() < offset + bytes.size()) row.resize(offset + bytes.size());
    row.replace(offset, bytes.size(), bytes);
  }
  void erase(std::uint64_t first, std::uint64_t blob) override {
    EXPECT_EQ(rows.erase(first), 1u);
    gone.push_back(blob);
  }
  void erase_patches(std::uint64_t from, std::uint64_t to) override { patches.erase(patches.lower_bound(from), patches.lower_bound(to)); }
  std::map<std::uint64_t, std::string> rows;
  std::set<std::uint64_t> patches;
  std::vector<std::uint64_t> gone;
};

FileBlobs loaded(const StoredRows& stored) {
  FileBlobs blobs;
  for (const auto& [first, row] : stored.rows) {
    auto part = FileBlobs::decode(first, row);
    EXPECT_TRUE(part) << first;
    if (part) blobs.add(std::move(*part));
  }
  return blobs;
}

// As a commit does of what was appended.
void settle(FileBlobs& blobs, std::uint64_t blob, const BlobEnd& end, StoredRows& stored) {
  blobs.reached(blob, end);
  const FileBlobs::Part* const part = blobs.find(blob);
  ASSERT_TRUE(part);
  stored.put(part->first, FileBlobs::encode(*part));
}

// For each block of a file: in which blob it is, and which block of that; or in none.
using Model = std::vector<std::optional<std::pair<std::uint64_t, std::uint64_t>>>;

void expect_like(const FileBlobs& blobs, const Model& model) {
  std::uint64_t live = 0, at = 0;
  for (const auto& run : blobs.runs(0, model.size())) {
    ASSERT_EQ(run.from, at);
    ASSERT_LT(run.from, run.to);
    for (; at < run.to; ++at) {
      ASSERT_EQ(run.part != nullptr, model[at].has_value()) << at;
      ASSERT_EQ(blobs.has(at), model[at].has_value()) << at;
      if (run.part) {
        ASSERT_EQ(*model[at], std::pair(run.part->blob, at - run.part->first)) << at;
      }
      live += run.part != nullptr;
    }
  }
  ASSERT_EQ(at, model.size());
  ASSERT_EQ(blobs.live(), live);
}

TEST(FileBlobs, AreLikeAModelHoweverTheyChangeAndInTheirRowsToo) {
  std::mt19937_64 random(test::drawn_seed());
  for (int round = 0; round < 20; ++round) {
    FileBlobs blobs;
    StoredRows stored;
    Model model;
    std::uint64_t number = 0;
    for (int step = 0; step < 100; ++step) {
      const std::uint64_t from = random() % (model.size() + 1), to = from + random() % (model.size() - from + 1);
      switch (random() % 7) {
        case 0: {  // a hole or rows, and a blob after them
          model.resize(model.size() + random() % 20);
          const std::uint64_t blocks = 1 + random() % 300;
          FileBlobs::Part part;
          part.blob = ++number;
          part.first = model.size();
          blobs.add(std::move(part));
          blobs.grow(blocks);
          settle(blobs, number, {blocks, blocks * kBlobBlock}, stored);
          for (std::uint64_t i = 0; i < blocks; ++i) model.push_back(std::pair(number, i));
          break;
        }
        case 1: {  // the file is cut
          const std::uint64_t left = model.size() - random() % (model.size() / 4 + 1);
          const std::uint64_t had = blobs.live(left, model.size());
          ASSERT_EQ(blobs.remove(left, model.size(), stored), had);
          model.resize(left);
          break;
        }
        case 2:  // one block
          if (from < model.size()) {
            ASSERT_EQ(blobs.remove(from, from + 1, stored), model[from].has_value());
            model[from].reset();
          }
          break;
        case 3:  // a part of a block
          if (from < model.size() && model[from] && blobs.may_patch(from, 5)) {
            blobs.patch(from, 5, stored);
            stored.patches.insert(from);
          }
          break;
        default: {
          const std::uint64_t few = std::min(to, from + random() % 40);
          std::uint64_t had = 0;
          for (std::uint64_t i = from; i < few; ++i) had += model[i].has_value();
          ASSERT_EQ(blobs.live(from, few), had);
          ASSERT_EQ(blobs.remove(from, few, stored), had);
          for (std::uint64_t i = from; i < few; ++i) model[i].reset();
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_like(blobs, model));
      ASSERT_NO_FATAL_FAILURE(expect_like(loaded(stored), model)) << "of its rows";
      ASSERT_EQ(stored.rows.size() + stored.gone.size(), number);
      ASSERT_EQ(loaded(stored).wasted(), blobs.wasted());
      for (const std::uint64_t block : stored.patches) ASSERT_TRUE(blobs.may_have_patch(block)) << block;
    }
  }
}

TEST(FileBlobs, GrowWhileTheyAreWrittenAndAreReadUpToWhereTheyAreSettled) {
  FileBlobs blobs;
  StoredRows stored;
  blobs.add({.blob = 3, .first = 100});
  blobs.grow(10);
  settle(blobs, 3, {10, 50000}, stored);
  blobs.grow(5);
  EXPECT_EQ(blobs.live(), 15u);
  EXPECT_EQ(blobs.parts().back().end, (BlobEnd{10, 50000}));
  EXPECT_EQ(loaded(stored).live(), 10u);
  EXPECT_EQ(blobs.remove(112, 115, stored), 3u);
  settle(blobs, 3, {15, 90000}, stored);
  EXPECT_EQ(loaded(stored).live(), 12u);
  EXPECT_EQ(loaded(stored).parts().back().end.blocks, 15u);
  EXPECT_EQ(blobs.wasted(), 3u);
  blobs.skip(2);
  blobs.grow(1);
  settle(blobs, 3, {18, 99000}, stored);
  EXPECT_EQ(loaded(stored).live(), 13u);
  EXPECT_FALSE(blobs.has(112)) << "it is none of the file";
  EXPECT_EQ(blobs.remove(0, 1000, stored), 13u);
  EXPECT_EQ(blobs.wasted(), 0u);
  EXPECT_TRUE(blobs.empty());
  EXPECT_EQ(stored.gone, std::vector<std::uint64_t>{3});
}

TEST(FileBlobs, HavePatchesOfASmallPartOfTheirSize) {
  FileBlobs blobs;
  StoredRows stored;
  blobs.add({.blob = 3, .first = 100});
  blobs.grow(10);
  settle(blobs, 3, {10, 50000}, stored);
  EXPECT_FALSE(blobs.may_have_patch(104));
  EXPECT_EQ(blobs.wasted(), 0u);
  EXPECT_TRUE(blobs.may_patch(104, 10 * FileBlobs::kPatchedMost));
  EXPECT_FALSE(blobs.may_patch(104, 10 * FileBlobs::kPatchedMost + 1));
  blobs.patch(104, 100, stored);
  stored.patches.insert(104);
  EXPECT_TRUE(blobs.may_have_patch(104));
  EXPECT_FALSE(blobs.may_patch(105, 10 * FileBlobs::kPatchedMost - 99));
  EXPECT_EQ(blobs.wasted(), 1u) << "a block, or a part of one";
  EXPECT_EQ(loaded(stored).wasted(), 1u);
  EXPECT_EQ(blobs.remove(103, 105, stored), 2u);
  EXPECT_TRUE(stored.patches.empty());
  EXPECT_FALSE(blobs.may_have_patch(104));
  EXPECT_EQ(blobs.wasted(), 3u);
}

TEST(FileBlobs, ARowThatIsDamagedIsNone) {
  FileBlobs::Part part{.blob = 3, .first = 7, .blocks = 20, .end = {30, 99}, .gone = 1, .is_gone = {false, true}};
  const std::string row = FileBlobs::encode(part);
  ASSERT_TRUE(FileBlobs::decode(7, row));
  EXPECT_EQ(FileBlobs::encode(*FileBlobs::decode(7, row)).substr(0, row.size()), row);
  for (std::size_t n = 0; n + 1 < row.size(); ++n) EXPECT_FALSE(FileBlobs::decode(7, row.substr(0, n))) << n;
  EXPECT_FALSE(FileBlobs::decode(7, row + std::string(4, '\0'))) << "more bits than blocks";
  EXPECT_FALSE(FileBlobs::decode(UINT64_MAX - 5, row)) << "blocks that no file has";
  const auto with = [&](auto change) {
    FileBlobs::Part other = part;
    change(other);
    return FileBlobs::encode(other);
  };
  EXPECT_FALSE(FileBlobs::decode(7, with([](auto& p) { p.blob = 0; })));
  EXPECT_FALSE(FileBlobs::decode(7, with([](auto& p) { p.blocks = 31; }))) << "more than the blob has";
  EXPECT_FALSE(FileBlobs::decode(7, with([](auto& p) { p.end.blocks = FileBlobs::kBlocksMax + 1; })));
  EXPECT_FALSE(FileBlobs::decode(7, with([](auto& p) { p.is_gone.assign(20, true); }))) << "nothing left";
  EXPECT_TRUE(FileBlobs::decode(7, with([](auto& p) { p.patched = 30 * FileBlobs::kPatchedMost; })));
  EXPECT_FALSE(FileBlobs::decode(7, with([](auto& p) { p.patched = 30 * FileBlobs::kPatchedMost + 1; }))) << "more patches than it may have";
}

TEST(FileBlobs, SharedPartsReadBackAndMakeRoom) {
  StoredRows stored;
  FileBlobs blobs;
  const std::string base = keys::child_home("", "base", Ino{7}), other = keys::child_home("", "other", Ino{8});
  const auto part = [](const std::string& home, std::uint64_t first, std::uint64_t blocks, std::uint64_t from) {
    FileBlobs::Part made;
    made.base = home;
    made.first = first;
    made.blocks = blocks;
    made.from = from;
    return made;
  };
  for (const auto& one : {part(base, 100, 50, 0), part(other, 10, 20, 5), part(base, 40, 10, 90)}) {
    stored.put(one.first, FileBlobs::encode(one));
    blobs.insert(one);
  }
  EXPECT_EQ(blobs.bases(), (std::vector<std::string>{base, other}));
  EXPECT_EQ(blobs.live(), 80u);
  EXPECT_EQ(blobs.in_blobs(0, 200), 0u);
  EXPECT_EQ(blobs.wasted(), 0u);
  EXPECT_FALSE(blobs.makes_room(120));
  EXPECT_TRUE(blobs.makes_room(100));
  EXPECT_TRUE(blobs.makes_room(150));
  EXPECT_EQ(blobs.remove(15, 17, stored), 2u);
  EXPECT_EQ(blobs.remove(120, 150, stored), 30u);
  EXPECT_EQ(blobs.remove(30, 60, stored), 10u);
  const FileBlobs again = loaded(stored);
  ASSERT_EQ(again.parts().size(), 2u);
  EXPECT_EQ(again.parts()[0].from, 5u);
  EXPECT_EQ(again.parts()[0].base, other);
  EXPECT_FALSE(again.has(15));
  EXPECT_TRUE(again.has(17));
  EXPECT_EQ(again.parts()[1].past(), 120u);
  EXPECT_EQ(stored.gone, std::vector<std::uint64_t>{0});
}

TEST(FileBlobs, DamagedSharedPartsAreNotRead) {
  FileBlobs::Part part;
  part.base = keys::child_home("", "base", Ino{7});
  part.blocks = 8;
  const std::string row = FileBlobs::encode(part);
  EXPECT_TRUE(FileBlobs::decode(0, row));
  EXPECT_FALSE(FileBlobs::decode(0, row + "\xff"));   // all have gone
  EXPECT_FALSE(FileBlobs::decode(0, row + "\x01x"));  // more bits than blocks
  for (std::size_t n = 0; n < row.size(); ++n) EXPECT_FALSE(FileBlobs::decode(0, row.substr(0, n))) << n;
  part.base = "no home";
  EXPECT_FALSE(FileBlobs::decode(0, FileBlobs::encode(part)));
  part.base = keys::child_home("", "base", Ino{7});
  part.blocks = FileBlobs::kBlocksMax + 1;
  EXPECT_FALSE(FileBlobs::decode(0, FileBlobs::encode(part)));
}

}  // namespace
}  // namespace lsmfs::file_blobs_test

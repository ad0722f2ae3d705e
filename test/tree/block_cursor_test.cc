// The rows of a file's data as blocks.
#include <gtest/gtest.h>

#include <vector>

#include "tree/block_cursor.h"
#include "tree/fetched.h"

namespace lsmfs::test::block_cursor_test {
namespace {

const std::string kHome = "home";

std::pair<std::string, std::string> block(std::uint64_t index, std::string bytes, const std::string& home = kHome) {
  return {keys::block(home, BlockIndex{index}), std::move(bytes)};
}

// What a cursor over rows gives before block `to`, and why it ends.
std::pair<std::vector<std::uint64_t>, int> walked(const Fetched::Rows& rows, std::uint64_t to) {
  const auto cursor = cursor_over(rows);
  cursor->seek(kHome);
  std::vector<std::uint64_t> found;
  BlockCursor blocks(*cursor, kHome, BlockIndex{to});
  for (; blocks.valid(); blocks.next()) {
    EXPECT_EQ(blocks.bytes(), rows.rows[found.size()].second);
    found.push_back(blocks.index().v);
  }
  const auto status = blocks.status();
  return {found, status ? 0 : status.error().code};
}

using Found = std::pair<std::vector<std::uint64_t>, int>;

TEST(BlockCursor, GivesTheBlocksOfAFileBeforeAnEnd) {
  const Fetched::Rows rows{{block(0, "a"), block(7, "b"), block(300, std::string(kBlockSize, 'c')), block(0, "d", kHome + "r")}, {}};
  EXPECT_EQ(walked(rows, 1000), (Found{{0, 7, 300}, 0}));
  EXPECT_EQ(walked(rows, 300), (Found{{0, 7}, 0}));
  EXPECT_EQ(walked(rows, 0), (Found{{}, 0}));
  EXPECT_EQ(walked({}, 1000), (Found{{}, 0}));
}

TEST(BlockCursor, StopsAtADamagedRow) {
  EXPECT_EQ(walked({{block(0, "a"), {keys::block(kHome, BlockIndex{1}) + "x", "b"}, block(2, "c")}, {}}, 1000), (Found{{0}, EUCLEAN}));
  EXPECT_EQ(walked({{block(0, "a"), block(1, std::string(kBlockSize + 1, 'b')), block(2, "c")}, {}}, 1000), (Found{{0}, EUCLEAN}));
}

TEST(BlockCursor, SaysWhatTheRowsSay) {
  EXPECT_EQ(walked({{block(0, "a")}, make_error(EAGAIN, "")}, 1000), (Found{{0}, EAGAIN}));
}

}  // namespace
}  // namespace lsmfs::test::block_cursor_test

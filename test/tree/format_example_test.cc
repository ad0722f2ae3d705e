// The worked example of a record in docs/format.md, decoded as the program does it.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tree/change_rows.h"
#include "tree/file_blobs.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::format_example_test {
namespace {

std::string example(const std::string& fence) {
  std::ifstream in(LSMFS_SOURCE_DIR "/docs/format.md");
  std::string bytes;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "```" + fence) {
      inside = true;
    } else if (inside && line == "```") {
      return bytes;
    } else if (inside) {
      std::istringstream words(line);
      for (std::string word; words >> word;) bytes.push_back(static_cast<char>(std::stoi(word, nullptr, 16)));
    }
  }
  return {};
}

TEST(FormatExample, TheRecordOfTheDocumentIsWhatItSays) {
  const std::string bytes = example("record");
  const auto r = decode_record(bytes);
  ASSERT_TRUE(r) << bytes.size() << " bytes";
  EXPECT_EQ(r->ino, Ino{300});
  EXPECT_EQ(r->mode, 0100644u);
  EXPECT_EQ(r->nlink, 1u);
  EXPECT_EQ(r->uid, 1000u);
  EXPECT_EQ(r->gid, 0u);
  EXPECT_EQ(r->size, 0u);
  EXPECT_EQ(r->mtime, (Time{1'700'000'000, 5}));
  EXPECT_EQ(r->btime, r->mtime);
  EXPECT_EQ(encode(*r), bytes);
}

TEST(FormatExample, TheSharedPartOfTheDocumentIsWhatItSays) {
  const std::string bytes = example("part");
  const auto part = FileBlobs::decode(0, bytes);
  ASSERT_TRUE(part) << bytes.size() << " bytes";
  EXPECT_TRUE(part->shared());
  EXPECT_EQ(part->base, keys::child_home("", "a", Ino{300}));
  EXPECT_EQ(part->from, 0u);
  EXPECT_EQ(part->blocks, 25u);
  EXPECT_EQ(part->live(), 24u);
  EXPECT_FALSE(part->has(3));
  EXPECT_EQ(FileBlobs::encode(*part), bytes);
}

TEST(FormatExample, TheBaseOfTheDocumentIsWhatItSays) {
  const std::string bytes = example("base");
  const auto node = decode_node(bytes);
  ASSERT_TRUE(node) << bytes.size() << " bytes";
  EXPECT_EQ(*node, (Node{keys::child_home("", "a", Ino{300}), 100'000, 25, 0}));
  EXPECT_EQ(encode(*node), bytes);
}

TEST(FormatExample, TheChangesOfTheDocumentAreWhatItSays) {
  const std::string bytes = example("changes");
  const ChangeRow expected{.bytes = 100, .paths = {{"d", {.all = false, .names = {"a"}}}, {"d/e", {.all = true, .names = {}}}}};
  EXPECT_EQ(decode_change_row(bytes), expected);
  EXPECT_EQ(encode(expected), bytes);
}

TEST(FormatExample, TheHeadOfALogOfChangesOfTheDocumentIsWhatItSays) {
  const std::string bytes = example("head");
  const ChangeHead expected{.asked = 1'700'000'000, .dropped = 0, .dropped_bytes = 0, .logs = {{0x0123456789abcdef, 0}, {0xfedcba9876543210, 2}}};
  EXPECT_EQ(decode_change_head(bytes), expected);
  EXPECT_EQ(encode(expected), bytes);
}

}  // namespace
}  // namespace lsmfs::format_example_test

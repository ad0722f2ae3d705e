// What is built of a stream: nothing outside of its directory is touched whatever records say, and all can be done twice.

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "cli/transfer/builder.h"
#include "seed.h"

namespace lsmfs::cli::stream_builder_test {
namespace {

class Building : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lsmfs-builder-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top_ = name;
    for (const char* const each : {"tree", "moved", "outside"}) std::filesystem::create_directory(top_ + "/" + each);
    std::ofstream(top_ + "/outside/file") << "untouched";
    tree_ = Fd(open((top_ + "/tree").c_str(), O_RDONLY | O_DIRECTORY));
    moved_ = Fd(open((top_ + "/moved").c_str(), O_RDONLY | O_DIRECTORY));
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  NodeRecord node(const std::string& path, std::uint32_t type, const std::string& target = "") const {
    return {.path = path, .contents = NodeRecord::Contents::fresh, .type = type, .uid = geteuid(), .gid = getegid(), .device = 0, .target = target};
  }
  int code(const StreamRecord& record) {
    const auto applied = builder_.apply(record);
    return applied ? 0 : applied.error().code;
  }
  std::vector<std::string> below(const std::string& folder) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(top_ + "/" + folder)) found.push_back(entry.path().lexically_relative(top_ + "/" + folder));
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string contents(const std::string& path) const {
    std::ifstream file(top_ + "/" + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string top_;
  Fd tree_, moved_;
  Builder builder_{tree_, moved_};
};

TEST_F(Building, LinksOutOfTheTreeLeadNowhere) {
  ASSERT_EQ(code(node("out", S_IFLNK, "../outside")), 0);
  ASSERT_EQ(code(node("file", S_IFLNK, "../outside/file")), 0);
  ASSERT_EQ(code(node("whole", S_IFLNK, top_ + "/outside")), 0);
  for (const std::string way : {"out", "whole"}) {
    EXPECT_NE(code(node(way + "/new", S_IFREG)), 0);
    EXPECT_NE(code(node(way + "/new", S_IFDIR)), 0);
    EXPECT_NE(code(RemoveRecord{.path = way + "/file"}), 0);
    EXPECT_NE(code(TakeRecord{.path = way + "/file", .number = 5}), 0);
    EXPECT_NE(code(LinkRecord{.path = "hard", .existing = way + "/file"}), 0);
    EXPECT_NE(code(LinkRecord{.path = way + "/hard", .existing = "file"}), 0);
    EXPECT_NE(code(FlagsRecord{.path = way, .flags = 0}), 0);
    EXPECT_NE(code(FlagsRecord{.path = way + "/file", .flags = 0}), 0);
  }
  NodeRecord kept = node("file", S_IFREG);
  kept.contents = NodeRecord::Contents::replaced;
  EXPECT_EQ(code(kept), EPROTO);
  EXPECT_EQ(code(DataRecord{.offset = 0, .bytes = "x"}), EPROTO);
  kept.contents = NodeRecord::Contents::kept;
  EXPECT_EQ(code(kept), EPROTO);
  EXPECT_EQ(code(HoleRecord{.offset = 0, .count = 1}), EPROTO);
  // The link itself has attributes, and what it leads to keeps its own.
  ASSERT_EQ(code(node("file", S_IFLNK, "../outside/file")), 0);
  EXPECT_EQ(code(AttributesRecord{.mode = 0777, .size = 0, .accessed = {1, 0}, .modified = {1, 0}, .flags = 0, .xattrs = {}}), 0);
  struct stat facts {};
  ASSERT_EQ(stat((top_ + "/outside/file").c_str(), &facts), 0);
  EXPECT_NE(facts.st_mtime, 1);
  EXPECT_NE(facts.st_mode & 0777, 0777u);
  EXPECT_EQ(contents("outside/file"), "untouched");
  EXPECT_EQ(below("outside"), std::vector<std::string>{"file"});
  // What replaces a link that was made before takes its place.
  EXPECT_EQ(code(node("out", S_IFREG)), 0);
  EXPECT_EQ(code(DataRecord{.offset = 0, .bytes = "mine"}), 0);
  EXPECT_EQ(contents("tree/out"), "mine");
  EXPECT_EQ(below("outside"), std::vector<std::string>{"file"});
}

TEST_F(Building, PathsThatLeadUpAreNotFollowedEither) {
  ASSERT_EQ(code(node("a", S_IFDIR)), 0);
  for (const std::string path : {"../outside/file", "a/../../outside/file"}) {
    EXPECT_NE(code(RemoveRecord{.path = path}), 0);
    EXPECT_NE(code(node(path, S_IFREG)), 0);
  }
  EXPECT_EQ(contents("outside/file"), "untouched");
}

TEST_F(Building, RecordsOutOfTheirPlaceAreRefused) {
  EXPECT_EQ(code(DataRecord{.offset = 0, .bytes = "x"}), EPROTO);
  EXPECT_EQ(code(XattrRecord{.name = "user.x", .value = ""}), EPROTO);
  EXPECT_EQ(code(AttributesRecord{}), EPROTO);
  ASSERT_EQ(code(node("d", S_IFDIR)), 0);
  EXPECT_EQ(code(DataRecord{.offset = 0, .bytes = "x"}), EPROTO);
  EXPECT_EQ(code(node("d", S_IFREG)), EPROTO);
  EXPECT_EQ(code(PlaceRecord{.path = "x", .number = 1}), ENOENT);
  EXPECT_EQ(code(TakeRecord{.path = "x", .number = 1}), ENOENT);
  EXPECT_EQ(code(LinkRecord{.path = "x", .existing = "y"}), ENOENT);
}

TEST_F(Building, EachRecordCanBeDoneAgain) {
  for (const char* const folder : {"/tree/old", "/tree/below", "/tree/below/d"}) ASSERT_EQ(mkdir((top_ + folder).c_str(), 0700), 0);
  for (const char* const file : {"/tree/old/gone", "/tree/below/gone", "/tree/below/d/gone"}) std::ofstream(top_ + file) << "x";
  std::ofstream(top_ + "/tree/old/stays") << "stays";
  const std::vector<StreamRecord> gone{TakeRecord{.path = "old/stays", .number = 1}, RemoveRecord{.path = "old"},        RemoveRecord{.path = "below/gone"},
                                       RemoveRecord{.path = "below/d/gone"},         TakeRecord{.path = "below/d", .number = 3}, TakeRecord{.path = "below", .number = 2}};
  const std::vector<StreamRecord> made{node("d", S_IFDIR),       PlaceRecord{.path = "d/moved", .number = 1}, node("d/file", S_IFREG), DataRecord{.offset = 2, .bytes = "data"},
                                       node("d/link", S_IFLNK, "x"), node("d/fifo", S_IFIFO),                  LinkRecord{.path = "second", .existing = "d/file"}, PlaceRecord{.path = "new", .number = 2}, PlaceRecord{.path = "new/d", .number = 3}};
  for (const auto& part : {gone, made}) {
    for (std::size_t done = 0; done <= part.size() + 1; ++done) {
      for (std::size_t at = 0; at < std::min(done, part.size()); ++at) EXPECT_EQ(code(part[at]), 0) << at;
    }
  }
  EXPECT_EQ(below("tree"), (std::vector<std::string>{"d", "d/fifo", "d/file", "d/link", "d/moved", "new", "new/d", "second"}));
  EXPECT_EQ(contents("tree/d/moved"), "stays");
  EXPECT_EQ(contents("tree/second"), std::string("\0\0data", 6));
  EXPECT_TRUE(below("moved").empty());
}

// New files are made with the mode of the one before.
TEST_F(Building, EachFileHasTheModeOfItsOwnRecord) {
  const mode_t before = umask(077);
  const std::uint32_t modes[] = {0644, 0755, 0, 0400, 04755, 0644, 02755, 01666, 0600};
  std::vector<std::string> paths;
  for (const std::uint32_t mode : modes) {
    paths.push_back("file" + std::to_string(paths.size()));
    EXPECT_EQ(code(node(paths.back(), S_IFREG)), 0);
    EXPECT_EQ(code(DataRecord{.offset = 0, .bytes = "data"}), 0);
    EXPECT_EQ(code(AttributesRecord{.mode = mode, .size = 4, .accessed = {1, 0}, .modified = {2, 0}, .flags = 0, .xattrs = {}}), 0);
  }
  umask(before);
  for (std::size_t at = 0; at < paths.size(); ++at) {
    struct stat facts {};
    ASSERT_EQ(stat((top_ + "/tree/" + paths[at]).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, modes[at]) << paths[at];
    EXPECT_EQ(facts.st_size, 4);
    EXPECT_EQ(facts.st_mtime, 2);
  }
}

TEST_F(Building, ANewFileIsAsLongAsItsRecordSays) {
  const std::uint64_t sizes[] = {10, 4, 0, 5000};
  for (const std::uint64_t size : sizes) {
    EXPECT_EQ(code(node("file", S_IFREG)), 0);
    EXPECT_EQ(code(DataRecord{.offset = 6, .bytes = "data"}), 0);
    EXPECT_EQ(code(DataRecord{.offset = 0, .bytes = "x"}), 0);
    EXPECT_EQ(code(AttributesRecord{.mode = 0600, .size = size, .accessed = {1, 0}, .modified = {1, 0}, .flags = 0, .xattrs = {}}), 0);
    EXPECT_EQ(contents("tree/file").size(), size);
  }
}

TEST_F(Building, WhatAnEarlierOneHasLeftIsLookedAt) {
  ASSERT_EQ(code(node("before", S_IFREG)), 0);
  ASSERT_EQ(code(AttributesRecord{.mode = 0644, .size = 0, .accessed = {1, 0}, .modified = {1, 0}, .flags = 0, .xattrs = {}}), 0);
  ASSERT_EQ(code(node("file", S_IFREG)), 0);
  ASSERT_EQ(code(DataRecord{.offset = 0, .bytes = "data and more"}), 0);
  const bool has_xattrs = code(XattrRecord{.name = "user.left", .value = "x"}) == 0;
  ASSERT_EQ(chmod((top_ + "/tree/file").c_str(), 0), 0);
  Builder later(tree_, moved_);
  ASSERT_TRUE(later.go_on_with("file"));
  ASSERT_TRUE(later.apply(DataRecord{.offset = 0, .bytes = "DATA"}));
  ASSERT_TRUE(later.apply(AttributesRecord{.mode = 0640, .size = 8, .accessed = {1, 0}, .modified = {1, 0}, .flags = 0, .xattrs = {}}));
  EXPECT_EQ(contents("tree/file"), "DATA and");
  struct stat facts {};
  ASSERT_EQ(stat((top_ + "/tree/file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0640u);
  EXPECT_TRUE(!has_xattrs || listxattr((top_ + "/tree/file").c_str(), nullptr, 0) == 0);
}

// Records of all kinds, with names that come again and links that lead out.
TEST_F(Building, WhateverRecordsSayNothingElseIsTouched) {
  std::mt19937_64 draw(lsmfs::test::drawn_seed());
  const auto pick = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(draw); };
  const auto path = [&] {
    static constexpr std::string_view kNames[] = {"a", "b", "out", "up", "file"};
    std::string found(kNames[pick(5)]);
    while (pick(3) != 0) found += "/" + std::string(kNames[pick(5)]);
    return found;
  };
  const std::string targets[] = {"../outside", "../../outside", top_ + "/outside", "../outside/file", "/proc/self/cwd", "a", ".."};
  const std::uint32_t types[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFLNK, S_IFIFO};
  for (int turn = 0; turn < 5000; ++turn) {
    const std::uint32_t type = types[pick(5)];
    NodeRecord node_record = node(path(), type, type == S_IFLNK ? targets[pick(7)] : "");
    node_record.contents = static_cast<NodeRecord::Contents>(pick(3));
    if (type != S_IFREG && node_record.contents == NodeRecord::Contents::replaced) node_record.contents = NodeRecord::Contents::fresh;
    const StreamRecord records[] = {TakeRecord{.path = path(), .number = pick(3)}, RemoveRecord{.path = path()}, PlaceRecord{.path = path(), .number = pick(3)}, node_record, node_record,
                                    DataRecord{.offset = pick(100), .bytes = "bytes"}, HoleRecord{.offset = 0, .count = 100}, AttributesRecord{.mode = 0600, .size = 3, .accessed = {1, 1}, .modified = {1, 1}, .flags = 0, .xattrs = {}},
                                    LinkRecord{.path = path(), .existing = path()}, FlagsRecord{.path = path(), .flags = 0}};
    (void)builder_.apply(records[pick(std::size(records))]);
  }
  EXPECT_FALSE(below("tree").empty());
  EXPECT_EQ(below("outside"), std::vector<std::string>{"file"});
  EXPECT_EQ(contents("outside/file"), "untouched");
  struct stat facts {};
  ASSERT_EQ(stat((top_ + "/outside/file").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_nlink, 1u);
  EXPECT_GT(facts.st_mtime, 1);
}

}  // namespace
}  // namespace lsmfs::cli::stream_builder_test

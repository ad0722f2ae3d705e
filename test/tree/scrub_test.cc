// Tree::scrub() says in paths what damage is about, and tells the log.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "tree/harness.h"

namespace lsmfs::test::scrub_test {
namespace {

class ScrubTree : public testing::Test {
 protected:
  ScrubTree()
      : h_(ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .notice = [this](std::string_view line) {
             const std::lock_guard lock(mutex_);
             notices_.emplace_back(line);
           }}) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 40; ++i) {
      std::string data(100'000, '\0');
      for (char& c : data) c = static_cast<char>(random());
      h_.create(h_.mkdir(kRootIno, "directory" + std::to_string(100 + i)), "file", data);
    }
    EXPECT_TRUE(h_.tree().drop_caches());
  }

  std::vector<std::string> scrub() {
    std::vector<std::string> damage;
    for (ScrubPosition position; !position.done();) {
      const auto step = h_.tree().scrub(position, [] { return false; });
      EXPECT_TRUE(step) << step.error().message();
      if (!step) break;
      damage.insert(damage.end(), step->damage.begin(), step->damage.end());
    }
    return damage;
  }

  // Where on the device a piece of a file is, which does not compress.
  std::uint64_t place_of(std::string_view bytes) {
    AlignedBuffer piece(MiB);
    for (std::uint64_t at = 0; at < h_.device().size().v; at += piece.size()) {
      EXPECT_TRUE(h_.device().read(ByteOffset{at}, piece.bytes()));
      if (const auto found = as_text(piece.bytes()).find(bytes); found != std::string_view::npos) places_.push_back(at + found);
    }
    EXPECT_FALSE(places_.empty());
    return places_.empty() ? 0 : places_.back();
  }
  void flip(std::uint64_t at) {
    AlignedBuffer block(kDeviceBlock);
    const ByteOffset from{round_down(at, kDeviceBlock)};
    EXPECT_TRUE(h_.device().read(from, block.bytes()));
    block.data()[at % kDeviceBlock] ^= std::byte{1};
    EXPECT_TRUE(h_.device().write(from, block.bytes()));
  }

  std::mutex mutex_;
  std::vector<std::string> notices_;
  std::vector<std::uint64_t> places_;
  Harness h_;
};

TEST_F(ScrubTree, ASoundTreeHasNoDamage) {
  EXPECT_EQ(scrub(), std::vector<std::string>{});
  EXPECT_EQ(notices_, std::vector<std::string>{});
}

TEST_F(ScrubTree, DamagedDataIsNamedByThePathsAroundIt) {
  const std::string data = h_.read_path("directory110/file");  // in the middle of a table
  place_of(std::string_view(data).substr(50'100, 60));
  // In the log as well, from where it came into the table.
  for (const std::uint64_t place : places_) flip(place);
  const auto damage = scrub();
  for (const std::uint64_t place : places_) flip(place);
  std::uint64_t tables = 0;
  for (const auto& line : damage) {
    if (!line.starts_with("table ")) continue;
    ++tables;
    EXPECT_NE(line.find("file data between byte "), std::string::npos) << line;
    EXPECT_NE(line.find(" of /directory110/file"), std::string::npos) << line;
    EXPECT_NE(std::ranges::find(notices_, "scrub: " + line), notices_.end());
  }
  EXPECT_EQ(tables, 1u) << testing::PrintToString(damage);
  EXPECT_EQ(notices_.size(), damage.size());
  EXPECT_EQ(scrub(), std::vector<std::string>{});
}

}  // namespace
}  // namespace lsmfs::test::scrub_test

#include "kv/notice_logger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lsmfs::kv::notice_logger_test {
namespace {

TEST(NoticeLogger, PassesWarningsAsOneLineEach) {
  std::vector<std::string> lines;
  const auto logger = make_notice_logger([&](std::string_view line) { lines.emplace_back(line); });
  rocksdb::Info(logger.get(), "of no interest");
  rocksdb::Header(logger.get(), "Options.something: %d", 1);
  rocksdb::Warn(logger.get(), "two\nlines %d\n", 2);
  rocksdb::Error(logger.get(), "worse");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("two lines 2"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("worse"), std::string::npos) << lines[1];
}

TEST(NoticeLogger, CallsTheTornEndOfALogWhatItIs) {
  std::string line;
  const auto logger = make_notice_logger([&](std::string_view text) { line = text; });
  rocksdb::Warn(logger.get(), "/lsmfs/000033.log: dropping 31904 bytes; Corruption: truncated record body");
  EXPECT_NE(line.find("as after a crash"), std::string::npos) << line;
  rocksdb::Warn(logger.get(), "/lsmfs/000033.log: dropping 31904 bytes; Corruption: checksum mismatch");
  EXPECT_NE(line.find("checksum mismatch"), std::string::npos) << "damage stays damage: " << line;
}

}  // namespace
}  // namespace lsmfs::kv::notice_logger_test

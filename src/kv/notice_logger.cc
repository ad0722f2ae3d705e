#include "kv/notice_logger.h"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <utility>

namespace lsmfs::kv {

namespace {

// What recovery says of a log that was being written when the daemon or the machine died. RocksDB
// calls it a corruption; damage within a log is an error of its own.
bool is_torn_end_of_log(std::string_view text) {
  return text.find(".log: dropping ") != text.npos &&
         (text.find("truncated record body") != text.npos || text.find("truncated header") != text.npos ||
          text.find("error reading trailing data") != text.npos);
}

// From 8.4 on RocksDB says so of a family of its own, which has no tables and takes the default options and all directories
// (kv/options gives two).
bool is_of_no_family_of_ours(std::string_view text) {
  return text.find("multiple cf_paths/db_paths and level_compaction_dynamic_level_bytes") != text.npos;
}

class NoticeLogger final : public rocksdb::Logger {
 public:
  explicit NoticeLogger(std::function<void(std::string_view)> notice)
      : Logger(rocksdb::InfoLogLevel::WARN_LEVEL), notice_(std::move(notice)) {}

  using Logger::Logv;

  // RocksDB's header lines (the options) come through here in some versions.
  void LogHeader(const char*, va_list) override {}
  void Logv(const char*, va_list) override {}

  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level >= rocksdb::InfoLogLevel::HEADER_LEVEL) return;
    std::array<char, 1024> line;
    const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
    if (length <= 0) return;
    std::string_view text(line.data(), std::min<std::size_t>(static_cast<std::size_t>(length), line.size() - 1));
    std::replace(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(text.size()), '\n', ' ');
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (is_torn_end_of_log(text)) {
      text = "the log ends in the middle of a commit, as after a crash: that commit is dropped, all before it counts";
    }
    if (!text.empty() && !is_of_no_family_of_ours(text)) notice_(text);
  }

 private:
  std::function<void(std::string_view)> notice_;
};

}  // namespace

std::shared_ptr<rocksdb::Logger> make_notice_logger(std::function<void(std::string_view)> notice) {
  return std::make_shared<NoticeLogger>(std::move(notice));
}

}  // namespace lsmfs::kv

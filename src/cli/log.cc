#include "cli/log.h"

#include <fcntl.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <syslog.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace lsmfs::cli {
namespace {

// spdlog's own sink opens its file itself, where a confined process may not.
class FileSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(Fd file) : file_(std::move(file)) {}
  void use(Fd file) {
    const std::lock_guard lock(mutex_);
    file_ = std::move(file);
  }

 private:
  // A line that cannot be written is lost, as there is nobody to tell.
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t wrote = write(file_.get(), line.data() + at, line.size() - at);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return;
      at += static_cast<std::size_t>(wrote);
    }
  }
  void flush_() override {}

  Fd file_;
};

class SpdLog : public Log {
 public:
  SpdLog(spdlog::sink_ptr sink, const char* pattern) : logger_("lsmfs", std::move(sink)) {
    logger_.set_pattern(pattern);
    logger_.flush_on(spdlog::level::info);
    // A log that cannot be written must not stop a file system; the default prints to stderr.
    logger_.set_error_handler([](const std::string&) {});
  }
  void info(std::string_view line) override { logger_.info("{}", line); }
  void warn(std::string_view line) override { logger_.warn("{}", line); }
  void use(Fd) override {}

 private:
  spdlog::logger logger_;
};

constexpr const char* kWithTime = "%Y-%m-%d %H:%M:%S.%e %l: %v";

class FileLog final : public SpdLog {
 public:
  explicit FileLog(std::shared_ptr<FileSink> sink) : SpdLog(sink, kWithTime), sink_(std::move(sink)) {}
  void use(Fd file) override { sink_->use(std::move(file)); }

 private:
  const std::shared_ptr<FileSink> sink_;
};

}  // namespace

Result<Fd> Log::open_file(const std::string& file) {
  Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) return make_error(errno, file);
  return fd;
}

Result<std::shared_ptr<Log>> Log::open(const std::string& file, bool foreground) {
  if (!file.empty()) {
    LSMFS_ASSIGN(Fd opened, open_file(file));
    return std::shared_ptr<Log>(std::make_shared<FileLog>(std::make_shared<FileSink>(std::move(opened))));
  }
  if (foreground) {
    return std::shared_ptr<Log>(std::make_shared<SpdLog>(std::make_shared<spdlog::sinks::stderr_sink_mt>(), "lsmfs: %v"));
  }
  return std::shared_ptr<Log>(std::make_shared<SpdLog>(std::make_shared<spdlog::sinks::syslog_sink_mt>("lsmfs", LOG_PID, LOG_DAEMON, true), "%v"));
}

}  // namespace lsmfs::cli

#include "cli/log.h"

#include <fcntl.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <syslog.h>

namespace lsmfs::cli {
namespace {

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

 private:
  spdlog::logger logger_;
};

}  // namespace

Result<std::shared_ptr<Log>> Log::open(const std::string& file, bool foreground) {
  constexpr const char* kWithTime = "%Y-%m-%d %H:%M:%S.%e %l: %v";
  try {
    if (!file.empty()) {
      // spdlog would make the folders on the way, and its error text is long. It opens what is open here.
      const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
      if (!fd) return make_error(errno, file);
      const std::string same = "/proc/self/fd/" + std::to_string(fd.get());
      return std::shared_ptr<Log>(
          std::make_shared<SpdLog>(std::make_shared<spdlog::sinks::basic_file_sink_mt>(same), kWithTime));
    }
    if (foreground) {
      return std::shared_ptr<Log>(
          std::make_shared<SpdLog>(std::make_shared<spdlog::sinks::stderr_sink_mt>(), "lsmfs: %v"));
    }
    return std::shared_ptr<Log>(std::make_shared<SpdLog>(
        std::make_shared<spdlog::sinks::syslog_sink_mt>("lsmfs", LOG_PID, LOG_DAEMON, true), "%v"));
  } catch (const std::exception& problem) {  // spdlog's constructors throw
    return make_error(EIO, std::string("log: ") + problem.what());
  }
}

}  // namespace lsmfs::cli

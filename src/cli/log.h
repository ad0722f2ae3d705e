// The daemon's log: syslog, a file, or stderr in the foreground.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// Threads: info(), warn() and use() from any thread.
class Log {
 public:
  // `file`: a path, or empty for stderr (`foreground`) or syslog. Errors: the file cannot be opened.
  static Result<std::shared_ptr<Log>> open(const std::string& file, bool foreground);
  static Result<Fd> open_file(const std::string& file);
  virtual ~Log() = default;
  virtual void info(std::string_view line) = 0;
  virtual void warn(std::string_view line) = 0;
  // Of a log in a file: goes on in this one.
  virtual void use(Fd file) = 0;
};

}  // namespace lsmfs::cli

#include "cli/paths.h"

#include <filesystem>

namespace lsmfs::cli {

std::string absolute_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path whole = fs::weakly_canonical(path, error);
  if (error) {
    // The last component may be the dead mount itself: resolve what leads to it.
    const fs::path tidy = fs::absolute(path, error).lexically_normal();
    const fs::path trimmed = tidy.has_filename() ? tidy : tidy.parent_path();
    whole = fs::weakly_canonical(trimmed.parent_path(), error) / trimmed.filename();
    if (error) whole = trimmed;
  }
  if (!whole.has_filename() && whole.has_relative_path()) whole = whole.parent_path();
  return whole.is_absolute() ? whole.string() : fs::absolute(whole, error).string();
}

}  // namespace lsmfs::cli

#include "cli/transfer/xattr_names.h"

#include <cerrno>

namespace lsmfs::cli {

std::optional<std::vector<std::string>> xattr_names(const std::function<ssize_t(char* names, std::size_t size)>& list) {
  std::string listed;
  ssize_t size = list(nullptr, 0);
  if (size > 0) {
    listed.resize(static_cast<std::size_t>(size));
    size = list(listed.data(), listed.size());
  }
  if (size < 0 && errno != EOPNOTSUPP) return std::nullopt;
  listed.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  std::vector<std::string> names;
  for (std::size_t at = 0; at < listed.size(); at += names.back().size() + 1) names.emplace_back(listed.c_str() + at);
  return names;
}

}  // namespace lsmfs::cli

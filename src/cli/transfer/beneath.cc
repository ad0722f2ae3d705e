#include "cli/transfer/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace lsmfs::cli {
namespace {

constexpr std::size_t kPieceMost = 4000;  // the kernel takes paths of 4,095 bytes

Result<Fd> open_piece(int directory, std::string_view path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  const std::string name(path.empty() ? "." : path);
  const long fd = syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how);
  if (fd < 0) return make_error(errno, std::string(path));
  return Fd(static_cast<int>(fd));
}

}  // namespace

Result<Fd> open_beneath(const Fd& directory, std::string_view path, int flags) {
  Fd at;
  while (path.size() > kPieceMost) {
    const std::size_t slash = path.rfind('/', kPieceMost);
    if (slash == path.npos || slash == 0) return make_error(ENAMETOOLONG, std::string(path));
    LSMFS_ASSIGN(Fd next, open_piece(at ? at.get() : directory.get(), path.substr(0, slash), O_PATH | O_DIRECTORY | O_NOFOLLOW));
    at = std::move(next);
    path.remove_prefix(slash + 1);
  }
  return open_piece(at ? at.get() : directory.get(), path, flags | O_NOFOLLOW);
}

std::string parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == path.npos ? "" : path.substr(0, slash));
}

std::string last_name_of(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::string path_of_child(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty()) path += '/';
  return path.append(name);
}

bool is_earlier(std::string_view a, std::string_view b) {
  const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c); };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return rank(x) < rank(y); });
}

bool lies_in(std::string_view path, std::string_view above) {
  if (above.empty()) return true;
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

}  // namespace lsmfs::cli

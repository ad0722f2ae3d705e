#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/fuse.h"

// Not by libmount, which would halve it: it reads links on the way, which the daemon's filter of system calls does not allow, and brings two
// more libraries into the daemon (libselinux, libpcre2). Its table of flags does not say which options it does not know.
//
// proc(5): "36 35 98:0 /root /mount/point rw,noatime master:1 - type source options". Blanks,
// tabs, newlines and backslashes in names are written as \ and three octal digits.

namespace lsmfs {
namespace {

std::string_view next_word(std::string_view& line) {
  const auto end = std::min(line.find(' '), line.size());
  const auto word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

std::string unescape(std::string_view word) {
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '\\' && i + 3 < word.size() && octal(word[i + 1]) && octal(word[i + 2]) && octal(word[i + 3])) {
      out.push_back(static_cast<char>((word[i + 1] - '0') * 64 + (word[i + 2] - '0') * 8 + (word[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(word[i]);
    }
  }
  return out;
}

Result<std::string> read_whole(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return make_error(errno, path);
  std::string text;
  char chunk[16 * KiB];
  ssize_t got = 0;
  while ((got = read(fd, chunk, sizeof chunk)) > 0) text.append(chunk, static_cast<std::size_t>(got));
  const int code = errno;
  close(fd);
  if (got < 0) return make_error(code, path);
  return text;
}

}  // namespace

Result<std::vector<MountEntry>> mount_table(std::optional<pid_t> process) {
  LSMFS_ASSIGN(const std::string text, read_whole("/proc/" + (process ? std::to_string(*process) : "self") + "/mountinfo"));
  std::vector<MountEntry> entries;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    MountEntry entry;
    for (std::uint64_t* const number : {&entry.id, &entry.parent}) {
      const std::string_view id = next_word(line);
      std::from_chars(id.data(), id.data() + id.size(), *number);
    }
    entry.device = next_word(line);
    entry.root = unescape(next_word(line));
    entry.mount_point = unescape(next_word(line));
    while (!line.empty() && next_word(line) != "-") {
    }
    entry.type = unescape(next_word(line));
    entry.source = unescape(next_word(line));
    entry.options = next_word(line);
    if (!entry.mount_point.empty()) entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::optional<MountEntry>> mounted_at(const std::string& mount_point) {
  LSMFS_ASSIGN(auto table, mount_table());
  const auto found = std::find_if(table.rbegin(), table.rend(), [&](const MountEntry& entry) { return entry.mount_point == mount_point; });
  if (found == table.rend()) return std::optional<MountEntry>();
  return std::optional(std::move(*found));
}

}  // namespace lsmfs

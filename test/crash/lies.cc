#include "crash/lies.h"

#include <algorithm>
#include <sstream>

namespace lsmfs::test {
namespace {

std::string path_of(const std::string& line) { return line.substr(0, line.find(" ino=")); }

}  // namespace

std::string lies(const std::string& found, const std::string& expected, const std::set<std::string>& failed) {
  std::set<std::string> right, seen;
  std::string line;
  for (std::istringstream lines(expected); std::getline(lines, line);) right.insert(line);
  for (std::istringstream lines(found); std::getline(lines, line);) {
    if (line.find(" ino=") == line.npos) continue;  // an error's message
    seen.insert(path_of(line));
    if (!right.contains(line) && !failed.contains(path_of(line))) return "a wrong line: " + line;
  }
  for (const std::string& one : right) {
    const std::string path = path_of(one);
    if (seen.contains(path)) continue;
    const bool explained = std::ranges::any_of(failed, [&](const std::string& at) { return at.empty() || path == at || path.starts_with(at + "/"); });
    if (!explained) return "silently missing: " + one;
  }
  return "";
}

}  // namespace lsmfs::test

#include "cli/owners.h"

#include <grp.h>
#include <pwd.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace lsmfs::cli {
namespace {

// Names seldom change from one entry to the next, and to look one up may take a request to a server.
class Known {
 public:
  std::uint32_t find(std::string_view name, std::int64_t number, const std::function<std::optional<std::uint32_t>(const std::string&)>& look) {
    const auto said = number >= 0 && number < UINT32_MAX ? static_cast<std::uint32_t>(number) : UINT32_MAX;
    if (name.empty()) return said;
    auto found = known_.find(name);
    if (found == known_.end()) found = known_.emplace(std::string(name), look(std::string(name))).first;
    return found->second.value_or(said);
  }

 private:
  std::map<std::string, std::optional<std::uint32_t>, std::less<>> known_;
};

}  // namespace

std::uint32_t user_id(std::string_view name, std::int64_t number) {
  static thread_local Known known;
  return known.find(name, number, [](const std::string& asked) -> std::optional<std::uint32_t> {
    const passwd* const found = getpwnam(asked.c_str());
    return found ? std::optional(found->pw_uid) : std::nullopt;
  });
}

std::uint32_t group_id(std::string_view name, std::int64_t number) {
  static thread_local Known known;
  return known.find(name, number, [](const std::string& asked) -> std::optional<std::uint32_t> {
    const group* const found = getgrnam(asked.c_str());
    return found ? std::optional(found->gr_gid) : std::nullopt;
  });
}

}  // namespace lsmfs::cli

#include "cli/numbers/asked.h"

#include <fmt/format.h>

#include <fstream>

#include "cli/facts.h"
#include "cli/paths.h"

namespace lsmfs::cli {

Asked::Asked(const std::string& given) : path_(absolute_path(given)) {}

std::optional<Problem> Asked::problem() {
  // Others may know a request of the same number.
  const auto facts = query_mount(path_);
  if (!facts && facts.error().code == ENOTTY) return Problem{1, path_ + ": is not in an lsmfs that is mounted"};
  if (!facts) return Problem{1, explain(facts.error())};
  mount_point_ = mount_point_in_facts(*facts);
  same_numbers_ = daemon_in_facts(*facts).has_value();
  if (const auto stats = this->stats(); !stats) return Problem{1, explain(stats.error())};
  return std::nullopt;
}

std::string Asked::explain(const Error& error) const {
  switch (error.code) {
    case ENOTTY:
      return path_ + ": its daemon is too old to tell numbers; mount it again";
    case EPROTO:
      return fmt::format("{}: {}", path_, error.context);
    case ENOTCONN:
    case ECONNABORTED:
      return path_ + ": the daemon of the mount is gone; take it away with umount -l";
    default:
      return cli::explain(path_, error);
  }
}

std::map<std::string, std::uint64_t> Asked::programs(const RequestStats& requests) {
  std::map<std::string, std::uint64_t> programs;
  std::map<std::uint32_t, std::string> names;
  for (const ProgramCount& program : requests.programs) {
    std::string name = names_[program.id];
    if (same_numbers_ && program.id != 0) {
      std::string now;
      if (std::getline(std::ifstream(fmt::format("/proc/{}/comm", program.id)), now)) name = now;
    }
    if (name.empty()) name = program.id == 0 ? "(none)" : same_numbers_ ? "(ended)" : fmt::format("{}", program.id);
    programs[name] += program.requests;
    names[program.id] = std::move(name);
  }
  names_ = std::move(names);
  return programs;
}

}  // namespace lsmfs::cli

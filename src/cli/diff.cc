// lsmfs diff: tells what differs between two directories of one file system, as far as they do not have it in common.

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/quoted.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

using DiffJson = nlohmann::ordered_json;

struct Word {
  char letter;
  std::string_view name;
};

Word word_of(Difference::Kind kind) {
  switch (kind) {
    case Difference::Kind::added: return {'+', "added"};
    case Difference::Kind::removed: return {'-', "removed"};
    case Difference::Kind::contents: return {'M', "contents"};
    case Difference::Kind::attributes: return {'m', "attributes"};
    case Difference::Kind::renamed: break;
  }
  return {'R', "renamed"};
}

// A directory ends in a slash.
std::string shown(const std::string& path, bool is_directory) { return (path.empty() ? "." : path) + (is_directory ? "/" : ""); }

void print_lines(const std::vector<Difference>& differences, bool zero) {
  for (const Difference& each : differences) {
    const std::string path = shown(each.path, each.is_directory);
    const bool renamed = each.kind == Difference::Kind::renamed;
    const std::string old = renamed ? shown(each.old, each.is_directory) : "";
    std::string line = fmt::format("{} ", word_of(each.kind).letter);
    if (renamed) line += zero ? old + '\0' : quoted_name(old) + " -> ";
    line += zero ? path + '\0' : quoted_name(path) + '\n';
    fmt::print("{}", line);
  }
}

void print_json(const std::vector<Difference>& differences) {
  DiffJson json = DiffJson::array();
  for (const Difference& each : differences) {
    DiffJson& object = json.emplace_back(DiffJson{{"change", word_of(each.kind).name}, {"path", shown(each.path, false)}});
    if (each.kind == Difference::Kind::renamed) object["old"] = shown(each.old, false);
    object["directory"] = each.is_directory;
  }
  fmt::print("{}\n", json.dump(2, ' ', false, DiffJson::error_handler_t::replace));
}

std::string explain_diff(const std::string& from, const std::string& to, const Error& error) {
  const std::string& path = error.context == from ? from : to;
  switch (error.code) {
    case EXDEV:
      return fmt::format("{}: is in another file system than {}; use diff -r", to, from);
    case EPERM:
      return fmt::format("{}: only root, who mounted it and the owner of both directories may compare it with {}", to, from);
    case EACCES:
      return path + ": no permission to read it";
    case ESTALE:
      return fmt::format("{} or {}: was removed while they were compared", from, to);
    case EINVAL:
      return fmt::format("{} and {}: are not compared by this version of the daemon; unmount them, and mount again", from, to);
    case ENOTTY:
      return path + ": is mounted by a version that does not know differences; unmount it, and mount it again";
    case ESRCH:
      return path + ": the daemon does not see this process, which is in another process namespace; run it where the mount was made";
    case EAGAIN:
      return path + ": was not compared in time; try again";
    case ENAMETOOLONG:
      return path + ": a path below it is too long to be told; use diff -r";
    case EIO:
      return path + ": something in it is damaged or cannot be read, so what differs is not known; see the log, and lsmfs scrub";
    case EPROTO:
      return fmt::format("{}: {}", path, error.context);
    default:
      return explain(path, make_error(error.code, ""));
  }
}

}  // namespace

int diff(const DiffArguments& arguments) {
  const std::string from = without_trailing_slashes(arguments.from), to = without_trailing_slashes(arguments.to);
  for (const std::string& path : {from, to}) {
    if (const auto why = wrong_source(path, "name a directory, or use cmp", "use diff -r"); !why.empty()) return report({kDiffTrouble, why});
  }
  const auto found = differences_in_mount(from, to, arguments.all ? OneSided::all : OneSided::as_one);
  if (!found) return report({kDiffTrouble, explain_diff(from, to, found.error())});
  if (arguments.json) print_json(*found);
  else print_lines(*found, arguments.zero);
  return found->empty() ? kOk : kDiffers;
}

}  // namespace lsmfs::cli

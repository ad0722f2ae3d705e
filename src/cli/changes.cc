// lsmfs changes: tells which paths below a directory may have changed since the moment of a token; also to git, as its core.fsmonitor.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/quoted.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

using ChangesJson = nlohmann::ordered_json;

constexpr std::string_view kAll = "/";  // everything may have changed

// The directory itself has no name in it.
std::string shown_change(const std::string& path) { return path.empty() ? "." : path; }

void print_changes(const Changes& found, bool asked, bool zero) {
  const char end = zero ? '\0' : '\n';
  std::string out = text_of(found.now) + end;
  if (asked && found.everything) out.append(kAll) += end;
  for (const std::string& path : found.paths) out += (zero ? shown_change(path) : quoted_name(shown_change(path))) + end;
  fmt::print("{}", out);
}

void print_changes_json(const Changes& found) {
  ChangesJson paths = ChangesJson::array();
  for (const std::string& path : found.paths) paths.push_back(shown_change(path));
  const ChangesJson json{{"token", text_of(found.now)}, {"everything", found.everything}, {"paths", std::move(paths)}};
  fmt::print("{}\n", json.dump(2, ' ', false, ChangesJson::error_handler_t::replace));
}

std::string explain_changes(const std::string& path, const Error& error) {
  switch (error.code) {
    case EPERM:
      return path + ": only root, who mounted it and the owner of the directory may ask what has changed in it";
    case EACCES:
      return path + ": no permission to read it";
    case ENOTTY:
      return path + ": is mounted by a version that does not know changes; unmount it, and mount it again";
    case EROFS:
      return path + ": no log of changes is kept, and none can be begun, since it is mounted read-only";
    case ESTALE:
      return path + ": was removed";
    case EIO:
      return path + ": it cannot be told, since something cannot be read or written; see the log of the mount";
    case EPROTO:
      return fmt::format("{}: {}", path, error.context);
    default:
      return explain(path, make_error(error.code, ""));
  }
}

// What git knows of a directory's untracked files it keeps for each directory, and it forgets no more than that of one when a directory is
// told. So where all below one may have changed, everything may.
int tell_git(const std::vector<std::string>& operands) {
  if (operands.front() != "2") {
    return report({kFailure, fmt::format("--git: version {} of git's hook for file system monitors is not known; set core.fsmonitorHookVersion to 2", operands.front())});
  }
  const std::string top = ".";
  const auto found = changes_in_mount(top, token_of(operands.back()));
  if (!found) {
    // It asks the files themselves then. So a repository elsewhere, with the same settings, need not be told of each time.
    const auto ours = found.error().code == ENOTTY ? query_mount(top) : Result<std::string>("");
    if (!ours && ours.error().code == ENOTTY) return kFailure;
    return report({kFailure, explain_changes("this directory", found.error())});
  }
  std::string out = text_of(found->now) + '\0';
  const bool whole = std::ranges::any_of(found->paths, [](const std::string& path) { return path.ends_with('/') && !path.starts_with(".git/"); });
  if (found->everything || whole) {
    out.append(kAll) += '\0';
  } else {
    for (const std::string& path : found->paths) {
      if (!path.empty() && path != ".git" && !path.starts_with(".git/")) out += path + '\0';
    }
  }
  std::fwrite(out.data(), 1, out.size(), stdout);
  return kOk;
}

}  // namespace

int changes(const ChangesArguments& arguments) {
  const std::size_t wanted = arguments.git ? 2 : 1;
  if (arguments.operands.size() != wanted) {
    return report({kFailure, arguments.git ? "--git: takes a version and a token, as git gives them; see lsmfs changes --help"
                                           : fmt::format("{}: is one directory too many; see lsmfs changes --help", arguments.operands.back())});
  }
  if (arguments.git) {
    if (arguments.since || arguments.zero || arguments.json) return report({kFailure, "--git: goes with no other option; see lsmfs changes --help"});
    return tell_git(arguments.operands);
  }
  const std::string path = without_trailing_slashes(arguments.operands.front());
  if (const auto why = wrong_source(path, "name a directory", "nothing else keeps a log of changes"); !why.empty()) return report({kFailure, why});
  const auto found = changes_in_mount(path, arguments.since ? token_of(*arguments.since) : std::nullopt);
  if (!found) return report({kFailure, explain_changes(path, found.error())});
  if (arguments.json) print_changes_json(*found);
  else print_changes(*found, arguments.since.has_value(), arguments.zero);
  return kOk;
}

}  // namespace lsmfs::cli

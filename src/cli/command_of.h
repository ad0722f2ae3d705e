// How a command is one of a table's entries.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.h"

namespace lsmfs::cli {

template <class Arguments, int (*run)(const Arguments&)>
std::function<int()> command_of(CLI::App& app, const std::vector<std::string>&) {
  const auto arguments = std::make_shared<Arguments>();
  take(app, *arguments);
  return [arguments] { return run(*arguments); };
}

}  // namespace lsmfs::cli

// The program: which commands it has, and how one of them is found and run.
//
// It is in two parts. What a user calls is the small one. It has the commands that only ask the daemon of a mount, and hands all else to the
// whole program (cli/whole.h). To load RocksDB and libarchive takes longer than most of those commands, and they need neither.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lsmfs::cli {

// Under which the help lists a command, in this order.
enum class Group : std::uint8_t { make, mount, use, look, check };

struct Command {
  Group group;
  const char* name;
  const char* what;
  // Has `app` take its arguments, and gives what does it with them once they are parsed. `operands`: the words after "--", if it runs a command.
  std::function<int()> (*take)(CLI::App& app, const std::vector<std::string>& operands);
  bool runs_command = false;
};

std::span<const Command> client_commands();  // that ask the daemon of a mount, and no more
std::span<const Command> volume_commands();  // all others
bool is_client_command(std::string_view word);

struct Program {
  std::initializer_list<std::span<const Command>> commands;
  std::string (*version)() = nullptr;                                // what --version says; without it there is none
  std::optional<int> (*run_as_helper)(int argc, char** argv) = nullptr;  // cli/helpers.h
};
// Does what main() is called for. The exit code.
int run(const Program& program, int argc, char** argv);

}  // namespace lsmfs::cli

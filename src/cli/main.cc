#include "cli/helper_names.h"
#include "cli/command_line.h"
#include "cli/whole.h"

int main(int argc, char** argv) {
  using namespace lsmfs::cli;
  const bool of_client = argc > 1 && !helper_tool(argv[0]) && is_client_command(argv[1]);
  return of_client ? run({.commands = {client_commands()}}, argc, argv) : become_whole(argv);
}

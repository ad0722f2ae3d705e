#include "cli/helpers.h"
#include "cli/command_line.h"
#include "cli/version.h"

int main(int argc, char** argv) {
  using namespace lsmfs::cli;
  return run({.commands = {client_commands(), volume_commands()}, .version = version_text, .run_as_helper = run_as_helper}, argc, argv);
}

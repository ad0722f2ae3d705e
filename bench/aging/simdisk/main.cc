#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <string_view>

#include "simdisk/commands.h"
#include "simdisk/messages.h"
#include "simdisk/model.h"

namespace {

using namespace lsmfs;
using namespace lsmfs::simdisk;

// nullopt: go on.
std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return fail(cli::kUsage, fmt::format("{}; see {} --help", error.what(), app.get_name()));
  }
  return std::nullopt;
}

int run_model(int argc, char** argv) {
  CLI::App app{"Print how long a profile takes for the requests of a trace, one after the other.", "lsmfs-simdisk model"};
  ModelArguments arguments;
  app.add_option("--profile", arguments.profile, "one of " + profile_names())->required();
  app.add_flag("--json", arguments.json, "as JSON");
  app.add_option("trace", arguments.trace, "a file of lines: seconds R|W|F|D offset bytes; - (default): from stdin");
  if (const auto code = parse(app, argc, argv)) return *code;
  return model_command(arguments);
}

int run(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "model") return run_model(argc - 1, argv + 1);
  CLI::App app{"Serve a file as a disk that takes its time, as MOUNT_POINT/disk, until it is unmounted.\n"
               "lsmfs-simdisk model: how long a disk takes for a trace; see its --help.",
               "lsmfs-simdisk"};
  ServeArguments arguments;
  app.add_option("--profile", arguments.profile, "one of " + profile_names() + " (default hdd)");
  app.add_option("--size", arguments.size, "make or extend the file, sparse, to this size, as in 20G");
  app.add_option("--path-us", arguments.path_us,
                 "microseconds by which the way to this program is longer than to a real disk (default 0)");
  app.add_flag("--sync", arguments.sync, "flushes make the file durable; otherwise they only take their turn");
  app.add_option("backing_file", arguments.backing, "what holds the contents of the disk")->required();
  app.add_option("mount_point", arguments.mount_point, "a directory")->required();
  app.footer("MOUNT_POINT/profile: write the name of another profile. stats: JSON. trace: write on, off; read it.\n"
             "Exit codes: 0 unmounted, 1 wrong arguments or no permission, 2 system error, 32 mounting failed.");
  if (const auto code = parse(app, argc, argv)) return *code;
  return serve_command(arguments);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // who waited for "ready" may be gone
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {  // of libraries: no memory, mostly
    return fail(cli::kSystemError, error.what());
  }
}

#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/messages.h"
#include "cli/nearest.h"
#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

// The arguments, the last first, as CLI11 wants them. -C of fsck may come without a number. What follows "--" is left alone.
std::vector<std::string> words(int argc, char** argv) {
  std::vector<std::string> words;
  const int end = static_cast<int>(std::find(argv + 1, argv + std::max(argc, 1), std::string_view("--")) - argv);
  for (int i = argc - 1; i > 0; --i) {
    const bool number_follows = !words.empty() && parse_number(words.back(), 65535);
    words.emplace_back(i < end && std::string_view(argv[i]) == "-C" && !number_follows ? "-C0" : argv[i]);
  }
  return words;
}

// CLI11 says of a command that does not exist only that there must be one.
std::optional<std::string> wrong_command(const CLI::App& app, int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word.empty() || word.starts_with('-') || app.get_require_subcommand_min() == 0) return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (std::ranges::find(known, word) != known.end()) return std::nullopt;
  const std::string_view meant = nearest(word, known);
  return fmt::format("{}: is no command{}; see {} --help", word, meant.empty() ? "" : fmt::format(", did you mean {}?", meant), app.get_name());
}

}  // namespace

std::vector<std::string> split_command(int& argc, char** argv) {
  char** const end = argv + argc;
  char** const mark = std::find(argv, end, std::string_view("--"));
  argc = static_cast<int>(mark - argv);
  return mark == end ? std::vector<std::string>() : std::vector<std::string>(mark + 1, end);
}

void ignore(CLI::App& app, const std::string& flags, const std::string& why) { app.add_flag(flags, why); }

std::optional<int> parse(CLI::App& app, int argc, char** argv, int usage, std::string (*version)()) {
  if (version != nullptr) app.set_version_flag("-V,--version", version, "print versions: of this, of the format, of libraries");
  app.option_defaults()->always_capture_default(false);
  try {
    if (const auto wrong = wrong_command(app, argc, argv)) return report({usage, *wrong});
    app.parse(words(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string command = app.get_name();
    for (const CLI::App* chosen : app.get_subcommands()) command += " " + chosen->get_name();
    return report({usage, fmt::format("{}; see {} --help", error.what(), command)});
  }
  return std::nullopt;
}

}  // namespace lsmfs::cli

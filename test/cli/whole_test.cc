// The program that users call becomes the whole one, or says that it cannot.

#include <algorithm>
#include <filesystem>

#include "cli/program.h"

namespace lsmfs::test::whole_test {
namespace {

class WholeProgram : public Folder {};

TEST_F(WholeProgram, IsMissedInOneLine) {
  const std::string alone = path("lsmfs");
  std::filesystem::copy_file(LSMFS_PROGRAM, alone);
  const Outcome outcome = run({"--version"}, {.program = alone});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("libexec/lsmfs/lsmfs: is not there"), outcome.err.npos) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_NE(run({"clone", "--help"}, {.program = alone}).out.find("Usage: lsmfs clone"), std::string::npos) << "that needs it for nothing";
}

TEST_F(WholeProgram, IsFoundByALinkFromAnywhere) {
  std::filesystem::create_symlink(LSMFS_PROGRAM, path("linked"));
  EXPECT_TRUE(run({"--version"}, {.program = path("linked")}).out.starts_with("lsmfs "));
}

// What is beside the program in a prefix, and beside it in a build folder.
TEST_F(WholeProgram, IsFoundInAPrefixAndBesideTheProgram) {
  for (const char* bin : {"prefix/bin", "beside"}) {
    const std::filesystem::path folder = path(bin);
    const auto libexec = (std::string_view(bin) == "beside" ? folder : folder.parent_path()) / "libexec/lsmfs";
    std::filesystem::create_directories(folder);
    std::filesystem::create_directories(libexec);
    std::filesystem::copy_file(LSMFS_PROGRAM, folder / "lsmfs");
    std::filesystem::copy_file(whole_program(), libexec / "lsmfs");
    EXPECT_TRUE(run({"--version"}, {.program = folder / "lsmfs"}).out.starts_with("lsmfs ")) << bin;
  }
}

TEST_F(WholeProgram, HasTheSameHelpForACommandThatDoesWithoutIt) {
  for (const char* command : {"clone", "snapshot", "snapshots", "prune", "rollback", "send", "receive", "rm", "trim", "diff", "changes"}) {
    const std::string help = run({command, "--help"}).out;
    EXPECT_TRUE(help.find("Usage: lsmfs ") != help.npos) << command;
    EXPECT_EQ(help, run({command, "--help"}, {.program = whole_program()}).out) << command;
  }
}

}  // namespace
}  // namespace lsmfs::test::whole_test

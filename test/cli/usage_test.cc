// Arguments: what the program says of itself, and of what it does not understand.

#include <unistd.h>

#include <regex>

#include "cli/program.h"
#include "lsmfs/volume.h"

namespace lsmfs::test::usage_test {
namespace {

class Usage : public Folder {};

TEST_F(Usage, EveryCommandHasHelp) {
  EXPECT_NE(accepted({"--help"}).find("mount"), std::string::npos);
  for (const char* command : {"mkfs", "mount", "umount", "fsck", "info", "layout", "trim", "scrub", "tune", "resize", "clone", "import", "snapshot", "snapshots", "diff", "changes", "prune", "rollback", "send", "receive", "rm"}) {
    const std::string text = accepted({command, "--help"});
    EXPECT_NE(text.find("lsmfs " + std::string(command) + " [OPTIONS]"), std::string::npos) << text;  // newer CLI11 have no "Usage:"
    EXPECT_NE(text.find("--help"), std::string::npos) << command;
  }
  for (const char* option : {"cache=", "sync_interval=", "latency=", "io_uring=", "noatime", "noxattr", "writeback", "allow_other"}) {
    EXPECT_NE(accepted({"mount", "--help"}).find(option), std::string::npos) << option;
  }
}

TEST_F(Usage, HelpIsACommandToo) {
  EXPECT_EQ(accepted({"help"}), accepted({"--help"}));
  for (const char* command : {"mkfs", "layout"}) EXPECT_EQ(accepted({"help", command}), accepted({command, "--help"}));
  refused(1, {"help", "fly"}, {"fly", "no command", "lsmfs --help"});
}

TEST_F(Usage, CommandsAreGroupedByWhatPeopleDo) {
  const std::string text = accepted({"--help"});
  std::size_t at = 0;
  for (const char* next : {"\nMake and change", "  mkfs", "  tune", "  resize", "\nMount", "  mount", "  umount", "\nUse what is mounted", "  clone", "  snapshot", "  prune", "  rollback", "  send", "  receive", "  rm", "  trim", "  import", "\nLook", "  snapshots", "  diff", "  changes", "  info", "  layout", "\nCheck and repair", "  fsck", "  scrub"}) {
    const auto found = text.find(next, at);
    ASSERT_NE(found, text.npos) << next << " in its place in\n" << text;
    at = found;
  }
}

TEST_F(Usage, AMistypedCommandIsAnsweredWithTheNearest) {
  refused(1, {"moun", "/x", "/y"}, {"moun", "did you mean mount?"});
  refused(1, {"fsk"}, {"did you mean fsck?"});
  refused(1, {"umuont"}, {"did you mean umount?"});
  const Outcome fly = run({"fly"});
  EXPECT_EQ(fly.err.find("did you mean"), fly.err.npos) << fly.err;
}

TEST_F(Usage, WhatCannotBeWrittenIsAFailure) {
  const std::string image = make_image("image");
  for (const std::string& command : {"info --json '" + image + "'", "info '" + image + "'", "info --udev '" + image + "'", "mkfs -f '" + image + "'",
                                     std::string("--help"), std::string("help"), std::string("help mkfs"), std::string("mount --help"), std::string("--version")}) {
    const std::string line = std::string(LSMFS_PROGRAM) + " " + command + " >/dev/full 2>'" + path("said") + "'";
    const int status = std::system(line.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << command;
    EXPECT_NE(read("said", 0, 7).find("lsmfs:"), std::string::npos) << command;
  }
}

// Its codes are bits, of which 1 says that all is repaired.
TEST_F(Usage, WhatFsckCannotWriteIsNotTakenForARepair) {
  const std::string image = make_image("image");
  const int status = std::system((std::string(LSMFS_PROGRAM) + " fsck '" + image + "' >/dev/full 2>'" + path("said") + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 8);
  EXPECT_NE(read("said", 0, 20).find("lsmfs: stdout"), std::string::npos);
}

// Its exit code 1 says that something differs.
TEST_F(Usage, WhatDiffCannotWriteIsNotTakenForADifference) {
  const int status = std::system((std::string(LSMFS_PROGRAM) + " diff --help >/dev/full 2>'" + path("said") + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_NE(read("said", 0, 20).find("lsmfs: stdout"), std::string::npos);
}

TEST_F(Usage, TheVersionIsToldWithThoseOfTheFormatAndOfLibraries) {
  const std::string text = accepted({"--version"});
  EXPECT_TRUE(std::regex_match(text, std::regex("lsmfs [0-9.]+\nformat " + std::to_string(kFormatVersion) + "\n"
                                                "RocksDB [0-9]+\\.[0-9.]+\nzstd [0-9]+\\.[0-9.]+\nlibfuse 3\\.[0-9.]+[^\n]*\n"
                                                "liburing 2\\.[0-9.]+\nxxHash 0\\.[0-9.]+\nlibnbd 1\\.[0-9.]+\nlibseccomp 2\\.[0-9.]+\n")))
      << text;
  EXPECT_EQ(accepted({"-V"}), text);
}

TEST_F(Usage, WhoAsksAHelperForItsVersionGetsThatAndNothingElse) {
  const std::string image = make_image("image"), directory = make_directory("mnt");
  const auto before = sum("image");
  for (const char* name : {"mkfs.lsmfs", "fsck.lsmfs", "mount.lsmfs", "mount.fuse.lsmfs"}) {
    for (const char* option : {"-V", "--version"}) {
      EXPECT_EQ(accepted({option}, {.name = name}), accepted({"--version"}));
      EXPECT_EQ(accepted({image, option}, {.name = name}), accepted({"--version"}));
    }
  }
  EXPECT_EQ(accepted({"-f", image, "-V"}, {.name = "mkfs.lsmfs"}), accepted({"--version"}));
  EXPECT_EQ(accepted({image, directory, "-V"}, {.name = "mount.lsmfs"}), accepted({"--version"}));
  EXPECT_FALSE(is_mounted("mnt"));
  EXPECT_EQ(sum("image"), before);
}

TEST_F(Usage, WrongArgumentsAreRefusedWithOneLineAndAHint) {
  refused(1, {}, {"--help"});
  refused(1, {"fly"}, {"--help"});
  refused(1, {"mkfs"}, {"path", "lsmfs mkfs --help"});
  refused(1, {"mkfs", "--what", "/x"}, {"--what"});
  refused(1, {"mount", "/x"}, {"directory", "lsmfs mount --help"});
  refused(1, {"mount", "/x", "/y", "/z"}, {"/z"});
  refused(1, {"umount"}, {"directory"});
  refused(1, {"info"}, {"path"});
  refused(1, {"trim"}, {"directory"});
  refused(1, {"import"}, {"source", "lsmfs import --help"});
  refused(1, {"import", "/x"}, {"target", "lsmfs import --help"});
  refused(1, {"import", "/x", "/no/such/directory/new"}, {"/no/such/directory", "does not exist"});
  refused(1, {"import", "/x", "/tmp"}, {"/tmp", "exists already"});
  refused(1, {"import", "/x", "/proc/new"}, {"/proc", "not in an lsmfs", "tar xf"});
  refused(1, {"clone"}, {"source", "lsmfs clone --help"});
  refused(1, {"clone", "/x"}, {"target", "lsmfs clone --help"});
  refused(1, {"clone", "/x", "/y", "/z"}, {"/z", "lsmfs clone --help"});
  refused(1, {"clone", "/no/such/directory", "/tmp/new"}, {"/no/such/directory", "does not exist"});
  refused(1, {"clone", "/proc/version", "/tmp/new"}, {"/proc/version", "not a directory"});
  refused(1, {"clone", "/proc/self/", "/tmp/new"}, {"/proc/self:", "symbolic link"});
  refused(1, {"clone", "/proc/sys", "/proc/new"}, {"/proc/sys", "not in an lsmfs", "cp -a"});
  refused(1, {"snapshot"}, {"directory", "lsmfs snapshot --help"});
  refused(1, {"snapshot", "/x", "name", "more"}, {"more", "lsmfs snapshot --help"});
  refused(1, {"snapshot", "/x", ""}, {"has no name"});
  refused(1, {"snapshot", "/x", "a/b"}, {"a/b", "is a path"});
  refused(1, {"snapshot", "/x", ".."}, {"..", "another one"});
  refused(1, {"snapshot", "/x", std::string(256, 'x')}, {"too long", "255 bytes"});
  refused(1, {"snapshot", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"snapshot", "/proc/version"}, {"/proc/version", "not a directory"});
  refused(1, {"snapshot", "/proc/self/"}, {"/proc/self:", "symbolic link"});
  refused(1, {"snapshot", "/proc/sys"}, {"/proc/sys", "not in an lsmfs", "cp -a"});
  refused(1, {"rollback"}, {"snapshot", "lsmfs rollback --help"});
  refused(1, {"rollback", "/x", "/y", "/z"}, {"/z", "lsmfs rollback --help"});
  refused(1, {"rollback", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"rollback", "/proc/version"}, {"/proc/version", "not a directory"});
  refused(1, {"rollback", "--discard", "/proc/sys"}, {"/proc/sys", "not in an lsmfs"});
  refused(2, {"diff", "/x"}, {"to", "lsmfs diff --help"});
  refused(2, {"diff", "/x", "/y", "/z"}, {"/z", "lsmfs diff --help"});
  refused(2, {"diff", "--json", "-0", "/x", "/y"}, {"--json", "lsmfs diff --help"});
  refused(2, {"diff", "/no/such/directory", "/"}, {"/no/such/directory", "does not exist"});
  refused(2, {"diff", "/proc/version", "/"}, {"/proc/version", "not a directory"});
  refused(2, {"diff", "/proc/self/", "/"}, {"/proc/self:", "symbolic link"});
  refused(2, {"diff", "/proc/sys", "/"}, {"/proc/sys", "not in an lsmfs", "diff -r"});
  refused(1, {"send", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"send", "-i", "/x", "/proc/sys"}, {"/proc/sys", "not in an lsmfs", "tar"});
  refused(1, {"send"}, {"snapshot", "lsmfs send --help"});
  refused(1, {"receive"}, {"directory", "lsmfs receive --help"});
  refused(1, {"receive", "-t", "/x", "name"}, {"name", "lsmfs receive --help"});
  refused(1, {"receive", "/proc/sys"}, {"/proc/sys", "not in an lsmfs"});
  refused(1, {"changes"}, {"directory", "lsmfs changes --help"});
  refused(1, {"changes", "/x", "/y"}, {"/y", "lsmfs changes --help"});
  refused(1, {"changes", "--json", "-0", "/x"}, {"--json", "lsmfs changes --help"});
  refused(1, {"changes", "--git", "2"}, {"--git", "lsmfs changes --help"});
  refused(1, {"changes", "--git", "--json", "2", "x"}, {"--git", "lsmfs changes --help"});
  refused(1, {"changes", "--git", "1", "x"}, {"version 1"});
  refused(1, {"changes", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"changes", "/proc/version"}, {"/proc/version", "not a directory"});
  refused(1, {"changes", "/proc/sys"}, {"/proc/sys", "not in an lsmfs"});
  refused(1, {"snapshots", "/x", "/y"}, {"/y", "lsmfs snapshots --help"});
  refused(1, {"snapshots", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"snapshots", "/proc/version"}, {"/proc/version", "not a directory"});
  refused(1, {"snapshots", "--json", "/"}, {"/", "not in an lsmfs"});
  refused(1, {"snapshots", "--sizes", "/"}, {"/", "not in an lsmfs"});
  refused(1, {"prune"}, {"directory", "lsmfs prune --help"});
  refused(1, {"prune", "/x"}, {"rules", "lsmfs prune --help"});
  refused(1, {"prune", "/x", "houry=24"}, {"houry=24", "did you mean hourly=?"});
  refused(1, {"prune", "/x", "daily=7", "weekly"}, {"weekly", "give a number"});
  refused(1, {"prune", "/x", "daily=0", "weekly=0"}, {"keep nothing", "daily=7"});
  refused(1, {"prune", "/no/such/directory", "daily=7"}, {"/no/such/directory", "does not exist"});
  refused(1, {"prune", "/proc/version", "daily=7"}, {"/proc/version", "not a directory"});
  refused(1, {"prune", "--json", "/", "daily=7"}, {"/", "not in an lsmfs"});
  refused(1, {"rm"}, {"directories", "lsmfs rm --help"});
  refused(1, {"rm", "/x"}, {"-r", "rm(1)"});
  refused(1, {"rm", "-r", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"rm", "-r", "/proc/version"}, {"/proc/version", "not a directory"});
  refused(1, {"rm", "-r", "/tmp/."}, {"/tmp/.", "name the directory"});
  refused(1, {"rm", "-r", "/"}, {"/", "not in an lsmfs"});
  refused(1, {"scrub"}, {"directory", "lsmfs scrub --help"});
  refused(1, {"scrub", "/", "/"}, {"lsmfs scrub --help"});
  refused(1, {"scrub", "/", "--rate", "fast"}, {"--rate fast", "10M"});
  refused(1, {"scrub", "/", "--rate", "-1"}, {"--rate"});
  refused(1, {"scrub", "/"}, {"/", "not in an lsmfs"});
  refused(1, {"scrub", "/no/such/directory"}, {"/no/such/directory", "does not exist"});
  refused(1, {"layout"}, {"PATH", "--device", "lsmfs layout --help"});
  refused(1, {"layout", "/x", "/y"}, {"PATH", "--device", "lsmfs layout --help"});
  refused(1, {"layout", "--device", "/x"}, {"COMMAND", "lsmfs layout --help"});
  refused(1, {"layout", "--buffer", "much", "/"}, {"--buffer much", "16M"});
  refused(1, {"layout", "--buffer", "1K", "/"}, {"--buffer 1K", "16M"});
  refused(1, {"layout", "/x", "-r"}, {"-r", "lsmfs layout --help"});
  if (geteuid() == 0) refused(1, {"layout", "/"}, {"root", "sudo"}, {.uid = 65534});
}

TEST_F(Usage, UnknownMountOptionsAreNamed) {
  const std::string image = make_image("image"), directory = make_directory("mnt");
  const auto before = sum("image");
  refused(1, {"mount", image, directory, "-o", "noatime,colour=red"}, {"colour=red", "unknown"});
  refused(1, {"mount", image, directory, "-o", "cache=much"}, {"cache=much", "256M"});
  refused(1, {"mount", image, directory, "-o", "cache=1K"}, {"cache=1K", "at least"});
  refused(1, {"mount", image, directory, "-o", "cache=900T"}, {"cache=900T", "this machine has"});
  refused(1, {"mount", image, directory, "-o", "cache"}, {"option cache", "cache=SIZE"});
  refused(1, {"mount", image, directory, "-o", "writeback=1"}, {"writeback=1", "write writeback"});
  refused(1, {"mount", image, directory, "-o", "relatim"}, {"relatim", "did you mean relatime?"});
  refused(1, {"mount", image, directory, "-o", "discard"}, {"discard", "fstrim"});
  refused(1, {"mount", image, directory, "-o", "data=ordered"}, {"data=ordered", "leave it out"});
  refused(1, {"mount", image, directory, "-o", "commit=30"}, {"commit=30", "sync_interval"});
  refused(1, {"mount", image, directory, "-o", "user_xattr"}, {"user_xattr", "always"});
  refused(1, {"mount", image, directory, "-o", "nouser_xattr"}, {"nouser_xattr", "noxattr"});
  refused(1, {"mount", image, directory, "-o", "noxatr"}, {"noxatr", "did you mean noxattr?"});
  refused(1, {"mount", image, directory, "-o", "sync_interval=-1"}, {"sync_interval=-1"});
  refused(1, {"mount", image, directory, "-o", "latency=maybe"}, {"latency=maybe", "auto"});
  refused(1, {"mount", image, directory, "-o", "io_uring=1"}, {"io_uring=1", "auto"});
  refused(1, {"mount", image, directory, "--log", "/no/such/folder/log"}, {"/no/such/folder/log"});
  EXPECT_EQ(sum("image"), before);
}

}  // namespace
}  // namespace lsmfs::test::usage_test

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "cli/program.h"
#include "lsmfs/volume.h"
#include "until.h"

namespace lsmfs::test::mount_test {
namespace {

class MountCommand : public MountFolder {
 protected:
  // Every mount writes its log here, so that a failing test can be understood.
  std::string mount(const std::string& options = "") {
    std::vector<std::string> arguments{"mount", path("image"), path("mnt"), "--log", path("log")};
    if (!options.empty()) arguments.insert(arguments.end(), {"-o", options});
    return accepted(arguments);
  }
  void write(const std::string& name, std::string_view data) {
    std::ofstream file(path(name), std::ios::binary);
    file.write(data.data(), static_cast<std::streamsize>(data.size()));
    file.close();
    EXPECT_TRUE(file.good()) << name;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string text(const std::string& name) const { return text_of(path(name)); }
  // Both copies get these bytes there, and a checksum that fits.
  void set_superblock(const std::string& name, std::size_t at, const std::string& bytes) {
    const std::uint64_t size = 128 * MiB;
    for (const std::uint64_t offset : {std::uint64_t{0}, size - MiB}) {
      std::string block = read(name, offset, 4096);
      block.replace(at, bytes.size(), bytes);
      block.replace(16, 8, std::string(8, '\0'));
      std::string sum_bytes;
      put_le64(sum_bytes, checksum(block));
      block.replace(16, 8, sum_bytes);
      patch(name, offset, block);
    }
  }
  void set_version(const std::string& name, std::uint32_t version) {
    std::string number;
    put_le32(number, version);
    set_superblock(name, 8, number);
  }
};

TEST_F(MountCommand, KeepsWhatWasWrittenOverAnUnmount) {
  make_image("image");
  make_directory("mnt");
  mount();
  EXPECT_TRUE(is_mounted("mnt"));
  write("mnt/file", "contents");
  accepted({"umount", path("mnt")});
  EXPECT_FALSE(is_mounted("mnt"));
  EXPECT_NE(text("mnt/file"), "contents");
  mount();
  EXPECT_EQ(text("mnt/file"), "contents");
  EXPECT_NE(text("log").find("is mounted"), std::string::npos);
}

TEST_F(MountCommand, TakesRelativePathsAndLinks) {
  make_image("image");
  make_directory("mnt");
  ASSERT_EQ(::symlink("image", path("link").c_str()), 0);
  accepted({"mount", "link", "mnt/", "--log", "relative.log"}, {.folder = folder()});
  EXPECT_TRUE(is_mounted("mnt"));
  EXPECT_NE(text("relative.log").find("is mounted"), std::string::npos);
  refused(1, {"mkfs", "-f", "link"}, {"in use", path("mnt")}, {.folder = folder()});
  accepted({"umount", "./mnt"}, {.folder = folder()});
  EXPECT_FALSE(is_mounted("mnt"));
}

TEST_F(MountCommand, WhatIsThereInsteadOfAnLsmfsIsNamed) {
  const std::string directory = make_directory("mnt"), file = make_file("file", 150 * MiB);
  const auto everywhere = [&](const std::vector<std::string>& words) {
    for (const char* foreground : {"", "-f"}) {
      std::vector<std::string> arguments{"mount", file, directory};
      if (*foreground != 0) arguments.emplace_back(foreground);
      refused(32, arguments, words);
    }
    refused(32, {file, directory, "-f"}, words, {.name = "mount.lsmfs"});
    refused(8, {"fsck", file}, words);
    refused(8, {"fsck", "-y", file}, words);
    refused(1, {"info", file}, words);
    refused(1, {"tune", "-L", "x", file}, words);
    refused(1, {"resize", file, "200M"}, words);
    EXPECT_EQ(std::filesystem::file_size(file), 150 * MiB);
  };
  // Swap with a label, as mkswap(8) makes it.
  std::string swap(4096, '\0');
  swap.replace(1024, 1, "\1");
  swap.replace(1028, 4, std::string("\x8f\x95\0\0", 4));
  swap.replace(1024 + 28, 5, "quick");
  swap.replace(4086, 10, "SWAPSPACE2");
  patch("file", 0, swap);
  everywhere({file, "is not lsmfs", "holds swap (label quick)"});
  std::string table(512, '\0');
  table.replace(446, 16, std::string("\0\x20\x21\0\x83\x20\x20\x04\0\x08\0\0\0\x10\0\0", 16));
  table.replace(510, 2, "\x55\xaa");
  patch("file", 0, table + std::string(4096 - 512, '\0'));
  everywhere({"is not lsmfs", "holds a partition table (dos)"});
  patch("file", 0, std::string(4096, 'x'));
  everywhere({"is not lsmfs", "nothing known"});
  patch("file", 0, std::string(4096, '\0'));
  everywhere({"is not lsmfs", "is empty"});
}

TEST_F(MountCommand, RefusesWhatIsNotThereOrNotLsmfs) {
  const std::string directory = make_directory("mnt");
  refused(32, {"mount", path("missing"), directory}, {path("missing"), "does not exist"});
  refused(32, {"mount", "/dev/no-such-device", directory}, {"does not exist"});
  make_file("zeros", 150 * MiB);
  refused(32, {"mount", path("zeros"), directory}, {"not lsmfs", "is empty; make one with lsmfs mkfs"});
  make_file("tiny", 10);
  refused(32, {"mount", path("tiny"), directory}, {"not lsmfs"});
  refused(32, {"mount", folder(), directory}, {"neither"});
  refused(32, {"mount", "/dev/null", directory}, {"neither"});
  EXPECT_FALSE(is_mounted("mnt"));
}

TEST_F(MountCommand, RefusesAnotherVersionAndSaysWhetherItIsNewerOrOlder) {
  make_image("image");
  make_directory("mnt");
  set_version("image", kFormatVersion);
  mount();  // the patching itself damages nothing
  accepted({"umount", path("mnt")});
  for (const std::uint32_t version : {kFormatVersion + 1, kFormatVersion - 1}) {
    set_version("image", version);
    const auto before = sum("image");
    const std::string word = version > kFormatVersion ? "newer" : "older";
    const std::vector<std::string> words{path("image"), "version " + std::to_string(version), word};
    refused(32, {"mount", path("image"), path("mnt")}, words);
    refused(1, {"info", path("image")}, words);
    refused(1, {"mkfs", path("image")}, {path("image"), "another version", "-f"});
    EXPECT_EQ(sum("image"), before);
  }
}

TEST_F(MountCommand, LeavesAVolumeAloneThatNeedsWhatItDoesNotKnow) {
  make_image("image");
  make_directory("mnt");
  set_superblock("image", 200, "\x10");
  const auto before = sum("image");
  const std::vector<std::string> words{path("image"), "0x10", "made it", "newer"};
  for (const char* options : {"rw", "ro"}) refused(32, {"mount", "-o", options, path("image"), path("mnt")}, words);
  refused(1, {"info", path("image")}, words);
  for (const char* repair : {"-n", "-y"}) refused(8, {"fsck", repair, path("image")}, words);
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, OnlyReadsAVolumeThatItMayNotWrite) {
  make_image("image");
  make_directory("mnt");
  mount();
  write("mnt/file", "contents");
  accepted({"umount", path("mnt")});
  set_superblock("image", 192, "\x10");
  const auto before = sum("image");
  const std::vector<std::string> words{path("image"), "0x10", "-o ro"};
  refused(32, {"mount", path("image"), path("mnt")}, words);
  for (const char* repair : {"-n", "-y"}) accepted({"fsck", repair, path("image")});  // there is nothing to repair
  accepted({"mount", "-o", "ro", path("image"), path("mnt")});
  EXPECT_EQ(text("mnt/file"), "contents");
  refused(32, {"mount", "-o", "remount,rw", path("image"), path("mnt")}, {path("mnt")});
  accepted({"umount", path("mnt")});
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, UsesTheSecondSuperblockAndSaysSo) {
  make_image("image");
  make_directory("mnt");
  mount();
  write("mnt/file", "contents");
  accepted({"umount", path("mnt")});
  patch("image", 100, "damage");
  const Outcome outcome = run({"mount", path("image"), path("mnt"), "--log", path("log")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.is_one_line()) << outcome.err;
  EXPECT_NE(outcome.err.find("superblock"), std::string::npos) << outcome.err;
  EXPECT_NE(text("log").find("superblock"), std::string::npos);
  EXPECT_EQ(text("mnt/file"), "contents");
}

TEST_F(MountCommand, RefusesWhenBothSuperblocksAreDamaged) {
  make_image("image");
  make_directory("mnt");
  patch("image", 100, "damage");
  patch("image", 127 * MiB + 100, "damage");
  const auto before = sum("image");
  refused(32, {"mount", path("image"), path("mnt")}, {path("image"), "damaged"});
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, RefusesBadMountPoints) {
  make_image("image");
  make_file("file", 0);
  const auto before = sum("image");
  refused(32, {"mount", path("image"), path("missing")}, {path("missing"), "does not exist"});
  refused(32, {"mount", path("image"), path("file")}, {path("file"), "not a directory"});
  make_directory("taken");
  ASSERT_EQ(::mount("none", path("taken").c_str(), "tmpfs", 0, nullptr), 0);
  refused(32, {"mount", path("image"), path("taken")}, {path("taken"), "tmpfs"});
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, RefusesASecondMount) {
  make_image("image");
  make_directory("mnt");
  make_directory("other");
  mount();
  write("mnt/file", "contents");
  refused(32, {"mount", path("image"), path("other")}, {path("image"), "in use", path("mnt")});
  refused(32, {"mount", path("image"), path("mnt")}, {path("mnt"), "already"});
  refused(1, {"mkfs", "-f", path("image")}, {"in use", path("mnt")});
  EXPECT_FALSE(is_mounted("other"));
  EXPECT_EQ(text("mnt/file"), "contents");
}

TEST_F(MountCommand, WaitsForAPredecessorThatIsStillClosing) {
  make_image("image");
  make_directory("mnt");
  const int fd = ::open(path("image").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  const auto close_once_it_waits = [&](const std::function<std::string()>& said) {
    EXPECT_TRUE(until([&] { return said().find("closing") != std::string::npos; })) << said();
    ::close(fd);
  };
  const Outcome outcome = run({"mount", path("image"), path("mnt"), "--log", path("log")}, {.meanwhile = close_once_it_waits});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("closing"), std::string::npos) << outcome.err;
}

TEST_F(MountCommand, RefusesWithoutDevFuse) {
  make_image("image");
  make_directory("mnt");
  const auto before = sum("image");
  refused(2, {"mount", path("image"), path("mnt")}, {"/dev/fuse", "modprobe"}, {.without_dev_fuse = true});
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, NeedsPermission) {
  make_image("image");
  make_directory("mnt");
  ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path("image").c_str(), 0600), 0);
  const auto before = sum("image");
  refused(1, {"mount", path("image"), path("mnt"), "--log", "/dev/null"}, {"permission"}, {.uid = 65534});
  // Readable but not writable.
  ASSERT_EQ(::chmod(path("image").c_str(), 0644), 0);
  refused(1, {"mount", path("image"), path("mnt"), "--log", "/dev/null"}, {"permission"}, {.uid = 65534});
  EXPECT_EQ(sum("image"), before);
  EXPECT_FALSE(is_mounted("mnt"));
}

TEST_F(MountCommand, ReadOnlyChangesNothing) {
  make_image("image");
  make_directory("mnt");
  mount();
  write("mnt/file", "contents");
  accepted({"umount", path("mnt")});
  const auto before = sum("image");
  mount("ro");
  EXPECT_EQ(text("mnt/file"), "contents");
  EXPECT_EQ(::unlink(path("mnt/file").c_str()), -1);
  EXPECT_EQ(errno, EROFS);
  accepted({"umount", path("mnt")});
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, OptionsOfFstabAreAccepted) {
  make_image("image");
  make_directory("mnt");
  mount("defaults,rw,noauto,nofail,_netdev,x-systemd.automount,user,comment=hello,relatime,nosuid,nodev,noexec,"
        "cache=64M,sync_interval=1,latency=off");
  write("mnt/script", "#!/bin/sh\n");
  ASSERT_EQ(::chmod(path("mnt/script").c_str(), 0755), 0);
  EXPECT_EQ(::access(path("mnt/script").c_str(), X_OK), -1) << "noexec";
}

TEST_F(MountCommand, PermissionsCannotBeLeftToNobody) {
  make_image("image");
  make_directory("mnt");
  for (const char* options : {"nodefault_permissions", "allow_other,nodefault_permissions", "default_permissions=0"}) {
    refused(1, {"mount", path("image"), path("mnt"), "-o", options}, {"unknown"});
  }
  ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
  mount("allow_other");
  write("mnt/secret", "contents");
  ASSERT_EQ(::chmod(path("mnt/secret").c_str(), 0600), 0);
  const std::string table = text_of("/proc/self/mountinfo");
  const auto begin = table.find(" " + path("mnt") + " ");
  ASSERT_NE(begin, table.npos);
  EXPECT_NE(table.substr(begin, table.find('\n', begin) - begin).find("default_permissions"), table.npos);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    ::_exit(::open(path("mnt/secret").c_str(), O_RDONLY) < 0 && errno == EACCES ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(MountCommand, ForegroundServesUntilItIsUnmounted) {
  make_image("image");
  make_directory("mnt");
  Outcome outcome;
  std::thread daemon([&] { outcome = run({"mount", "-f", path("image"), path("mnt")}); });
  EXPECT_TRUE(until([&] { return is_mounted("mnt"); }));
  write("mnt/file", "contents");
  accepted({"umount", path("mnt")});
  daemon.join();
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.err.find("is unmounted"), std::string::npos) << outcome.err;
}

TEST_F(MountCommand, DoesWithoutStdinAndTheLike) {
  make_image("image");
  make_directory("mnt");
  const auto none = [](std::initializer_list<int> closed) { return Circumstances{.closed = closed}; };
  EXPECT_EQ(run({"mount", path("image"), path("mnt")}, none({0, 1})).code, 0);
  EXPECT_TRUE(is_mounted("mnt"));
  EXPECT_EQ(run({"umount", path("mnt")}, none({0, 1, 2})).code, 0);
  // What it says goes nowhere, the image above all.
  const auto before = sum("image");
  EXPECT_EQ(run({"mkfs", path("image")}, none({2})).code, 1);
  EXPECT_EQ(run({"mkfs", path("image")}, none({0, 1, 2})).code, 1);
  EXPECT_EQ(sum("image"), before);
}

TEST_F(MountCommand, UmountRefusesWhatIsNotOurs) {
  make_directory("mnt");
  refused(32, {"umount", path("mnt")}, {path("mnt"), "not mounted"});
  refused(32, {"umount", path("missing")}, {path("missing"), "not mounted"});
  ASSERT_EQ(::mount("none", path("mnt").c_str(), "tmpfs", 0, nullptr), 0);
  refused(32, {"umount", path("mnt")}, {path("mnt"), "tmpfs"});
  EXPECT_TRUE(is_mounted("mnt"));
}

TEST_F(MountCommand, UmountRefusesABusyMount) {
  make_image("image");
  make_directory("mnt");
  mount();
  const int fd = ::open(path("mnt/file").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  refused(32, {"umount", path("mnt")}, {path("mnt"), "in use"});
  ::close(fd);
  accepted({"umount", path("mnt")});
}

TEST_F(MountCommand, ADeadMountIsExplained) {
  make_image("image");
  make_directory("mnt");
  Outcome outcome;
  std::thread daemon([&] { outcome = run({"mount", "-f", path("image"), path("mnt")}); });
  EXPECT_TRUE(until([&] { return is_mounted("mnt"); }));
  // The daemon names its own process in the kernel's request credentials nowhere; it is our only child.
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  bool killed = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(task.path() / "children");
    for (pid_t pid = 0; list >> pid;) killed |= ::kill(pid, SIGKILL) == 0;
  }
  daemon.join();
  ASSERT_TRUE(killed);
  EXPECT_EQ(outcome.code, 1000 + SIGKILL);
  refused(32, {"mount", path("image"), path("mnt")}, {path("mnt"), "daemon is gone", "umount -l"});
  refused(1, {"info", path("mnt")}, {"daemon is gone"});
  refused(32, {"umount", path("mnt")}, {path("mnt"), "daemon had ended", "lost"});
  EXPECT_FALSE(is_mounted("mnt"));
  mount();
}

TEST_F(MountCommand, InfoTellsTheSameMountedOrNot) {
  make_image("image", {"-L", "label"});
  make_directory("mnt");
  mount();
  write("mnt/file", "contents");
  ASSERT_EQ(::mkdir(path("mnt/folder").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("file", path("mnt/link").c_str()), 0);
  using Json = nlohmann::json;
  const Json by_directory = Json::parse(accepted({"info", "--json", path("mnt/folder")}), nullptr, false);
  const Json by_file = Json::parse(accepted({"info", "--json", path("mnt/file")}), nullptr, false);
  const Json by_image = Json::parse(accepted({"info", "--json", path("image")}), nullptr, false);
  accepted({"umount", path("mnt")});
  const Json offline = Json::parse(accepted({"info", "--json", path("image")}), nullptr, false);
  for (const Json& json : {by_directory, by_file, by_image, offline}) {
    ASSERT_TRUE(json.is_object());
    EXPECT_EQ(json["label"], "label");
    EXPECT_EQ(json["uuid"], offline["uuid"]);
    EXPECT_EQ(json["device_bytes"], 128 * MiB);
    EXPECT_EQ(json["files"]["regular"], 1);
    EXPECT_EQ(json["files"]["directories"], 2);
    EXPECT_EQ(json["files"]["symlinks"], 1);
    EXPECT_EQ(json["displaced"], 0);
    EXPECT_LE(json["space"]["free_bytes"], json["space"]["total_bytes"]);
  }
  EXPECT_EQ(by_image["mount_point"], path("mnt"));
  EXPECT_FALSE(offline.contains("mount_point"));
}

TEST_F(MountCommand, InfoOfAnImageInAMountIsAboutTheImage) {
  make_image("image", {"-L", "outer"});
  make_directory("mnt");
  mount();
  make_image("mnt/image", {"-L", "inner"});
  EXPECT_NE(accepted({"info", path("mnt/image")}).find("inner\n"), std::string::npos);
}

TEST_F(MountCommand, InfoRefusesWhatIsNotLsmfs) {
  make_file("zeros", 150 * MiB);
  refused(1, {"info", path("zeros")}, {path("zeros"), "not lsmfs"});
  refused(1, {"info", path("missing")}, {"does not exist"});
  refused(1, {"info", folder()}, {"not in an lsmfs"});
  refused(1, {"info", "/dev/null"}, {"neither"});
}

TEST_F(MountCommand, TrimSaysHowMuchAndShrinksTheImage) {
  make_image("image");
  make_directory("mnt");
  mount();
  write("mnt/file", "contents");
  const auto on_disk = [&] {
    struct stat facts {};
    EXPECT_EQ(::stat(path("image").c_str(), &facts), 0);
    return static_cast<std::uint64_t>(facts.st_blocks) * 512;
  };
  // What a table once wrote where nothing lies now.
  patch("image", 100 * MiB, std::string(4 * MiB, 'x'));
  const std::uint64_t before = on_disk();
  ASSERT_GE(before, 4 * MiB);
  const std::string said = accepted({"trim", path("mnt/file")});
  EXPECT_TRUE(said.starts_with(path("mnt/file") + ": ")) << said;
  EXPECT_NE(said.find("MiB ("), std::string::npos) << said;
  EXPECT_NE(said.find(" bytes) trimmed\n"), std::string::npos) << said;
  EXPECT_LE(on_disk(), before - 3 * MiB);  // the daemon has written a little as well
  EXPECT_EQ(text("mnt/file"), "contents");
  accepted({"umount", path("mnt")});
  mount();
  EXPECT_EQ(text("mnt/file"), "contents");
}

TEST_F(MountCommand, TrimRefusesWhatItCannot) {
  make_image("image");
  make_directory("mnt");
  refused(1, {"trim", path("mnt")}, {path("mnt"), "not in an lsmfs"});
  refused(1, {"trim", path("missing")}, {path("missing"), "does not exist"});
  refused(1, {"trim", path("image")}, {path("image"), "not in an lsmfs"});
  mount();
  ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
  refused(1, {"trim", path("mnt")}, {path("mnt"), "only root"}, {.uid = 65534});
  accepted({"umount", path("mnt")});
  mount("ro");
  refused(1, {"trim", path("mnt")}, {path("mnt"), "read-only"});
}

TEST_F(MountCommand, AScrubSaysWhatItHasVerified) {
  make_image("image");
  make_directory("mnt");
  mount();
  write("mnt/file", "contents");
  for (const std::string& where : {path("mnt"), path("mnt/file")}) {
    const std::string said = accepted({"scrub", where, "--rate", "0"});
    EXPECT_TRUE(said.starts_with(where + ": ")) << said;
    EXPECT_TRUE(std::regex_search(said, std::regex(" verified in \\d+:\\d\\d:\\d\\d \\("))) << said;
    EXPECT_TRUE(said.ends_with(", no damage found\n")) << said;
  }
  accepted({"umount", path("mnt")});
  mount("ro");
  EXPECT_TRUE(accepted({"scrub", path("mnt")}).ends_with(", no damage found\n"));
}

TEST_F(MountCommand, AScrubThatFindsDamageSaysWhatAndWhatToDo) {
  const std::string image = make_image("image");
  make_directory("mnt");
  mount();
  patch("image", 200, "x");  // of the first superblock
  const Outcome outcome = run({"scrub", path("mnt")});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_NE(outcome.out.find(path("mnt") + ": the first superblock is damaged"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(", 1 problem found\n"), std::string::npos) << outcome.out;
  EXPECT_TRUE(outcome.out.ends_with("nothing repaired: unmount it and run lsmfs fsck -y " + image + "\n")) << outcome.out;
  EXPECT_EQ(outcome.err, "");
  accepted({"umount", path("mnt")});
  EXPECT_EQ(run({"fsck", "-y", image}).code, 1);
  mount();
  accepted({"scrub", path("mnt")});
}

TEST_F(MountCommand, AScrubRefusesWhatItCannot) {
  make_image("image");
  make_directory("mnt");
  refused(1, {"scrub", path("mnt")}, {path("mnt"), "not in an lsmfs"});
  refused(1, {"scrub", path("image")}, {path("image"), "not in an lsmfs"});
  mount();
  ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
  refused(1, {"scrub", path("mnt")}, {path("mnt"), "only root"}, {.uid = 65534});
}

TEST_F(MountCommand, ANewLabelStays) {
  make_image("image", {"-L", "old"});
  make_directory("mnt");
  mount();
  const auto set = [&](std::string label) {
    const int fd = ::open(path("mnt").c_str(), O_RDONLY | O_CLOEXEC);
    label.resize(FSLABEL_MAX);
    const int code = ::ioctl(fd, FS_IOC_SETFSLABEL, label.data()) == 0 ? 0 : errno;
    ::close(fd);
    return code;
  };
  EXPECT_EQ(set("new"), 0);
  EXPECT_EQ(set(std::string(kLabelMax + 1, 'x')), EINVAL);
  EXPECT_EQ(set("a\nb"), EINVAL);
  EXPECT_NE(accepted({"info", path("mnt")}).find("new"), std::string::npos);
  accepted({"umount", path("mnt")});
  EXPECT_NE(accepted({"info", path("image")}).find("new"), std::string::npos);
  const auto refuses = [&] {
    EXPECT_EQ(set("newer"), EROFS);
    EXPECT_EQ(set(std::string(kLabelMax + 1, 'x')), EINVAL);  // as ext4: what is asked comes first
    EXPECT_NE(accepted({"info", path("mnt")}).find("new\n"), std::string::npos);
  };
  mount("ro");
  refuses();
  accepted({"umount", path("mnt")});
  mount();
  accepted({"mount", "-o", "remount,ro", path("image"), path("mnt")});
  refuses();
  accepted({"mount", "-o", "remount,rw", path("image"), path("mnt")});
  EXPECT_EQ(set("newest"), 0);
}

}  // namespace
}  // namespace lsmfs::test::mount_test

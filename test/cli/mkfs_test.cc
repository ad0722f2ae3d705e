#include <fcntl.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/program.h"

namespace lsmfs::test::mkfs_test {
namespace {

class Mkfs : public Folder {
 protected:
  bool exists(const std::string& name) const { return ::access(path(name).c_str(), F_OK) == 0; }
  // What mkswap writes: a signature that every tool knows.
  void make_swap(const std::string& name) {
    std::string header;
    put_le32(header, 1);       // version
    put_le32(header, 30'000);  // last page
    put_le32(header, 0);       // bad pages
    patch(name, 1024, header);
    patch(name, 4086, "SWAPSPACE2");
  }
};

TEST_F(Mkfs, MakesAnImageAndSaysWhatItMade) {
  const std::string said = accepted({"mkfs", "-L", "my label", "--size", "200M", path("image")});
  EXPECT_NE(said.find("my label"), std::string::npos);
  EXPECT_NE(said.find("200 MiB"), std::string::npos);
  for (const char* part : {"for files", "tables", "kept back", "logs 16.0 MiB", "superblocks and metadata"}) EXPECT_NE(said.find(part), std::string::npos) << said;
  struct stat facts {};
  ASSERT_EQ(::stat(path("image").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_size, static_cast<off_t>(200 * MiB));
  EXPECT_EQ(facts.st_mode & 077, 0u) << "it is to hold the files of many";
  EXPECT_NE(accepted({"info", path("image")}).find("my label"), std::string::npos);
}

TEST_F(Mkfs, ItsHelpSaysHowMuchOfASizeIsForFiles) {
  const std::string help = accepted({"mkfs", "--help"});
  const std::regex pair("[Oo]f ([0-9]+) GiB (?:some )?([0-9]+) %");
  int seen = 0;
  for (std::sregex_iterator at(help.begin(), help.end(), pair), end; at != end; ++at, ++seen) {
    const std::string image = path((*at)[1].str());
    accepted({"mkfs", "--size", (*at)[1].str() + "G", image});
    const auto facts = nlohmann::json::parse(accepted({"info", "--json", image}));
    const double percent = 100. * facts["space"]["free_bytes"].get<double>() / facts["device_bytes"].get<double>();
    EXPECT_NEAR(percent, std::stod((*at)[2].str()), 2) << at->str();  // newer versions of RocksDB need a little more
  }
  EXPECT_GE(seen, 4);
}

TEST_F(Mkfs, UsesAnImageThatExists) {
  make_file("image", 150 * MiB);
  accepted({"mkfs", path("image")});
  accepted({"mkfs", "-f", "--size", "150M", path("image")});
}

TEST_F(Mkfs, RefusesADeviceThatDoesNotExist) {
  refused(1, {"mkfs", "/dev/no-such-device"}, {"/dev/no-such-device", "does not exist", "--size"});
  refused(1, {"mkfs", path("missing")}, {"does not exist", "--size"});
  EXPECT_FALSE(exists("missing"));
  refused(1, {"mkfs", "--size", "1G", path("no-folder/image")}, {"no-folder", "does not exist"});
}

TEST_F(Mkfs, RefusesWhatIsTooSmallAndSaysTheLeastSize) {
  refused(1, {"mkfs", "--size", "100M", path("image")}, {"too small", "128 MiB"});
  EXPECT_FALSE(exists("image"));
  make_file("small", 100 * MiB);
  const auto before = sum("small");
  refused(1, {"mkfs", path("small")}, {"too small", "128 MiB"});
  refused(1, {"mkfs", "-f", path("small")}, {"too small", "128 MiB"});
  EXPECT_EQ(sum("small"), before);
}

TEST_F(Mkfs, RefusesSizesThatAreNoneOrContradict) {
  for (const char* size : {"large", "-4G", "4X", "4.5G", "G", "99999999999999999999"}) {
    refused(1, {"mkfs", std::string("--size=") + size, path("image")}, {"--size"});
  }
  EXPECT_FALSE(exists("image"));
  make_file("image", 150 * MiB);
  refused(1, {"mkfs", "--size", "1G", path("image")}, {path("image"), "--size"});
  EXPECT_EQ(std::filesystem::file_size(path("image")), 150 * MiB);
}

TEST_F(Mkfs, RefusesWhatIsNeitherDeviceNorFile) {
  refused(1, {"mkfs", folder()}, {"neither"});
  refused(1, {"mkfs", "/dev/null"}, {"neither"});
  refused(1, {"mkfs", "--size", "1G", "/dev/null"}, {"--size is for images"});
}

TEST_F(Mkfs, RefusesBadLabelsAndLeavesNoImage) {
  refused(1, {"mkfs", "-L", std::string(65, 'x'), "--size", "200M", path("image")}, {"label", "64"});
  refused(1, {"mkfs", "-L", "two\nlines", "--size", "200M", path("image")}, {"label"});
  refused(1, {"mkfs", "-L", "\xff\xfe", "--size", "200M", path("image")}, {"label"});
  EXPECT_FALSE(exists("image"));
}

TEST_F(Mkfs, RefusesAnotherFileSystemUnlessForced) {
  make_file("image", 150 * MiB);
  make_swap("image");
  const auto before = sum("image");
  refused(1, {"mkfs", path("image")}, {path("image"), "holds swap", "-f"});
  EXPECT_EQ(sum("image"), before);
  accepted({"mkfs", "-f", path("image")});
  EXPECT_NE(sum("image"), before);
}

TEST_F(Mkfs, RefusesAnLsmfsUnlessForced) {
  make_image("image", {"-L", "precious"});
  const auto before = sum("image");
  refused(1, {"mkfs", path("image")}, {"lsmfs", "precious", "-f"});
  patch("image", 0, std::string(4096, 'x'));
  refused(1, {"mkfs", path("image")}, {"lsmfs", "-f"});
  EXPECT_NE(sum("image"), before);
  accepted({"mkfs", "-f", "-L", "new", path("image")});
  EXPECT_NE(accepted({"info", path("image")}).find("new"), std::string::npos);
}

TEST_F(Mkfs, RefusesWhatAnotherHasLocked) {
  make_image("image");
  const auto before = sum("image");
  const int fd = ::open(path("image").c_str(), O_RDONLY);
  ASSERT_EQ(::flock(fd, LOCK_EX), 0);
  refused(1, {"mkfs", "-f", path("image")}, {"in use"});
  ::close(fd);
  EXPECT_EQ(sum("image"), before);
}

TEST_F(Mkfs, RefusesAnImageBehindALoopDevice) {
  const int control = ::open("/dev/loop-control", O_RDWR);
  if (geteuid() != 0 || control < 0) GTEST_SKIP() << "needs root and loop devices";
  make_image("image");
  const auto before = sum("image");
  const int image = ::open(path("image").c_str(), O_RDWR);
  int loop = -1;
  std::string device;
  // Another process may take the number first.
  for (int attempt = 0; attempt < 20 && loop < 0; ++attempt) {
    device = "/dev/loop" + std::to_string(::ioctl(control, LOOP_CTL_GET_FREE));
    loop = ::open(device.c_str(), O_RDWR);
    loop_config config{};
    config.fd = static_cast<__u32>(image);
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;  // goes when we close it
    if (loop >= 0 && ::ioctl(loop, LOOP_CONFIGURE, &config) != 0) {
      ::close(loop);
      loop = -1;
    }
  }
  ASSERT_GE(loop, 0);
  refused(1, {"mkfs", "-f", path("image")}, {"in use", device});
  ::close(loop);
  ::close(image);
  ::close(control);
  EXPECT_EQ(sum("image"), before);
}

TEST_F(Mkfs, NeedsPermission) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  make_image("image");
  ASSERT_EQ(::chmod(path("image").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(folder().c_str(), 0755), 0);
  const auto before = sum("image");
  refused(1, {"mkfs", "-f", path("image")}, {"permission"}, {.uid = 65534});
  refused(1, {"mkfs", "--size", "1G", path("other")}, {"permission"}, {.uid = 65534});
  EXPECT_EQ(sum("image"), before);
  EXPECT_FALSE(exists("other"));
}

}  // namespace
}  // namespace lsmfs::test::mkfs_test

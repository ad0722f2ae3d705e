// The program under the names by which mount(8) and mkfs(8) call it, with the arguments they give.

#include <sys/statvfs.h>

#include "cli/program.h"

namespace lsmfs::test::helpers_test {
namespace {

class HelperNames : public Folder {};
class MountHelper : public MountFolder {};

TEST_F(HelperNames, MkfsTakesWhatMkfs8Passes) {
  const std::string image = make_file("image", 128 * MiB);
  EXPECT_NE(accepted({"-v", "-L", "x", image}, {.name = "/sbin/mkfs.lsmfs"}).find("label x"), std::string::npos);
  refused(1, {image}, {"holds an lsmfs", "-f"}, {.name = "mkfs.lsmfs"});
  refused(1, {"-q9", image}, {"mkfs.lsmfs --help"}, {.name = "mkfs.lsmfs"});
  refused(1, {image, "100000"}, {"100000"}, {.name = "mkfs.lsmfs"});
}

TEST_F(HelperNames, OtherNamesAreTheProgramItself) {
  for (const char* name : {"mount", "mount.ext4", "quota.lsmfs", "lsmfs.mount", "/sbin/mount.lsmfs/lsmfs"}) {
    EXPECT_TRUE(accepted({"--version"}, {.name = name}).starts_with("lsmfs ")) << name;
    refused(1, {}, {"subcommand"}, {.name = name});
  }
}

TEST_F(HelperNames, InfoForUdevIsWhatTheSuperblockSays) {
  const std::string image = make_image("image", {"-L", "my data"});
  const std::string text = accepted({"info", "--udev", image});
  EXPECT_NE(text.find("ID_FS_TYPE=lsmfs\nID_FS_USAGE=filesystem\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nID_FS_LABEL=my_data\nID_FS_LABEL_ENC=my\\x20data\n"), std::string::npos) << text;
  const auto uuid = text.find("\nID_FS_UUID=") + 12;
  EXPECT_EQ(text.substr(text.find("\nID_FS_UUID_ENC=") + 16, 36), text.substr(uuid, 36));
  EXPECT_NE(accepted({"info", image}).find(text.substr(uuid, 36)), std::string::npos);
  make_file("zeros", 150 * MiB);
  refused(1, {"info", "--udev", path("zeros")}, {"not lsmfs"});
  refused(1, {"info", "--udev", "--json", image}, {"--json"});
}

TEST_F(HelperNames, ALabelOrUuidThatNothingHasIsSaid) {
  const std::string directory = make_directory("mnt");
  refused(32, {"mount", "LABEL=no-such-label", directory}, {"LABEL=no-such-label", "no block device"});
  refused(32, {"UUID=01234567-89ab-4def-8123-456789abcdef", directory}, {"UUID=01234567"}, {.name = "mount.lsmfs"});
  refused(32, {"mount", "LABEL=", directory}, {"no block device"});
  refused(1, {"info", "LABEL=no-such-label"}, {"no block device"});
}

TEST_F(MountHelper, MountsWithTheArgumentsOfMount8) {
  make_image("image");
  make_directory("mnt");
  accepted({path("image"), path("mnt"), "-v", "-n", "-o", "rw,nodiratime,nosuid,nofail,x-systemd.automount", "-t", "fuse.lsmfs"},
           {.name = "/sbin/mount.fuse.lsmfs"});
  ASSERT_TRUE(is_mounted("mnt"));
  struct statvfs facts {};
  ASSERT_EQ(::statvfs(path("mnt").c_str(), &facts), 0);
  EXPECT_EQ(facts.f_flag & (ST_NODIRATIME | ST_NOSUID | ST_NOATIME | ST_RDONLY), unsigned{ST_NODIRATIME | ST_NOSUID});
  accepted({"umount", path("mnt")});
  accepted({path("image"), path("mnt"), "-rn"}, {.name = "mount.lsmfs"});
  ASSERT_EQ(::statvfs(path("mnt").c_str(), &facts), 0);
  EXPECT_TRUE(facts.f_flag & ST_RDONLY);
}

TEST_F(MountHelper, FakesDoAllButTheMounting) {
  make_image("image");
  make_directory("mnt");
  make_file("zeros", 150 * MiB);
  const auto before = sum("image");
  accepted({path("image"), path("mnt"), "-sfn", "-o", "rw,noatime"}, {.name = "mount.lsmfs"});
  EXPECT_FALSE(is_mounted("mnt"));
  EXPECT_EQ(sum("image"), before);
  refused(32, {path("zeros"), path("mnt"), "-f"}, {"not lsmfs"}, {.name = "mount.lsmfs"});
  refused(32, {path("missing"), path("mnt"), "-f"}, {"does not exist"}, {.name = "mount.lsmfs"});
  refused(32, {path("image"), path("missing"), "-f"}, {"does not exist"}, {.name = "mount.lsmfs"});
}

TEST_F(MountHelper, UnknownOptionsAreRefusedUnlessSloppy) {
  make_image("image");
  make_directory("mnt");
  refused(1, {path("image"), path("mnt"), "-o", "rw,colour=red"}, {"colour=red"}, {.name = "mount.lsmfs"});
  refused(1, {path("image"), path("mnt"), "--colour"}, {"mount.lsmfs --help"}, {.name = "mount.lsmfs"});
  refused(1, {path("image")}, {"directory"}, {.name = "mount.lsmfs"});
  EXPECT_FALSE(is_mounted("mnt"));
  accepted({path("image"), path("mnt"), "-s", "-o", "rw,colour=red"}, {.name = "mount.lsmfs"});
  EXPECT_TRUE(is_mounted("mnt"));
}

TEST_F(MountHelper, NofailMakesLittleOfADeviceThatIsNotThere) {
  make_directory("mnt");
  for (const std::string& source : {path("missing"), std::string("LABEL=no-such-label")}) {
    accepted({source, path("mnt"), "-o", "rw,nofail"}, {.name = "mount.lsmfs"});
    accepted({source, path("no such directory"), "-o", "rw,nofail"}, {.name = "mount.lsmfs"});
    refused(32, {source, path("mnt"), "-o", "rw"}, {source}, {.name = "mount.lsmfs"});
  }
  make_file("zeros", 150 * MiB);
  refused(32, {path("zeros"), path("mnt"), "-o", "rw,nofail"}, {"not lsmfs"}, {.name = "mount.lsmfs"});
}

}  // namespace
}  // namespace lsmfs::test::helpers_test

// lsmfs resize: sizes that it gives, and those that it refuses. What it keeps is in test/volume and test/integration.

#include <gtest/gtest.h>

#include <filesystem>

#include "cli/program.h"

namespace lsmfs::test::resize_test {
namespace {

class ResizeImage : public Folder {};

TEST_F(ResizeImage, GrowsAndShrinksAnImage) {
  const std::string image = path("image");
  accepted({"mkfs", "--size", "200M", image});
  EXPECT_EQ(accepted({"resize", image, "300M"}), image + ": has 300 MiB now (314572800 bytes)\n");
  EXPECT_EQ(std::filesystem::file_size(image), 300 * MiB);
  accepted({"fsck", image});
  accepted({"resize", image, "150M"});
  EXPECT_EQ(std::filesystem::file_size(image), 150 * MiB);
  accepted({"fsck", image});
  std::filesystem::resize_file(image, 250 * MiB);
  accepted({"resize", image});
  EXPECT_NE(accepted({"info", image}).find("250 MiB"), std::string::npos);
  EXPECT_EQ(accepted({"resize", image}), image + ": has 250 MiB now (262144000 bytes)\n");
}

TEST_F(ResizeImage, RefusesSizesThatCannotBeAndChangesNothing) {
  const std::string image = path("image");
  accepted({"mkfs", "--size", "200M", image});
  const auto before = sum("image");
  refused(1, {"resize", image, "64M"}, {"64M", "too small", "128 MiB"});
  refused(1, {"resize", image, "much"}, {"much", "is not a size"});
  refused(1, {"resize", image, "1T"}, {image, "at most"});
  refused(1, {"resize", path("missing"), "1G"}, {"does not exist"});
  refused(1, {"resize", folder()}, {"not in an lsmfs"});
  make_file("other", 200 * MiB);
  refused(1, {"resize", path("other"), "300M"}, {"is not lsmfs"});
  EXPECT_EQ(std::filesystem::file_size(path("other")), 200 * MiB);
  EXPECT_EQ(std::filesystem::file_size(image), 200 * MiB);
  EXPECT_EQ(sum("image"), before);
}

class ResizeMounted : public MountFolder {};

TEST_F(ResizeMounted, GrowsByItsImageOrItsDirectoryAndDoesNotShrink) {
  const std::string image = path("image"), point = make_directory("point");
  accepted({"mkfs", "--size", "200M", image});
  accepted({"mount", image, point});
  EXPECT_EQ(accepted({"resize", point, "300M"}), point + ": has 300 MiB now (314572800 bytes)\n");
  EXPECT_EQ(accepted({"resize", image, "400M"}), point + ": has 400 MiB now (419430400 bytes)\n");
  refused(1, {"resize", point, "300M"}, {point, "unmount it first"});
  refused(1, {"resize", image, "300M"}, {"unmount it first"});
  refused(1, {"resize", point, "1T"}, {"logs"});
  EXPECT_EQ(run({"resize", image, "1T"}).err.find(image), std::string::npos);  // one name is enough
  EXPECT_EQ(std::filesystem::file_size(image), 400 * MiB);
  EXPECT_EQ(accepted({"resize", point}), point + ": has 400 MiB now (419430400 bytes)\n");
  accepted({"mount", "-o", "remount,ro", image, point});
  refused(1, {"resize", point, "500M"}, {"read-only"});
  EXPECT_EQ(std::filesystem::file_size(image), 400 * MiB);
  accepted({"umount", point});
  accepted({"fsck", image});
}

}  // namespace
}  // namespace lsmfs::test::resize_test

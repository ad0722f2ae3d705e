// Who may take something away from a directory, by its mode, its sticky bit and its access control list.
#include "fuse/serving/permission.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>

namespace lsmfs::permission_test {
namespace {

constexpr uid_t kOwner = 10, kAsks = 20, kOther = 30;
constexpr gid_t kGroup = 100, kSecond = 101;

class Permission : public testing::Test {
 protected:
  // Of a directory with this mode, which belongs to kOwner and kGroup.
  bool may(std::uint32_t mode, std::set<gid_t> groups = {}, uid_t uid = kAsks) const {
    Attr attr;
    attr.mode = S_IFDIR | mode;
    attr.uid = kOwner;
    attr.gid = kGroup;
    return may_remove_from(attr, list_, taken_, {.uid = uid, .is_in_group = [&](gid_t gid) { return groups.contains(gid); }});
  }
  void add(std::uint16_t tag, std::uint16_t bits, std::uint32_t id = UINT32_MAX) {
    if (list_.empty()) put_le32(list_, 2);
    put_le16(list_, tag);
    put_le16(list_, bits);
    put_le32(list_, id);
  }

  std::string list_;
  uid_t taken_ = kAsks;  // whose that is which is to be taken away
};

TEST_F(Permission, IsThatOfTheClassOfWhoAsks) {
  EXPECT_TRUE(may(0300, {}, kOwner));
  EXPECT_FALSE(may(0477, {kGroup}, kOwner));
  EXPECT_TRUE(may(0030, {kGroup}));
  EXPECT_FALSE(may(0707, {kGroup}));
  EXPECT_TRUE(may(0003));
  EXPECT_TRUE(may(0003, {kSecond}));
  for (const std::uint32_t mode : {0770u, 0776u, 0775u, 0772u, 0771u}) EXPECT_FALSE(may(mode)) << mode;
}

TEST_F(Permission, WhereTheStickyBitIsOneOwnerHasToAsk) {
  EXPECT_TRUE(may(01777));
  taken_ = kOther;
  EXPECT_TRUE(may(0777));
  EXPECT_FALSE(may(01777));
  EXPECT_TRUE(may(01777, {}, kOwner));
  EXPECT_FALSE(may(01777, {kGroup}));
}

TEST_F(Permission, IsThatOfAListForWhomItNames) {
  add(0x01, 7);
  add(0x02, 7, kAsks);
  add(0x02, 0, kOther);
  add(0x04, 5);
  add(0x08, 7, kSecond);
  add(0x10, 7);
  add(0x20, 7);
  EXPECT_TRUE(may(0777));
  EXPECT_FALSE(may(0777, {kSecond}, kOther)) << "a user comes before groups";
  EXPECT_FALSE(may(0777, {kGroup}, 40)) << "and a group before the others";
  EXPECT_TRUE(may(0777, {kSecond}, 40));
  EXPECT_TRUE(may(0777, {kGroup, kSecond}, 40)) << "one is enough";
  EXPECT_TRUE(may(0777, {}, 40));
  EXPECT_TRUE(may(0700, {}, kOwner));
  EXPECT_FALSE(may(0077, {kSecond}, kOwner));
}

TEST_F(Permission, OfAListIsLimitedByItsMask) {
  add(0x01, 7);
  add(0x02, 7, kAsks);
  add(0x04, 7);
  add(0x08, 7, kSecond);
  add(0x10, 5);
  add(0x20, 7);
  EXPECT_FALSE(may(0757));
  EXPECT_FALSE(may(0757, {kGroup}, 40));
  EXPECT_FALSE(may(0757, {kSecond}, 40));
  EXPECT_TRUE(may(0757, {}, 40));
}

}  // namespace
}  // namespace lsmfs::permission_test

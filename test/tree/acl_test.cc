#include "tree/acl.h"

#include <gtest/gtest.h>
#include <linux/posix_acl.h>

#include <fmt/format.h>

#include "tree/harness.h"

namespace lsmfs::test::acl_test {
namespace {

using acl::Entry;
using acl::List;

constexpr std::uint32_t kNoId = ACL_UNDEFINED_ID;

// owner, user 5, group, mask, others
List list_of(std::uint16_t owner, std::uint16_t user, std::uint16_t group, std::uint16_t mask, std::uint16_t other) {
  return {{ACL_USER_OBJ, owner, kNoId}, {ACL_USER, user, 5}, {ACL_GROUP_OBJ, group, kNoId}, {ACL_MASK, mask, kNoId}, {ACL_OTHER, other, kNoId}};
}
List minimal(std::uint16_t owner, std::uint16_t group, std::uint16_t other) {
  return {{ACL_USER_OBJ, owner, kNoId}, {ACL_GROUP_OBJ, group, kNoId}, {ACL_OTHER, other, kNoId}};
}

TEST(AclBytes, AreReadBackAndFollowTheRules) {
  for (const List& list : {list_of(7, 6, 5, 4, 3), minimal(7, 0, 1)}) EXPECT_EQ(acl::decode(acl::encode(list)), list);
  const auto refused = [](const List& list) { return !acl::decode(acl::encode(list)); };
  List list = list_of(7, 7, 7, 7, 7);
  EXPECT_TRUE(refused({})) << "empty";
  for (std::size_t i = 0; i < list.size(); ++i) {
    List without = list;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(refused(without), list[i].tag != ACL_USER) << "without entry " << i;
    List twice = list;
    twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(i), list[i]);
    EXPECT_EQ(refused(twice), list[i].tag != ACL_USER) << "entry " << i << " twice";
    List wrong = list;
    wrong[i].perm = 8;
    EXPECT_TRUE(refused(wrong));
    wrong = list;
    wrong[i].tag = 0x40;
    EXPECT_TRUE(refused(wrong));
  }
  std::swap(list[0], list[1]);
  EXPECT_TRUE(refused(list)) << "out of order";
  list = list_of(7, 7, 7, 7, 7);
  list[1].id = kNoId;
  EXPECT_TRUE(refused(list)) << "nobody is named";
  const std::string bytes = acl::encode(list_of(7, 6, 5, 4, 3));
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(acl::decode(std::string_view(bytes).substr(0, n))) << n;
  EXPECT_FALSE(acl::decode(std::string("\3\0\0\0", 4) + bytes.substr(4))) << "another version";
}

TEST(AclBytes, AgreeWithPermissionBits) {
  List list = list_of(7, 6, 5, 4, 3);
  EXPECT_EQ(acl::with_permissions(S_IFREG | 04000, list), S_IFREG | 04743u) << "the mask stands for the group";
  acl::change_mode(list, S_IFREG | 0651);
  EXPECT_EQ(list, list_of(6, 6, 5, 5, 1));
  list = minimal(7, 5, 0);
  acl::change_mode(list, 0246);
  EXPECT_EQ(list, minimal(2, 4, 6));
  list = list_of(7, 6, 5, 7, 3);
  EXPECT_EQ(acl::inherit(list, S_IFREG | 0654), S_IFREG | 0650u);
  EXPECT_EQ(list, list_of(6, 6, 5, 5, 0)) << "what the maker and the default list both permit";
}

class Acls : public testing::Test {
 protected:
  int set(Ino ino, std::string_view name, const List& list) {
    return code(both_ways([&](Wait w) { return h.tree().setxattr(ino, name, acl::encode(list), 0, w); }));
  }
  std::optional<List> get(Ino ino, std::string_view name) {
    const auto value = both_ways([&](Wait w) { return h.tree().getxattr(ino, name, w); });
    EXPECT_TRUE(value || value.error().code == ENODATA);
    return value ? acl::decode(*value) : std::nullopt;
  }
  Ino make(Ino dir, std::string_view name, std::uint32_t mode, std::uint32_t umask) {
    const auto made = both_ways([&](Wait w) {
      return h.tree().make(dir, name, {.mode = mode, .umask = umask, .symlink = S_ISLNK(mode) ? "target" : ""}, w);
    });
    EXPECT_TRUE(made);
    return made->ino;
  }
  std::uint32_t bits(Ino ino) { return h.attr(ino).mode & 07777; }

  Harness h;
};

TEST_F(Acls, ChangeTheModeAndFollowIt) {
  const Ino f = h.create(kRootIno, "f");
  ASSERT_EQ(set(f, acl::kAccess, list_of(7, 6, 5, 4, 3)), 0);
  EXPECT_EQ(bits(f), 0743u);
  ASSERT_TRUE(h.tree().setattr(f, {.mode = 04651}, Wait::yes));
  EXPECT_EQ(get(f, acl::kAccess), list_of(6, 6, 5, 5, 1));
  h.remount();
  const Ino again = h.walk("f");
  EXPECT_EQ(get(again, acl::kAccess), list_of(6, 6, 5, 5, 1));
  EXPECT_EQ(bits(again), 04651u);
  // One that says no more than the mode goes into the mode.
  ASSERT_EQ(set(again, acl::kAccess, minimal(6, 4, 0)), 0);
  EXPECT_EQ(get(again, acl::kAccess), std::nullopt);
  EXPECT_EQ(bits(again), 04640u);
}

TEST_F(Acls, ThatAreNotThereAreRemovedWithoutAnError) {
  const Ino f = h.create(kRootIno, "f");
  const Time before = h.attr(f).ctime;
  for (const auto name : {acl::kAccess, acl::kDefault}) {
    EXPECT_EQ(code(both_ways([&](Wait w) { return h.tree().removexattr(f, name, w); })), 0);
  }
  EXPECT_EQ(h.attr(f).ctime, before);
}

TEST_F(Acls, ThatSayWhatTheModeSaysChangeNothing) {
  const Ino f = h.create(kRootIno, "f");
  const Time before = h.attr(f).ctime;
  ASSERT_EQ(set(f, acl::kAccess, minimal(6, 4, 4)), 0);
  EXPECT_EQ(h.attr(f).ctime, before);
  ASSERT_EQ(set(f, acl::kAccess, minimal(6, 4, 0)), 0);
  EXPECT_NE(h.attr(f).ctime, before);
}

TEST_F(Acls, AreRefusedWhereTheyMeanNothing) {
  const Ino f = h.create(kRootIno, "f");
  EXPECT_EQ(set(f, acl::kDefault, minimal(7, 7, 7)), EACCES);
  EXPECT_EQ(set(f, acl::kAccess, {{ACL_USER, 7, 5}}), EINVAL);
  EXPECT_EQ(code(h.tree().setxattr(kRootIno, acl::kDefault, "nonsense", 0, Wait::yes)), EINVAL);
  EXPECT_EQ(bits(f), 0644u);
}

TEST_F(Acls, AreInheritedFromADirectorysDefault) {
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_EQ(set(d, acl::kDefault, list_of(7, 6, 5, 7, 0)), 0);
  EXPECT_EQ(bits(d), 0755u) << "a default list changes nothing of its directory";
  for (int round = 0; round < 2; ++round) {
    const Ino dir = h.walk("d");
    const Ino f = make(dir, fmt::format("f{}", round), S_IFREG | 0666, 077);
    EXPECT_EQ(bits(f), 0660u) << "the umask does not count";
    EXPECT_EQ(get(f, acl::kAccess), list_of(6, 6, 5, 6, 0));
    EXPECT_EQ(get(f, acl::kDefault), std::nullopt);
    const Ino sub = make(dir, fmt::format("d{}", round), S_IFDIR | 0777, 077);
    EXPECT_EQ(bits(sub), 0770u);
    EXPECT_EQ(get(sub, acl::kAccess), list_of(7, 6, 5, 7, 0));
    EXPECT_EQ(get(sub, acl::kDefault), list_of(7, 6, 5, 7, 0));
    const Ino below = make(sub, "below", S_IFIFO | 0600, 0);
    EXPECT_EQ(get(below, acl::kAccess), list_of(6, 6, 5, 0, 0));
    const Ino link = make(dir, fmt::format("l{}", round), S_IFLNK | 0777, 077);
    EXPECT_EQ(bits(link), 0777u);
    EXPECT_EQ(get(link, acl::kAccess), std::nullopt);
    const auto unnamed = h.tree().make_unnamed(dir, {.mode = S_IFREG | 0640}, Wait::yes);
    ASSERT_TRUE(unnamed);
    EXPECT_EQ(get(unnamed->ino, acl::kAccess), list_of(6, 6, 5, 4, 0));
    h.remount();
  }
  EXPECT_EQ(bits(make(kRootIno, "plain", S_IFREG | 0666, 022)), 0644u) << "without a default list it does";
  // A minimal default list shows in the modes only.
  const Ino m = h.mkdir(kRootIno, "m");
  ASSERT_EQ(set(m, acl::kDefault, minimal(7, 5, 1)), 0);
  const Ino f = make(m, "f", S_IFREG | 0666, 077);
  EXPECT_EQ(bits(f), 0640u);
  EXPECT_EQ(get(f, acl::kAccess), std::nullopt);
}

TEST_F(Acls, AreNotInheritedByWhatDoesNotKnowThem) {
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_EQ(set(d, acl::kDefault, list_of(7, 6, 5, 7, 0)), 0);
  const NewInode file{.mode = S_IFREG | 0666, .umask = 027, .inherits_acl = false};
  const auto f = h.tree().make(d, "f", file, Wait::yes), unnamed = h.tree().make_unnamed(d, file, Wait::yes);
  const auto sub = h.tree().make(d, "sub", {.mode = S_IFDIR | 0777, .umask = 027, .inherits_acl = false}, Wait::yes);
  ASSERT_TRUE(f && unnamed && sub);
  EXPECT_EQ(bits(f->ino), 0640u);
  EXPECT_EQ(bits(unnamed->ino), 0640u);
  EXPECT_EQ(bits(sub->ino), 0750u);
  for (const auto& made : {*f, *unnamed, *sub}) {
    EXPECT_EQ(get(made.ino, acl::kAccess), std::nullopt);
    EXPECT_EQ(get(made.ino, acl::kDefault), std::nullopt);
  }
}

TEST_F(Acls, OfManyEntriesAreInheritedAsWell) {
  List many = list_of(7, 6, 5, 7, 0);
  for (std::uint32_t id = 100; id < 600; ++id) many.insert(many.begin() + 2, {ACL_USER, 6, id});
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_EQ(set(d, acl::kDefault, many), 0);
  ASSERT_TRUE(h.tree().sync());
  const Ino f = make(d, "f", S_IFREG | 0666, 0);
  make(d, "sub", S_IFDIR | 0777, 0);
  ASSERT_TRUE(both_ways([&](Wait w) { return h.tree().setattr(f, {.mode = 0600}, w); }));
  for (int round = 0; round < 2; ++round) {
    const auto list = get(h.walk("d/f"), acl::kAccess);
    ASSERT_TRUE(list);
    EXPECT_EQ(list->size(), many.size());
    EXPECT_EQ(acl::with_permissions(0, *list), 0600u);
    EXPECT_EQ(get(h.walk("d/sub"), acl::kDefault), many);
    h.remount();
  }
}

}  // namespace
}  // namespace lsmfs::test::acl_test

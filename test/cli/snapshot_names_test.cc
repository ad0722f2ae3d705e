// Names of snapshots: which lsmfs gives by itself.

#include <gtest/gtest.h>

#include "cli/snapshot_names.h"

namespace lsmfs::cli::snapshot_names_test {
namespace {

constexpr Time kTime{.seconds = 1795961103};  // 2026-11-29 14:05:03 in UTC

TEST(SnapshotNames, AreAfterTheTimeAndTheDirectory) {
  EXPECT_EQ(name_after_time("/", kTime), "2026-11-29_14-05-03");
  EXPECT_EQ(name_after_time("/place/d", kTime), "d-2026-11-29_14-05-03");
  EXPECT_EQ(name_after_time("/", Time{}), "1970-01-01_00-00-00");
}

TEST(SnapshotNames, AreKnownAgain) {
  for (const char* inside : {"/", "/d", "/place/d", "/-", "/2026-11-29_14-05-03", "/a\nb"}) {
    const std::string name = name_after_time(inside, kTime);
    EXPECT_TRUE(is_named_after_time(inside, name)) << name;
    for (const char* further : {"-2", "-9", "-10", "-123"}) EXPECT_TRUE(is_named_after_time(inside, name + further)) << name << further;
    for (const char* other : {"-", "-0", "-1", "-02", "-x", "-2x", "2", " ", "-2-3", "--2", "-+2"}) {
      EXPECT_FALSE(is_named_after_time(inside, name + other)) << name << other;
    }
    for (const char* before : {"x", "before-rollback-"}) EXPECT_FALSE(is_named_after_time(inside, before + name));
    EXPECT_FALSE(is_named_after_time(inside, name.substr(0, name.size() - 1)));
  }
}

TEST(SnapshotNames, OfPeopleOrOfOtherDirectoriesAreOthers) {
  for (const char* name : {"", "d", "before-upgrade", "d-before-upgrade", "2026-11-29", "2026-11-29 14:05:03", "2026-11-29_14-05-0x", "2O26-11-29_14-05-03"}) {
    EXPECT_FALSE(is_named_after_time("/", name)) << name;
    EXPECT_FALSE(is_named_after_time("/d", name)) << name;
  }
  EXPECT_FALSE(is_named_after_time("/", name_after_time("/d", kTime)));
  EXPECT_FALSE(is_named_after_time("/d", name_after_time("/", kTime)));
  EXPECT_FALSE(is_named_after_time("/d", name_after_time("/e", kTime)));
  EXPECT_FALSE(is_named_after_time("/d", name_after_time("/d-d", kTime)));
}

}  // namespace
}  // namespace lsmfs::cli::snapshot_names_test

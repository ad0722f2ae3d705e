// Rows that no tree writes, as a hostile image may hold them: they are refused where they would do harm.
#include <gtest/gtest.h>

#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::test {
namespace {

class DamagedRows : public testing::Test {
 protected:
  DamagedRows() {
    a_ = h_.mkdir(kRootIno, "a");
    b_ = h_.mkdir(a_, "b");
    h_.create(b_, "file", "data");
    h_.remount();
    a_ = h_.walk("a");
    b_ = h_.walk("a/b");
  }

  std::string home_a() { return keys::child_home("", "a", a_); }
  std::string home_b() { return keys::child_home(home_a(), "b", b_); }
  void put(const std::string& key, const std::string& row) {
    Batch batch;
    batch.put(Family::names, key, row);
    ASSERT_TRUE(h_.store().commit(batch, Wait::yes));
  }
  std::string value(const std::string& key) { return **h_.store().get(Family::names, key, Wait::yes); }
  int lookup(Ino dir, std::string_view name) { return code(h_.tree().lookup(dir, name, Wait::yes)); }
  int list(Ino dir, bool plus) {
    return code(h_.tree().readdir(dir, 0, plus, [](const DirEntry&) { return true; }, Wait::yes));
  }

  Harness h_;
  Ino a_, b_;
};

TEST_F(DamagedRows, NamesThatCannotBeAreNotListed) {
  const std::string row = value(keys::entry(home_b(), "file"));
  for (const std::string& name : {std::string("."), std::string(".."), std::string("x/y"), std::string(256, 'n'), std::string("nul\0", 4)}) {
    const std::string key = keys::entry(home_b(), name);
    put(key, row);
    EXPECT_EQ(list(b_, false), EUCLEAN) << name;
    EXPECT_EQ(list(b_, true), EUCLEAN) << name;
    EXPECT_NE(h_.check(), "") << name;
    Batch batch;
    batch.erase(Family::names, key);
    ASSERT_TRUE(h_.store().commit(batch, Wait::yes));
  }
  EXPECT_EQ(list(b_, true), 0);
}

}  // namespace
}  // namespace lsmfs::test

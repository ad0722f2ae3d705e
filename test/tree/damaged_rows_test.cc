// Rows that no tree writes, as a hostile image may hold them: they are refused where they would do harm.
#include <gtest/gtest.h>

#include "tree/damaged_tree.h"

namespace lsmfs::test::damaged_rows_test {
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
    ASSERT_TRUE(h_.store().commit(batch));
  }
  std::string value(const std::string& key) { return **h_.store().get(Family::names, key, Wait::yes); }
  int lookup(Ino dir, std::string_view name) { return code(h_.tree().lookup(dir, name, Wait::yes)); }
  int list(Ino dir, AttrsOf attrs) {
    return code(h_.tree().readdir(dir, 0, attrs, [](const DirEntry&) { return true; }, Wait::yes));
  }

  Harness h_;
  Ino a_, b_;
};

TEST_F(DamagedRows, NamesThatCannotBeAreNotListed) {
  const std::string row = value(keys::entry(home_b(), "file"));
  for (const std::string& name : {std::string("."), std::string(".."), std::string("x/y"), std::string(256, 'n'), std::string("nul\0", 4)}) {
    const std::string key = keys::entry(home_b(), name);
    put(key, row);
    EXPECT_EQ(list(b_, AttrsOf::none), EUCLEAN) << name;
    EXPECT_EQ(list(b_, AttrsOf::all), EUCLEAN) << name;
    EXPECT_NE(h_.check(), "") << name;
    Batch batch;
    batch.erase(Family::names, key);
    ASSERT_TRUE(h_.store().commit(batch));
  }
  EXPECT_EQ(list(b_, AttrsOf::all), 0);
}

// Whatever the rows say, the parents of a directory lead to the root.
TEST_F(DamagedRows, ADirectoryIsNotFoundInItself) {
  put(keys::entry(home_b(), "a"), value(keys::entry("", "a")));
  put(keys::entry(home_b(), "root"), value(std::string(keys::kRoot)));
  put(keys::entry(home_b(), "link"), encode(Link{a_, S_IFDIR}));
  for (const char* name : {"a", "root", "link"}) EXPECT_EQ(lookup(b_, name), EUCLEAN) << name;
  EXPECT_EQ(list(b_, AttrsOf::all), EUCLEAN);
  EXPECT_EQ(code(h_.tree().rename(a_, "b", kRootIno, "b", 0, Wait::yes)), 0);  // and this looks where they lead
}

TEST_F(DamagedRows, ADirectoryHasNoSecondName) {
  put(keys::entry("", "also b"), value(keys::entry(home_a(), "b")));
  EXPECT_EQ(lookup(kRootIno, "also b"), EUCLEAN);
  // The one by which it is found first counts.
  h_.tree().forget(b_, 1000);
  EXPECT_EQ(lookup(kRootIno, "also b"), 0);
  EXPECT_EQ(lookup(a_, "b"), EUCLEAN);
  // Nor one that is a link.
  Record record = *decode_record(value(keys::entry(home_a(), "b")));
  record.home = home_b();
  record.ino = Ino{b_.v + 1};  // the file's
  put(keys::linked(record.ino), encode(record));
  put(keys::entry(home_a(), "linked"), encode(Link{record.ino, S_IFDIR}));
  EXPECT_EQ(lookup(a_, "linked"), EUCLEAN);
}

// Directories that the kernel has forgotten while it uses what is in them: it does not do that.
TEST_F(DamagedRows, ACircleOfDirectoriesEndsARename) {
  put(keys::entry(home_b(), "again"), value(keys::entry("", "a")));
  h_.tree().forget(a_, 1000);
  ASSERT_EQ(lookup(b_, "again"), 0);
  const Ino other = h_.mkdir(kRootIno, "other");
  EXPECT_EQ(code(h_.tree().rename(kRootIno, "other", b_, "into the circle", 0, Wait::yes)), EINVAL);
  EXPECT_EQ(h_.walk("other"), other);
}

// A file can be renamed whatever its data is like.
TEST_F(DamagedRows, ABlockThatIsTooLargeIsNotTakenAlong) {
  const Ino file = h_.walk("a/b/file");
  const std::string home = keys::child_home(home_b(), "file", file);
  Batch batch;
  batch.put(Family::blocks, keys::block(home, BlockIndex{0}), std::string(kBlockSize + 1, 'x'));
  ASSERT_TRUE(h_.store().commit(batch));
  EXPECT_EQ(code(h_.tree().rename(b_, "file", a_, "file", 0, Wait::yes)), 0);
  EXPECT_EQ(h_.walk("a/file"), file);
  ASSERT_TRUE(h_.tree().sync());
  EXPECT_EQ(decode_record(value(keys::entry(home_a(), "file")))->home, home);
  EXPECT_EQ(h_.rows(Family::blocks, home), 1u);
  std::string to(100, '?');
  EXPECT_EQ(code(h_.tree().read(file, ByteOffset{0}, {reinterpret_cast<std::byte*>(to.data()), to.size()}, Wait::yes)), EUCLEAN);
}

// Else what is removed below it while it is in use would have a record that the next mount cannot read.
TEST_F(DamagedRows, ADirectoryAtAHomeThatIsTooLongIsRefused) {
  Record directory = *decode_record(value(keys::entry(home_a(), "b"))), file = *decode_record(value(keys::entry(home_b(), "file")));
  directory.ino = Ino{7000};
  directory.size = 2;
  const std::string home = directory.home = longest_home(directory.ino), name(kNameMax, 'n');
  put(keys::entry("", "long"), encode(directory));
  file.ino = Ino{7001};
  put(keys::entry(home, name), encode(file));
  directory.ino = Ino{7002};
  directory.home.clear();
  put(keys::entry(home, "below"), encode(directory));
  State state = *decode_state(value(std::string(keys::kState)));
  state.next_ino = Ino{10'000};
  put(std::string(keys::kState), encode(state));
  ASSERT_TRUE(h_.store().sync());
  h_.crash();
  const Ino dir = h_.walk("long");
  EXPECT_EQ(lookup(dir, "below"), EUCLEAN);
  EXPECT_EQ(list(dir, AttrsOf::all), EUCLEAN);
  ASSERT_EQ(lookup(dir, name), 0);
  ASSERT_TRUE(h_.tree().unlink(dir, name, Wait::yes));
  ASSERT_TRUE(h_.tree().sync());
  h_.crash();
  EXPECT_EQ(h_.walk("long/" + name).v, 0u);
}

// Else the next inode that is made would take the place of one that is in use.
TEST_F(DamagedRows, NumbersThatWereNotGivenAreRefused) {
  State state = *decode_state(value(std::string(keys::kState)));
  state.next_ino = b_;
  put(std::string(keys::kState), encode(state));
  ASSERT_TRUE(h_.store().sync());
  h_.crash();
  EXPECT_EQ(lookup(kRootIno, "a"), 0);
  EXPECT_EQ(lookup(a_, "b"), EUCLEAN);
}

TEST_F(DamagedRows, AFileOfOneNameCanBeRemovedWhateverItsLinkCount) {
  for (const std::uint32_t nlink : {0u, 2u, 1000u}) {
    const std::string name = std::to_string(nlink);
    h_.create(kRootIno, name, "data");
    h_.remount();
    Record record = *decode_record(value(keys::entry("", name)));
    record.nlink = nlink;
    put(keys::entry("", name), encode(record));
    ASSERT_TRUE(h_.tree().unlink(kRootIno, name, Wait::yes));
    ASSERT_TRUE(h_.tree().sync());
    EXPECT_EQ(h_.walk(name).v, 0u);
    h_.remount();
    EXPECT_EQ(h_.walk(name).v, 0u);
    EXPECT_EQ(h_.check(), "");
  }
}

TEST_F(DamagedRows, TheLastNumberIsNotGiven) {
  State state = *decode_state(value(std::string(keys::kState)));
  state.next_ino = Ino{kSnapshotsIno.v - 1};
  put(std::string(keys::kState), encode(state));
  ASSERT_TRUE(h_.store().sync());
  h_.crash();
  EXPECT_EQ(h_.create(kRootIno, "last").v, kSnapshotsIno.v - 1);
  EXPECT_EQ(code(h_.tree().make(kRootIno, "one more", {.mode = S_IFREG | 0644}, Wait::yes)), ENOSPC);
  h_.remount();
  EXPECT_EQ(h_.check(), "");
  state.next_ino = kSnapshotsIno;
  EXPECT_TRUE(decode_state(encode(state)));
  ++state.next_ino.v;
  EXPECT_FALSE(decode_state(encode(state)));
}

}  // namespace
}  // namespace lsmfs::test::damaged_rows_test

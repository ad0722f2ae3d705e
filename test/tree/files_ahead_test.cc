// What is read ahead changes no answer. What can be tested is which rows are brought into memory before a reader asks for them.
#include "tree/files_ahead.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tree/keys.h"
#include "tree/record.h"
#include "until.h"

namespace lsmfs::test::files_ahead_test {
namespace {

// Rows in memory, and which of blocks have been read.
class SeenRows final : public RowReader {
 public:
  void put(Family family, std::string key, std::string value) { rows_[family].insert_or_assign(std::move(key), std::move(value)); }
  bool has_read(const std::string& home) {
    const std::lock_guard lock(mutex_);
    return read_.contains(keys::block(home, BlockIndex{0}));
  }
  std::size_t files_read() {
    const std::lock_guard lock(mutex_);
    return read_.size();
  }

  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    return std::make_unique<RowCursor>(*this, rows_[family], family, options);
  }

 private:
  using Rows = std::map<std::string, std::string>;
  class RowCursor final : public Cursor {
   public:
    RowCursor(SeenRows& seen, const Rows& rows, Family family, const CursorOptions& options)
        : seen_(seen), rows_(rows), family_(family), upper_(options.upper), at_(rows.end()) {}
    void seek(std::string_view key) override {
      at_ = rows_.lower_bound(std::string(key));
      note();
    }
    void next() override {
      ++at_;
      note();
    }
    bool valid() const override { return at_ != rows_.end() && (upper_.empty() || at_->first < upper_); }
    std::string_view key() const override { return at_->first; }
    std::string_view value() const override { return at_->second; }
    Result<void> status() const override { return {}; }

   private:
    void note() {
      if (family_ != Family::blocks || !valid()) return;
      const std::lock_guard lock(seen_.mutex_);
      seen_.read_.insert(at_->first);
    }
    SeenRows& seen_;
    const Rows& rows_;
    const Family family_;
    const std::string upper_;
    Rows::const_iterator at_;
  };

  std::map<Family, Rows> rows_{{Family::names, {}}, {Family::blocks, {}}};
  std::mutex mutex_;
  std::set<std::string> read_;
};

class FilesAheadTest : public testing::Test {
 protected:
  static constexpr int kMisses = 8;  // of files in a row, which begin a walk

  struct File {
    Ino number;
    std::string home;
  };

  Ino next() { return Ino{++last_}; }
  // An entry of a directory whose entries lie at `dir`; what it has lies at a base of its own.
  File file(const std::string& dir, const std::string& name) {
    Record record;
    record.ino = next();
    record.mode = S_IFREG | 0644;
    record.nlink = 1;
    record.size = kBlockSize;
    record.blocks = 1;
    const Ino number = next();
    record.base = keys::far_home(number);
    put(dir, name, record);
    rows_.put(Family::blocks, keys::block(*record.base, BlockIndex{0}), "data");
    return {number, *record.base};
  }
  // Gives where its entries lie.
  std::string directory(const std::string& dir, const std::string& name, std::optional<std::string> base = {}) {
    Record record;
    record.ino = next();
    record.mode = S_IFDIR | 0755;
    record.nlink = 2;
    record.size = 1;
    record.base = base ? *base : keys::far_home(next());
    put(dir, name, record);
    return *record.base;
  }
  void put(const std::string& dir, const std::string& name, const Record& record) { rows_.put(Family::names, keys::entry(dir, name), encode(record)); }

  // A reader meets this file. False: nothing is known of it, nor asked for.
  bool meets(const File& file, const std::string& dir, const std::string& name) {
    switch (ahead_.note(file.number, rows_.has_read(file.home) ? Wait::no : Wait::yes)) {
      case FilesAhead::Noted::known: return true;
      case FilesAhead::Noted::unknown: return false;
      case FilesAhead::Noted::missing: ahead_.begin({{.home = dir, .after = name}}); return true;
    }
    return false;
  }
  // Files 0 to count of a directory.
  std::vector<File> some_files(const std::string& dir, int count) {
    std::vector<File> files;
    for (int i = 0; i < count; ++i) files.push_back(file(dir, name(i)));
    return files;
  }
  static std::string name(int number) { return fmt::format("{:04}", number); }
  void begin(const std::vector<File>& files, const std::string& dir) {
    for (int i = 0; i < kMisses; ++i) EXPECT_EQ(meets(files[static_cast<std::size_t>(i)], dir, name(i)), i == kMisses - 1);
  }
  bool comes(const File& file) {
    return until([&] { return rows_.has_read(file.home); });
  }

  SeenRows rows_;
  FilesAhead ahead_{rows_, system_clock()};
  std::uint64_t last_ = 100;
};

TEST_F(FilesAheadTest, GoesByNamesAsFarAsItsReaderComesAfter) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, 400);
  begin(files, dir);
  for (std::size_t i = kMisses; i < files.size(); ++i) {
    ASSERT_TRUE(comes(files[i])) << i;
    ASSERT_TRUE(meets(files[i], dir, name(static_cast<int>(i)))) << i;
    ASSERT_LE(rows_.files_read(), i + 1 + 96) << i;
  }
}

TEST_F(FilesAheadTest, ReadsLittleAheadOfWhoHasReadLittle) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, 100);
  begin(files, dir);
  ASSERT_TRUE(comes(files[kMisses + 3]));
  EXPECT_EQ(rows_.files_read(), 4U);
}

TEST_F(FilesAheadTest, GoesDownWhereADirectoryStandsAndUpAgain) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, kMisses);
  const std::string below = directory(dir, "0007d");
  const std::string further = directory(below, "a");
  const std::vector<File> order{file(further, "x"), file(below, "b"), file(dir, "z")};
  begin(files, dir);
  for (const File& file : order) {
    ASSERT_TRUE(comes(file));
    EXPECT_EQ(ahead_.note(file.number, Wait::no), FilesAhead::Noted::known);
  }
  EXPECT_TRUE(ahead_.knows(*keys::number_of(below)));
  EXPECT_FALSE(ahead_.knows(*keys::number_of(dir)));
}

// Also from above the file with which it began.
TEST_F(FilesAheadTest, KnowsTheWayUp) {
  const std::string dir = keys::far_home(next()), below = directory(dir, "d");
  const auto files = some_files(below, kMisses);
  const File after = file(dir, "e");
  for (int i = 0; i < kMisses; ++i) (void)ahead_.note(files[static_cast<std::size_t>(i)].number, Wait::yes);
  ahead_.begin({{.home = dir, .after = "d"}, {.home = below, .after = name(kMisses - 1)}});
  EXPECT_TRUE(comes(after));
}

TEST_F(FilesAheadTest, BeginsNothingForWhatIsInMemory) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, 100);
  for (const File& file : files) EXPECT_EQ(ahead_.note(file.number, Wait::no), FilesAhead::Noted::unknown);
  // One in ten is missing, as at the beginnings of walks in the order of keys.
  for (std::size_t i = 0; i < files.size(); ++i) EXPECT_EQ(ahead_.note(files[i].number, i % 10 == 0 ? Wait::yes : Wait::no), FilesAhead::Noted::unknown);
  EXPECT_FALSE(ahead_.walks());
}

TEST_F(FilesAheadTest, LeavesWhoWantsFewOfTheFiles) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, 4000);
  begin(files, dir);
  bool left = false;
  for (std::size_t i = kMisses; i < files.size() && !left; i += 20) {
    ASSERT_TRUE(until([&] { return ahead_.knows(files[i].number); })) << i;
    (void)ahead_.note(files[i].number, Wait::no);
    left = !ahead_.walks();
  }
  EXPECT_TRUE(left);
}

TEST_F(FilesAheadTest, HoldsOnToNothingWhenItLetsGo) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, 100);
  begin(files, dir);
  ASSERT_TRUE(comes(files[kMisses]));
  ahead_.let_go();
  EXPECT_FALSE(ahead_.walks());
  EXPECT_FALSE(ahead_.knows(files[kMisses].number));
  ahead_.wait_for(files[kMisses].number);  // nobody reads it
}

// Directories that lead back to themselves, rows that are none, and what cannot be a home.
TEST_F(FilesAheadTest, StandsDamage) {
  const std::string dir = keys::far_home(next());
  const auto files = some_files(dir, kMisses);
  rows_.put(Family::names, keys::entry(dir, "a"), "no row");
  put(dir, "b", Record{});
  Record astray;
  astray.ino = next();
  astray.mode = S_IFREG | 0644;
  astray.size = kBlockSize;
  astray.blocks = 1;
  astray.base = "no home";
  put(dir, "c", astray);
  directory(dir, "d", dir);
  begin(files, dir);
  EXPECT_TRUE(until([&] { return ahead_.knows(*keys::number_of(dir)); }));
}

}  // namespace
}  // namespace lsmfs::test::files_ahead_test

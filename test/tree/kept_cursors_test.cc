// A cursor that the tree keeps for the next read holds on to the tables that it was made on, also when they have been merged
// since, and so to space that commits may be waiting for. So none is kept for long, however busy the readers are, and none
// while the tree waits for a commit. (The cursors of walks ahead: prefetcher_test.cc.)
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "gate.h"
#include "kv/store_decorator.h"
#include "tree/cursor_watch.h"
#include "tree/harness.h"
#include "tree/parked_cursors.h"
#include "tree/pass.h"
#include "until.h"

namespace lsmfs::test::kept_cursors_test {
namespace {

using namespace std::chrono_literals;

// A store that knows the cursors of readers who do not wait, which are those that the tree keeps.
class WatchedStore final : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;

  CursorWatch cursors, listings;  // over blocks; over names
  Gate seeks{true}, commits{true};  // of those over blocks; of all

  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    auto made = inner().cursor(family, options);
    if (options.wait != Wait::no) return made;
    if (family == Family::names) return std::make_unique<Watched>(std::move(made), listings.token(), nullptr);
    return std::make_unique<Watched>(std::move(made), cursors.token(), &seeks);
  }
  Result<void> commit(Batch& batch) override {
    at_commit = cursors.there();
    commits.pass();
    return inner().commit(batch);
  }

  std::atomic<std::size_t> at_commit = 0;  // cursors that were there when the last commit began

 private:
  class Watched final : public Cursor {
   public:
    Watched(std::unique_ptr<Cursor> below, std::shared_ptr<void> token, Gate* gate)
        : cursor_(std::move(below)), token_(std::move(token)), gate_(gate) {}
    void seek(std::string_view key) override {
      if (gate_) gate_->pass();
      cursor_->seek(key);
    }
    void next() override { cursor_->next(); }
    bool valid() const override { return cursor_->valid(); }
    std::string_view key() const override { return cursor_->key(); }
    std::string_view value() const override { return cursor_->value(); }
    Result<void> status() const override { return cursor_->status(); }

   private:
    const std::unique_ptr<Cursor> cursor_;
    const std::shared_ptr<void> token_;
    Gate* const gate_;  // or none
  };
};

class KeptCursors : public testing::Test {
 protected:
  static constexpr std::uint64_t kBlocks = 32;

  // Its rows are in memory: no read of them has to wait for the device.
  KeptCursors() : file_(h_.create(kRootIno, "file", std::string(kBlocks * kBlockSize, 'x'))) {
    EXPECT_TRUE(h_.tree().sync().has_value());
    pass(clock_, 0s);  // from here on the tree's own thread leaves the mutex alone until time passes
  }
  void TearDown() override {  // also after a failure nobody stays behind a gate
    store_->seeks.open();
    store_->commits.open();
  }

  // As the request loop does it. The tree's own thread may have the lock for a moment.
  void read_block(std::uint64_t number) {
    std::string data(kBlockSize, '?');
    const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
    int error = EAGAIN;
    (void)until([&] {
      error = code(h_.tree().read(file_, ByteOffset{number % kBlocks * kBlockSize}, to, Wait::no, AccessTime::stays));
      return error != EAGAIN;
    });
    EXPECT_EQ(error, 0);
    EXPECT_EQ(data, std::string(kBlockSize, 'x'));
  }
  void leave_a_cursor() {
    read_block(0);
    EXPECT_EQ(cursors().there(), 1u);
  }
  const CursorWatch& cursors() const { return store_->cursors; }

  SteppedClock clock_;
  WatchedStore* store_ = nullptr;
  Harness h_{ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .clock = &clock_}, {.store = [this](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> {
               auto watched = std::make_unique<WatchedStore>(std::move(inner));
               store_ = watched.get();
               return watched;
             }}};
  const Ino file_;
};

TEST_F(KeptCursors, ServeOneReadAfterTheOther) {
  for (std::uint64_t number = 0; number < 10; ++number) read_block(number);
  EXPECT_EQ(cursors().made(), 1u);
}

TEST_F(KeptCursors, ServeReadersThatTakeTurns) {
  constexpr std::uint64_t kReaders = 4, kEach = kBlocks / kReaders;
  for (std::uint64_t step = 0; step < kEach; ++step) {
    for (std::uint64_t reader = 0; reader < kReaders; ++reader) read_block(reader * kEach + step);
  }
  EXPECT_EQ(cursors().made(), kReaders);
}

TEST_F(KeptCursors, AreOfABoundedNumber) {
  for (std::uint64_t number = 0; number < 10 * kBlocks; ++number) {
    read_block(number * 7);  // none after the other
    EXPECT_LE(cursors().there(), ParkedCursors::kMost);
  }
}

TEST_F(KeptCursors, ServeOneListingAfterTheOther) {
  std::vector<std::string> names;
  for (char c = 'a'; c < 'k'; ++c) {
    const Ino directory = h_.mkdir(kRootIno, names.emplace_back(std::string("directory ") + c));
    h_.create(directory, "file");
  }
  ASSERT_TRUE(h_.tree().sync().has_value());
  names.push_back("file");
  EXPECT_EQ(h_.list(kRootIno), names);
  for (std::size_t i = 0; i + 1 < names.size(); ++i) EXPECT_EQ(h_.list(h_.walk(names[i])), std::vector<std::string>{"file"});
  EXPECT_EQ(store_->listings.made(), 2u) << "one for the root, after whose entries other rows come, and one for all the others";
  // One that is left over shows nothing of what has changed since.
  h_.create(h_.walk(names[1]), "a new file");
  EXPECT_EQ(h_.list(h_.walk(names[0])), std::vector<std::string>{"file"});
  EXPECT_EQ(h_.list(h_.walk(names[1])), (std::vector<std::string>{"a new file", "file"}));
  h_.create(kRootIno, "another");
  ASSERT_TRUE(h_.tree().sync().has_value());
  EXPECT_EQ(store_->listings.there(), 0u);
}

TEST_F(KeptCursors, AreASecondOldAtMostHoweverOftenTheyAreUsed) {
  leave_a_cursor();
  for (int i = 1; i < 10; ++i) {
    pass(clock_, 100ms);
    read_block(static_cast<std::uint64_t>(i));
  }
  pass(clock_, 99ms);
  read_block(10);
  EXPECT_TRUE(cursors().is_there(0));
  pass(clock_, 1ms);
  read_block(11);
  EXPECT_FALSE(cursors().is_there(0));
  EXPECT_EQ(cursors().there(), 1u);
}

TEST_F(KeptCursors, AreGoneAfterASecondWithoutAReader) {
  leave_a_cursor();
  pass(clock_, 1s);
  EXPECT_EQ(cursors().there(), 1u);
  pass(clock_, 1ms);
  EXPECT_EQ(cursors().there(), 0u);
}

TEST_F(KeptCursors, AreGoneBeforeTheTreeWaitsForACommit) {
  h_.create(kRootIno, "other");  // which changes no blocks, for which it would be taken away as well
  leave_a_cursor();
  store_->at_commit = 99;
  EXPECT_TRUE(h_.tree().sync().has_value());
  EXPECT_EQ(store_->at_commit, 0u);
}

TEST_F(KeptCursors, AreGoneWhileTheTreeWaitsForACommitThatIsUnderWay) {
  store_->commits.shut();
  h_.create(kRootIno, "large", std::string(320 * KiB, 'y'));
  h_.create(kRootIno, "next");  // by which the group before it goes to the committer
  EXPECT_TRUE(store_->commits.await(1));
  leave_a_cursor();
  std::thread syncing([&] { EXPECT_TRUE(h_.tree().sync().has_value()); });
  EXPECT_TRUE(until([&] { return cursors().there() == 0; }));
  store_->commits.open();
  syncing.join();
}

TEST_F(KeptCursors, AreNotLeftByAReadThatEndsWhileTheTreeWaitsForACommit) {
  h_.create(kRootIno, "other");
  store_->seeks.shut();
  std::thread reading([&] { read_block(0); });
  EXPECT_TRUE(store_->seeks.await(1));
  store_->commits.shut();
  std::thread syncing([&] { EXPECT_TRUE(h_.tree().sync().has_value()); });
  EXPECT_TRUE(store_->commits.await(1));
  store_->seeks.open();
  reading.join();
  EXPECT_EQ(cursors().there(), 0u);
  store_->commits.open();
  syncing.join();
}

}  // namespace
}  // namespace lsmfs::test::kept_cursors_test

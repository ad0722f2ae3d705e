// Which blobs stay open for the next reads. Their store has nothing in it; each blob takes as much memory as the test says.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "kv/store_decorator.h"
#include "tree/blob_readers.h"

namespace lsmfs::test::blob_readers_test {
namespace {

class FakeReader final : public BlobReader {
 public:
  FakeReader(std::uint64_t blob, std::uint64_t blocks, std::size_t memory) : blob_(blob), blocks_(blocks), memory_(memory) {}
  std::uint64_t blocks() const override { return blocks_; }
  std::size_t memory() const override { return memory_; }
  Result<void> read(std::uint64_t block, MutableBytes to) const override {
    if (block >= blocks_) return make_error(EINVAL, "past its end");
    std::memset(to.data(), static_cast<int>(blob_), to.size());
    return {};
  }

 private:
  const std::uint64_t blob_, blocks_;
  const std::size_t memory_;
};

class FakeStore final : public StoreDecorator {
 public:
  FakeStore() : StoreDecorator(nullptr) {}
  Result<std::unique_ptr<BlobReader>> open_blob(std::uint64_t blob, const BlobEnd& end) override {
    ++opened[blob];
    if (blob == fails) return make_error(EIO, "the device");
    return std::unique_ptr<BlobReader>(std::make_unique<FakeReader>(blob, end.blocks, memory));
  }
  std::map<std::uint64_t, int> opened;
  std::size_t memory = 1000;
  std::uint64_t fails = 0;
};

class BlobReadersTest : public testing::Test {
 protected:
  // How often that blob has been opened for this read.
  int read(std::uint64_t blob, std::uint64_t blocks = 10) {
    const int before = store_.opened[blob];
    std::vector<std::byte> to(kBlobBlock);
    EXPECT_TRUE(readers_.read(blob, {.blocks = blocks, .bytes = 0}, blocks - 1, to)) << blob;
    EXPECT_EQ(to[0], static_cast<std::byte>(blob));
    return store_.opened[blob] - before;
  }

  FakeStore store_;
  BlobReaders readers_{store_};
};

TEST_F(BlobReadersTest, StayOpenHoweverManyThereAreUntilTheyTakeTooMuch) {
  store_.memory = BlobReaders::kMost / 200;
  for (std::uint64_t blob = 1; blob <= 200; ++blob) EXPECT_EQ(read(blob), 1);
  for (std::uint64_t blob = 1; blob <= 200; ++blob) EXPECT_EQ(read(blob), 0) << blob;
  EXPECT_EQ(read(1), 0);  // and is the one used last
  EXPECT_EQ(read(201), 1);
  EXPECT_EQ(read(1), 0);
  EXPECT_EQ(read(2), 1) << "was used longest ago";
  EXPECT_EQ(read(4), 0);
}

TEST_F(BlobReadersTest, OneStaysOpenThatTakesMoreThanAllMay) {
  EXPECT_EQ(read(1), 1);
  store_.memory = 2 * BlobReaders::kMost;
  EXPECT_EQ(read(2), 1);
  EXPECT_EQ(read(2), 0);
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(2), 1);
}

TEST_F(BlobReadersTest, ReplaceOneThatHadFewerBlocks) {
  store_.memory = BlobReaders::kMost / 2;
  EXPECT_EQ(read(1, 10), 1);
  EXPECT_EQ(read(2, 10), 1);
  EXPECT_EQ(read(1, 11), 1);
  EXPECT_EQ(read(1, 10), 0);
  EXPECT_EQ(read(2, 10), 0) << "what was replaced takes no memory any more";
}

TEST_F(BlobReadersTest, ForgetWhatIsGone) {
  store_.memory = BlobReaders::kMost / 2;
  read(1);
  read(2);
  readers_.forget(1);
  readers_.forget(3);
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(2), 0);
  readers_.clear();
  EXPECT_EQ(read(2), 1);
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(2), 0);
}

TEST_F(BlobReadersTest, KeepNoneThatCouldNotBeOpened) {
  store_.fails = 1;
  std::vector<std::byte> to(kBlobBlock);
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(readers_.read(1, {.blocks = 1, .bytes = 0}, 0, to).error().code, EIO);
    EXPECT_EQ(store_.opened[1], i);
  }
  store_.fails = 0;
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(1), 0);
}

}  // namespace
}  // namespace lsmfs::test::blob_readers_test

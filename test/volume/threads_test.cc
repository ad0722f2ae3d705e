// What happens in several threads at once.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/watched.h"
#include "gate.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::threads_test {
namespace {

using test::contents_of;
using test::Gate;
using test::ok;
using test::pattern;
using test::WatchedThread;

// On a device whose flushes wait while the gate is shut.
class Threads : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ok(Volume::format(*memory_, {})));
    device_ = hooked_device(*memory_, [this](const DeviceEvent& event, Bytes) -> Result<void> {
      if (event.kind != DeviceEvent::Kind::flush) return {};
      ++flushes_;
      return gate_.pass() ? Result<void>() : make_error(ETIMEDOUT, "the gate was never opened");
    });
    auto volume = Volume::open(*device_);
    ASSERT_TRUE(ok(volume));
    volume_ = std::move(*volume);
  }
  std::unique_ptr<FileWriter> create(const std::string& name, FileKind kind) {
    auto writer = volume_->create(name, kind);
    EXPECT_TRUE(ok(writer));
    return std::move(*writer);
  }
  void share_a_flush(FileKind kind);

  std::unique_ptr<Device> memory_ = memory_device(ByteCount{256 * MiB});
  Gate gate_{true};
  std::atomic<int> flushes_ = 0;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Volume> volume_;
};

TEST_F(Threads, WorkGoesOnWhileAnotherFileIsBeingFlushed) {
  auto a = create("a", FileKind::log);
  auto b = create("b", FileKind::log);
  auto t = create("t", FileKind::table);
  ASSERT_TRUE(ok(a->append(as_bytes("something"))));
  const int before = flushes_;
  gate_.shut();
  std::thread syncing([&] { EXPECT_TRUE(ok(a->sync())); });
  EXPECT_TRUE(gate_.await(1));
  // The flush is under way now. None of these may wait for it, not even an append to the same log.
  const std::string large = pattern(5000000, 1);
  EXPECT_TRUE(ok(b->append(as_bytes(large))));
  EXPECT_TRUE(ok(t->append(as_bytes(large))));
  EXPECT_TRUE(ok(a->append(as_bytes(" more"))));
  EXPECT_TRUE(contents_of(*volume_, "b") == large);
  EXPECT_TRUE(contents_of(*volume_, "t") == large);
  EXPECT_TRUE(ok(volume_->create("c", FileKind::small)));
  EXPECT_TRUE(ok(volume_->rename("c", "d")));
  EXPECT_TRUE(ok(volume_->remove("d")));
  EXPECT_EQ(flushes_, before + 1);
  gate_.open();
  syncing.join();
}

// Those who come while a flush is under way share the next one: what they have written may have come too late for that.
void Threads::share_a_flush(FileKind kind) {
  std::vector<std::unique_ptr<FileWriter>> writers;
  for (int i = 0; i < 16; ++i) {
    writers.push_back(create("f" + std::to_string(i), kind));
    ASSERT_TRUE(ok(writers.back()->append(as_bytes("x"))));
  }
  const int before = flushes_;
  gate_.shut();
  std::thread first([&] { EXPECT_TRUE(ok(writers[0]->sync())); });
  EXPECT_TRUE(gate_.await(1));
  std::vector<std::unique_ptr<WatchedThread>> others;
  for (std::size_t i = 1; i < writers.size(); ++i) {
    others.push_back(std::make_unique<WatchedThread>([&, i] { EXPECT_TRUE(ok(writers[i]->sync())); }));
  }
  for (const auto& other : others) EXPECT_TRUE(other->await("the flush of another thread"));
  gate_.open();
  first.join();
  for (const auto& other : others) other->join();
  EXPECT_EQ(flushes_ - before, 2) << "the first one began before the others had written anything";
}

TEST_F(Threads, CallersOfSyncOfLogsShareAFlush) { share_a_flush(FileKind::log); }
TEST_F(Threads, CallersOfSyncOfTablesShareAFlush) { share_a_flush(FileKind::table); }

TEST_F(Threads, ManyWorkAtOnceAndAllIsThereInTheEnd) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::string log_contents[2];
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(static_cast<std::uint64_t>(i));
      auto log = create("log" + std::to_string(i), FileKind::log);
      for (int n = 0; n < 150; ++n) {
        const std::string more = pattern(random() % (n % 10 ? 5000 : 400000), random());
        EXPECT_TRUE(ok(log->append(as_bytes(more))));
        log_contents[i] += more;
        if (n % 3 == 0) {
          EXPECT_TRUE(ok(log->sync()));
        }
      }
      EXPECT_TRUE(ok(log->sync()));
      EXPECT_TRUE(ok(log->close()));
    });
  }
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {  // tables come and go
      for (int n = 0; n < 40; ++n) {
        const std::string name = "table" + std::to_string(i) + "-" + std::to_string(n);
        EXPECT_TRUE(ok(test::write_file(*volume_, "tmp" + name, FileKind::table,
                                        pattern(static_cast<std::size_t>(n) * 30000, 9))));
        EXPECT_TRUE(ok(volume_->rename("tmp" + name, name)));
        if (n >= 2) {
          EXPECT_TRUE(ok(volume_->remove("table" + std::to_string(i) + "-" + std::to_string(n - 2))));
        }
      }
    });
  }
  std::thread reader([&] {
    while (!stop) {
      for (const std::string& name : volume_->list()) {
        auto r = volume_->open_reader(name);  // may have gone meanwhile
        if (!r) continue;
        if (name.starts_with("table")) {
          EXPECT_TRUE(test::read_all(**r) == pattern((*r)->size().v, 9));
        }
      }
      EXPECT_TRUE(ok(volume_->commit()));
      (void)volume_->usage();
    }
  });
  std::thread trimming([&] {  // the device makes garbage of what is free
    for (int n = 0; !stop; ++n) {
      const auto trimmed = volume_->trim({}, [] { return false; });
      ASSERT_TRUE(ok(trimmed));
      EXPECT_GT(trimmed->v, 0u);
      EXPECT_TRUE(ok(volume_->change({.label = std::to_string(n)})));
      EXPECT_EQ(volume_->info().label, std::to_string(n));
    }
  });
  std::thread second([&] {  // one writer from two threads
    auto shared = create("shared", FileKind::log);
    std::thread other([&] {
      for (int n = 0; n < 200; ++n) EXPECT_TRUE(ok(shared->append(as_bytes("0123456789"))));
    });
    for (int n = 0; n < 50; ++n) EXPECT_TRUE(ok(shared->sync()));
    other.join();
    EXPECT_TRUE(ok(shared->sync()));
  });
  for (auto& t : threads) t.join();
  second.join();
  stop = true;
  reader.join();
  trimming.join();

  volume_.reset();
  auto again = Volume::open(*device_);
  ASSERT_TRUE(ok(again));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(contents_of(**again, "log" + std::to_string(i)) == log_contents[i]);
  EXPECT_EQ((*again)->size_of("shared")->v, 2000u);
}

}  // namespace
}  // namespace lsmfs::threads_test

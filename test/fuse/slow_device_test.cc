// The whole daemon, but for its command line, on a device that takes very long for a request.

#include <fcntl.h>

#include <atomic>
#include <thread>

#include "clock.h"
#include "fuse/mounted.h"
#include "gate.h"
#include "lsmfs/device.h"
#include "lsmfs/volume.h"
#include "until.h"

namespace lsmfs::test::slow_device_test {
namespace {

class SlowDevice : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(Volume::format(*memory_, {}));
    open();
    ASSERT_TRUE(Tree::format(*store_));
    close();
    open();
    tree_ = std::move(*Tree::open(*store_, {.sync_interval_ms = 0}));
  }
  void TearDown() override {
    if (tree_) {
      EXPECT_TRUE(tree_->close());
    }
    tree_.reset();
    if (store_) close();
  }
  void open() {
    volume_ = std::move(*Volume::open(*device_));
    store_ = std::move(*Store::open(*volume_, {.cache = ByteCount{32 * MiB}}));
  }
  void close() {
    EXPECT_TRUE(store_->close());
    store_.reset();
    volume_.reset();
  }
  // From now on the first request of this kind takes as long as the hook.
  void on_next(DeviceEvent::Kind kind, std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    kind_ = kind;
    hook_ = std::move(hook);
  }

  std::unique_ptr<Device> memory_ = memory_device(ByteCount{kDeviceMin});
  std::mutex mutex_;
  DeviceEvent::Kind kind_{};
  std::function<void()> hook_;
  std::unique_ptr<Device> device_ = hooked_device(*memory_, [this](const DeviceEvent& event, Bytes) -> Result<void> {
    std::function<void()> hook;
    {
      const std::lock_guard lock(mutex_);
      if (hook_ && event.kind == kind_) hook = std::exchange(hook_, nullptr);
    }
    if (hook) hook();
    return {};
  });
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Tree> tree_;
};

int write_and_sync(const std::string& path, std::string_view data) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return errno;
  int code = ::write(fd, data.data(), data.size()) == static_cast<ssize_t>(data.size()) ? 0 : errno;
  if (code == 0) code = result_of(::fsync(fd));
  ::close(fd);
  return code;
}

TEST_F(SlowDevice, TheLogNamesTheRequestOfTheDeviceThatAFileIsWaitingFor) {
  SteppedClock clock;
  MountOptions options;
  options.clock = &clock;
  Mounted mounted(*tree_, options);
  ASSERT_TRUE(clock.await_waiting(1));
  std::size_t heard = 0;
  // Time goes on until it is.
  const auto is_told = [&](const std::string& word) {
    const auto found = [&] { return mounted.notices().find(word, heard) != std::string::npos; };
    return until([&] { return found() || !clock.step(std::chrono::seconds(2)); }) && found();
  };
  ASSERT_EQ(write_and_sync(mounted.path("f"), "contents"), 0);
  for (const auto& [kind, words] : {std::pair{DeviceEvent::Kind::flush, "flush of the device ("},
                                    std::pair{DeviceEvent::Kind::write, "write of 4096 bytes at "}}) {
    Gate gate;
    on_next(kind, [&] { gate.pass(); });
    int code = -1;
    std::thread syncing([&] { code = write_and_sync(mounted.path("f"), "contents"); });
    gate.await(1);
    EXPECT_TRUE(is_told(words)) << words;
    EXPECT_NE(mounted.notices().find("a sync of the log, ", heard), std::string::npos) << mounted.notices();
    EXPECT_EQ(read_file(mounted.path("f")), "contents");  // what needs no device goes on
    gate.open();
    syncing.join();
    EXPECT_EQ(code, 0);
    EXPECT_TRUE(is_told("is over after"));
    heard = mounted.notices().size();
  }
}

TEST_F(SlowDevice, UnmountingWaitsForARequestThatTakesLongAndLosesNothing) {
  Mounted mounted(*tree_, {}, {}, [&] {
    EXPECT_TRUE(tree_->close());
    tree_.reset();
    close();
  });
  ASSERT_EQ(write_file(mounted.path("before"), "contents"), 0);
  Gate gate;
  on_next(DeviceEvent::Kind::write, [&] { gate.pass(); });
  std::atomic<bool> written{false}, ended_before{false};
  std::thread unmounting([&] {
    mounted.stop();
    ended_before = !written;
  });
  gate.await(1);
  EXPECT_EQ(mounted.destroyed(), 0);
  written = true;
  gate.open();
  unmounting.join();
  EXPECT_FALSE(ended_before);
  EXPECT_EQ(mounted.destroyed(), 1);
  open();
  auto tree = Tree::open(*store_, {});
  ASSERT_TRUE(tree);
  const auto found = (*tree)->lookup(kRootIno, "before", lsmfs::Wait::yes);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->size, 8u);
  EXPECT_TRUE((*tree)->close());
}

TEST_F(SlowDevice, AMountThatIsTakenAwayWhileAFileWaitsEndsWhenTheDeviceAnswers) {
  Mounted mounted(*tree_);
  Gate gate;
  on_next(DeviceEvent::Kind::flush, [&] { gate.pass(); });
  int code = -1;
  std::thread syncing([&] { code = write_and_sync(mounted.path("f"), "contents"); });
  gate.await(1);
  EXPECT_EQ(unmount(mounted.root(), false).error().code, EBUSY);
  EXPECT_TRUE(unmount(mounted.root(), true));
  gate.open();
  syncing.join();
  EXPECT_EQ(code, 0);
  mounted.server().join();
  EXPECT_EQ(mounted.destroyed(), 1);
}

}  // namespace
}  // namespace lsmfs::test::slow_device_test

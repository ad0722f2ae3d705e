// The ioctls of a mount, each with what it gives and every errno.
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <thread>

#include "fuse/control/requests.h"
#include "fuse/mounted.h"
#include "until.h"

namespace lsmfs::test::ioctls_test {
namespace {

class Ioctls : public MountTest {
 protected:
  void mount(Administration administration = {}) {
    mounted_ = std::make_unique<Mounted>(tree_, MountOptions{}, std::move(administration));
  }

  // 0 or errno.
  int call(const std::string& path, unsigned long command, void* argument) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    const int result = result_of(::ioctl(fd, command, argument));
    ::close(fd);
    return result;
  }
  int call(unsigned long command, void* argument) { return call(mounted_->root(), command, argument); }

  // What the daemon's threads and the test both use. That one waited for the other is known through the kernel only,
  // which the thread sanitizer does not see.
  template <class T>
  class Shared {
   public:
    explicit Shared(T value = {}) : value_(std::move(value)) {}
    void set(T value) {
      std::lock_guard lock(mutex_);
      value_ = std::move(value);
    }
    T get() const {
      std::lock_guard lock(mutex_);
      return value_;
    }

   private:
    mutable std::mutex mutex_;
    T value_;
  };

  // What a call of the tree does that goes on until it is told to stop.
  Error until_told(const Stop& stop) {
    ++calls_;
    told_ = until(stop);
    return make_error(EINTR, "told to stop");
  }
  // Mounts, and gives a process that is in such a call.
  template <class Request>
  pid_t begin(Request request) {
    mount();
    const pid_t child = ::fork();
    if (child == 0) {
      request();
      ::_exit(0);
    }
    EXPECT_TRUE(until([this] { return calls_ > 0; })) << "the call has not come";
    return child;
  }
  pid_t begin_long_trim() {
    tree_.on_trim = [this](const TrimRange&, const Stop& stop) -> Result<ByteCount> { return until_told(stop); };
    return begin([this] {
      fstrim_range range{0, UINT64_MAX, 0};
      (void)call(FITRIM, &range);
    });
  }
  // The server ends, and with it the call, and with that the process.
  void expect_the_end_of_the_server_to_end(pid_t child) {
    ::kill(::getpid(), SIGTERM);
    mounted_->server().join();
    EXPECT_TRUE(told_);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
  }

  MemoryTree tree_;
  Shared<std::string> text_;
  Shared<TrimRange> range_;
  std::atomic<int> code_{0}, calls_{0};
  std::atomic<std::uint64_t> asked_{0};
  std::atomic<bool> told_{false};
  std::unique_ptr<Mounted> mounted_;  // goes first
};

TEST_F(Ioctls, FactsAreGivenOnFilesAndDirectories) {
  mount({.info_json = [] { return std::string(R"({"label":"x"})"); }});
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  EXPECT_EQ(query_mount(mounted_->root()).value(), R"({"label":"x"})");
  EXPECT_EQ(query_mount(mounted_->path("f")).value(), R"({"label":"x"})");
  EXPECT_EQ(query_mount("/tmp").error().code, ENOTTY);
  EXPECT_EQ(query_mount("/dev/null").error().code, ENOTTY);
  EXPECT_EQ(query_mount("/etc/passwd").error().code, ENOTTY);
  EXPECT_EQ(query_mount("/no/such/path").error().code, ENOENT);
}

TEST_F(Ioctls, FactsThatAreTooLongAreRefused) {
  mount({.info_json = [this] { return text_.get(); }});
  std::string facts(kFactsMax, ' ');
  facts.front() = '{';
  text_.set(facts);
  EXPECT_EQ(query_mount(mounted_->root()).value(), facts);
  text_.set(facts + " ");
  EXPECT_EQ(query_mount(mounted_->root()).error().code, EMSGSIZE);
}

TEST_F(Ioctls, SettingsReachTheTree) {
  mount();
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  ASSERT_TRUE(reconfigure_mount(mounted_->root(), {.tree = {.read_only = true, .atime = AtimePolicy::strictatime}}));
  EXPECT_EQ(tree_.settings().read_only, true);
  EXPECT_EQ(tree_.settings().atime, AtimePolicy::strictatime);
  EXPECT_FALSE(tree_.settings().directory_atime || tree_.settings().sync_interval_ms);
  ASSERT_TRUE(reconfigure_mount(mounted_->root(), {.tree = {.directory_atime = false, .sync_interval_ms = 3'600'000}}));
  EXPECT_FALSE(tree_.settings().read_only || tree_.settings().atime);
  EXPECT_EQ(tree_.settings().directory_atime, false);
  EXPECT_EQ(tree_.settings().sync_interval_ms, 3'600'000u);
}

TEST_F(Ioctls, TheDaemonForgetsItsCachesWhenAsked) {
  mount();
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  EXPECT_TRUE(drop_caches_of_mount(mounted_->root()));
  EXPECT_TRUE(drop_caches_of_mount(mounted_->path("f")));
  EXPECT_EQ(tree_.calls("drop_caches"), 2u);
  EXPECT_EQ(drop_caches_of_mount("/etc/passwd").error().code, ENOTTY);
  EXPECT_EQ(drop_caches_of_mount("/no/such/path").error().code, ENOENT);
  tree_.set_hook([](const std::string& name, Wait) {
    return name == "drop_caches" ? Result<void>(make_error(EIO, "a failure")) : Result<void>();
  });
  EXPECT_EQ(drop_caches_of_mount(mounted_->root()).error().code, EIO);
}

TEST_F(Ioctls, NamesAreDurableWhileThatIsAskedFor) {
  mount();
  const auto syncs = [&](auto change) {
    const auto before = tree_.calls("sync");
    EXPECT_EQ(change(), 0);
    return tree_.calls("sync") - before;
  };
  const auto path = [&](const char* name) { return mounted_->path(name); };
  for (const bool durable : {true, false}) {
    ASSERT_TRUE(reconfigure_mount(mounted_->root(), {.durable_names = durable}));
    EXPECT_EQ(syncs([&] { return ::mkdir(path("d").c_str(), 0755); }), durable);
    EXPECT_EQ(syncs([&] { return ::mknod(path("f").c_str(), S_IFREG | 0644, 0); }), durable);
    EXPECT_EQ(syncs([&] { return ::symlink("target", path("s").c_str()); }), durable);
    EXPECT_EQ(syncs([&] { return ::link(path("f").c_str(), path("g").c_str()); }), durable);
    EXPECT_EQ(syncs([&] { return ::rename(path("g").c_str(), path("h").c_str()); }), durable);
    EXPECT_EQ(syncs([&] { return ::unlink(path("h").c_str()) | ::unlink(path("s").c_str()); }), durable * 2);
    EXPECT_EQ(syncs([&] { return ::chmod(path("f").c_str(), 0600) | ::unlink(path("f").c_str()); }), durable);
    EXPECT_EQ(syncs([&] { return ::rmdir(path("d").c_str()); }), durable);
    EXPECT_EQ(::rmdir(path("missing").c_str()), -1);
  }
  ASSERT_TRUE(reconfigure_mount(mounted_->root(), {.durable_names = true}));
  ASSERT_TRUE(reconfigure_mount(mounted_->root(), {}));
  tree_.set_hook([](const std::string& name, Wait) -> Result<void> {
    return name == "sync" ? make_error(EIO, "") : Result<void>();
  });
  EXPECT_EQ(::mkdir(path("d").c_str(), 0755), -1);
  EXPECT_EQ(errno, EIO);
  tree_.set_hook({});
}

TEST_F(Ioctls, SettingsFailAsTheTreeDoes) {
  mount();
  tree_.set_hook([](const std::string& name, Wait) -> Result<void> {
    return name == "reconfigure" ? make_error(EROFS, "") : Result<void>();
  });
  EXPECT_EQ(reconfigure_mount(mounted_->root(), {.tree = {.read_only = false}}).error().code, EROFS);
  EXPECT_EQ(reconfigure_mount("/tmp", {}).error().code, ENOTTY);
  EXPECT_EQ(reconfigure_mount("/no/such/path", {}).error().code, ENOENT);
}

TEST_F(Ioctls, SettingsAreForRootAndChecked) {
  mount();
  for (auto member : {&ReconfigureRequest::read_only, &ReconfigureRequest::atime, &ReconfigureRequest::directory_atime,
                      &ReconfigureRequest::durable_names}) {
    for (const std::int32_t bad : {-2, 3, INT32_MAX}) {
      ReconfigureRequest request;
      request.*member = bad;
      EXPECT_EQ(call(kReconfigureIoctl, &request), EINVAL);
    }
  }
  ReconfigureRequest request;
  request.sync_interval_ms = -2;
  EXPECT_EQ(call(kReconfigureIoctl, &request), EINVAL);

  int code = 0;
  std::thread other([&] {
    // Of this thread alone, and the kernel asks the thread.
    ASSERT_EQ(::syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    request = {};
    request.read_only = 1;
    code = call(kReconfigureIoctl, &request);
  });
  other.join();
  EXPECT_EQ(code, EPERM);
  EXPECT_EQ(tree_.calls("reconfigure"), 0u);
}

TEST_F(Ioctls, FlagsChangeTheTimeOfChangeThatTheKernelHadRemembered) {
  mount();
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  const auto changed = [&] {
    struct stat out {};
    EXPECT_EQ(::stat(mounted_->path("f").c_str(), &out), 0);
    return Time{out.st_ctim.tv_sec, static_cast<std::uint32_t>(out.st_ctim.tv_nsec)};
  };
  const Time made = changed();
  int flags = FS_NODUMP_FL;
  ASSERT_EQ(call(mounted_->path("f"), FS_IOC_SETFLAGS, &flags), 0);
  const Time once = changed();
  EXPECT_GT(once, made);
  fsxattr attributes{};
  ASSERT_EQ(call(mounted_->path("f"), FS_IOC_FSSETXATTR, &attributes), 0);
  EXPECT_GT(changed(), once);
}

TEST_F(Ioctls, AnUnknownCommandIsNone) {
  mount();
  std::uint64_t argument[4] = {};
  EXPECT_EQ(call(_IO('L', 1), argument), ENOTTY);
  EXPECT_EQ(call(_IOWR('L', 2, std::uint64_t), argument), ENOTTY);
  EXPECT_EQ(call(_IOWR('L', 0xf5, char[16]), argument), ENOTTY);  // not of the size of ours
  // FS_IOC_GETFSUUID, which newer kernels answer by themselves.
  EXPECT_EQ(call(_IOR(0x15, 0, char[17]), argument), ENOTTY);
}

// ---- trim

TEST_F(Ioctls, TrimHandsOnTheRangeAndGivesTheBytes) {
  tree_.on_trim = [this](const TrimRange& range, const Stop& stop) {
    EXPECT_FALSE(stop());
    range_.set(range);
    return ByteCount{12345678};
  };
  mount();
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  for (const std::string& path : {mounted_->root(), mounted_->path("f")}) {
    fstrim_range range{4096, UINT64_MAX, 8192};
    EXPECT_EQ(call(path, FITRIM, &range), 0);
    EXPECT_EQ(range_.get().start.v, 4096u);
    EXPECT_EQ(range_.get().length.v, UINT64_MAX);
    EXPECT_EQ(range_.get().least.v, 8192u);
    EXPECT_EQ(range.start, 4096u);
    EXPECT_EQ(range.len, 12345678u);
    EXPECT_EQ(range.minlen, 8192u);
  }
  EXPECT_EQ(trim_mount(mounted_->root())->v, 12345678u);
  EXPECT_EQ(range_.get().start.v, 0u);
  EXPECT_EQ(range_.get().length.v, UINT64_MAX);
  EXPECT_EQ(range_.get().least.v, 0u);
}

TEST_F(Ioctls, TrimFailsAsTheTreeDoes) {
  tree_.on_trim = [this](const TrimRange&, const Stop&) -> Result<ByteCount> { return make_error(code_, "trim"); };
  mount();
  for (const int expected : {EINVAL, EOPNOTSUPP, EROFS, EIO}) {
    code_ = expected;
    fstrim_range range{0, UINT64_MAX, 0};
    EXPECT_EQ(call(FITRIM, &range), expected);
    EXPECT_EQ(range.len, UINT64_MAX);
  }
  EXPECT_EQ(call(FITRIM, nullptr), EFAULT);
}

TEST_F(Ioctls, ASignalEndsATrim) {
  const pid_t child = begin_long_trim();
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(told_);
}

TEST_F(Ioctls, TheEndOfTheServerEndsATrim) { expect_the_end_of_the_server_to_end(begin_long_trim()); }

// ---- scrub

// Steps of one position each.
TEST_F(Ioctls, AScrubGoesFromStepToStepAndTellsOfEach) {
  tree_.on_scrub = [](ScrubPosition& position, const Stop& stop) {
    EXPECT_FALSE(stop());
    EXPECT_EQ(position.range.next, position.part * 7);
    ++position.part;
    position.range = {position.part * 7, position.part * 70};
    ScrubStep step{ByteCount{position.part * 100}, ByteCount{1000 - position.part}, {}};
    if (position.part == 2) step.damage = {"a thing", "another\nthing"};
    return step;
  };
  mount();
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  for (const std::string& path : {mounted_->root(), mounted_->path("f")}) {
    std::vector<std::uint64_t> read, left;
    std::vector<std::string> damage;
    ASSERT_TRUE(scrub_mount(path, [&](const ScrubStep& step) {
      read.push_back(step.read.v);
      left.push_back(step.left.v);
      damage.insert(damage.end(), step.damage.begin(), step.damage.end());
      return true;
    }));
    EXPECT_EQ(read, (std::vector<std::uint64_t>{100, 200, 300, 400}));
    EXPECT_EQ(left, (std::vector<std::uint64_t>{999, 998, 997, 996}));
    EXPECT_EQ(damage, (std::vector<std::string>{"a thing", "another?thing"}));
  }
  int steps = 0;
  EXPECT_EQ(scrub_mount(mounted_->root(), [&](const ScrubStep&) { return ++steps < 2; }).error().code, EINTR);
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(scrub_mount("/etc/passwd", [](const ScrubStep&) { return true; }).error().code, ENOTTY);
  EXPECT_EQ(scrub_mount("/no/such/path", [](const ScrubStep&) { return true; }).error().code, ENOENT);
}

TEST_F(Ioctls, DamageOfAnyLengthFindsAPlace) {
  const auto round_trip = [](const std::vector<std::string>& lines) { return step_of(to_message({}, {{}, {}, lines})).damage; };
  EXPECT_EQ(round_trip({}), std::vector<std::string>{});
  const std::string longest(sizeof(ScrubMessage::text) / 2 - 2, 'x');
  EXPECT_EQ(round_trip({longest, longest}), (std::vector<std::string>{longest, longest}));
  EXPECT_EQ(round_trip({longest + "yy"}), std::vector<std::string>{longest});
  const auto many = round_trip(std::vector<std::string>(5000, "a line"));
  EXPECT_GT(many.size(), 1000u);
  EXPECT_EQ(many.back(), "and " + std::to_string(5001 - many.size()) + " more, which the log names");
  // A message is what somebody else made.
  ScrubMessage message;
  std::memset(message.text, 'x', sizeof message.text);
  EXPECT_EQ(step_of(message).damage, std::vector<std::string>{std::string(sizeof message.text, 'x')});
}

TEST_F(Ioctls, AScrubFailsAsTheTreeDoes) {
  tree_.on_scrub = [this](ScrubPosition&, const Stop&) -> Result<ScrubStep> { return make_error(code_, "scrub"); };
  mount();
  for (const int expected : {EINTR, ENOMEM, EIO}) {
    code_ = expected;
    ScrubMessage message;
    EXPECT_EQ(call(kScrubIoctl, &message), expected);
  }
  EXPECT_EQ(call(kScrubIoctl, nullptr), EFAULT);
}

TEST_F(Ioctls, TheEndOfTheServerEndsAScrub) {
  tree_.on_scrub = [this](ScrubPosition&, const Stop& stop) -> Result<ScrubStep> { return until_told(stop); };
  expect_the_end_of_the_server_to_end(begin([this] { (void)scrub_mount(mounted_->root(), [](const ScrubStep&) { return true; }); }));
}

// ---- the label

std::string label_argument(std::string label) {
  label.resize(FSLABEL_MAX);
  return label;
}

TEST_F(Ioctls, TheLabelIsToldAndSet) {
  text_.set("first");
  mount({.label = [this] { return text_.get(); },
         .set_label = [this](std::string_view to) {
           text_.set(std::string(to));
           return Result<void>();
         }});
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  std::string argument(FSLABEL_MAX, 'x');
  EXPECT_EQ(call(FS_IOC_GETFSLABEL, argument.data()), 0);
  EXPECT_EQ(argument, label_argument("first"));  // zeros to the end
  for (const std::string& to : {std::string("second"), std::string(), std::string(FSLABEL_MAX - 1, 'y')}) {
    argument = label_argument(to);
    EXPECT_EQ(call(mounted_->path("f"), FS_IOC_SETFSLABEL, argument.data()), 0);
    EXPECT_EQ(text_.get(), to);
    argument.assign(FSLABEL_MAX, 'x');
    EXPECT_EQ(call(mounted_->path("f"), FS_IOC_GETFSLABEL, argument.data()), 0);
    EXPECT_EQ(argument, label_argument(to));
  }
  argument.assign(FSLABEL_MAX, 'z');  // what follows it in memory is not ours
  EXPECT_EQ(call(FS_IOC_SETFSLABEL, argument.data()), 0);
  EXPECT_EQ(text_.get(), argument);
  EXPECT_EQ(call(FS_IOC_SETFSLABEL, nullptr), EFAULT);
  EXPECT_EQ(call(FS_IOC_GETFSLABEL, nullptr), EFAULT);
}

TEST_F(Ioctls, ALabelThatIsRefusedIsRefused) {
  mount({.set_label = [this](std::string_view) { return Result<void>(make_error(code_, "label")); }});
  for (const int expected : {EINVAL, EROFS, EIO}) {
    code_ = expected;
    EXPECT_EQ(call(FS_IOC_SETFSLABEL, label_argument("x").data()), expected);
  }
}

// ---- the size

TEST_F(Ioctls, GrowingIsAskedForAndItsEndIsTold) {
  mount({.grow = [this](std::optional<ByteCount> size) -> Result<ByteCount> {
    asked_ = size ? size->v : 1;
    if (code_ != 0) return make_error(code_, "grow");
    return size.value_or(ByteCount{7 * GiB});
  }});
  EXPECT_EQ(grow_mount(mounted_->root(), ByteCount{3 * GiB})->v, 3 * GiB);
  EXPECT_EQ(asked_, 3 * GiB);
  EXPECT_EQ(grow_mount(mounted_->root(), {})->v, 7 * GiB);
  EXPECT_EQ(asked_, 1u);  // nothing
  for (const int expected : {EINVAL, ENOSPC, EFBIG, EROFS, EIO}) {
    code_ = expected;
    EXPECT_EQ(grow_mount(mounted_->root(), {}).error().code, expected);
  }
  EXPECT_EQ(call(kGrowIoctl, nullptr), EFAULT);
}

// ---- removal of trees

// What /proc says of an open file: its path, and whether that has gone.
std::string path_of(int fd) {
  char path[4096] = {};
  return ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1) < 0 ? "" : path;
}

TEST_F(Ioctls, ARemovedTreeIsNotFoundWhateverTheKernelHasCached) {
  mount();
  const std::string d = mounted_->path("d");
  for (const char* dir : {"d", "d/a", "d/a/b"}) ASSERT_EQ(::mkdir(mounted_->path(dir).c_str(), 0755), 0);
  for (const char* file : {"d/f", "d/a/g", "d/a/b/h"}) ASSERT_EQ(write_file(mounted_->path(file), "data"), 0);
  const int dir = ::open(d.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), file = ::open(mounted_->path("d/f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(std::min(dir, file), 0);
  struct stat before {}, after {};
  ASSERT_EQ(::stat(mounted_->root().c_str(), &before), 0);
  ASSERT_TRUE(remove_tree_of_mount(d));
  EXPECT_EQ(::access(d.c_str(), F_OK), -1);
  EXPECT_EQ(::access(mounted_->path("d/a/b/h").c_str(), F_OK), -1);
  ASSERT_EQ(::stat(mounted_->root().c_str(), &after), 0);
  EXPECT_EQ(after.st_nlink, before.st_nlink - 1);
  ASSERT_EQ(::fstat(dir, &after), 0);
  EXPECT_EQ(after.st_nlink, 0u);
  EXPECT_TRUE(until([&] { return path_of(dir) == d + " (deleted)"; })) << path_of(dir);
  // One of its name is another one, and stays when all is dropped that the kernel had of the first.
  ASSERT_EQ(::mkdir(d.c_str(), 0755), 0);
  ASSERT_EQ(write_file(d + "/f", "other"), 0);
  EXPECT_EQ(read_file(d + "/f"), "other");
  const int other = ::open((d + "/f").c_str(), O_RDONLY | O_CLOEXEC);  // and is not forgotten, should somebody drop the kernel's caches
  ASSERT_GE(other, 0);
  // What nobody used below is forgotten by then; of what was in use a sweep tells.
  EXPECT_TRUE(until([&] { return tree_.inodes() == 5; })) << tree_.inodes() << ": what was below is not forgotten";
  ASSERT_EQ(::fstat(file, &before), 0);
  tree_.tell_swept({{Ino{after.st_ino}, "f", Ino{before.st_ino}}});
  ::close(dir);
  ::close(file);
  EXPECT_TRUE(until([&] { return tree_.inodes() == 3; })) << tree_.inodes() << ": what was in use is not forgotten";
  ::close(other);
}

TEST_F(Ioctls, NothingCanBeMadeInARemovedTree) {
  mount();
  const std::string d = mounted_->path("d");
  ASSERT_EQ(::mkdir(d.c_str(), 0755), 0);
  ASSERT_EQ(write_file(d + "/f", "data"), 0);
  const int dir = ::open(d.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(dir, 0);
  ASSERT_TRUE(remove_tree_of_mount(d));
  EXPECT_EQ(::openat(dir, "new", O_CREAT | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, ENOENT);
  ::close(dir);
}

TEST_F(Ioctls, TheKernelHearsOfWhatASweepTakesAway) {
  mount();
  ASSERT_EQ(::mkdir(mounted_->path("d").c_str(), 0755), 0);
  ASSERT_EQ(write_file(mounted_->path("d/f"), "data"), 0);
  const int dir = ::open(mounted_->path("d").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), file = ::open(mounted_->path("d/f").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(std::min(dir, file), 0);
  struct stat facts {};
  ASSERT_EQ(::fstat(file, &facts), 0);
  ASSERT_EQ(facts.st_nlink, 1u);
  struct stat of_dir {};
  ASSERT_EQ(::fstat(dir, &of_dir), 0);
  ASSERT_TRUE(remove_tree_of_mount(mounted_->path("d")));
  tree_.tell_swept({{Ino{of_dir.st_ino}, "f", Ino{facts.st_ino}}});
  EXPECT_TRUE(until([&] { return path_of(file).ends_with(" (deleted)"); })) << path_of(file);
  EXPECT_TRUE(until([&] { return ::fstat(file, &facts) == 0 && facts.st_nlink == 0; }));
  EXPECT_EQ(::openat(dir, "f", O_RDONLY | O_CLOEXEC), -1);
  EXPECT_EQ(::pwrite(file, "more", 4, 4), 4);
  ::close(dir);
  ::close(file);
}

TEST_F(Ioctls, ARemovalOfATreeFailsAsTheTreeSays) {
  mount();
  ASSERT_EQ(::mkdir(mounted_->path("d").c_str(), 0755), 0);
  ASSERT_EQ(::symlink("d", mounted_->path("l").c_str()), 0);
  ASSERT_EQ(write_file(mounted_->path("f"), ""), 0);
  EXPECT_EQ(remove_tree_of_mount(mounted_->root()).error().code, EBUSY);
  EXPECT_EQ(remove_tree_of_mount(mounted_->path("f")).error().code, ENOTDIR);
  EXPECT_EQ(remove_tree_of_mount(mounted_->path("l")).error().code, ENOTDIR);
  EXPECT_EQ(remove_tree_of_mount(mounted_->path("missing")).error().code, ENOENT);
  EXPECT_EQ(call(mounted_->path("f"), kRemoveTreeIoctl, nullptr), ENOTDIR);
  EXPECT_EQ(remove_tree_of_mount("/tmp").error().code, ENOTTY);
  for (const int expected : {EPERM, EROFS, EIO}) {
    tree_.set_hook([expected](const std::string& name, Wait) {
      return name == "remove_tree" ? Result<void>(make_error(expected, "")) : Result<void>();
    });
    EXPECT_EQ(remove_tree_of_mount(mounted_->path("d")).error().code, expected);
  }
  // Where it has to be waited, or the directory has been moved, it is asked again.
  std::atomic<int> moved{2};
  tree_.set_hook([&moved](const std::string& name, Wait wait) -> Result<void> {
    if (name != "remove_tree") return {};
    if (wait == Wait::no) return make_error(EAGAIN, "");
    return moved-- > 0 ? Result<void>(make_error(ESTALE, "")) : Result<void>();
  });
  EXPECT_TRUE(remove_tree_of_mount(mounted_->path("d")));
  EXPECT_EQ(::access(mounted_->path("d").c_str(), F_OK), -1);
}

// ---- who may

TEST_F(Ioctls, OthersThanRootMayReadTheLabelAndNothingElse) {
  tree_.on_trim = [this](const TrimRange&, const Stop&) { return (++calls_, ByteCount{}); };
  tree_.on_scrub = [this](ScrubPosition&, const Stop&) { return (++calls_, ScrubStep{}); };
  mount({.label = [] { return "label"; },
         .set_label = [this](std::string_view) {
           ++calls_;
           return Result<void>();
         }});
  ASSERT_EQ(::chmod(mounted_->root().c_str(), 0777), 0);
  ASSERT_EQ(::mkdir(mounted_->path("own").c_str(), 0755), 0);
  ASSERT_EQ(::chown(mounted_->path("own").c_str(), 65534, 65534), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    fstrim_range range{0, UINT64_MAX, 0};
    if (call(FITRIM, &range) != EPERM) ::_exit(2);
    range = {UINT64_MAX, 0, UINT64_MAX};
    if (call(FITRIM, &range) != EPERM) ::_exit(3);
    if (drop_caches_of_mount(mounted_->root()).error().code != EPERM) ::_exit(7);
    if (scrub_mount(mounted_->root(), [](const ScrubStep&) { return true; }).error().code != EPERM) ::_exit(8);
    if (grow_mount(mounted_->root(), {}).error().code != EPERM) ::_exit(9);
    if (remove_tree_of_mount(mounted_->path("own")).error().code != EACCES) ::_exit(10);
    if (call(FS_IOC_SETFSLABEL, label_argument("x").data()) != EPERM) ::_exit(4);
    std::string argument(FSLABEL_MAX, 'x');
    if (call(FS_IOC_GETFSLABEL, argument.data()) != 0) ::_exit(5);
    if (argument != label_argument("label")) ::_exit(6);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(calls_, 0);
}

}  // namespace
}  // namespace lsmfs::test::ioctls_test

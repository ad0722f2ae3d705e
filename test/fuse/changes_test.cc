// Changes through the kernel: who may ask, what comes back, and how steps are put together.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

#include "fuse/control/requests.h"
#include "fuse/mounted.h"

namespace lsmfs::test::changes_through_the_kernel_test {
namespace {

class ChangesOfAMount : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    mounted_ = std::make_unique<Mounted>(tree_);
    for (const char* dir : {"a", "own"}) ASSERT_EQ(::mkdir(path(dir).c_str(), 0755), 0);
    ASSERT_EQ(::chown(path("own").c_str(), 65534, 65534), 0);
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  // 0 or errno.
  int ask(const std::string& dir) {
    const auto found = changes_in_mount(dir, std::nullopt);
    return found ? 0 : found.error().code;
  }

  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;
};

TEST_F(ChangesOfAMount, AreToldInSteps) {
  const ChangesToken since{7, 8}, now{7, 9};
  // What the daemon's threads use is not on the stack, or is guarded: the thread sanitizer does not see that the kernel is between the two.
  std::mutex asking;
  std::vector<std::uint64_t> skips;
  tree_.set_changes([&asking, &skips, since, now](Ino, const ChangesAsked& asked, const Stop&) -> Result<ChangesStep> {
    ChangesStep step;
    step.now = now;
    if (asked.since == now) {
      step.ended = true;
      return step;
    }
    if (asked.since != since) return make_error(EDOM, "");
    {
      const std::lock_guard lock(asking);
      skips.push_back(asked.skip);
    }
    step.ended = asked.skip == 2;
    step.before = 9;
    step.skip = 2;
    step.paths = step.ended ? std::vector<std::string>{"x", "b/"} : std::vector<std::string>{"y", "b/c"};
    return step;
  });
  const auto told = changes_in_mount(path("a"), since);
  ASSERT_TRUE(told) << told.error().message();
  {
    const std::lock_guard lock(asking);
    EXPECT_EQ(skips, (std::vector<std::uint64_t>{0, 2}));
  }
  EXPECT_EQ(told->now, now);
  EXPECT_FALSE(told->everything);
  EXPECT_EQ(told->paths, (std::vector<std::string>{"b/", "x", "y"}));
}

TEST_F(ChangesOfAMount, WhatIsWrongIsSaid) {
  ASSERT_EQ(write_file(path("file"), "data"), 0);
  ASSERT_EQ(::symlink("a", path("link").c_str()), 0);
  EXPECT_EQ(ask(path("a")), 0);
  EXPECT_EQ(ask(path("file")), ENOTDIR);
  EXPECT_EQ(ask(path("link")), ENOTDIR);
  EXPECT_EQ(ask(path("missing")), ENOENT);
  EXPECT_EQ(ask("/proc"), ENOTTY);
  for (const int error : {EROFS, ESTALE, EIO}) {
    tree_.set_changes([error](Ino, const ChangesAsked&, const Stop&) -> Result<ChangesStep> { return make_error(error, ""); });
    EXPECT_EQ(ask(path("a")), error);
  }
  // One that goes on forever.
  tree_.set_changes([](Ino, const ChangesAsked& asked, const Stop&) -> Result<ChangesStep> {
    ChangesStep step;
    step.before = asked.before;
    step.skip = asked.skip;
    return step;
  });
  EXPECT_EQ(ask(path("a")), EPROTO);
}

TEST_F(ChangesOfAMount, AQuestionThatIsNoneIsRefused) {
  const Fd fd(::open(path("a").c_str(), O_RDONLY | O_DIRECTORY));
  for (const std::string& bytes : {std::string(), std::string("\x02", 1), std::string(12, '\xff')}) {
    auto message = *to_changes_message(bytes);
    EXPECT_EQ(::ioctl(fd.get(), kChangesIoctl, &message), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  ChangesMessage longer;
  longer.size = sizeof longer.bytes + 1;
  EXPECT_EQ(::ioctl(fd.get(), kChangesIoctl, &longer), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ChangesOfAMount, AreForTheOwnerAndAdministrators) {
  for (const auto& [dir, expected] : {std::pair("own", 0), {"a", EPERM}}) {
    EXPECT_EQ(ask(path(dir)), 0);
    const std::uint64_t before = tree_.calls("changes");
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setgid(65534) != 0 || ::setuid(65534) != 0 ? 100 : ask(path(dir)));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), expected) << dir;
    EXPECT_EQ(tree_.calls("changes") - before, expected == 0 ? 1u : 0u) << "nothing is looked for in vain";
  }
}

}  // namespace
}  // namespace lsmfs::test::changes_through_the_kernel_test

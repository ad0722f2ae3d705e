// Differences through the kernel: who may ask, in two requests for each step, and how steps are put together.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "fuse/control/requests.h"
#include "fuse/mounted.h"
#include "until.h"

namespace lsmfs::test::differences_test {
namespace {

class Differences : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (IsSkipped()) return;
    mounted_ = std::make_unique<Mounted>(tree_);
    for (const char* dir : {"a", "b", "own", "own too"}) ASSERT_EQ(::mkdir(path(dir).c_str(), 0755), 0);
    for (const char* dir : {"own", "own too"}) ASSERT_EQ(::chown(path(dir).c_str(), 65534, 65534), 0);
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  Ino ino(const std::string& name) const {
    struct stat facts {};
    EXPECT_EQ(::lstat(path(name).c_str(), &facts), 0) << name;
    return Ino{facts.st_ino};
  }
  // 0 or errno.
  int compare(const std::string& a, const std::string& b) {
    const auto found = differences_in_mount(a, b, OneSided::as_one);
    return found ? 0 : found.error().code;
  }
  static FoundDifference found(FoundDifference::Kind kind, const std::string& path, Ino number = {}) { return {.kind = kind, .path = path, .number = number}; }

  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;
};

TEST_F(Differences, AreToldInSteps) {
  std::mutex asking;  // the thread sanitizer does not see that the kernel is between the two
  std::vector<std::string> asked_from;
  tree_.set_differences([&](Ino a, Ino b, const DifferencesAsked& asked, const Stop&) -> Result<DifferencesStep> {
    if (a != ino("a") || b != ino("b")) return make_error(EDOM, "");
    if (asked.a != "" || asked.b != "") return DifferencesStep{.found = {}, .shifts = {}, .next = {}, .ended = true};
    {
      const std::lock_guard lock(asking);
      asked_from.push_back(asked.from);
    }
    if (asked.from.empty()) return DifferencesStep{.found = {found(FoundDifference::Kind::contents, "x"), found(FoundDifference::Kind::removed, "y", Ino{7})}, .shifts = {5}, .next = "y", .ended = false};
    return DifferencesStep{.found = {found(FoundDifference::Kind::added, "renamed", Ino{kCountedMax.v + 12})}, .shifts = {}, .next = {}, .ended = true};
  });
  const auto told = differences_in_mount(path("a"), path("b"), OneSided::as_one);
  ASSERT_TRUE(told) << told.error().message();
  {
    const std::lock_guard lock(asking);
    EXPECT_EQ(asked_from, (std::vector<std::string>{"", "y"}));
  }
  const std::vector<Difference> expected{{.kind = Difference::Kind::renamed, .is_directory = false, .path = "renamed", .old = "y"},
                                         {.kind = Difference::Kind::contents, .is_directory = false, .path = "x", .old = {}}};
  EXPECT_EQ(*told, expected);
}

TEST_F(Differences, WhatIsWrongIsSaid) {
  ASSERT_EQ(write_file(path("file"), "data"), 0);
  ASSERT_EQ(::symlink("a", path("link").c_str()), 0);
  EXPECT_EQ(compare(path("a"), path("b")), 0);
  EXPECT_EQ(compare(path("a"), path("a")), 0);
  EXPECT_EQ(compare(path("a"), path("file")), ENOTDIR);
  EXPECT_EQ(compare(path("link"), path("a")), ENOTDIR);
  EXPECT_EQ(compare(path("missing"), path("a")), ENOENT);
  EXPECT_EQ(compare(path("a"), path("missing")), ENOENT);
  EXPECT_EQ(compare(path("a"), "/proc"), EXDEV);
  EXPECT_EQ(compare("/proc", "/proc"), ENOTTY);
  for (const auto& [error, expected] : {std::pair(EUCLEAN, EIO), {ENAMETOOLONG, ENAMETOOLONG}, {ENOENT, ENOENT}}) {
    tree_.set_differences([error = error](Ino, Ino, const DifferencesAsked&, const Stop&) -> Result<DifferencesStep> { return make_error(error, ""); });
    EXPECT_EQ(compare(path("a"), path("b")), expected);
  }
}

TEST_F(Differences, WhoAsksWaitsForOthersWhoDo) {
  std::atomic<int> asked = 0;
  tree_.set_differences([&](Ino, Ino, const DifferencesAsked&, const Stop&) -> Result<DifferencesStep> {
    if (++asked < 3) return make_error(EBUSY, "");
    return DifferencesStep{.found = {}, .shifts = {}, .next = {}, .ended = true};
  });
  EXPECT_EQ(compare(path("a"), path("b")), 0);
  EXPECT_EQ(asked, 3);
}

TEST_F(Differences, AreForTheOwnerOfBothAndAdministrators) {
  for (const auto& [a, b, expected] : {std::tuple("own", "own too", 0), {"own", "a", EPERM}, {"a", "own", EPERM}, {"a", "b", EPERM}}) {
    EXPECT_EQ(compare(path(a), path(b)), 0);
    const std::uint64_t before = tree_.calls("differences");
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setgid(65534) != 0 || ::setuid(65534) != 0 ? 100 : compare(path(a), path(b)));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), expected) << a << ' ' << b;
    EXPECT_EQ(tree_.calls("differences") - before, expected == 0 ? 1u : 0u) << "nothing is looked for in vain";
  }
}

// Who does not name the first one by its descriptor has not shown that he may open it.
TEST_F(Differences, AreAskedForInTwoRequests) {
  const Fd a(::open(path("a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), b(::open(path("b").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(a && b);
  const DiffMessage all = *to_diff_message(encode(DifferencesAsked{.a = "", .b = "", .from = {}}));
  DiffWithRequest request{.directory = ino("b").v};
  const auto asked = [&](const Fd& of, DiffMessage message) { return result_of(::ioctl(of.get(), kDiffIoctl, &message)); };
  EXPECT_EQ(asked(b, all), EAGAIN);
  ASSERT_EQ(::ioctl(a.get(), kDiffWithIoctl, &request), 0);
  EXPECT_EQ(asked(a, all), EAGAIN) << "another one was named";
  EXPECT_EQ(asked(b, all), 0);
  EXPECT_EQ(asked(b, all), EAGAIN) << "it was good for once";
  DiffMessage bad = all;
  for (const std::uint32_t size : {0u, 1u, 1000000u}) {
    bad.size = size;
    ASSERT_EQ(::ioctl(a.get(), kDiffWithIoctl, &request), 0);
    EXPECT_EQ(asked(b, bad), EINVAL) << size;
  }
  ASSERT_EQ(::ioctl(a.get(), kDiffWithIoctl, &request), 0);
  EXPECT_EQ(::mkdir(path("b/new").c_str(), 0755), 0) << "which is an ordinary directory";
  RollBackMessage rollback;
  EXPECT_EQ(result_of(::ioctl(b.get(), kRollBackIoctl, &rollback)), EAGAIN) << "nor is it taken for a rollback";
}

// Who asks is killed.
TEST_F(Differences, ThatNobodyWantsAnyMoreAreNotLookedForFurther) {
  std::atomic<bool> begun = false, told = false;
  tree_.set_differences([&](Ino, Ino, const DifferencesAsked&, const Stop& stop) -> Result<DifferencesStep> {
    begun = true;
    told = until([&] { return stop(); });
    return make_error(EINTR, "");
  });
  const pid_t child = ::fork();
  if (child == 0) ::_exit(compare(path("a"), path("b")));
  EXPECT_TRUE(until([&] { return begun.load(); }));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace lsmfs::test::differences_test

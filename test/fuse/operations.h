// Programs on a mount of a tree in memory.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fuse/mounted.h"

namespace lsmfs::test {

class Operations : public MountTest {
 protected:
  void SetUp() override {
    MountTest::SetUp();
    if (!IsSkipped()) mounted_ = std::make_unique<Mounted>(tree_, options_);
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  struct stat facts(const std::string& name) const {
    struct stat out {};
    EXPECT_EQ(result_of(::lstat(path(name).c_str(), &out)), 0) << name;
    return out;
  }
  std::vector<std::string> names(const std::string& name) const {
    std::vector<std::string> out;
    DIR* dir = ::opendir(path(name).c_str());
    if (dir == nullptr) return out;
    while (const dirent* entry = ::readdir(dir)) out.emplace_back(entry->d_name);
    ::closedir(dir);
    return out;
  }
  // Runs `work` as an ordinary user in a process of its own; gives what it returns (0 to 255).
  int as_user(const std::function<int()>& work) {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(setgid(65534) == 0 && setuid(65534) == 0 ? work() : 200);
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
  }

  MountOptions options_;
  MemoryTree tree_;
  std::unique_ptr<Mounted> mounted_;
};

}  // namespace lsmfs::test

// Runs the lsmfs program as a shell would, and a folder for what it works on.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs::test {

struct Outcome {
  int code = -1;  // exit code; 1000 + signal when it was killed by one
  std::string out, err;
  // One line, of this program, and nothing else.
  bool is_one_line() const;
};

struct Circumstances {
  unsigned uid = 0;              // and gid
  bool without_dev_fuse = false;
  std::string folder;            // where to start
  std::string name = "lsmfs";    // argv[0]
  std::string program = {};      // what is run; empty: the program under test
  std::vector<int> closed = {};  // descriptors of stdio that it does not have
  // Called while it runs, with what tells what it has said on stderr so far.
  std::function<void(const std::function<std::string()>& said)> meanwhile;
};

// The whole program, as the one under test finds it.
std::string whole_program();

Outcome run(const std::vector<std::string>& arguments, const Circumstances& circumstances = {});

// A folder that goes with all that is mounted in it.
class Folder : public testing::Test {
 protected:
  Folder();
  ~Folder() override;

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string make_directory(const std::string& name);
  // An empty file of `size` bytes.
  std::string make_file(const std::string& name, std::uint64_t size);
  // An image with an lsmfs on it.
  std::string make_image(const std::string& name, const std::vector<std::string>& more = {});
  // Overwrites a part of a file.
  void patch(const std::string& name, std::uint64_t offset, std::string_view bytes);
  std::string read(const std::string& name, std::uint64_t offset, std::size_t size);
  std::uint64_t sum(const std::string& name);
  bool is_mounted(const std::string& name) const;

  // The command must fail with this code and one line on stderr that holds all of `words`.
  void refused(int code, const std::vector<std::string>& arguments, const std::vector<std::string>& words,
               const Circumstances& circumstances = {});
  // The command must succeed without a word on stderr; gives what it printed.
  std::string accepted(const std::vector<std::string>& arguments, const Circumstances& circumstances = {});

 private:
  std::string folder_;
};

// Where mounting is part of the test.
class MountFolder : public Folder {
 protected:
  void SetUp() override;
};

}  // namespace lsmfs::test

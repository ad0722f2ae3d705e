// What the program does, one function a command. Each tells its errors and returns the exit code (cli/exit_codes.h).
#pragma once

#include <string>

namespace lsmfs::simdisk {

struct ServeArguments {
  std::string backing, mount_point;
  std::string profile = "hdd";
  std::string size;         // empty: as it is
  unsigned path_us = 0;     // see DiskOptions::path
  bool sync = false;
};
int serve_command(const ServeArguments& arguments);

struct ModelArguments {
  std::string profile;
  std::string trace = "-";  // "-": stdin
  bool json = false;
};
int model_command(const ModelArguments& arguments);

}  // namespace lsmfs::simdisk

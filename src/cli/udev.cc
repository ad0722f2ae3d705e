#include "cli/udev.h"

#include <blkid/blkid.h>
#include <fmt/format.h>

namespace lsmfs::cli {
namespace {

// Both in the form of a name in /dev/disk and without what a shell or a terminal would take amiss.
using Writing = int (*)(const char*, char*, std::size_t);

std::string written(const std::string& text, Writing writing) {
  std::string out(4 * text.size() + 1, '\0');
  if (writing(text.c_str(), out.data(), out.size()) != 0) return "";
  out.resize(out.find('\0'));
  return out;
}

}  // namespace

std::string udev_properties(const VolumeInfo& info) {
  std::string out = fmt::format("ID_FS_TYPE=lsmfs\nID_FS_USAGE=filesystem\nID_FS_VERSION={}\n", info.version);
  const auto line = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    out += fmt::format("{}={}\n{}_ENC={}\n", name, written(value, blkid_safe_string), name, written(value, blkid_encode_string));
  };
  line("ID_FS_UUID", info.uuid.text());
  line("ID_FS_LABEL", info.label);
  return out;
}

}  // namespace lsmfs::cli

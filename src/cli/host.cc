#include "cli/host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "cli/messages.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

std::string line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

LeaseHolder this_host() {
  LeaseHolder here;
  std::string installed = line_of("/etc/machine-id"), board = line_of("/sys/class/dmi/id/product_uuid");
  if (installed.empty() || board.empty()) board += line_of("/proc/sys/kernel/random/boot_id");
  // Not the identity itself, which is nobody else's matter.
  const std::string all = fmt::format("lsmfs {} {}", installed, board);
  const std::array<std::uint64_t, 2> sums{checksum(all, 1), checksum(all, 2)};
  static_assert(sizeof sums == sizeof here.host);
  std::memcpy(here.host.data(), sums.data(), sizeof sums);
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) here.name = name.data();
  return here;
}

Result<void> keep_others_out(Device& device, Host& here) {
  if (device.descriptor() >= 0) return {};
  const auto info = read_volume_info(device);
  if (info && !here.claims.claim(info->uuid)) return make_error(EBUSY, fmt::format("is in use by another lsmfs of this host: its UUID is {}", info->uuid.text()));
  return {};
}

Result<std::unique_ptr<Lease>> take_lease(Device& device, Host& here) {
  LSMFS_TRY(keep_others_out(device, here));
  return Lease::take(device, {.holder = here.holder, .waiting = tell, .notice = tell});
}

void warn_of_writer(Device& device, const LeaseHolder& here, const std::function<void(std::string_view)>& notice) {
  const auto lease = read_lease(device);
  if (!lease || !*lease || (*lease)->holder.host == here.host) return;
  notice(fmt::format("{}: {} may be writing to it: if it is, what is read here may be wrong", device.path(), (*lease)->holder.name));
}

}  // namespace lsmfs::cli

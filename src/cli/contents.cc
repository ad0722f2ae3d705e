#include "cli/contents.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "cli/confine.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

struct FreeProbe {
  void operator()(blkid_struct_probe* probe) const { blkid_free_probe(probe); }
};

std::string probed(blkid_probe probe, const char* name) {
  const char* value = nullptr;
  return blkid_probe_lookup_value(probe, name, &value, nullptr) == 0 && value != nullptr ? value : "";
}

// Where signatures of file systems and of arrays are: at the beginning, and at the end.
constexpr std::uint64_t kEnd = 4 * MiB;

// In memory, as long as the device, and with the same ends. Nothing but its ends is read.
Fd copy_of_ends(Device& device) {
  Fd copy(memfd_create("ends", MFD_CLOEXEC));
  AlignedBuffer part = AlignedBuffer::of_any_contents(std::min(kEnd, device.size().v));
  const std::uint64_t size = device.size().v, length = part.size();
  if (!copy || ftruncate(copy.get(), static_cast<off_t>(size)) != 0) return {};
  for (const std::uint64_t at : {std::uint64_t{0}, size - length}) {
    if (!device.read(ByteOffset{at}, part.bytes())) return {};
    if (pwrite(copy.get(), part.data(), length, static_cast<off_t>(at)) != static_cast<ssize_t>(length)) return {};
  }
  return copy;
}

// What is open here, again: the path may lead to something else by now. libblkid wants a descriptor of its own, without O_DIRECT.
Fd open_again(Device& device) {
  if (device.descriptor() < 0) return copy_of_ends(device);
  return Fd(open(fmt::format("/proc/self/fd/{}", device.descriptor()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

Error cannot_look(const Device& device) { return make_error(errno != 0 ? errno : EIO, "cannot look for other file systems on " + device.path()); }

// What is not an lsmfs.
Result<std::optional<std::string>> other_signature(const Device& device, const Fd& file) {
  const std::unique_ptr<blkid_struct_probe, FreeProbe> probe(blkid_new_probe());
  if (!file || !probe || blkid_probe_set_device(probe.get(), file.get(), 0, 0) != 0) return cannot_look(device);
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL);
  blkid_probe_enable_partitions(probe.get(), 1);
  const int found = blkid_do_safeprobe(probe.get());
  if (found == -2) return std::optional<std::string>("signatures of several file systems");
  if (found < 0) return make_error(EIO, "cannot look for other file systems on " + device.path());
  if (found == 1) return std::optional<std::string>();
  const std::string type = probed(probe.get(), "TYPE"), label = probed(probe.get(), "LABEL");
  if (!type.empty()) return std::optional(label.empty() ? type : fmt::format("{} (label {})", type, label));
  return std::optional(fmt::format("a partition table ({})", probed(probe.get(), "PTTYPE")));
}

// As far as its ends tell, where all file systems have their signatures.
bool is_empty(Device& device) {
  AlignedBuffer part(MiB);
  const auto zeros_at = [&](std::uint64_t offset, std::uint64_t length) {
    const auto bytes = part.bytes().first(length);
    return device.read(ByteOffset{offset}, bytes) && std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  };
  const std::uint64_t size = device.size().v, length = std::min(size, MiB);
  return zeros_at(0, length) && zeros_at(size - length, length);
}

}  // namespace

Result<std::optional<std::string>> signature(Device& device) {
  const auto own = read_volume_info(device);
  if (own) return std::optional("an lsmfs" + (own->label.empty() ? "" : fmt::format(" (label {})", own->label)));
  if (own.error().code == EUCLEAN) return std::optional<std::string>("a damaged lsmfs");
  if (own.error().code == EPROTONOSUPPORT) return std::optional<std::string>("an lsmfs of another version");
  if (own.error().code == ENOSPC) return std::optional<std::string>("an lsmfs that was larger");
  if (own.error().code != EMEDIUMTYPE) return own.error();
  return other_signature(device, open_again(device));
}

Result<void> refuse_others(Device& device, const std::function<void(std::string_view)>& notice) {
  if (may_be_volume(device)) return {};
  const Fd file = open_again(device);
  give_up_rights(notice);
  const auto is = [](std::string_view what) { return make_error(EMEDIUMTYPE, fmt::format("is not lsmfs: {}", what)); };
  const auto other = other_signature(device, file);
  if (other && *other) return is(fmt::format("it holds {}; name another device", **other));
  return is(is_empty(device) ? "it is empty; make one with lsmfs mkfs" : "nothing known is on it; make one with lsmfs mkfs");
}

}  // namespace lsmfs::cli

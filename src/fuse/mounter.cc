#include "fuse/mounter.h"

#include <string>
#include <utility>

#include "fuse/kernel_mount.h"

namespace lsmfs {
namespace {

constexpr unsigned kReadAheadKib = 1024;

class Here final : public Mounter {
 public:
  explicit Here(const MountOptions& options) : options_(options) {}

  Result<Fd> mount() override {
    LSMFS_ASSIGN(Fd fd, kernel_mount(options_));
    if (const auto entry = mounted_at(options_.mount_point)) device_ = entry->device;
    return fd;
  }

  void tune() override {
    if (const auto entry = ours()) set_read_ahead(*entry, kReadAheadKib);
  }

  Result<void> unmount(bool lazy) override {
    return ours() ? lsmfs::unmount(options_.mount_point, lazy) : Result<void>();
  }

 private:
  // Somebody may have unmounted, and what is there now is not ours.
  std::optional<MountEntry> ours() const {
    auto entry = device_.empty() ? std::nullopt : mounted_at(options_.mount_point);
    return entry && entry->device == device_ ? std::move(entry) : std::nullopt;
  }

  const MountOptions options_;
  std::string device_;  // "major:minor" of the mount
};

}  // namespace

std::unique_ptr<Mounter> mounter_here(const MountOptions& options) { return std::make_unique<Here>(options); }

}  // namespace lsmfs

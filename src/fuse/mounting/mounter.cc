#include "fuse/mounting/mounter.h"

#include <optional>

#include "fuse/mounting/kernel_mount.h"
#include "fuse/nearness/deference.h"

namespace lsmfs {
namespace {

constexpr unsigned kReadAheadKib = 1024;

class Here final : public Mounter {
 public:
  explicit Here(const MountOptions& options) : options_(options) {}

  Result<Fd> mount() override {
    LSMFS_ASSIGN(Fd fd, kernel_mount(options_));
    if (auto entry = mounted_at(options_.mount_point)) entry_ = std::move(*entry);
    return fd;
  }

  void tune() override {
    if (still_there()) set_read_ahead(*entry_, kReadAheadKib);
  }

  Result<void> unmount(bool lazy) override {
    return still_there() ? lsmfs::unmount(options_.mount_point, lazy) : Result<void>();
  }

  Result<Fd> open_log() override { return options_.open_log(); }
  Result<void> set_deferring(pid_t thread, bool defers) override { return lsmfs::set_deferring(thread, defers); }
  bool may_set_deferring() override { return lsmfs::may_set_deferring(); }
  Result<void> keep_off(int, pid_t) override { return {}; }  // there are threads that are none of its business

 private:
  bool still_there() const { return entry_ && still_mounted(*entry_); }

  const MountOptions options_;
  std::optional<MountEntry> entry_;  // of the mount
};

}  // namespace

std::unique_ptr<Mounter> mounter_here(const MountOptions& options) { return std::make_unique<Here>(options); }

}  // namespace lsmfs

#include "fuse/mounting/mounter.h"

#include <fcntl.h>

#include <optional>

#include "fuse/mounting/kernel_mount.h"
#include "fuse/mounting/unseen_mount.h"
#include "fuse/nearness/deference.h"

namespace lsmfs {
namespace {

constexpr unsigned kReadAheadKib = 1024;

class Here final : public Mounter {
 public:
  explicit Here(const MountOptions& options) : options_(options) {}

  Result<Fd> mount() override {
    if (!options_.shows.empty()) {
      LSMFS_ASSIGN(UnseenMount unseen, UnseenMount::begin(options_));
      return unseen_.emplace(std::move(unseen)).device();
    }
    LSMFS_ASSIGN(Fd fd, kernel_mount(options_));
    note_entry();
    return fd;
  }

  Result<Fd> found() override {
    if (!unseen_) return make_error(EINVAL, options_.mount_point);
    Fd found(fcntl(unseen_->found(), F_DUPFD_CLOEXEC, 0));
    if (!found) return make_error(errno, options_.mount_point);
    return found;
  }

  Result<void> show() override {
    if (!unseen_) return make_error(EINVAL, options_.mount_point);
    LSMFS_TRY(unseen_->show());
    // It has the mount point open, and that of an automounter would never count as idle.
    unseen_.reset();
    note_entry();
    tune();
    return {};
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
  void note_entry() {
    if (auto entry = mounted_at(options_.mount_point)) entry_ = std::move(*entry);
  }
  bool still_there() const { return entry_ && still_mounted(*entry_); }

  const MountOptions options_;
  std::optional<MountEntry> entry_;  // of the mount
  std::optional<UnseenMount> unseen_;
};

}  // namespace

std::unique_ptr<Mounter> mounter_here(const MountOptions& options) { return std::make_unique<Here>(options); }

}  // namespace lsmfs

// lsmfs resize: grows a file system, also while it is mounted, or shrinks one that is not.

#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/confine.h"
#include "cli/contents.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/host.h"
#include "cli/facts.h"
#include "cli/messages.h"
#include "cli/opened.h"
#include "cli/progress_line.h"
#include "cli/sizes.h"
#include "cli/sources.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

constexpr ByteCount kCache{64 * MiB};  // as little is read twice as in a check

Error refused(const std::string& path, std::string_view why) { return make_error(EINVAL, fmt::format("{}: {}", path, why)); }

// An image file that is to have more bytes than it has: gets them, and gives them back unless they are kept.
class Enlarged {
 public:
  Enlarged() = default;
  Enlarged(const Enlarged&) = delete;
  Enlarged& operator=(const Enlarged&) = delete;
  ~Enlarged() {
    if (device_) (void)device_->set_size(before_);
  }
  // Nothing happens to a block device, or to a file that is as long.
  Result<void> to(const std::string& path, ByteCount size) {
    LSMFS_TRY(check_there(path));
    struct stat facts {};
    (void)stat(path.c_str(), &facts);  // of a server there are none
    before_ = ByteCount{static_cast<std::uint64_t>(facts.st_size)};
    if (!S_ISREG(facts.st_mode) || size <= before_) return {};
    LSMFS_ASSIGN(device_, open_device(path, Access::read_write, Sharing::shared));
    return device_->set_size(size);
  }
  void keep() { device_.reset(); }

 private:
  std::unique_ptr<Device> device_;
  ByteCount before_;
};

class Resizing {
 public:
  Resizing(std::string path, std::optional<ByteCount> size) : path_(std::move(path)), size_(size) {}

  Result<ByteCount> mounted(const std::string& where) {
    LSMFS_ASSIGN(const std::string facts, query_mount(where));
    const std::uint64_t now = device_bytes_in_facts(facts);
    if (size_ && size_->v < now) {
      return refused(where, fmt::format("has {} bytes and shrinks only when it is not mounted; unmount it first", now));
    }
    Enlarged image;
    if (const std::string device = device_in_facts(facts); size_ && !device.empty()) LSMFS_TRY(image.to(device, *size_));
    const auto grown = grow_mount(where, size_);
    if (grown) image.keep();
    if (!grown && grown.error().code == ENOSPC) return refused(where, "its device has fewer bytes");
    if (!grown && grown.error().code == EFBIG) return refused(where, "the region of its logs suits no volume of that size; make a new one and copy the files");
    if (!grown && grown.error().code == EINVAL) return refused(where, fmt::format("cannot grow; it has {} bytes", now));
    return grown;
  }

  Result<ByteCount> unmounted() {
    Enlarged image;
    if (size_) LSMFS_TRY(image.to(path_, *size_));
    here_.emplace();
    LSMFS_ASSIGN(device_, open_source(path_, Access::read_write, Sharing::exclusive, {.writer = here_->holder}));
    LSMFS_TRY(refuse_others(*device_, tell));
    confine(tell);
    LSMFS_TRY(keep_others_out(*device_, *here_));
    const ByteCount size = size_.value_or(device_->size());
    LSMFS_ASSIGN(const VolumeInfo info, read_volume_info(*device_));
    if (size < info.device_size) {
      LSMFS_TRY(shrink(size));
      // What is no image keeps its size.
      if (const auto cut = device_->set_size(size); !cut && cut.error().code != EOPNOTSUPP) return cut.error();
    } else {
      LSMFS_ASSIGN(const auto lease, take_lease(*device_, *here_));
      LSMFS_ASSIGN(const auto volume, Volume::open(lease->device()));
      LSMFS_TRY(volume->grow(size));
      image.keep();
    }
    return size;
  }

 private:
  // Of the store what is obsolete goes, if it is in the way, and so do tables that are too large then. The volume moves the rest.
  Result<void> shrink(ByteCount size) {
    LSMFS_ASSIGN(Opened opened, open({}));
    LSMFS_ASSIGN(const ByteCount tables, opened.volume().table_total_with(size));
    if (const ByteCount least = opened.store().least_tables(); tables < least) {
      const std::uint64_t spare = opened.volume().usage().table_total.v - least.v;
      const std::uint64_t bytes = round_up(opened.volume().info().device_size.v - spare, MiB);
      return refused(path_, fmt::format("what it holds needs {} bytes ({}) or more", bytes, format_size(bytes)));
    }
    const bool suits = opened.store().suits(tables);
    LSMFS_TRY(opened.close());
    device_ = opened.take_device();
    if (!suits) {
      line_.show(path_, "merging");
      LSMFS_ASSIGN(Opened again, open(tables));
      LSMFS_TRY(again.store().flush());
      for (const Family family : {Family::names, Family::blocks}) LSMFS_TRY(again.store().compact(family, "", ""));
      LSMFS_TRY(again.close());
      device_ = again.take_device();
    }
    LSMFS_ASSIGN(const auto lease, take_lease(*device_, *here_));
    LSMFS_TRY(Volume::shrink(lease->device(), size, [&](ByteCount done, ByteCount all) {
      if (all.v > 0) line_.show(path_, fmt::format("moving {} of {}", format_size(done.v), format_size(all.v)));
    }));
    line_.clear();
    return {};
  }

  // `tables`: as if there were so much space for them.
  Result<Opened> open(std::optional<ByteCount> tables) {
    OpenOptions options;
    options.store.cache = kCache;
    options.store.as_if = tables;
    options.notice = options.opening = tell;
    options.holder = here_->holder;
    return Opened::open(std::move(device_), options);
  }

  const std::string path_;
  const std::optional<ByteCount> size_;
  std::optional<Host> here_;
  std::unique_ptr<Device> device_;
  ProgressLine line_;
};

std::string explain_resizing(const std::string& path, const Error& error) {
  switch (error.code) {
    case ENOTTY:
      return path + ": is not in an lsmfs";
    case EPERM:
      return path + ": only root and who mounted it may resize it";
    case EFBIG:
      return explain(path, make_error(EINVAL, error.context));  // the volume says why
    default:
      return explain(path, error);
  }
}

}  // namespace

int resize(const ResizeArguments& arguments) {
  std::optional<ByteCount> size;
  if (!arguments.size.empty()) {
    size = parse_size(arguments.size);
    if (!size) return report({kUsage, fmt::format("{}: is not a size; write 4G or 512M", arguments.size)});
    size->v = round_down(size->v, kDeviceBlock);
    if (size->v < kDeviceMin) return report({kUsage, fmt::format("{}: is too small; an lsmfs has {} or more", arguments.size, format_size(kDeviceMin))});
  }
  const auto source = find_source(arguments.path);
  if (!source) return report({kFailure, source.error().context});
  const std::string& path = *source;
  Resizing resizing(path, size);
  const auto done = [](const std::string& what, const Result<ByteCount>& now) {
    if (!now) return report({kFailure, explain_resizing(what, now.error())});
    say(what, fmt::format("has {} now ({} bytes)", format_size(now->v), now->v));
    return kOk;
  };
  if (const auto there = check_there(path); !there) return report({kFailure, explain(path, there.error())});
  struct stat facts {};
  (void)stat(path.c_str(), &facts);
  if (S_ISDIR(facts.st_mode)) return done(path, resizing.mounted(path));
  if (const auto where = mounted_where(path)) return done(*where, resizing.mounted(*where));
  if (const auto user = in_use(path)) return report({kFailure, used_by(path, *user)});
  return done(path, resizing.unmounted());
}

}  // namespace lsmfs::cli

#include "volume/scrub.h"

#include <algorithm>

namespace lsmfs {
namespace {

Result<void> scrub_metadata(Shared& shared, const Stop& stop, ScrubStep& step) {
  step.damage = shared.superblocks.damaged(shared.journal);
  step.read.v += 2 * format::kBlock;

  const SuperblockInfo superblock = shared.superblocks.now();
  MetadataLog::Image image(superblock.layout);
  for (bool more = true; more;) {
    if (stop()) return make_error(EINTR, "scrub");
    shared.journal.look_at_log([&](const MetadataLog& log) { more = log.read_on(image); });
  }
  for (auto& line : MetadataLog::damage(image, superblock)) step.damage.push_back(std::move(line));
  step.read.v += image.size;
  return {};
}

Result<void> scrub_file(File& file, const Stop& stop, ScrubStep& step) {
  const std::uint64_t bytes = file.scrub_bytes();
  file.add_reader();
  const auto read = file.scrub(stop);
  file.drop_reader();
  if (!read && read.error().code == EINTR) return read;
  if (!read) step.damage.push_back(read.error().code == EUCLEAN ? read.error().context : read.error().message());
  step.read.v += bytes;
  return {};
}

}  // namespace

Result<ScrubStep> scrub(Shared& shared, const std::vector<std::shared_ptr<File>>& files, ScrubRange& range, const Stop& stop) {
  const IoFor scrubbing(IoCause::scrub);
  ScrubStep step;
  if (range.next == 0) {
    LSMFS_TRY(scrub_metadata(shared, stop, step));
    range.next = 1;
  }
  bool looked = step.read.v > 0;
  std::uint64_t next = range.end;
  for (const auto& file : files) {
    if (file->id() < range.next || file->id() >= range.end || file->scrub_bytes() == 0) continue;
    if (!looked) {
      LSMFS_TRY(scrub_file(*file, stop, step));
      looked = true;
      continue;
    }
    next = std::min(next, file->id());
    step.left.v += file->scrub_bytes();
  }
  range.next = std::max(range.next, next);
  return step;
}

}  // namespace lsmfs

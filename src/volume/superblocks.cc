#include "volume/superblocks.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "volume/journal.h"

namespace lsmfs {
namespace {

Result<SuperblockInfo> read(const Journal& journal, std::uint64_t at) {
  AlignedBuffer buffer(sizeof(format::Superblock));
  LSMFS_TRY(journal.read(at, buffer.bytes(), "superblock"));
  format::Superblock block;
  std::memcpy(&block, buffer.data(), sizeof block);
  return decode_superblock(block);
}

}  // namespace

SuperblockInfo Superblocks::now() const {
  const MutexLock lock(mutex_);
  return now_;
}

Result<void> Superblocks::change(Journal& journal, const std::function<void(SuperblockInfo&)>& change) {
  LSMFS_TRY(journal.check());
  const MutexLock writing(writing_);
  SuperblockInfo next = now();
  change(next);
  const AlignedBuffer block = superblock_block(next);
  std::uint64_t first = next.layout.second_superblock, last = 0;
  if (!read(journal, 0)) std::swap(first, last);
  for (const std::uint64_t at : {first, last}) {
    LSMFS_TRY(journal.write(at, block.bytes()));
    LSMFS_TRY(journal.reach(journal.next_round()));
  }
  const MutexLock lock(mutex_);
  now_ = std::move(next);
  return {};
}

std::vector<std::string> Superblocks::damaged(const Journal& journal) {
  const MutexLock writing(writing_);
  std::vector<std::string> lines;
  const SuperblockInfo info = now();
  for (const auto& [which, at] : {std::pair{"first", std::uint64_t{0}}, std::pair{"second", info.layout.second_superblock}}) {
    const auto copy = read(journal, at);
    if (!copy) {
      lines.push_back(fmt::format("the {} superblock is damaged ({})", which, copy.error().message()));
    } else if (copy->seed != info.seed) {
      lines.push_back(fmt::format("the {} superblock is damaged (it is another volume's)", which));
    }
  }
  return lines;
}

}  // namespace lsmfs

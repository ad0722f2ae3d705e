#include "volume/label.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

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

std::string Label::text() const {
  const MutexLock lock(mutex_);
  return text_;
}

Result<void> Label::set(Shared& shared, std::string_view text) {
  LSMFS_TRY(check_label(text));
  LSMFS_TRY(shared.journal.check());
  const MutexLock writing(writing_);
  SuperblockInfo next = shared.superblock;
  next.info.label = text;
  AlignedBuffer buffer(sizeof(format::Superblock));
  format::Superblock block;
  encode_superblock(next, block);
  std::memcpy(buffer.data(), &block, sizeof block);

  // A copy may be torn while it is written; the other one is sound then. The first is what a reader
  // takes unless it is damaged, so the label changes at one moment: when the first has been written.
  std::uint64_t first = next.layout.second_superblock, last = 0;
  if (!read(shared.journal, 0)) std::swap(first, last);
  for (const std::uint64_t at : {first, last}) {
    LSMFS_TRY(shared.journal.write(at, buffer.bytes()));
    LSMFS_TRY(shared.journal.reach(shared.journal.next_round()));
  }
  const MutexLock lock(mutex_);
  text_ = text;
  return {};
}

std::vector<std::string> Label::damaged_superblocks(const Shared& shared) {
  const MutexLock writing(writing_);
  std::vector<std::string> lines;
  const std::uint64_t second = shared.superblock.layout.second_superblock;
  for (const auto& [which, at] : {std::pair{"first", std::uint64_t{0}}, std::pair{"second", second}}) {
    const auto copy = read(shared.journal, at);
    if (!copy) {
      lines.push_back(fmt::format("the {} superblock is damaged ({})", which, copy.error().message()));
    } else if (copy->info.uuid != shared.superblock.info.uuid) {
      lines.push_back(fmt::format("the {} superblock is damaged (it is another volume's)", which));
    }
  }
  return lines;
}

}  // namespace lsmfs

#include "tree/referred_bytes.h"

#include <iterator>
#include <utility>

#include "tree/keys.h"

namespace lsmfs {

Result<ByteCount> ReferredBytes::below(const Record& directory, const std::string& home) {
  if (directory.size == 0) return ByteCount{0};
  if (known_.size() > kKnownMost) known_.clear();
  links_.clear();
  std::vector<Part> open;  // each is shown by the one before
  std::unordered_set<Ino> numbers;
  const auto begin = [&](const std::string& at) -> Result<void> {
    LSMFS_ASSIGN(Part part, read(at));
    if (!numbers.insert(part.number).second) return make_error(EUCLEAN, "a directory lies in what it shows");
    open.push_back(std::move(part));
    return {};
  };
  LSMFS_TRY(begin(directory.has_base() ? *directory.base : home));
  for (;;) {
    Part& part = open.back();
    if (part.next < part.shown.size()) {
      const std::string& base = part.shown[part.next];
      if (const auto known = known_.find(*keys::number_of(base)); known != known_.end()) {
        part.blocks += known->second;
        ++part.next;
        continue;
      }
      LSMFS_TRY(begin(std::string(base)));
      continue;
    }
    const std::uint64_t blocks = part.blocks;
    if (open.size() > 1 || directory.has_base()) known_[part.number] = blocks;
    numbers.erase(part.number);
    open.pop_back();
    if (open.empty()) return ByteCount{blocks * kBlockSize};
  }
}

Result<ReferredBytes::Part> ReferredBytes::read(const std::string& home) {
  Part part{.number = *keys::number_of(home), .blocks = 0, .shown = {}, .next = 0};
  far_.clear();
  std::vector<std::string> left{home};
  while (!left.empty()) {
    const std::string at = std::move(left.back());
    left.pop_back();
    std::vector<std::string> below;
    for (std::string after;;) {
      LSMFS_ASSIGN(const auto entries, view_.entries(at, after));
      if (entries.empty()) break;
      for (const auto& [name, row] : entries) LSMFS_TRY(add_entry(at, name, row, part, below));
      after = entries.back().first;
    }
    left.insert(left.end(), std::make_move_iterator(below.rbegin()), std::make_move_iterator(below.rend()));  // as they lie
  }
  return part;
}

Result<void> ReferredBytes::add_entry(const std::string& home, const std::string& name, const EntryRow& row, Part& part, std::vector<std::string>& below) {
  if (const auto* const link = std::get_if<Link>(&row)) {
    if (!links_.insert(link->ino).second) return {};
    LSMFS_ASSIGN(const Record file, view_.linked(link->ino));
    part.blocks += file.all_blocks();
    return {};
  }
  const Record& record = std::get<Record>(row);
  if (!record.is_directory()) {
    part.blocks += record.all_blocks();
  } else if (record.size > 0 && record.has_base()) {
    part.shown.push_back(*record.base);
  } else if (record.size > 0) {
    if (!record.home.empty() && !far_.insert(record.number()).second) return make_error(EUCLEAN, "a directory lies in itself");
    below.push_back(record.home_in(home, name));
  }
  return {};
}

}  // namespace lsmfs

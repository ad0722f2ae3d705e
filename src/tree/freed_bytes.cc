#include "tree/freed_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tree/keys.h"

namespace lsmfs {
namespace {

// Nobody writes how parts change.
class NoRows final : public FileBlobs::Rows {
 public:
  void put(std::uint64_t, std::string_view) override {}
  void patch(std::uint64_t, std::uint32_t, std::string_view) override {}
  void erase(std::uint64_t, std::uint64_t) override {}
  void erase_patches(std::uint64_t, std::uint64_t) override {}
};

Error damaged_base_row(Ino number) { return make_error(EUCLEAN, fmt::format("the row of base {} is damaged", number.v)); }

}  // namespace

Result<ByteCount> FreedBytes::without(const Record& directory, const std::string& home) {
  LSMFS_TRY(drop(directory, home));
  for (;;) {
    if (!directories_.empty()) {
      const std::string next = std::move(directories_.back());
      directories_.pop_back();
      LSMFS_TRY(drop_entries(next));
    } else if (!to_look_at_.empty()) {
      LSMFS_TRY(look_at(to_look_at_.extract(to_look_at_.begin()).value()));
    } else {
      return ByteCount{blocks_ * kBlockSize};
    }
  }
}

// What has that record goes, or is left to those who use it.
Result<void> FreedBytes::drop(const Record& record, const std::string& home) {
  const Ino number = record.number();
  if (record.has_base()) {
    leave(*record.base, number);
    return {};
  }
  if (!record.shows_something()) return {};
  if (!record.home.empty() && !met_.insert(number).second) return make_error(EUCLEAN, "a directory lies in itself");
  Node node{.home = home, .size = 0, .blocks = 0, .blob_blocks = 0, .directory = record.is_directory()};
  if (!node.directory) {
    node.size = record.size;
    node.blocks = record.blocks;
    node.blob_blocks = record.blob_blocks;
  }
  LSMFS_ASSIGN(const auto used, next_user(number, {}));
  if (used) {
    left_.try_emplace(number, Left{.node = std::move(node), .parts = {}, .gone = false});
    to_look_at_.insert(number);
  } else if (node.directory) {
    directories_.push_back(home);
  } else {
    FileBlobs parts;
    if (node.blob_blocks > 0) {
      LSMFS_ASSIGN(parts, view_.parts(number));
    }
    LSMFS_TRY(drop_data(number, node, parts));
  }
  return {};
}

Result<void> FreedBytes::drop_entries(const std::string& home) {
  const std::size_t before = directories_.size();
  for (std::string after;;) {
    LSMFS_ASSIGN(const auto entries, view_.entries(home, after));
    if (entries.empty()) break;
    for (const auto& [name, row] : entries) {
      if (const auto* const link = std::get_if<Link>(&row)) {
        LSMFS_TRY(drop_link(link->ino));
      } else {
        const Record& record = std::get<Record>(row);
        LSMFS_TRY(drop(record, record.home_in(home, name)));
      }
    }
    after = entries.back().first;
  }
  std::reverse(directories_.begin() + static_cast<std::ptrdiff_t>(before), directories_.end());  // as they lie
  return {};
}

// The file goes with its last name.
Result<void> FreedBytes::drop_link(Ino ino) {
  auto found = linked_.find(ino);
  if (found == linked_.end()) {
    LSMFS_ASSIGN(Record record, view_.linked(ino));
    found = linked_.emplace(ino, Linked{.record = std::move(record), .names = 0}).first;
  }
  Linked& file = found->second;
  return ++file.names == file.record.nlink ? drop(file.record, file.record.home) : Result<void>();
}

Result<void> FreedBytes::drop_data(Ino number, const Node& node, const FileBlobs& parts) {
  blocks_ += node.blocks;
  for (const FileBlobs::Part& part : parts.parts()) {
    if (part.shared()) leave(part.base, number);
    else blocks_ += part.live();
  }
  return {};
}

// A base that has lost something. What has an owner stays as it is.
Result<void> FreedBytes::look_at(Ino number) {
  auto found = left_.find(number);
  if (found == left_.end()) {
    LSMFS_ASSIGN(auto node, view_.node(number));
    if (!node) return {};
    found = left_.emplace(number, Left{.node = *std::move(node), .parts = {}, .gone = false}).first;
  }
  Left& left = found->second;
  if (left.gone) return {};
  LSMFS_ASSIGN(const auto used, next_user(number, {}));
  if (used) return left.node.directory ? Result<void>() : trim(number, left);
  left.gone = true;
  if (left.node.directory) {
    directories_.push_back(left.node.home);
    return {};
  }
  LSMFS_ASSIGN(const FileBlobs* const parts, parts_of(number, left));
  LSMFS_TRY(drop_data(number, left.node, *parts));
  left.parts.reset();
  return {};
}

// Of a base that others go on to use goes what none of them sees.
Result<void> FreedBytes::trim(Ino number, Left& left) {
  Node& node = left.node;
  BlockRuns seen;
  std::size_t users = 0;
  for (Ino least{};;) {
    LSMFS_ASSIGN(const auto user, next_user(number, least));
    if (!user) break;
    if (user->whole || ++users > kTrimUsers) return {};
    const auto changed = left_.find(user->number);
    if (changed != left_.end() && changed->second.parts) {
      add_seen(*changed->second.parts, node.home, seen);
    } else {
      LSMFS_ASSIGN(const FileBlobs parts, view_.parts(user->number));
      add_seen(parts, node.home, seen);
    }
    least = Ino{user->number.v + 1};
  }
  const std::uint64_t end = block_count(node.size);
  const Unseen unseen = unseen_of(std::move(seen), end);
  if (unseen.past > end) return damaged_base_row(number);
  if (unseen.blocks >= node.blocks + node.blob_blocks) return {};

  // What is seen is no hole, so what of it lies in no part has a row.
  LSMFS_ASSIGN(FileBlobs* const parts, parts_of(number, left));
  std::uint64_t in_parts = parts->live();
  for (const auto& [from, to] : unseen.hidden) in_parts -= parts->live(from, to);
  const std::uint64_t rows = unseen.blocks - in_parts;
  if (in_parts > unseen.blocks || rows > node.blocks) return damaged_base_row(number);
  blocks_ += node.blocks - rows;
  node.blocks = rows;

  const std::vector<std::string> bases = parts->bases();
  const std::uint64_t in_blobs = parts->in_blobs(0, UINT64_MAX);
  NoRows nowhere;
  std::uint64_t gone = 0;
  for (const auto& [from, to] : parts_to_go(*parts, unseen.hidden)) gone += parts->remove(from, to, nowhere);
  if (gone == 0) return {};
  blocks_ += in_blobs - parts->in_blobs(0, UINT64_MAX);
  node.blob_blocks -= std::min(gone, node.blob_blocks);
  const std::vector<std::string> still = parts->bases();
  for (const std::string& base : bases) {
    if (std::ranges::binary_search(still, base)) to_look_at_.insert(*keys::number_of(base));
    else leave(base, number);
  }
  return {};
}

// The first user not below `least` that would not go.
Result<std::optional<NamesView::User>> FreedBytes::next_user(Ino base, Ino least) {
  const auto found = lost_.find(base);
  if (found == lost_.end()) return view_.user(base, least);
  Lost& lost = found->second;
  const bool from_first = least <= lost.from;
  for (Ino at = std::max(least, lost.from);;) {
    LSMFS_ASSIGN(const auto user, view_.user(base, at));
    if (user && lost.users.contains(user->number)) {
      at = Ino{user->number.v + 1};
      continue;
    }
    if (from_first) lost.from = user ? user->number : kInoMax;
    return user;
  }
}

// Until another one is looked at.
Result<FileBlobs*> FreedBytes::parts_of(Ino number, Left& left) {
  if (!left.parts) {
    LSMFS_ASSIGN(left.parts, view_.parts(number));
  }
  return &*left.parts;
}

void FreedBytes::leave(const std::string& base, Ino user) {
  const Ino number = *keys::number_of(base);
  lost_[number].users.insert(user);
  to_look_at_.insert(number);
}

}  // namespace lsmfs

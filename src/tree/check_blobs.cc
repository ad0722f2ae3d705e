// What check_tree() says of blobs: their rows, whether these agree with the files', and what can be read of them.
#include <utility>

#include "tree/blob_check.h"
#include "tree/block_patch.h"
#include "tree/check.h"

namespace lsmfs {

void Checker::take_blob(std::string_view key, std::string_view value) {
  const auto at = keys::parse_blob(key);
  if (!at) return problem("a row of names has the malformed key {}", hex(key));
  auto part = FileBlobs::decode(at->first.v, value);
  if (!part) return problem("inode {}: the row of its blob at byte {} is damaged", at->ino.v, at->first.v * kBlockSize);
  FileBlobs& blobs = facts_.blobs[at->ino];
  if (!blobs.empty() && blobs.parts().back().past() > part->first) {
    return problem("inode {}: its blobs at byte {} and before have the same blocks", at->ino.v, at->first.v * kBlockSize);
  }
  if (!part->shared() && !blob_numbers_.insert(part->blob).second) {
    return problem("inode {}: blob {} is also one of another file", at->ino.v, part->blob);
  }
  if (!part->shared()) check_blob(at->ino, *part);
  blobs.add(std::move(*part));
}

// What cannot be read of it, with its data when checksums are to be verified.
void Checker::check_blob(Ino ino, const FileBlobs::Part& part) {
  const auto read = [this](ByteCount bytes) {
    bytes_ += bytes.v;
    if (progress_) progress_(bytes_);
    return true;
  };
  for (const auto& [from, to, error] : unreadable_blocks(store_, part, verify_, read)) {
    problem("inode {}: bytes {} to {} of its data cannot be read: {}", ino.v, from * kBlockSize, to * kBlockSize, error.context);
    facts_.unreadable[ino].emplace_back(from, to);
  }
}

// The rows of all blobs come before those of patches.
void Checker::take_blob_patch(std::string_view key, std::string_view value) {
  const auto at = keys::parse_blob_patch(key);
  if (!at) return problem("a row of names has the malformed key {}", hex(key));
  const auto blobs = facts_.blobs.find(at->ino);
  if (blobs == facts_.blobs.end() || !blobs->second.may_have_patch(at->first.v)) {
    return problem("inode {}: a patch of the block at byte {}, which lies in no blob that has any", at->ino.v, at->first.v * kBlockSize);
  }
  if (block_patch::is_sound(value)) return;
  problem("inode {}: the patch of the block at byte {} is damaged", at->ino.v, at->first.v * kBlockSize);
  facts_.unreadable[at->ino].emplace_back(at->first.v, at->first.v + 1);
}

void Checker::join_blobs() {
  std::uint64_t waste = 0;
  for (const auto& [ino, blobs] : facts_.blobs) {
    waste += blobs.wasted();
    Found* const found = facts_.of_number(ino);
    const auto node = facts_.nodes.find(ino);
    const bool is_node = node != facts_.nodes.end();
    if (is_node ? node->second.row.directory : !found || !S_ISREG(found->mode)) {
      problem("inode {}: {} blocks of data in blobs, of a file that does not exist", ino.v, blobs.live());
      continue;
    }
    if (!is_node && found->has_base) {
      if (blobs.empty()) continue;
      problem("{}: has {} blocks of data in blobs of its own, and shows a base", inode_of(ino, *found), blobs.live());
      found->has_own = true;
      continue;
    }
    (is_node ? node->second.in_parts : found->in_blobs) = blobs.live();
    if (!blobs.empty() && blobs.parts().back().past() > block_count(is_node ? node->second.row.size : found->size)) {
      problem("inode {}: its blobs reach past its end", ino.v);
    }
  }
  for (const auto& [number, found] : facts_.inodes) {
    if (found.has_base) continue;
    if (found.in_blobs < found.blob_blocks) {
      problem("{}: has {} blocks of data in blobs and says it has {}", inode_of(number, found), found.in_blobs, found.blob_blocks);
    } else if (found.in_blobs > found.blob_blocks) {
      miscount("{}: has {} blocks of data in blobs and says it has {}", inode_of(number, found), found.in_blobs, found.blob_blocks);
    }
  }
  if (facts_.state) compare_count(facts_.state->blob_waste, waste, "blocks in blobs that nobody wants");
}

// ---- what is shared

void Checker::take_node(std::string_view key, std::string_view value) {
  const auto number = keys::parse_node(key);
  auto node = decode_node(value);
  if (!number || !node || keys::number_of(node->home) != number) return problem("the row of a base at {} is damaged", hex(key));
  facts_.nodes[*number].row = std::move(*node);
}

void Checker::take_user(std::string_view key, std::string_view value) {
  const auto user = keys::parse_user(key);
  if (!user) return problem("a row of names has the malformed key {}", hex(key));
  if (!value.empty() && value != keys::kWholeUser) return problem("base {}: the row of its user {} is damaged", user->base.v, user->user.v);
  facts_.users.emplace(std::pair(user->base, user->user), !value.empty());
}

// Each part that is shared has its base and its row of a user, as has each record that shows a base. Each such row has its part or record, and
// each base knows that it is one.
void Checker::check_bases() {
  std::map<std::pair<Ino, Ino>, bool> used;
  for (const auto& [number, blobs] : facts_.blobs) {
    for (const FileBlobs::Part& part : blobs.parts()) {
      if (!part.shared()) continue;
      check_part(number, part);
      used.emplace(std::pair(*keys::number_of(part.base), number), false);
    }
  }
  for (const auto& [number, base] : facts_.bases) used[{base.number, number}] = true;
  for (const auto& [number, blobs] : facts_.blobs) {
    if (!facts_.too_deep(number).empty()) problem("inode {}: what it shares lies over more than {} bases, or over itself", number.v, FileBlobs::kDepthMost);
  }
  for (const auto& [pair, shows] : used) {
    const auto& [base, user] = pair;
    const auto known = facts_.users.find(pair);
    if (known != facts_.users.end() && (known->second || !shows)) continue;
    if (shows) problem("{}: shows base {}, which does not know it", inode_of(user, facts_.inodes.at(user)), base.v);
    else problem("inode {}: shares data of base {}, which does not know it", user.v, base.v);
  }
  for (const auto& [pair, shows] : facts_.users) {
    const auto& [base, user] = pair;
    const auto uses = used.find(pair);
    if (uses == used.end()) problem("base {}: inode {} does not share its data", base.v, user.v);
    else if (shows && !uses->second) miscount("base {}: inode {} does not show it, but shares some of its data", base.v, user.v);
  }
  for (const auto& [number, node] : facts_.nodes) {
    if (facts_.of_number(number)) {
      const char* const what = node.row.directory ? "directory" : "file";
      problem("base {}: is left by its {}, and the {} has it", number.v, what, what);
    }
    if (node.in_parts < node.row.blob_blocks) {
      problem("base {}: has {} blocks of data in blobs and says it has {}", number.v, node.in_parts, node.row.blob_blocks);
    } else if (node.in_parts > node.row.blob_blocks) {
      miscount("base {}: has {} blocks of data in blobs and says it has {}", number.v, node.in_parts, node.row.blob_blocks);
    }
  }
}

void Checker::check_part(Ino number, const FileBlobs::Part& part) {
  const Ino base = *keys::number_of(part.base);
  const Found* const file = facts_.file_at(base, part.base);
  const TreeFacts::Node* const node = facts_.file_node_at(base, part.base);
  if (!file && !node) return problem("inode {}: shares data of base {}, which does not exist", number.v, base.v);
  if (!node && file->has_base) return problem("inode {}: shares data of base {}, which has none of its own", number.v, base.v);
  if (!node && !file->is_base && !facts_.is_frozen(*file)) problem("inode {}: shares data of {}, which does not know it", number.v, inode_of(base, *file));
  if (part.from + part.blocks > block_count(node ? node->row.size : file->size)) {
    problem("inode {}: shares data past the end of base {}", number.v, base.v);
  }
}

}  // namespace lsmfs

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
  if (!blob_numbers_.insert(part->blob).second) return problem("inode {}: blob {} is also one of another file", at->ino.v, part->blob);
  check_blob(at->ino, *part);
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
    const auto at = facts_.inodes.find(ino);
    if (at == facts_.inodes.end() || !S_ISREG(at->second.mode)) {
      problem("inode {}: {} blocks of data in blobs, of a file that does not exist", ino.v, blobs.live());
      continue;
    }
    Found& found = at->second;
    found.in_blobs = blobs.live();
    if (!blobs.empty() && blobs.parts().back().past() > block_count(found.size)) problem("inode {}: its blobs reach past its end", ino.v);
  }
  for (const auto& [ino, found] : facts_.inodes) {
    if (found.in_blobs < found.blob_blocks) {
      problem("inode {}: has {} blocks of data in blobs and says it has {}", ino.v, found.in_blobs, found.blob_blocks);
    } else if (found.in_blobs > found.blob_blocks) {
      miscount("inode {}: has {} blocks of data in blobs and says it has {}", ino.v, found.in_blobs, found.blob_blocks);
    }
  }
  if (facts_.state) compare_count(facts_.state->blob_waste, waste, "blocks in blobs that nobody wants");
}

}  // namespace lsmfs

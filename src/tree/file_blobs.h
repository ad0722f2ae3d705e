// FileBlobs: which blocks of a file lie elsewhere than in rows of its own, and which of those have gone since: written over by rows, or cut
// off. Such a part of a file is a blob (lsmfs/kv.h), or it is shared: its blocks are those of a base, which is what another file has, or had.
//
// A part holds consecutive blocks of one file. It has a row: what it is, and a bit for each block that has gone. So a block lies in
// a part or not, and if not it has a row of its own or is a hole, as in any other file. A block in a blob of which a little was written over
// may have a patch (block_patch.h).
//
// What it is not: it reads and writes no rows, but says how they change. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/kv.h"

namespace lsmfs {

class FileBlobs {
 public:
  struct Part {
    std::uint64_t blob = 0;      // its number; 0: it is shared
    std::uint64_t first = 0;     // the block of the file that is the part's first one
    std::uint64_t blocks = 0;    // of the file from there on may lie in the part, none after them
    BlobEnd end{};               // of a blob: up to where it can be read
    std::uint64_t patched = 0;   // of a blob: bytes that patches of its blocks take at most. 0: there are none
    std::string base;            // shared: the home of the base
    std::uint64_t from = 0;      // shared: the block of the base that is the part's first one
    std::uint64_t gone = 0;      // of `blocks`
    std::vector<bool> is_gone;   // by block of the part; as far as any has gone
    bool shared() const { return blob == 0; }
    std::uint64_t past() const { return first + blocks; }
    std::uint64_t live() const { return blocks - gone; }
    // Blocks of a blob that are wanted no more, and what patches take beside it.
    std::uint64_t wasted() const { return shared() ? 0 : std::max(end.blocks, blocks) - live() + div_up(patched, kBlobBlock); }
    bool has(std::uint64_t block) const {  // of the file
      return block >= first && block < past() && !(block - first < is_gone.size() && is_gone[block - first]);
    }
  };
  static std::string encode(const Part& part);
  // `first`: from its key. nullopt: damaged.
  static std::optional<Part> decode(std::uint64_t first, std::string_view row);
  static constexpr std::uint64_t kBlocksMax = 256 * MiB / kBlobBlock;  // of one part
  static constexpr int kDepthMost = 8;                                 // bases over each other
  static constexpr std::uint64_t kPatchedMost = kBlobBlock / 64;       // bytes of patches for each block of a blob

  // Hears how rows of parts change, by their first blocks.
  class Rows {
   public:
    virtual ~Rows() = default;
    virtual void put(std::uint64_t first, std::string_view row) = 0;
    virtual void patch(std::uint64_t first, std::uint32_t offset, std::string_view bytes) = 0;
    virtual void erase(std::uint64_t first, std::uint64_t blob) = 0;  // nothing of that part is wanted any more
    virtual void erase_patches(std::uint64_t from, std::uint64_t to) = 0;  // of blocks [from, to), of which some have patches
  };

  // In the order of blocks. Must hold: none has a block before the end of the last one.
  void add(Part part);
  // The same, of the row of a part. False: it is damaged, or has a block before the end of the last one.
  bool add(std::uint64_t first, std::string_view row);
  // Wherever it belongs. Must hold: there is room for it.
  void insert(Part part);
  // Whether none goes on over `block`: remove() of what is before it would make room there for others.
  bool makes_room(std::uint64_t block) const;
  // The last part has grown, by blocks that are appended to its blob; and by some that are not of the file.
  void grow(std::uint64_t blocks) { parts_.back().blocks += blocks; }
  void skip(std::uint64_t blocks);
  // What was appended can be read now. Its row is the caller's to put.
  void reached(std::uint64_t blob, const BlobEnd& end);

  bool empty() const { return parts_.empty(); }
  const std::vector<Part>& parts() const { return parts_; }
  const Part* find(std::uint64_t blob) const;  // nullptr: nothing of it is wanted any more
  std::uint64_t live() const;
  std::uint64_t wasted() const;
  std::uint64_t live(std::uint64_t from, std::uint64_t to) const;
  std::uint64_t in_blobs(std::uint64_t from, std::uint64_t to) const;  // of these
  std::vector<std::string> bases() const;  // of the parts that are shared, in order, each once
  bool has(std::uint64_t block) const;
  bool may_have_patch(std::uint64_t block) const;
  // [from, to) as runs that lie in one part, and those that lie in none (nullptr).
  struct Run {
    std::uint64_t from, to;
    const Part* part;
  };
  std::vector<Run> runs(std::uint64_t from, std::uint64_t to) const;
  // A block gets a patch that takes so many bytes. Must hold, of both: it lies in a blob; of patch(): it may.
  bool may_patch(std::uint64_t block, std::uint64_t bytes) const;
  void patch(std::uint64_t block, std::uint64_t bytes, Rows& rows);
  // They lie in no blob any more. Gives how many did.
  std::uint64_t remove(std::uint64_t from, std::uint64_t to, Rows& rows);

 private:
  const Part* part_of(std::uint64_t block) const;  // nullptr: it lies in none

  std::vector<Part> parts_;  // by first block; disjoint, and each with something live
};

}  // namespace lsmfs

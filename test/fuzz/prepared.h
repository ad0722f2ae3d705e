// Sound images for the target of whole images, and where in them is what.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lsmfs/kv.h"
#include "volume/sparse_device.h"

namespace lsmfs::fuzz {

// What can be changed in an image.
enum class Place { superblocks, first_superblock, records, frames, tables, small_files, anywhere };
inline constexpr std::size_t kPlaces = 7;

// A structure on the device.
struct Piece {
  std::uint64_t at, length;
  std::uint64_t room;  // bytes up to the end of its area or extent
  std::uint64_t seed;  // of its checksum, if it has one
};

struct Row {
  Family family;
  std::string key, value;
};

std::string bytes_at(const test::SparseImage& image, std::uint64_t at, std::uint64_t length);

struct Prepared {
  test::SparseImage image{0};
  std::vector<Piece> pieces[kPlaces];
  std::vector<Row> rows;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> table_blocks;  // with seals_rocksdb(): (place on the device, bytes)
};

// A small tree with all kinds of inodes, links, holes, attributes, and directories that were renamed; all of it in
// tables, or much of it in the log, with a file that was open when the power was cut.
const Prepared& prepared(bool in_log);

}  // namespace lsmfs::fuzz

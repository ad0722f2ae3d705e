// The records of a stream that is imported (lsmfs/import.h), as who has the tree reads them.
//
// A record is the length of its body in four bytes, and the body: its type in one byte, and what that type has. Of an inode that is what it
// has, one after the other; of data the place in eight bytes, and all that is left.
#pragma once

#include "lsmfs/import.h"

namespace lsmfs {

inline constexpr std::uint8_t kInodeRecord = 1, kDataRecord = 2;
inline constexpr std::size_t kRecordHeader = 4, kDataHeader = 9;

struct ImportedData {
  std::uint64_t offset = 0;
  std::string_view bytes;  // 1 to kImportDataMax; they lie in the record
};

// nullopt: it is none, or damaged.
std::optional<ImportedInode> decode_inode(std::string_view body);
std::optional<ImportedData> decode_data(std::string_view body);

}  // namespace lsmfs

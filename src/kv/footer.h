// The footer of a table: the only part of it that no checksum covers, and RocksDB believes the lengths in it.
#pragma once

#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::kv {

inline constexpr std::size_t kFooterSize = 53;
inline constexpr std::uint32_t kTableFormat = 5;  // of all tables here; in later ones a checksum covers the footer

// Where the table's index begins, by a footer that is sound.
inline std::uint64_t index_offset(std::string_view footer) {
  Reader handles(footer.substr(1));
  handles.varint(), handles.varint();
  return handles.varint();
}

// Whether these last kFooterSize bytes of a table of `size` bytes, if they are a footer of that format, point into it.
//   u8 kind of checksum | metaindex: varint offset, varint size | index: the same | zeros | le32 format | le64 magic
// What is no such footer RocksDB refuses by itself.
inline bool sound_footer(std::string_view footer, std::uint64_t size) {
  constexpr std::uint64_t kMagic = 0x88e241b785f4cff7, kBlockTrailer = 5;
  Reader handles(footer.substr(0, kFooterSize - 12)), end(footer.substr(kFooterSize - 12));
  if (end.le32() > kTableFormat || end.le64() != kMagic) return true;
  handles.u8();
  const std::uint64_t room = size - kFooterSize;
  for (int handle = 0; handle < 2; ++handle) {
    const std::uint64_t offset = handles.varint(), length = handles.varint();
    if (!handles.ok() || offset > room || length > room - offset || kBlockTrailer > room - offset - length) return false;
  }
  return true;
}

}  // namespace lsmfs::kv

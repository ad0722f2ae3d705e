#include "simdisk/backing.h"

#include <cstring>
#include <mutex>

namespace lsmfs::simdisk {
namespace {

bool whole_blocks(ByteOffset offset, Bytes data) {
  return (offset.v | data.size() | reinterpret_cast<std::uintptr_t>(data.data())) % kDeviceBlock == 0;
}

}  // namespace

// The whole blocks around a range.
struct Backing::Blocks {
  Blocks(ByteOffset offset, std::size_t length)
      : begin(round_down(offset.v, kDeviceBlock)),
        buffer(round_up(offset.v + length, kDeviceBlock) - begin.v),
        part(buffer.bytes().subspan((offset - begin).v, length)) {}
  ByteOffset begin;
  AlignedBuffer buffer;
  MutableBytes part;  // the range
};

Result<void> Backing::read(ByteOffset from, MutableBytes to) {
  if (whole_blocks(from, to)) {
    const std::shared_lock lock(mutex_);
    return device_->read(from, to);
  }
  Blocks blocks(from, to.size());
  const std::shared_lock lock(mutex_);
  LSMFS_TRY(device_->read(blocks.begin, blocks.buffer.bytes()));
  std::memcpy(to.data(), blocks.part.data(), to.size());
  return {};
}

Result<void> Backing::write(ByteOffset to, Bytes data) {
  if (!whole_blocks(to, data)) return change(to, data);
  const std::shared_lock lock(mutex_);
  return device_->write(to, data);
}

Result<void> Backing::change(ByteOffset to, Bytes data) {
  Blocks blocks(to, data.size());
  const std::unique_lock lock(mutex_);
  LSMFS_TRY(device_->read(blocks.begin, blocks.buffer.bytes()));
  std::memcpy(blocks.part.data(), data.data(), data.size());
  return device_->write(blocks.begin, blocks.buffer.bytes());
}

Result<void> Backing::discard(ByteOffset from, ByteCount length) {
  static constexpr std::array<std::byte, kDeviceBlock> kZeros{};
  const auto zeros = [](ByteOffset begin, ByteOffset end) { return Bytes(kZeros).first((end - begin).v); };
  const ByteOffset end = from + length;
  const ByteOffset first{round_up(from.v, kDeviceBlock)}, last{round_down(end.v, kDeviceBlock)};
  if (last < first) return change(from, zeros(from, end));  // within one block
  if (from < first) LSMFS_TRY(change(from, zeros(from, first)));
  if (last < end) LSMFS_TRY(change(last, zeros(last, end)));
  const std::shared_lock lock(mutex_);
  return device_->discard(first, last - first);
}

}  // namespace lsmfs::simdisk

// Bytes that no compression makes smaller.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace lsmfs::test {

// Always the same of a seed (splitmix64), eight at a time: to draw each byte took longer than what is tested.
inline void fill_with_noise(std::uint64_t seed, std::span<char> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof seed) {
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
    std::memcpy(bytes.data() + at, &mixed, std::min(sizeof mixed, bytes.size() - at));
  }
}

}  // namespace lsmfs::test

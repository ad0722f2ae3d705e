#include "fuzz/target.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>

namespace lsmfs::fuzz {
namespace {

thread_local long long held = 0, most_held = 0;
std::atomic<std::size_t> largest = 0;

void* allocate(std::size_t size) noexcept {
  for (std::size_t seen = largest; size > seen && !largest.compare_exchange_weak(seen, size);) continue;
  if (size > kPieceMax) return nullptr;
  void* const memory = std::malloc(std::max<std::size_t>(size, 1));
  if (memory != nullptr) held += static_cast<long long>(::malloc_usable_size(memory));
  most_held = std::max(most_held, held);
  return memory;
}

void* must_allocate(std::size_t size) {
  void* const memory = allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) held -= static_cast<long long>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

Planted planted = Planted::nothing;

std::span<const Target* const> targets() {
  static const std::array all{&kSuperblock, &kPayload, &kMetadataLog, &kFrames, &kPatch, &kBlobIndex, &kKeys, &kRecord, &kAcl, &kImport, &kStream, &kChanges, &kImage};
  return all;
}

Memory::Memory() {
  held = most_held = 0;
  largest = 0;
}
std::size_t Memory::most() const { return static_cast<std::size_t>(std::max(most_held, 0LL)); }
std::size_t Memory::largest_piece() { return largest; }

bool execute(const Target& target, std::string_view input) {
  const Memory memory;
  bool decoded = false;
  try {
    decoded = target.run(input);
  } catch (const std::exception& e) {
    throw Failure{std::string("an exception: ") + e.what()};
  }
  if (target.memory_factor > 0) {
    check(memory.most() <= kMemoryBase + target.memory_factor * input.size(), "takes more memory than the input is worth");
  }
  return decoded;
}

}  // namespace lsmfs::fuzz

// ---- all forms of operator new and delete but those for unusual alignment

using lsmfs::fuzz::allocate, lsmfs::fuzz::must_allocate, lsmfs::fuzz::release;

void* operator new(std::size_t size) { return must_allocate(size); }
void* operator new[](std::size_t size) { return must_allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

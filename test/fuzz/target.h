// Fuzz targets: a function for each decoder of bytes that a hostile device may hold, or a hostile sender may send, and one for whole images.
//
// A target decodes its input and throws Failure when something is wrong with the decoder, which is more than a crash:
// what was decoded must lie in the ranges of docs/format.md, encode to bytes that decode to the same, and have taken
// memory in proportion to the input. Inputs of structures with a checksum begin with a byte whose lowest bit says
// whether the target puts the right one in before it decodes.
//
// They run as ordinary tests (fuzz_test.cc) with the mutator of mutator.h, and with clang's libFuzzer (libfuzzer.cc).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs::fuzz {

struct Failure {
  std::string what;
};

inline void check(bool holds, std::string_view what) {
  if (!holds) throw Failure{std::string(what)};
}

struct Target {
  const char* name;
  // Whether the input could be decoded.
  bool (*run)(std::string_view input);
  // Inputs that can be, to begin with.
  std::vector<std::string> (*examples)();
  std::size_t size_max;       // of an input that is worth trying
  std::size_t memory_factor;  // bytes of memory that a byte of input may take, beside kMemoryBase; 0: the target looks itself
  std::size_t executions;     // in an ordinary run of the tests
};

extern const Target kSuperblock, kPayload, kMetadataLog, kFrames;  // volume.cc
extern const Target kPatch, kBlobIndex;                            // kv.cc
extern const Target kKeys, kRecord, kAcl, kChanges;                          // tree.cc
extern const Target kImport;                                       // import.cc
extern const Target kStream;                                       // stream.cc
extern const Target kImage;                                        // image.cc
std::span<const Target* const> targets();  // all of them

inline constexpr std::size_t kMemoryBase = MiB;

// How far the images got, of all that kImage was given.
struct ImageCounts {
  std::size_t images = 0, volumes = 0, stores = 0, trees = 0, clean = 0, repaired = 0;  // clean: check_tree() found nothing
};
extern ImageCounts image_counts;

// Runs a target; what it throws, or takes too much memory for, is a Failure.
bool execute(const Target& target, std::string_view input);

// Faults that the targets plant in what they call, each of which random inputs must find.
enum class Planted {
  nothing,
  range_not_checked,     // superblock: any size of the device is taken
  length_believed,       // patch: room is made for as many segments as the operand says it has
  field_cut_off,         // record: the uid is written in 16 bits
  damage_not_reported,   // image: check_tree() finds nothing
  damage_not_repaired,   // image: repair_tree() does nothing
};
extern Planted planted;

// No program here gets more at once: what a hostile length asks for is refused, as on a machine that has no such memory.
inline constexpr std::size_t kPieceMax = GiB;

// The memory that this thread has asked operator new for and not given back, and the most of it at a time.
class Memory {
 public:
  Memory();  // counts from here on
  std::size_t most() const;
  // The largest piece that any thread has asked for since then.
  static std::size_t largest_piece();
};

}  // namespace lsmfs::fuzz

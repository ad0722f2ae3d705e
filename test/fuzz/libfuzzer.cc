// One target as a program of clang's libFuzzer, which is guided by what of the code an input reaches. It begins with the
// target's own examples, so that it needs no corpus.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fuzz/mutator.h"
#include "fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t size_max, unsigned seed);

namespace {

using namespace lsmfs::fuzz;

const Target& target() {
  return **std::find_if(targets().begin(), targets().end(), [](const Target* some) { return std::strcmp(some->name, LSMFS_FUZZ_TARGET) == 0; });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    execute(target(), {reinterpret_cast<const char*>(data), size});
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s: %s\n", target().name, failure.what.c_str());
    std::abort();
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t size_max, unsigned seed) {
  static const std::vector<std::string> examples = target().examples();
  Mutator mutator(seed);
  const std::string& example = examples[mutator.below(examples.size())];
  std::string changed = example;
  if (size > 1 && mutator.below(100) != 0) {
    if (mutator.below(2)) return LLVMFuzzerMutate(data, size, size_max);
    changed = mutator.mutate({reinterpret_cast<const char*>(data), size}, example, std::min(size_max, target().size_max));
  }
  changed.resize(std::min(changed.size(), size_max));
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

// Random changes of inputs, for all targets: bits, bytes, integers of all widths and varints that mean something, pieces
// put in, taken out, copied and exchanged with those of another input. The same seed gives the same changes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lsmfs::fuzz {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t random();
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : random() % n; }
  // A number that decoders get wrong: near a power of two, small, or any.
  std::uint64_t number();

  // One to eight changes of `input`; `other` is what pieces may come from.
  std::string mutate(std::string_view input, std::string_view other, std::size_t size_max);

 private:
  void change(std::string& bytes, std::string_view other);
  void change_integer(std::string& bytes);
  void change_varint(std::string& bytes);
  void move_piece(std::string& bytes, std::string_view other);

  std::uint64_t state_;
};

}  // namespace lsmfs::fuzz

// Sizes as people write them: 4096, 64K, 512M, 4G, 1T (powers of 1024).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// nullopt: not a size, or over 2^63 bytes.
std::optional<ByteCount> parse_size(std::string_view text);
// A whole number without sign; nullopt: not one, or over `most`.
std::optional<std::uint64_t> parse_number(std::string_view text, std::uint64_t most);
// "1.5 GiB"
std::string format_size(std::uint64_t bytes);

}  // namespace lsmfs::cli

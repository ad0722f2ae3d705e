#include "simdisk/control.h"

namespace lsmfs::simdisk {
namespace {

std::string_view word(std::string_view written) {
  if (!written.empty() && written.back() == '\n') written.remove_suffix(1);
  return written;
}

}  // namespace

std::optional<Profile> parse_profile(std::string_view written) { return profile_of(word(written)); }

std::optional<bool> parse_switch(std::string_view written) {
  if (word(written) == "on") return true;
  if (word(written) == "off") return false;
  return std::nullopt;
}

}  // namespace lsmfs::simdisk

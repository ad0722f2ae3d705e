// How long a disk of some kind takes for a request, given what it did before.
//
// What it is not: it reads no clock, does no I/O and draws no random numbers, so that the same requests always
// cost the same. It serves one request at a time and knows nothing of those that wait. The formulas and where
// their constants come from are in README.md.
//
// Threads: none of its own; one caller at a time.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "simdisk/request.h"

namespace lsmfs::simdisk {

enum class Profile : std::uint8_t { hdd, ssd_sata, cloud_volume, none };
inline constexpr std::array kProfiles{Profile::hdd, Profile::ssd_sata, Profile::cloud_volume, Profile::none};

// As people write it: "ssd-sata".
std::string_view name_of(Profile profile);
std::optional<Profile> profile_of(std::string_view name);
// "hdd, ssd-sata, cloud-volume, none", for messages.
std::string profile_names();

class ServiceModel {
 public:
  explicit ServiceModel(Profile profile) : profile_(profile) {}

  // The time for this request, which comes next. Flushes and discards cost nothing and leave the position alone;
  // reads and writes cost the same.
  Nanos service(const Request& request);

  Profile profile() const { return profile_; }
  // From the next request on; where the disk stands does not change.
  void set_profile(Profile profile) { profile_ = profile; }
  // Where the last read or write ended; a request that begins there costs no positioning. At first 0.
  ByteOffset position() const { return position_; }

 private:
  Profile profile_;
  ByteOffset position_;
  ByteCount run_;  // bytes since the disk last had to go elsewhere
};

}  // namespace lsmfs::simdisk

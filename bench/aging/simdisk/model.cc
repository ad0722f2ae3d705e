#include "simdisk/model.h"

#include <algorithm>
#include <cmath>

namespace lsmfs::simdisk {
namespace {

// ---- hard disk: 7200 rpm, 500 GB

constexpr double kHddBytesPerSecond = 122.7e6;
constexpr double kHddHalfRotation = 0.5 * 60 / 7200;
constexpr double kHddSpan = 500e9;
constexpr double kHddTrackToTrack = 1.0e-3;
constexpr double kHddSeekGrowth = 13.1e-3;  // of a seek from one end to the other, beyond kHddTrackToTrack

double hdd_transfer(std::uint64_t bytes) { return static_cast<double>(bytes) / kHddBytesPerSecond; }

double hdd_positioning(std::uint64_t distance) {
  const double share = std::min(static_cast<double>(distance) / kHddSpan, 1.0);
  return kHddTrackToTrack + kHddSeekGrowth * std::sqrt(share) + kHddHalfRotation;
}

double hdd(ByteOffset position, const Request& request) {
  const double transfer = hdd_transfer(request.length.v);
  if (request.offset == position) return transfer;
  if (request.offset < position) return hdd_positioning((position - request.offset).v) + transfer;
  // A short way forward, the platter brings it by itself.
  const std::uint64_t gap = (request.offset - position).v;
  return std::min(hdd_transfer(gap), hdd_positioning(gap)) + transfer;
}

// ---- SATA SSD

struct Point {
  double bytes, seconds;
};

constexpr Point measured(double bytes, double bytes_per_second) { return {bytes, bytes / bytes_per_second}; }

// The time of one run of so many bytes, at random places.
constexpr std::array kSsdRuns{measured(4.0 * KiB, 40e6), measured(64.0 * KiB, 154e6), measured(1.0 * MiB, 284e6),
                              measured(4.0 * MiB, 415e6), measured(16.0 * MiB, 519e6)};

// Linear between the points, and beyond them as in the first and the last interval. 0 for no bytes at all, so that
// the first request of a run pays for its start.
double ssd_run(std::uint64_t bytes) {
  if (bytes == 0) return 0;
  const double x = static_cast<double>(bytes);
  std::size_t right = 1;
  while (right + 1 < kSsdRuns.size() && x > kSsdRuns[right].bytes) ++right;
  const Point &a = kSsdRuns[right - 1], &b = kSsdRuns[right];
  return a.seconds + (x - a.bytes) * (b.seconds - a.seconds) / (b.bytes - a.bytes);
}

// ---- cloud volume: limits of requests and of bytes a second, wherever they go

constexpr double kCloudRequestsPerSecond = 3000;
constexpr double kCloudBytesPerSecond = 125e6;
constexpr std::uint64_t kCloudRequestMax = 256 * KiB;

double cloud(std::uint64_t bytes) {
  const double requests = static_cast<double>(std::max<std::uint64_t>(div_up(bytes, kCloudRequestMax), 1));
  return std::max(requests / kCloudRequestsPerSecond, static_cast<double>(bytes) / kCloudBytesPerSecond);
}

Nanos nanos(double seconds) { return Nanos(std::llround(seconds * 1e9)); }

constexpr std::array<std::string_view, kProfiles.size()> kNames{"hdd", "ssd-sata", "cloud-volume", "none"};

}  // namespace

std::string_view name_of(Profile profile) { return kNames[static_cast<std::size_t>(profile)]; }

std::optional<Profile> profile_of(std::string_view name) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return kProfiles[static_cast<std::size_t>(found - kNames.begin())];
}

std::string profile_names() {
  std::string all;
  for (const std::string_view name : kNames) all.append(all.empty() ? "" : ", ").append(name);
  return all;
}

Nanos ServiceModel::service(const Request& request) {
  if (!request.transfers() || request.length.v == 0) return Nanos(0);
  const ByteOffset position = position_;
  if (request.offset != position) run_ = {};
  const ByteCount before = run_;
  run_ = run_ + request.length;
  position_ = request.end();
  switch (profile_) {
    case Profile::hdd:
      return nanos(hdd(position, request));
    case Profile::ssd_sata:
      // A difference of rounded times, so that a run costs the same however it is cut.
      return nanos(ssd_run(run_.v)) - nanos(ssd_run(before.v));
    case Profile::cloud_volume:
      return nanos(cloud(request.length.v));
    case Profile::none:
      break;
  }
  return Nanos(0);
}

}  // namespace lsmfs::simdisk

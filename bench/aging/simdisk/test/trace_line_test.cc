#include "simdisk/trace_line.h"

#include <gtest/gtest.h>

namespace lsmfs::simdisk::trace_line_test {
namespace {

TraceEntry entry(std::int64_t time, Kind kind, std::uint64_t offset, std::uint64_t length, std::int64_t service = 0) {
  return {Nanos(time), {kind, ByteOffset{offset}, ByteCount{length}}, Nanos(service)};
}

std::string line_of(const TraceEntry& entry) {
  std::string line;
  append_line(line, entry);
  return line;
}

TEST(SimdiskTraceLine, IsWrittenAsDescribed) {
  EXPECT_EQ(line_of(entry(0, Kind::flush, 0, 0)), "0.000000000 F 0 0 0.000000000\n");
  EXPECT_EQ(line_of(entry(12'000'000'345, Kind::read, 4096, 65536, 13'400'000)),
            "12.000000345 R 4096 65536 0.013400000\n");
}

TEST(SimdiskTraceLine, WhatIsWrittenIsReadBack) {
  for (const auto& e : {entry(1, Kind::read, 0, 512), entry(999'999'999, Kind::write, 1ull << 40, 1 << 20, 7),
                        entry(86'400'000'000'000, Kind::discard, 512, 1ull << 35), entry(5, Kind::flush, 0, 0)}) {
    const std::string line = line_of(e);
    const auto read = parse_line(std::string_view(line).substr(0, line.size() - 1));
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(*read, e) << line;
  }
}

TEST(SimdiskTraceLine, TheServiceTimeMayBeMissingAndSecondsMayBeShort) {
  EXPECT_EQ(*parse_line("1.5 W 512 1024"), entry(1'500'000'000, Kind::write, 512, 1024));
  EXPECT_EQ(*parse_line("7 D 0 4096 0.1"), entry(7'000'000'000, Kind::discard, 0, 4096, 100'000'000));
}

TEST(SimdiskTraceLine, CommentsAndEmptyLinesSayNothing) {
  for (const auto* line : {"", "#", "# truncated", "#1.0 R 0 1"}) {
    const auto read = parse_line(line);
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(*read, std::nullopt) << line;
  }
}

TEST(SimdiskTraceLine, WhatIsNoLineIsRefused) {
  for (const auto* line :
       {"x", "1.0", "1.0 R", "1.0 R 5", "1.0 Q 0 1", "1.0 RW 0 1", "-1 R 0 1", "1. R 0 1", ".5 R 0 1", "1.0000000001 R 0 1",
        "1.0 R -5 1", "1.0 R 0x5 1", "1.0 R 0 1 x", "1.0 R 0 1 1.0 1", "1.0  R 0 1", " 1.0 R 0 1",
        "1.0 R 18446744073709551615 1", "99999999999999999999 R 0 1", "9223372036.9 R 0 1 99999999999999"}) {
    EXPECT_FALSE(parse_line(line)) << line;
  }
}

}  // namespace
}  // namespace lsmfs::simdisk::trace_line_test

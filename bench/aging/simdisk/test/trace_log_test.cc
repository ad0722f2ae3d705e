#include "simdisk/trace_log.h"

#include <gtest/gtest.h>

#include <thread>

namespace lsmfs::simdisk::trace_log_test {
namespace {

Request read(std::uint64_t offset, std::uint64_t length) {
  return {Kind::read, ByteOffset{offset}, ByteCount{length}};
}

// All of it, in pieces of `size`.
std::string all(TraceText& text, std::size_t size) {
  std::string whole;
  for (;;) {
    const std::string piece = text.read(whole.size(), size);
    EXPECT_LE(piece.size(), size);
    if (piece.empty()) return whole;
    whole += piece;
  }
}

std::string lines(std::uint64_t count) {
  std::string out;
  for (std::uint64_t i = 0; i < count; ++i) append_line(out, {Nanos(i), read(i * 4096, 4096), Nanos(i)});
  return out;
}

void fill(TraceLog& log, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) log.add(Nanos(1000 + i), read(i * 4096, 4096), Nanos(i));
}

TEST(SimdiskTraceLog, LogsOnlyWhileItIsOn) {
  TraceLog log(100);
  fill(log, 3);
  EXPECT_EQ(log.text()->read(0, 1000), "");
  log.start(Nanos(1000));
  fill(log, 2);
  log.stop();
  fill(log, 5);
  EXPECT_EQ(log.text()->read(0, 1000), lines(2));
  log.start(Nanos(1000));
  EXPECT_EQ(log.text()->read(0, 1000), "") << "begins anew";
}

TEST(SimdiskTraceLog, IsReadInPiecesOfAnySize) {
  TraceLog log(1'000'000);
  log.start(Nanos(1000));
  constexpr std::uint64_t kLines = kChunkRecords + 10;
  fill(log, kLines);
  const std::string expected = lines(kLines);
  for (const std::size_t size : {1000, 4096, 131072, 1 << 20}) {
    EXPECT_TRUE(all(*log.text(), size) == expected) << size;
  }
}

TEST(SimdiskTraceLog, IsReadFromAnyPlace) {
  TraceLog log(1000);
  log.start(Nanos(1000));
  fill(log, 500);
  const std::string expected = lines(500);
  const auto text = log.text();
  for (const std::size_t offset : {0, 7, 5000, 4999, 5010, 3, static_cast<int>(expected.size()) - 1, 0}) {
    EXPECT_EQ(text->read(offset, 10), expected.substr(offset, 10)) << offset;
  }
  EXPECT_EQ(text->read(expected.size(), 10), "");
  EXPECT_EQ(text->read(expected.size() + 1000, 10), "");
  EXPECT_EQ(text->read(0, 10), expected.substr(0, 10));
}

TEST(SimdiskTraceLog, SaysAtItsEndThatItReachedItsLimit) {
  TraceLog log(3);
  log.start(Nanos(1000));
  fill(log, 3);
  EXPECT_EQ(log.text()->read(0, 1000), lines(3)) << "the limit is reached, but nothing is missing";
  fill(log, 2);
  EXPECT_EQ(log.text()->read(0, 1000), lines(3) + "# truncated\n");
  EXPECT_EQ(all(*log.text(), 5), lines(3) + "# truncated\n");
  log.start(Nanos(1000));
  fill(log, 1);
  EXPECT_EQ(log.text()->read(0, 1000), lines(1));
}

TEST(SimdiskTraceLog, ATextStaysAsItWas) {
  TraceLog log(100);
  log.start(Nanos(1000));
  fill(log, 2);
  const auto text = log.text();
  log.add(Nanos(1), read(0, 1), Nanos(1));
  log.start(Nanos(1000));
  log.add(Nanos(1), read(0, 1), Nanos(1));
  EXPECT_EQ(text->read(0, 1000), lines(2));
}

TEST(SimdiskTraceLog, AnotherThreadReadsWhileItGoesOn) {
  TraceLog log(1'000'000);
  log.start(Nanos(1000));
  fill(log, 1000);
  const auto text = log.text();
  std::thread reader([&] { EXPECT_TRUE(all(*text, 4096) == lines(1000)); });
  fill(log, kChunkRecords);
  log.start(Nanos(1000));
  fill(log, 1000);
  reader.join();
}

TEST(SimdiskTraceLog, LargeDiscardsBecomeSeveralLinesAndLongTimesAreCut) {
  TraceLog log(100);
  log.start(Nanos(0));
  log.add(Nanos(1), {Kind::discard, ByteOffset{512}, ByteCount{5 * GiB}}, Nanos(0));
  log.add(Nanos(-5), read(0, 1), std::chrono::seconds(10));
  EXPECT_EQ(log.text()->read(0, 1000),
            "0.000000001 D 512 2147483648 0.000000000\n"
            "0.000000001 D 2147484160 3221225472 0.000000000\n"
            "0.000000000 R 0 1 4.294967295\n");
}

}  // namespace
}  // namespace lsmfs::simdisk::trace_log_test

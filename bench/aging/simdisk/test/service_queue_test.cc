#include "simdisk/service_queue.h"

#include <gtest/gtest.h>

namespace lsmfs::simdisk::service_queue_test {
namespace {

Request read(std::uint64_t offset, std::uint64_t length) {
  return {Kind::read, ByteOffset{offset}, ByteCount{length}};
}

TEST(SimdiskQueue, TheOldestIsNext) {
  ServiceQueue<int> queue;
  queue.push(read(300, 10), {}, 1);
  queue.push(read(100, 10), {}, 2);
  queue.push(read(200, 10), {}, 3);
  EXPECT_EQ(queue.pop(ByteOffset{0}, {}), 1);
  EXPECT_EQ(queue.pop(ByteOffset{0}, {}), 2);
  EXPECT_EQ(queue.pop(ByteOffset{0}, {}), 3);
  EXPECT_TRUE(queue.empty());
}

TEST(SimdiskQueue, WhatBeginsWhereTheDiskStandsGoesFirst) {
  ServiceQueue<int> queue;
  queue.push(read(500, 10), {}, 1);
  queue.push({Kind::write, ByteOffset{100}, ByteCount{10}}, {}, 2);
  EXPECT_EQ(queue.pop(ByteOffset{100}, {}), 2);
  EXPECT_EQ(queue.pop(ByteOffset{110}, {}), 1);
}

TEST(SimdiskQueue, PiecesThatCameOutOfOrderAreOneRun) {
  ServiceQueue<std::uint64_t> queue;
  for (const std::uint64_t piece : {0, 3, 1, 2, 4}) queue.push(read(piece * 10, 10), {}, piece);
  for (std::uint64_t piece = 0; piece < 5; ++piece) EXPECT_EQ(queue.pop(ByteOffset{piece * 10}, {}), piece);
}

TEST(SimdiskQueue, AStreamDoesNotHoldUpTheOldestForEver) {
  ServiceQueue<int> queue;
  queue.push(read(1 << 20, 10), {}, -1);
  constexpr int kStream = 100;
  for (int i = 0; i < kStream; ++i) queue.push(read(static_cast<std::uint64_t>(i) * 10, 10), {}, i);
  unsigned passed = 0;
  while (queue.pop(ByteOffset{passed * 10}, {}) != -1) ++passed;
  EXPECT_EQ(passed, ServiceQueue<int>::kPassesMax);
}

TEST(SimdiskQueue, WhatComesLaterIsNotKnownYet) {
  ServiceQueue<int> queue;
  for (const bool known : {false, true}) {
    queue.push(read(500, 10), Nanos(5), 1);
    queue.push(read(100, 10), Nanos(8), 2);
    EXPECT_EQ(queue.pop(ByteOffset{100}, Nanos(known ? 8 : 3)), known ? 2 : 1);
    queue.pop(ByteOffset{0}, Nanos(10));
  }
}

TEST(SimdiskQueue, AFlushIsNeverEarly) {
  ServiceQueue<int> queue;
  queue.push({Kind::write, ByteOffset{500}, ByteCount{10}}, {}, 1);
  queue.push({Kind::flush, {}, {}}, {}, 2);
  queue.push({Kind::discard, {}, ByteCount{10}}, {}, 3);
  EXPECT_EQ(queue.pop(ByteOffset{0}, {}), 1);
  EXPECT_EQ(queue.pop(ByteOffset{0}, {}), 2);
  EXPECT_EQ(queue.pop(ByteOffset{0}, {}), 3);
}

}  // namespace
}  // namespace lsmfs::simdisk::service_queue_test

// Requests are counted once each, by kind, time and program, whoever answers them.
#include "fuse/serving/request_counts.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "fuse/mounted.h"
#include "until.h"

namespace lsmfs::test::request_counts_test {
namespace {

using namespace std::chrono_literals;

Request request(std::uint32_t opcode, std::uint32_t program, std::uint32_t bytes = 0) {
  return {.unique = 1, .ino = 1, .opcode = opcode, .since = Clock::Time(1s), .program = program, .bytes = bytes};
}

TEST(RequestCounts, AreByKindWithTheTimeThatEachTook) {
  RequestCounts counts;
  RequestCounts::Server server(counts);
  server.answered(request(FUSE_READ, 7), 1, 5us);
  counts.ended(request(FUSE_READ, 7), Clock::Time(1s + 3ms));
  counts.ended(request(FUSE_WRITE, 8, 4096), Clock::Time(1s));
  counts.ended(request(FUSE_WRITE, 8, 100), Clock::Time(0s));  // a clock that goes back counts as no time
  server.answered(request(12345, 8), 1, 0s);
  const RequestStats stats = counts.stats();
  EXPECT_EQ(stats.kinds[FUSE_READ].count, 2u);
  EXPECT_EQ(stats.kinds[FUSE_READ].took.count(), 2u);
  EXPECT_EQ(stats.kinds[FUSE_READ].took.sum_ns, 3'005'000u);
  EXPECT_EQ(stats.kinds[FUSE_READ].waited, 1u);
  EXPECT_EQ(stats.kinds[FUSE_WRITE].bytes, 4196u);
  EXPECT_EQ(stats.kinds[FUSE_WRITE].took.buckets[0], 2u);
  EXPECT_EQ(stats.kinds[RequestStats::kKinds - 1].count, 1u) << "of a kind that nobody knows";
}

TEST(RequestCounts, TimeTheFirstOfAKindAndThenEachSixteenth) {
  RequestCounts counts;
  RequestCounts::Server server(counts);
  std::uint64_t timed = 0;
  for (int i = 0; i < 64 + 800; ++i) {
    const unsigned weight = server.weight(FUSE_GETATTR);
    timed += weight > 0 ? 1 : 0;
    server.answered(request(FUSE_GETATTR, 3), weight, 2us);
  }
  const KindCount count = counts.stats().kinds[FUSE_GETATTR];
  EXPECT_EQ(timed, 114u);
  EXPECT_EQ(count.count, 864u);
  EXPECT_EQ(count.took.count(), 864u);
  EXPECT_EQ(count.took.sum_ns, 864u * 2000);
  EXPECT_EQ(server.weight(FUSE_READ), 1u);
}

TEST(RequestCounts, KnowTheLatestProgramsAndLoseNoRequest) {
  RequestCounts counts;
  RequestCounts::Server server(counts);
  for (std::uint32_t program = 1; program <= 1000; ++program) server.answered(request(FUSE_READ, program), 0, 0s);
  for (int i = 0; i < 10; ++i) server.answered(request(FUSE_READ, 999), 0, 0s);
  const RequestStats stats = counts.stats();
  ASSERT_LE(stats.programs.size(), RequestStats::kProgramsMax);
  EXPECT_EQ(stats.programs.front().id, 999u);
  EXPECT_EQ(stats.programs.front().requests, 11u);
  std::uint64_t sum = stats.other_programs;
  for (const auto& program : stats.programs) {
    sum += program.requests;
    EXPECT_GT(program.id, 900u);
  }
  EXPECT_EQ(sum, 1010u);
}

TEST(RequestCounts, OfManyThreadsAreAllThere) {
  RequestCounts counts;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 1; t <= 20; ++t) {
    threads.emplace_back([&counts, t] {
      RequestCounts::Server server(counts);
      for (int i = 0; i < 500; ++i) server.answered(request(FUSE_LOOKUP, t), 0, 0s);
      for (int i = 0; i < 500; ++i) counts.ended(request(FUSE_LOOKUP, t), Clock::Time(1s + 2us));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counts.stats().kinds[FUSE_LOOKUP].count, 20'000u);
  EXPECT_EQ(counts.stats().kinds[FUSE_LOOKUP].waited, 10'000u);
}

class CountedMount : public MountTest {};

TEST_F(CountedMount, TellsWhatWasAskedOnceEach) {
  MemoryTree tree;
  Mounted mounted(tree, {}, {.stats = [] {
    LayerStats layers;
    layers.store.stalls = 17;
    return layers;
  }});
  ASSERT_EQ(write_file(mounted.path("file"), std::string(10'000, 'x')), 0);
  const int fd = ::open(mounted.path("file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::fsync(fd), 0);
  ASSERT_EQ(::fsync(fd), 0);
  ::close(fd);
  for (int i = 0; i < 5; ++i) (void)::mkdir(mounted.path("d" + std::to_string(i)).c_str(), 0700);
  // The kernel hears of an answer a moment before it is counted.
  Result<MountStats> stats = make_error(EAGAIN, "");
  ASSERT_TRUE(until([&] {
    stats = stats_of_mount(mounted.root());
    return !stats || (stats->requests.kinds[FUSE_FSYNC].count == 2 && stats->requests.kinds[FUSE_MKDIR].count == 5);
  }));
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_EQ(stats->layers.store.stalls, 17u);
  EXPECT_GT(stats->mounted_ns, 0u);
  EXPECT_EQ(stats->requests.kinds[FUSE_FSYNC].count, 2u);
  EXPECT_EQ(stats->requests.kinds[FUSE_FSYNC].waited, 2u) << "is always a worker's";
  EXPECT_EQ(stats->requests.kinds[FUSE_MKDIR].count, 5u);
  EXPECT_EQ(stats->requests.kinds[FUSE_WRITE].bytes, 10'000u);
  EXPECT_TRUE(std::ranges::any_of(stats->requests.programs, [](const auto& one) { return one.id == static_cast<std::uint32_t>(::gettid()); }));
  const auto again = stats_of_mount(mounted.root());
  ASSERT_TRUE(again);
  EXPECT_EQ(since(*again, *stats).requests.kinds[FUSE_MKDIR].count, 0u);
}

TEST_F(CountedMount, TellsOthersNotWhoAsked) {
  MemoryTree tree;
  Mounted mounted(tree, {.kernel_options = {"allow_other"}});
  (void)::mkdir(mounted.path("d").c_str(), 0755);
  ASSERT_EQ(::chmod(mounted.root().c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool other = ::setgid(65534) == 0 && ::setuid(65534) == 0;
    const auto stats = stats_of_mount(mounted.root());
    ::_exit(!other ? 2 : !stats ? 3 : stats->requests.programs.empty() && stats->requests.other_programs > 0 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lsmfs::test::request_counts_test

// The layout score and what is told of it; finding devices; the thread that reads a trace; the walk.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/layout/block_trace.h"
#include "cli/layout/devices.h"
#include "cli/layout/report.h"
#include "cli/layout/score.h"
#include "cli/layout/trace_reader.h"
#include "cli/layout/walk.h"
#include "cli/program.h"
#include "cli/trace_pages.h"
#include "clock.h"

namespace lsmfs::cli::layout_test {
namespace {

using nlohmann::json;
using test::kDisk;
using enum RequestKind;

BlockRequest request(RequestKind kind, std::uint64_t offset, std::uint64_t bytes, std::uint64_t time = 0) {
  return {time, kDisk, kind, ByteOffset{offset}, ByteCount{bytes}};
}

LayoutCounts counts_of(const std::vector<BlockRequest>& requests) {
  LayoutScore score;
  for (const BlockRequest& one : requests) score.add(one);
  return score.counts();
}

// ---- score

TEST(LayoutScore, IsOneWhenEveryReadBeginsWhereTheOneBeforeEnded) {
  const auto counts = counts_of({request(read, 8192, 4096), request(read, 12288, 65536), request(read, 77824, 512)});
  EXPECT_EQ(counts.discontinuous, 0u);
  EXPECT_EQ(counts.reads.requests, 3u);
  EXPECT_EQ(counts.score(), 1.0);
}

TEST(LayoutScore, CountsEachReadThatBeginsElsewhereAsABlock) {
  // Backwards, the same again, and with a gap.
  const auto counts = counts_of({request(read, 40960, 4096), request(read, 36864, 4096), request(read, 36864, 4096),
                                 request(read, 45056, 4096), request(read, 49152, 16384)});
  EXPECT_EQ(counts.discontinuous, 3u);
  EXPECT_EQ(counts.blocks(), 8.0);
  EXPECT_EQ(counts.score(), 1 - 3.0 / 8);
}

TEST(LayoutScore, IsNeverNegative) {
  EXPECT_EQ(counts_of({request(read, 0, 512), request(read, 4096, 512), request(read, 8192, 512)}).score(), 0.0);
  EXPECT_EQ(counts_of({request(read, 0, 512)}).score(), 1.0);
}

TEST(LayoutScore, DoesNotExistWithoutReads) {
  EXPECT_EQ(counts_of({}).score(), std::nullopt);
  EXPECT_EQ(counts_of({request(write, 0, 4096), request(flush, 0, 0), request(discard, 0, 4096)}).score(), std::nullopt);
  EXPECT_EQ(counts_of({request(read, 0, 0)}).score(), std::nullopt);
}

TEST(LayoutScore, IsAboutReadsAlone) {
  const auto counts = counts_of({request(read, 0, 4096), request(write, 40960, 8192), request(flush, 0, 0),
                                 request(discard, 0, 65536), request(other, 0, 512), request(read, 4096, 4096)});
  EXPECT_EQ(counts.score(), 1.0);
  EXPECT_EQ(counts.writes.requests, 1u);
  EXPECT_EQ(counts.writes.bytes.v, 8192u);
  EXPECT_EQ(counts.flushes, 1u);
  EXPECT_EQ(counts.discards.bytes.v, 65536u);
  EXPECT_EQ(counts.others.requests, 1u);
}

// ---- report

TracedDevice device(const std::string& name, std::uint64_t start, std::uint64_t size, DiskNumber disk = kDisk) {
  return {name, {}, disk, ByteOffset{start}, ByteCount{size}};
}

TEST(LayoutReport, CountsEachDeviceForItselfAndAPartitionByItsRange) {
  const TracedDevices devices{device("/dev/a1", 4096, 8192), device("/dev/a2", 12288, 8192), device("/dev/b", 0, 1 << 20, 99)};
  LayoutReport report;
  std::vector<BlockRequest> requests{request(read, 0, 4096),     request(read, 4096, 4096), request(read, 12288, 4096),
                                     request(read, 8192, 4096),  request(read, 16384, 4096), request(read, 20480, 4096),
                                     request(flush, 0, 0)};
  requests.push_back({0, 99, read, ByteOffset{0}, ByteCount{4096}});
  requests.push_back({0, 98, read, ByteOffset{0}, ByteCount{4096}});
  report.count(devices, requests);
  ASSERT_EQ(report.devices.size(), 3u);
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(report.devices[i].counts.reads.requests, 2u);
    EXPECT_EQ(report.devices[i].counts.discontinuous, 0u);
  }
  EXPECT_EQ(report.devices[2].counts.reads.requests, 1u);
  EXPECT_EQ(report.total.reads.requests, 5u);
  EXPECT_EQ(report.total.flushes, 1u);
  EXPECT_EQ(report.total.score(), 1.0);
}

TEST(LayoutReport, SaysTheSameToPeopleAndPrograms) {
  LayoutReport report;
  report.path = "/mnt/\xff";
  report.walk = {.files = 3, .directories = 1, .bytes = ByteCount{1 << 20}};
  report.seconds = 1.25;
  report.count({device("/dev/loop3", 0, 1 << 20)}, {request(read, 0, 4096), request(read, 8192, 4096)});
  EXPECT_EQ(layout_text(report), "/mnt/\xff: 3 files, 1.00 MiB read in 1.25 s\n"
                                 "device /dev/loop3: 2 reads, 8.00 KiB; 1 discontinuous; layout score 0.500\n");
  const json facts = json::parse(layout_json(report));
  EXPECT_EQ(facts["files"], 3);
  EXPECT_EQ(facts["bytes"], 1 << 20);
  EXPECT_EQ(facts["score"], 0.5);
  EXPECT_EQ(facts["devices"][0]["device"], "/dev/loop3");
  EXPECT_EQ(facts["devices"][0]["read_bytes"], 8192);
  EXPECT_FALSE(facts.contains("command"));
}

TEST(LayoutReport, SaysThatNothingWasReadAndHowACommandEnded) {
  LayoutReport report;
  report.command = {"grep", "-r", "x"};
  report.status = 1 << 8;
  report.count({device("/dev/a", 0, 4096), device("/dev/b", 0, 4096, 99)}, {});
  const std::string text = layout_text(report);
  EXPECT_NE(text.find("grep: exit status 1"), std::string::npos) << text;
  EXPECT_NE(text.find("device /dev/a: nothing was read"), std::string::npos) << text;
  EXPECT_NE(text.find("all devices"), std::string::npos) << text;
  json facts = json::parse(layout_json(report));
  EXPECT_TRUE(facts["score"].is_null() && facts["signal"].is_null());
  EXPECT_EQ(facts["exit_status"], 1);
  EXPECT_EQ(facts["command"], json({"grep", "-r", "x"}));
  report.status = 9;
  facts = json::parse(layout_json(report));
  EXPECT_TRUE(facts["exit_status"].is_null());
  EXPECT_EQ(facts["signal"], 9);
}

TEST(LayoutReport, WritesATraceOfOneLineForEachRequest) {
  BlockTrace::Recording recording;
  recording.begin_ns = 5'000'000'000;
  recording.requests = {request(read, 8192, 4096, 4'999'999'999), request(write, 4096, 512, 5'000'000'001),
                        request(flush, 0, 0, 7'123'456'789), request(other, 4096, 4096, 8'000'000'000),
                        request(read, 0, 4096, 8'000'000'000), request(discard, 12288, 4096, 9'000'000'000)};
  EXPECT_EQ(trace_text({device("/dev/a1", 4096, 8192), device("/dev/a2", 12288, 4096)}, recording),
            "# seconds, R|W|F|D, offset in bytes, bytes\n"
            "# device /dev/a1\n"
            "0.000000000 R 4096 4096\n"
            "0.000000001 W 0 512\n"
            "2.123456789 F 0 0\n"
            "# 3.000000000 N 0 4096\n"
            "# device /dev/a2\n"
            "4.000000000 D 0 4096\n");
}

// ---- devices, in a sysfs made of files

class LayoutFolder : public lsmfs::test::Folder {
 protected:
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  void add_disk(const std::string& name, const std::string& number, bool queues = true) {
    put(name + "/dev", number + "\n");
    put(name + "/size", "2048\n");
    if (queues) std::filesystem::create_directories(path(name + "/mq"));
    link(name, number);
  }
  void link(const std::string& name, const std::string& number) {
    std::filesystem::create_directories(path("block"));
    std::filesystem::create_directory_symlink(path(name), path("block/" + number));
  }
  Result<TracedDevices> devices(unsigned major, unsigned minor) { return devices_of_number(makedev(major, minor), path("block")); }
};

TEST_F(LayoutFolder, AWholeDiskIsTracedAsItself) {
  add_disk("cciss!c0d0", "104:0");
  const auto found = devices(104, 0);
  ASSERT_TRUE(found) << found.error().context;
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().name, "/dev/cciss/c0d0");
  EXPECT_EQ(found->front().disk, disk_number(104, 0));
  EXPECT_EQ(found->front().start.v, 0u);
  EXPECT_EQ(found->front().size.v, 2048 * kSector);
}

TEST_F(LayoutFolder, APartitionIsARangeOfItsDisk) {
  add_disk("sda", "8:0");
  put("sda/sda2/dev", "259:3\n");
  put("sda/sda2/partition", "2\n");
  put("sda/sda2/start", "1024\n");
  put("sda/sda2/size", "512\n");
  link("sda/sda2", "259:3");
  const auto found = devices(259, 3);
  ASSERT_TRUE(found) << found.error().context;
  const TracedDevice& partition = found->front();
  EXPECT_EQ(partition.name, "/dev/sda2");
  EXPECT_EQ(partition.disk, disk_number(8, 0));
  EXPECT_EQ(partition.nodes, std::vector{makedev(259, 3)});
  BlockRequest one = request(RequestKind::read, 1024 * kSector, 4096);
  EXPECT_FALSE(partition.holds(one));
  one.disk = disk_number(8, 0);
  EXPECT_TRUE(partition.holds(one));
  one.offset = ByteOffset{1024 * kSector - 1};
  EXPECT_FALSE(partition.holds(one));
  one.offset = ByteOffset{(1024 + 512) * kSector};
  EXPECT_FALSE(partition.holds(one));
  one = {0, disk_number(8, 0), flush, ByteOffset{0}, ByteCount{0}};
  EXPECT_TRUE(partition.holds(one));
}

TEST_F(LayoutFolder, OfAMappedDeviceThoseBelowAreTracedEachOnce) {
  add_disk("sda", "8:0");
  add_disk("sdb", "8:16");
  add_disk("dm-0", "253:0", false);
  add_disk("dm-1", "253:1", false);
  for (const auto& [upper, lower] : {std::pair("dm-0", "sda"), {"dm-0", "sdb"}, {"dm-1", "dm-0"}, {"dm-1", "sdb"}}) {
    std::filesystem::create_directories(path(std::string(upper) + "/slaves"));
    std::filesystem::create_directory_symlink(path(lower), path(std::string(upper) + "/slaves/" + lower));
  }
  auto found = devices(253, 1);
  ASSERT_TRUE(found) << found.error().context;
  ASSERT_EQ(found->size(), 2u);
  std::sort(found->begin(), found->end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  EXPECT_EQ((*found)[0].name, "/dev/sda");
  EXPECT_EQ((*found)[1].name, "/dev/sdb");
  EXPECT_EQ((*found)[0].nodes, std::vector{makedev(253, 1)});
}

TEST_F(LayoutFolder, ADiskBelowTwoDevicesIsTracedOnceAndForBoth) {
  add_disk("sda", "8:0");
  for (const char* upper : {"dm-0", "dm-1"}) {
    add_disk(upper, std::string("253:") + upper[3], false);
    std::filesystem::create_directories(path(std::string(upper) + "/slaves"));
    std::filesystem::create_directory_symlink(path("sda"), path(std::string(upper) + "/slaves/sda"));
  }
  TracedDevices found;
  for (const unsigned number : {0, 1}) {
    const auto more = devices(253, number);
    ASSERT_TRUE(more) << more.error().context;
    add(found, *more);
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "/dev/sda");
  EXPECT_EQ(found[0].nodes, (std::vector{makedev(253, 0), makedev(253, 1)}));
}

TEST_F(LayoutFolder, ADeviceThatIsOddOrHasNoQueueIsRefused) {
  EXPECT_EQ(devices(8, 0).error().code, ENODEV);
  add_disk("zram0", "252:0", false);
  EXPECT_EQ(devices(252, 0).error().code, EOPNOTSUPP);
  add_disk("sda", "8:0");
  for (const char* bad : {"", "8", "8:", "x:0", "8:0:0", "8:-1", "99999:0"}) {
    put("sda/dev", bad);
    EXPECT_EQ(devices(8, 0).error().code, ENODEV) << bad;
  }
  put("sda/dev", "8:0");
  for (const char* bad : {"", "-1", "99999999999999999999", "36028797018963968"}) {
    put("sda/size", bad);
    EXPECT_EQ(devices(8, 0).error().code, ENODEV) << bad;
  }
  add_disk("dm-0", "253:0", false);  // on itself
  std::filesystem::create_directories(path("dm-0/slaves"));
  std::filesystem::create_directory_symlink(path("dm-0"), path("dm-0/slaves/dm-0"));
  EXPECT_EQ(devices(253, 0).error().code, ENODEV);
}

TEST_F(LayoutFolder, WhatHasNoDeviceIsNamed) {
  EXPECT_NE(devices_of_path("/proc").error().context.find("/proc: no block device"), std::string::npos);
  EXPECT_EQ(devices_of_path(path("nothing")).error().context, path("nothing") + ": does not exist");
  EXPECT_EQ(devices_of_node(path("nothing")).error().code, ENOENT);
  EXPECT_EQ(devices_of_node("/dev/null").error().code, ENOTBLK);
}

// ---- the reader, on pipes that keep pages apart as the kernel's files do

class Pipes {
 public:
  explicit Pipes(int count) {
    for (int i = 0; i < count; ++i) {
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC | O_DIRECT), 0);
      readers.emplace_back(ends[0]);
      writers_.emplace_back(ends[1]);
    }
  }
  // False: it is full.
  bool put(int pipe, const test::Page& page) {
    const std::string bytes = page.bytes();
    return ::write(writers_[static_cast<std::size_t>(pipe)].get(), bytes.data(), bytes.size()) > 0;
  }
  std::vector<Fd> readers;

 private:
  std::vector<Fd> writers_;
};

TEST(TraceReader, GivesAllThatWasTracedWhileItRead) {
  constexpr std::uint64_t kPages = 300;
  Pipes pipes(3);
  lsmfs::test::SteppedClock clock;
  TraceReader reader(clock, std::move(pipes.readers), test::pages(), test::events());
  ASSERT_TRUE(clock.await_waiting(1));
  unsigned emptied = 0;
  for (std::uint64_t i = 0; i < kPages; ++i) {
    test::Page page(i * 100);
    page.issue(1, i * 8, 4096, "R");
    page.foreign(1);
    while (!pipes.put(static_cast<int>(i % 3), page)) {
      ASSERT_TRUE(clock.step(std::chrono::seconds(1)));
      ASSERT_LT(++emptied, kPages) << "the pipe stays full";
    }
  }
  EXPECT_GT(emptied, 0u);
  const auto events = reader.finish();
  ASSERT_TRUE(events) << events.error().message();
  const auto requests = in_order(*events);
  ASSERT_EQ(requests.size(), kPages);
  for (std::uint64_t i = 0; i < kPages; ++i) EXPECT_EQ(requests[i].offset.v, i * 4096);
  EXPECT_EQ(counts_of(requests).score(), 1.0);
}

TEST(TraceReader, FailsWhenEventsWereLostOrMakeNoSense) {
  for (const bool lost : {true, false}) {
    Pipes pipes(2);
    test::Page page(1);
    if (lost) {
      page.lost();
    } else {
      page.discarded(8192);
    }
    ASSERT_TRUE(pipes.put(1, page));
    TraceReader reader(system_clock(), std::move(pipes.readers), test::pages(), test::events());
    EXPECT_EQ(reader.finish().error().code, lost ? EOVERFLOW : EBADMSG);
  }
}

TEST(TraceReader, SaysWhyItCannotRead) {
  std::vector<Fd> streams;
  streams.emplace_back(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  TraceReader reader(system_clock(), std::move(streams), test::pages(), test::events());
  EXPECT_EQ(reader.finish().error().context, "the kernel's trace cannot be read: Is a directory");
}

TEST(TraceReader, EndsWithoutBeingAskedForAnything) {
  Pipes pipes(1);
  const TraceReader reader(system_clock(), std::move(pipes.readers), test::pages(), test::events());
}

// ---- the trace, on a tracefs made of files

TEST_F(LayoutFolder, AKernelWithoutTheEventIsNamedAndNothingIsLeft) {
  std::filesystem::create_directories(path("tracing/instances/lsmfs-layout-999999999.0"));
  std::filesystem::create_directories(path("tracing/instances/lsmfs-layout-1.0"));
  std::filesystem::create_directories(path("tracing/instances/other"));
  const Fd root(open(path("tracing").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto trace = BlockTrace::start(root, {kDisk}, ByteCount{MiB});
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, ENOENT);
  EXPECT_NE(trace.error().context.find("block_rq_issue"), std::string::npos) << trace.error().context;
  // Its own is gone, and that of a process that is gone; those of others are theirs.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("tracing/instances")), {}), 2);
  EXPECT_FALSE(std::filesystem::exists(path("tracing/instances/lsmfs-layout-999999999.0")));
}

// ---- the walk

TEST_F(LayoutFolder, AWalkReadsEveryRegularFileOnce) {
  put("t/a", std::string(300'000, 'a'));
  put("t/b/c/d", "12345");
  put("t/b/empty", "");
  std::filesystem::create_symlink(path("t/a"), path("t/link"));
  std::filesystem::create_directory_symlink(path("t"), path("t/b/round"));
  ASSERT_EQ(mkfifo(path("t/fifo").c_str(), 0600), 0);
  const auto counts = read_tree(path("t"), [] { return false; });
  ASSERT_TRUE(counts) << counts.error().context;
  EXPECT_EQ(counts->files, 3u);
  EXPECT_EQ(counts->directories, 3u);
  EXPECT_EQ(counts->bytes.v, 300'005u);
  EXPECT_EQ(counts->failures, 0u) << counts->first_failure;
  EXPECT_EQ(read_tree(path("t/a"), [] { return false; })->bytes.v, 300'000u);
}

TEST_F(LayoutFolder, AWalkPassesOverHoles) {
  make_file("sparse", std::uint64_t{1} << 40);
  patch("sparse", std::uint64_t{1} << 39, "data");
  const auto counts = read_tree(path("sparse"), [] { return false; });
  ASSERT_TRUE(counts) << counts.error().context;
  EXPECT_GE(counts->bytes.v, 4u);
  EXPECT_LT(counts->bytes.v, 10 * MiB);
}

TEST_F(LayoutFolder, AWalkEndsWhenItIsTold) {
  put("t/a", "1");
  put("t/b", "2");
  int asked = 0;
  EXPECT_EQ(read_tree(path("t"), [&] { return ++asked == 3; }).error().code, EINTR);
  EXPECT_EQ(asked, 3);
}

TEST_F(LayoutFolder, AWalkNeedsADirectoryOrAFile) {
  const auto never = [] { return false; };
  EXPECT_EQ(read_tree(path("nothing"), never).error().context, path("nothing") + ": does not exist");
  EXPECT_EQ(read_tree("/dev/null", never).error().code, EINVAL);
}

TEST_F(LayoutFolder, AWalkEntersNoOtherMount) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount";
  put("t/a", "1");
  put("t/file", "22");
  put("other/b", "333");
  make_directory("t/mounted");
  ASSERT_EQ(::mount(path("other").c_str(), path("t/mounted").c_str(), nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(path("other/b").c_str(), path("t/file").c_str(), nullptr, MS_BIND, nullptr), 0);
  const auto counts = read_tree(path("t"), [] { return false; });
  ::umount(path("t/file").c_str());
  ::umount(path("t/mounted").c_str());
  ASSERT_TRUE(counts) << counts.error().context;
  EXPECT_EQ(counts->files, 1u);
  EXPECT_EQ(counts->failures, 0u) << counts->first_failure;
}

}  // namespace
}  // namespace lsmfs::cli::layout_test

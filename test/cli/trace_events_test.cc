// What the kernel hands out as its trace: recorded, made up, and damaged.

#include "cli/layout/trace_events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cli/trace_pages.h"

namespace lsmfs::cli::trace_events_test {
namespace {

using test::Page;
using test::kDisk;

std::vector<BlockEvent> read_all(const std::string& page, bool* lost = nullptr) {
  std::vector<BlockEvent> events;
  const auto read = test::pages().read(as_bytes(page), [&](std::uint64_t time, Bytes record) -> Result<void> {
    LSMFS_ASSIGN(const auto event, test::events().read(time, record));
    if (event) events.push_back(*event);
    return {};
  });
  EXPECT_TRUE(read) << (read ? "" : read.error().message());
  if (lost && read) *lost = *read;
  return events;
}

// EBADMSG and nothing else, or it is understood.
void read_hostile(const std::string& page) {
  const auto read = test::pages().read(as_bytes(page), [&](std::uint64_t time, Bytes record) -> Result<void> {
    LSMFS_TRY(test::events().read(time, record));
    return {};
  });
  EXPECT_EQ(read ? EBADMSG : read.error().code, EBADMSG);
}

TEST(TraceFormat, KnowsTheFieldsThatTheKernelTells) {
  const auto format = TraceFormat::parse(test::kIssueFormat);
  ASSERT_TRUE(format);
  EXPECT_EQ(format->id(), 2104u);
  EXPECT_EQ(format->number("sector")->offset, 16u);
  EXPECT_EQ(format->number("sector")->size, 8u);
  EXPECT_EQ(format->field("rwbs")->offset, 34u);
  EXPECT_EQ(format->field("rwbs")->size, 10u);
  EXPECT_EQ(format->field("nothing").error().code, EBADMSG);
  EXPECT_EQ(format->number("rwbs").error().code, EBADMSG);  // longer than a number
  EXPECT_EQ(test::pages().size(), 4096u);
}

TEST(TraceFormat, ThatIsOddIsRefused) {
  for (const char* bad : {"\tfield:int x;\toffset:-1;\tsize:4;", "\tfield:int x;\toffset:0;", "\tfield:x;\toffset:0;\tsize:4;",
                          "\tfield:int x;\toffset:99999999999999999999;\tsize:4;", "\tfield:int x;\toffset:0;\tsize:1000000;", "field:"}) {
    const auto format = TraceFormat::parse(bad);
    ASSERT_FALSE(format) << bad;
    EXPECT_EQ(format.error().code, EBADMSG);
  }
  EXPECT_TRUE(TraceFormat::parse(""));
  EXPECT_FALSE(BlockEvents::from(*TraceFormat::parse(""), *TraceFormat::parse("")));
  EXPECT_FALSE(TracePages::from(*TraceFormat::parse("")));
  EXPECT_FALSE(BlockEvents::from(*TraceFormat::parse(test::kIssueFormat), *TraceFormat::parse(test::kIssueFormat)));
}

TEST(RequestKind, IsToldByTheLettersOfAnEvent) {
  using enum RequestKind;
  const std::pair<const char*, RequestKind> cases[] = {
      {"R", read}, {"RA", read}, {"RM", read}, {"RAM", read}, {"RS", read}, {"RSM", read}, {"RF", read},
      {"W", write}, {"WS", write}, {"WFS", write}, {"FW", write}, {"FWFSM", write}, {"WM", write}, {"ZAS", write},
      {"F", flush}, {"FF", flush}, {"FFS", flush}, {"D", discard}, {"DS", discard}, {"DE", discard},
      {"N", other}, {"NS", other}, {"ZR", other}, {"ZO", other}, {"", other}, {"?", other}, {"r", other}};
  for (const auto& [letters, kind] : cases) EXPECT_EQ(kind_of(letters), kind) << letters;
}

// Of a small ext4 that was mounted and written to, on a loop device of Linux 6.18.
TEST(TracePages, OfTheKernelAreUnderstood) {
  bool lost = true;
  const auto events = read_all(test::bytes_of(test::kRecorded), &lost);
  EXPECT_FALSE(lost);
  ASSERT_EQ(events.size(), 9u);
  using enum RequestKind;
  const RequestKind kinds[] = {write, flush, read, write, write, flush, write, other, other};
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].request.kind, kinds[i]) << i;
    EXPECT_EQ(events[i].request.disk, kDisk);
    EXPECT_FALSE(events[i].requeued);
  }
  EXPECT_EQ(events[0].request.time_ns, 39866151122403u);
  EXPECT_EQ(events[0].request.offset.v, 2 * kSector);
  EXPECT_EQ(events[0].request.bytes.v, 1024u);
  EXPECT_EQ(events[1].request.time_ns, 39866151122403u + 10578);
  EXPECT_EQ(events[1].request.bytes.v, 0u);
  // After a pause that has no room in the 27 bits of a record.
  EXPECT_GT(events[7].request.time_ns - events[6].request.time_ns, std::uint64_t{1} << 27);
  EXPECT_EQ(events[8].request.time_ns - events[7].request.time_ns, 32000073u);
  EXPECT_EQ(events[8].request.bytes.v, 518144u);
}

TEST(TracePages, OfEveryKindOfRecordAreUnderstood) {
  Page page(1000);
  page.issue(5, 8, 4096, "R");
  page.time_extend(std::uint64_t{3} << 27 | 7);
  page.long_issue(1, 16, 4096, "RA");
  page.time_stamp(std::uint64_t{5} << 27 | 9);
  page.discarded(16);
  page.issue(2, 24, 4096, "D");
  page.requeue(1, 24, 8, "D");
  page.foreign(1);
  page.padding();
  page.issue(2, 32, 4096, "R");  // lies behind the end
  bool lost = true;
  const auto events = read_all(page.bytes(), &lost);
  EXPECT_FALSE(lost);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].request.time_ns, 1005u);
  EXPECT_EQ(events[1].request.time_ns, 1005u + (std::uint64_t{3} << 27 | 7) + 1);
  EXPECT_EQ(events[1].request.offset.v, 8192u);
  EXPECT_EQ(events[2].request.time_ns, (std::uint64_t{5} << 27 | 9) + 1 + 2);
  EXPECT_EQ(events[2].request.kind, RequestKind::discard);
  EXPECT_TRUE(events[3].requeued);
  EXPECT_EQ(events[3].request.kind, RequestKind::discard);
}

TEST(TracePages, TellThatEventsWereLost) {
  bool lost = false;
  EXPECT_TRUE(read_all(Page(1).lost().bytes(), &lost).empty());
  EXPECT_TRUE(lost);
  Page page(1);
  page.issue(1, 8, 4096, "R");
  EXPECT_EQ(read_all(page.lost().bytes(), &lost).size(), 1u);
  EXPECT_TRUE(lost);
}

TEST(TracePages, WhoseBytesAreWrongAreRefused) {
  const std::string good = test::bytes_of(test::kRecorded);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto read = test::pages().read(as_bytes(good.substr(0, size)), [](std::uint64_t, Bytes) { return Result<void>(); });
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, EBADMSG);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 4000; ++round) {
    std::string page = good;
    for (int i = 0; i < 4; ++i) page[random() % page.size()] = static_cast<char>(random());
    read_hostile(page);
    std::string noise(16 + random() % 200, '\0');
    std::generate(noise.begin() + 16, noise.end(), [&] { return static_cast<char>(random()); });
    noise[8] = static_cast<char>(noise.size() - 16);
    read_hostile(noise);
  }
}

TEST(TracePages, ARecordThatIsTooShortOrBeyondAnyDiskIsRefused) {
  const auto events = test::events();
  Page page(1);
  page.issue(1, 8, 4096, "R");
  const std::string record = page.bytes().substr(20, 64);
  ASSERT_TRUE(events.read(1, as_bytes(record)));
  for (std::size_t size = 0; size < 44; ++size) {
    const auto read = events.read(1, as_bytes(record.substr(0, size)));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, EBADMSG);
  }
  std::string far = record;
  std::fill_n(far.begin() + 16, 8, '\xff');
  EXPECT_EQ(events.read(1, as_bytes(far)).error().code, EBADMSG);
}

BlockEvent event(std::uint64_t time, std::uint64_t offset, RequestKind kind = RequestKind::read, bool requeued = false) {
  return {requeued, {time, kDisk, kind, ByteOffset{offset}, ByteCount{4096}}};
}

std::vector<std::uint64_t> times(std::vector<BlockEvent> events) {
  std::vector<std::uint64_t> result;
  for (const BlockRequest& request : in_order(std::move(events))) result.push_back(request.time_ns);
  return result;
}

TEST(BlockEvents, AreOrderedByTimeWhateverTheProcessor) {
  EXPECT_EQ(times({event(2, 0), event(4, 0), event(1, 0), event(3, 0)}), (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_TRUE(times({}).empty());
}

TEST(BlockEvents, ARequestThatWasRequeuedCountsOnceWhereItWasIssuedLast) {
  const auto kRead = RequestKind::read, kWrite = RequestKind::write;
  EXPECT_EQ(times({event(1, 0), event(2, 0, kRead, true), event(3, 4096), event(4, 0)}), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(times({event(1, 0), event(2, 0, kRead, true), event(3, 0), event(4, 0, kRead, true), event(5, 0)}),
            (std::vector<std::uint64_t>{5}));
  // Of another place, or of another kind, or from before the trace.
  EXPECT_EQ(times({event(1, 0), event(2, 4096, kRead, true), event(3, 0, kWrite, true)}), (std::vector<std::uint64_t>{1}));
}

}  // namespace
}  // namespace lsmfs::cli::trace_events_test

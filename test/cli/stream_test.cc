// Streams of lsmfs send: their records come back as they were, and whatever is done to a stream is found before anything is made of it.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/transfer/frames.h"
#include "cli/transfer/receiving.h"
#include "cli/transfer/records.h"
#include "cli/transfer/snapshot_ids.h"

namespace lsmfs::cli::stream_test {
namespace {

NamedSnapshot snapshot_of(std::uint8_t number, std::string name) {
  NamedSnapshot snapshot{.id = {.volume = {}, .number = number, .made = {-5, 999'999'999}}, .name = std::move(name)};
  snapshot.id.volume.bytes.fill(number);
  return snapshot;
}

StreamOf some_stream() { return {.snapshot = snapshot_of(2, "now"), .base = snapshot_of(1, "before")}; }

std::vector<StreamRecord> some_records() {
  std::vector<StreamRecord> records{TakeRecord{.path = "a/b", .number = 1},
                                    RemoveRecord{.path = "x"},
                                    RemovedRecord(),
                                    PlaceRecord{.path = "c", .number = 1},
                                    NodeRecord{.path = "", .contents = NodeRecord::Contents::kept, .type = S_IFDIR, .uid = 1, .gid = 2, .device = 0, .target = {}},
                                    NodeRecord{.path = "c/\xff file", .contents = NodeRecord::Contents::replaced, .type = S_IFREG, .uid = UINT32_MAX, .gid = 0, .device = 0, .target = {}},
                                    DataRecord{.offset = 4096, .bytes = "some bytes"},
                                    HoleRecord{.offset = 8192, .count = 4096},
                                    XattrRecord{.name = "user.x", .value = std::string("\0y", 2)},
                                    AttributesRecord{.mode = 04755, .size = INT64_MAX, .accessed = {1, 2}, .modified = {-1, 0}, .flags = 0x40, .xattrs = {"user.x", "user.z"}},
                                    NodeRecord{.path = "link", .contents = NodeRecord::Contents::fresh, .type = S_IFLNK, .uid = 0, .gid = 0, .device = 0, .target = "../../etc"},
                                    NodeRecord{.path = "null", .contents = NodeRecord::Contents::fresh, .type = S_IFCHR, .uid = 0, .gid = 0, .device = 259, .target = {}},
                                    LinkRecord{.path = "d", .existing = "c/e"},
                                    FlagsRecord{.path = "", .flags = 0x70}};
  records.emplace_back(EndRecord{.records = records.size(), .bytes = 10});
  return records;
}

std::string written(const StreamOf& of, const std::vector<StreamRecord>& records, StreamPoint from) {
  std::string out;
  const StreamWriter::Sink sink = [&](std::string_view bytes) -> Result<void> {
    out += bytes;
    return {};
  };
  StreamWriter writer(sink, {.of = of, .from = from});
  EXPECT_TRUE(writer.start());
  for (const StreamRecord& record : records) {
    if (writer.is_passed_over()) writer.pass_over();
    else EXPECT_TRUE(writer.put(record));
  }
  return out;
}
std::string written(const StreamOf& of, const std::vector<StreamRecord>& records) { return written(of, records, {.records = 0, .chain = chain_of(of)}); }

// What comes of a stream.
struct Read {
  std::optional<BeginRecord> begin;
  std::vector<StreamRecord> records;
  std::vector<StreamPoint> points;  // behind each
  std::optional<StreamTrouble> trouble;
};
Read read_all(std::string_view bytes, std::size_t piece = SIZE_MAX) {
  Read found;
  const StreamReader::Source source = [&](std::size_t most) -> Result<std::string_view> {
    const std::string_view some = bytes.substr(0, std::min(most, piece));
    bytes.remove_prefix(some.size());
    return some;
  };
  StreamReader reader(source);
  auto begin = reader.start();
  if (!begin) {
    found.trouble = reader.trouble();
    return found;
  }
  found.begin = *begin;
  for (;;) {
    auto record = reader.next();
    if (!record) found.trouble = reader.trouble();
    if (!record || !*record) return found;
    found.records.push_back(**std::move(record));
    found.points.push_back(reader.point());
  }
}

TEST(Streams, ComeBackAsTheyWere) {
  const auto records = some_records();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
    const Read read = read_all(written(some_stream(), records), piece);
    ASSERT_TRUE(read.begin);
    EXPECT_EQ(read.begin->of, some_stream());
    EXPECT_EQ(read.records, records);
    EXPECT_FALSE(read.trouble);
  }
}

TEST(Streams, WithZerosForHolesAreOthers) {
  StreamOf without = some_stream();
  without.without_holes = true;
  EXPECT_NE(chain_of(without), chain_of(some_stream()));
  const Read read = read_all(written(without, {}));
  ASSERT_TRUE(read.begin);
  EXPECT_EQ(read.begin->of, without);
}

TEST(Streams, ThatAreCutAreTakenUpToThere) {
  const std::string whole = written(some_stream(), some_records());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Read read = read_all(whole.substr(0, size));
    ASSERT_EQ(read.trouble, size == 0 ? StreamTrouble::empty : StreamTrouble::cut) << size;
    const auto all = some_records();
    EXPECT_TRUE(std::equal(read.records.begin(), read.records.end(), all.begin())) << size;
  }
}

TEST(Streams, OfWhichAByteChangesAreTakenUpToThere) {
  const std::string whole = written(some_stream(), some_records());
  const auto all = some_records();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {1, 128}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ bit);
      const Read read = read_all(changed);
      ASSERT_TRUE(read.trouble) << at;
      EXPECT_LT(read.records.size(), all.size()) << at;
      EXPECT_TRUE(std::equal(read.records.begin(), read.records.end(), all.begin())) << at;
    }
  }
}

TEST(Streams, RecordsHaveTheirPlace) {
  const auto records = some_records();
  const std::string whole = written(some_stream(), records);
  std::vector<std::string> frames;
  for (std::size_t at = kStreamStartBytes; at < whole.size();) {
    const std::size_t size = kFrameHeaderBytes + Reader(std::string_view(whole).substr(at)).le32();
    frames.push_back(whole.substr(at, size));
    at += size;
  }
  ASSERT_EQ(frames.size(), records.size() + 1);
  const auto joined = [&](const std::vector<std::size_t>& order) {
    std::string bytes = whole.substr(0, kStreamStartBytes);
    for (const std::size_t each : order) bytes += frames[each];
    return read_all(bytes);
  };
  EXPECT_EQ(joined({0, 1, 3}).trouble, StreamTrouble::damaged);
  EXPECT_EQ(joined({0, 1, 1}).trouble, StreamTrouble::damaged);
  EXPECT_EQ(joined({0, 2, 1}).trouble, StreamTrouble::damaged);
  EXPECT_EQ(joined({1}).trouble, StreamTrouble::damaged);
  EXPECT_EQ(joined({0, 0}).trouble, StreamTrouble::damaged);
  StreamOf other = some_stream();
  other.snapshot.id.number = 7;
  std::string mixed = written(other, records);
  const std::size_t begin_size = kStreamStartBytes + frames[0].size();
  mixed.replace(begin_size, std::string::npos, whole.substr(begin_size));
  EXPECT_EQ(read_all(mixed).trouble, StreamTrouble::damaged);
}

TEST(Streams, SayHowManyRecordsTheyHave) {
  auto records = some_records();
  std::get<EndRecord>(records.back()).records += 1;
  EXPECT_EQ(read_all(written(some_stream(), records)).trouble, StreamTrouble::damaged);
}

TEST(Streams, OfOthersAndOfLaterVersionsAreToldApart) {
  const std::string whole = written(some_stream(), some_records());
  EXPECT_EQ(read_all("hello, this is no stream").trouble, StreamTrouble::foreign);
  EXPECT_EQ(read_all("x").trouble, StreamTrouble::foreign);
  EXPECT_EQ(read_all(std::string(1000, '\0')).trouble, StreamTrouble::foreign);
  std::string newer = whole;
  newer[8] = 2;
  EXPECT_EQ(read_all(newer).trouble, StreamTrouble::newer);
}

TEST(Streams, GoOnFromEachRecord) {
  const auto records = some_records();
  const Read whole = read_all(written(some_stream(), records));
  for (std::size_t at = 0; at < records.size(); ++at) {
    const auto token = parse_token(token_of({.of = some_stream(), .from = whole.points[at]}));
    ASSERT_TRUE(token);
    EXPECT_EQ(token->of, some_stream());
    const Read rest = read_all(written(some_stream(), records, token->from));
    EXPECT_EQ(rest.records, std::vector<StreamRecord>(records.begin() + static_cast<std::ptrdiff_t>(at) + 1, records.end()));
    EXPECT_EQ(rest.trouble.has_value(), at + 1 == records.size()) << at;  // behind the end there is nothing
  }
}

TEST(Tokens, ThatAreChangedAreNone) {
  const std::string token = token_of({.of = some_stream(), .from = {.records = 3, .chain = 4}});
  for (std::size_t at = 0; at < token.size(); ++at) {
    std::string changed = token;
    changed[at] = changed[at] == '0' ? '1' : '0';
    EXPECT_FALSE(parse_token(changed)) << at;
    EXPECT_FALSE(parse_token(token.substr(0, at))) << at;
  }
  EXPECT_FALSE(parse_token(token + "0"));
}

TEST(Records, WithPathsThatLeadElsewhereAreNone) {
  for (const std::string path : {"/etc/passwd", "../x", "a/../../x", "a//b", "a/", "/", ".", "a/.", "..", ""}) {
    EXPECT_FALSE(decode_payload(record_type(RemoveRecord()), encode_payload(RemoveRecord{.path = path}))) << path;
    EXPECT_FALSE(decode_payload(record_type(TakeRecord()), encode_payload(TakeRecord{.path = path, .number = 1}))) << path;
    EXPECT_FALSE(decode_payload(record_type(PlaceRecord()), encode_payload(PlaceRecord{.path = path, .number = 1}))) << path;
    EXPECT_FALSE(decode_payload(record_type(LinkRecord()), encode_payload(LinkRecord{.path = "a", .existing = path}))) << path;
    EXPECT_FALSE(decode_payload(record_type(LinkRecord()), encode_payload(LinkRecord{.path = path, .existing = "a"}))) << path;
    const NodeRecord node{.path = path, .contents = NodeRecord::Contents::fresh, .type = S_IFREG, .uid = 0, .gid = 0, .device = 0, .target = {}};
    EXPECT_FALSE(decode_payload(record_type(node), encode_payload(node))) << path;
    EXPECT_EQ(decode_payload(record_type(FlagsRecord()), encode_payload(FlagsRecord{.path = path, .flags = 0})).has_value(), path.empty()) << path;
  }
  const std::string with_zero("a\0b", 3);
  EXPECT_FALSE(decode_payload(record_type(RemoveRecord()), encode_payload(RemoveRecord{.path = with_zero})));
}

TEST(Records, WithWhatCannotBeAreNone) {
  const auto refused = [](const StreamRecord& record) { return !decode_payload(record_type(record), encode_payload(record)); };
  EXPECT_TRUE(refused(HoleRecord{.offset = INT64_MAX, .count = 1}));
  EXPECT_TRUE(refused(HoleRecord{.offset = 0, .count = 0}));
  EXPECT_TRUE(refused(DataRecord{.offset = UINT64_MAX, .bytes = "x"}));
  EXPECT_TRUE(refused(DataRecord{.offset = 0, .bytes = std::string(kStreamDataMost + 1, 'x')}));
  EXPECT_TRUE(refused(AttributesRecord{.mode = 0100644}));
  EXPECT_TRUE(refused(AttributesRecord{.size = UINT64_MAX}));
  EXPECT_TRUE(refused(AttributesRecord{.flags = kLockingFlags}));
  EXPECT_TRUE(refused(AttributesRecord{.modified = {0, 1'000'000'000}}));
  EXPECT_TRUE(refused(XattrRecord{.name = "", .value = "x"}));
  EXPECT_TRUE(refused(NodeRecord{.path = "a", .type = S_IFMT}));
  EXPECT_TRUE(refused(NodeRecord{.path = "a", .type = S_IFREG, .target = "x"}));
  EXPECT_TRUE(refused(NodeRecord{.path = "a", .type = S_IFLNK}));
  EXPECT_TRUE(refused(NodeRecord{.path = "a", .contents = NodeRecord::Contents::replaced, .type = S_IFDIR}));
  BeginRecord begin{.of = some_stream(), .from = {}};
  begin.of.snapshot.name = "../x";
  EXPECT_TRUE(refused(begin));
  EXPECT_FALSE(decode_payload(0, ""));
  EXPECT_FALSE(decode_payload(255, ""));
}

TEST(ReceivingNames, TellWhatIsReceived) {
  const SnapshotId id = snapshot_of(9, "x").id;
  const std::string name = receiving_name(id);
  EXPECT_EQ(parse_receiving_name(name), id);
  for (const std::string& other : {name + "0", "x" + name, name.substr(0, name.size() - 1) + "x", std::string(".receiving-")}) EXPECT_FALSE(parse_receiving_name(other)) << other;
  EXPECT_EQ(received_as({.made = {}, .of = "/in/" + name + "/whole/tree"}), id);
  EXPECT_FALSE(received_as({.made = {}, .of = "/in/" + name + "/part/tree"}));
  EXPECT_FALSE(received_as({.made = {}, .of = "/in/" + name + "/tree"}));
  EXPECT_FALSE(received_as({.made = {}, .of = "/in/" + name + "/whole/tree/below"}));
  EXPECT_FALSE(received_as({.made = {}, .of = "/in/" + name}));
  EXPECT_FALSE(received_as({.made = {}, .of = "/"}));
}

TEST(ReceivingStates, ThatAreDamagedAreNone) {
  const ReceivingState state{.of = some_stream(), .at = {.records = 5, .chain = 6}, .node = "a/b", .has_node = true, .bytes = 77};
  const std::string bytes = encode_state(state);
  EXPECT_EQ(decode_state(bytes), state);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    EXPECT_FALSE(decode_state(changed)) << at;
    EXPECT_FALSE(decode_state(bytes.substr(0, at))) << at;
  }
}

TEST(ReceivingStates, WithPathsThatLeadElsewhereAreNone) {
  ReceivingState state{.of = some_stream(), .at = {.records = 5, .chain = 6}, .node = {}, .has_node = true, .bytes = 77};
  EXPECT_EQ(decode_state(encode_state(state)), state);
  for (const std::string path : {"..", ".", "../a", "a/..", "/a", "a/", "a//b", "a/./b"}) {
    state.node = path;
    EXPECT_FALSE(decode_state(encode_state(state))) << path;
  }
}

}  // namespace
}  // namespace lsmfs::cli::stream_test

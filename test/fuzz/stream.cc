// The target of streams of lsmfs send: what comes from another machine.
#include <sys/stat.h>

#include <algorithm>

#include "cli/transfer/frames.h"
#include "cli/transfer/receiving.h"
#include "fuzz/target.h"

namespace lsmfs::fuzz {
namespace {

using namespace lsmfs::cli;

StreamOf of_stream() {
  NamedSnapshot base{.id = {.volume = {}, .number = 7, .made = {5, 6}}, .name = "base"}, snapshot = base;
  snapshot.id.number = 9;
  return {.snapshot = snapshot, .base = base};
}

void check_path(std::string_view path, bool may_be_empty) {
  check(may_be_empty || !path.empty(), "a path that is empty");
  check(path.empty() || (path.front() != '/' && path.back() != '/'), "a path that begins or ends with a slash");
  const std::string around = "/" + std::string(path) + "/";
  for (const char* const part : {"/../", "/./"}) check(around.find(part) == around.npos, "a path that leads elsewhere");
  check(path.empty() || around.find("//") == around.npos, "a path with an empty name");
  check(path.find('\0') == path.npos, "a path that ends early for the kernel");
}

void check_record(const StreamRecord& record) {
  if (const auto* const each = std::get_if<BeginRecord>(&record)) check_path(each->of.snapshot.name, false);
  if (const auto* const each = std::get_if<TakeRecord>(&record)) check_path(each->path, false);
  if (const auto* const each = std::get_if<RemoveRecord>(&record)) check_path(each->path, false);
  if (const auto* const each = std::get_if<PlaceRecord>(&record)) check_path(each->path, false);
  if (const auto* const each = std::get_if<NodeRecord>(&record)) check_path(each->path, each->type == S_IFDIR);
  if (const auto* const each = std::get_if<FlagsRecord>(&record)) check_path(each->path, true);
  if (const auto* const each = std::get_if<DataRecord>(&record)) check(each->bytes.size() <= kStreamDataMost, "too much data at once");
  if (const auto* const each = std::get_if<LinkRecord>(&record)) {
    check_path(each->path, false);
    check_path(each->existing, false);
  }
  const std::string payload = encode_payload(record);
  check(payload.size() <= kStreamPayloadMost, "a record that is larger than its frame can be");
  check(decode_payload(record_type(record), payload) == record, "what was encoded decodes to something else");
}

// A stream of frames whose checksums are right: the input has for each the type and the payload.
std::string framed(std::string_view input) {
  std::string out;
  const StreamWriter::Sink sink = [&](std::string_view bytes) -> Result<void> {
    out += bytes;
    return {};
  };
  StreamWriter writer(sink, {.of = of_stream(), .from = {.records = 0, .chain = chain_of(of_stream())}});
  check(writer.start().has_value(), "a beginning cannot be written");
  std::uint64_t chain = chain_of(of_stream());
  for (Reader in(input); in.ok() && !in.at_end();) {
    const std::uint8_t type = in.u8();
    const std::string_view payload = in.string();
    if (!in.ok()) break;
    std::string header;
    put_le32(header, static_cast<std::uint32_t>(payload.size()));
    put_u8(header, type);
    header.append(3, '\0');
    chain = checksum(payload, checksum(header, chain));
    put_le64(header, chain);
    out += header;
    out += payload;
  }
  return out;
}

// What a receive keeps of how far it has come. The input is without its checksum.
bool run_state(std::string_view input) {
  std::string bytes(input);
  put_le64(bytes, checksum(bytes));
  const auto state = cli::decode_state(bytes);
  if (!state) return false;
  check_path(state->node, true);
  check(cli::decode_state(encode_state(*state)) == state, "a state that is encoded says something else");
  return true;
}

bool run_stream(std::string_view input) {
  if (input.empty()) return false;
  if ((input.front() & 4) != 0) return run_state(input.substr(1));
  const bool sealed = (input.front() & 1) != 0;
  input.remove_prefix(1);
  const std::string made = sealed ? framed(input) : std::string(input);
  std::string_view left = made;
  const StreamReader::Source source = [&](std::size_t most) -> Result<std::string_view> {
    const std::string_view some = left.substr(0, most);
    left.remove_prefix(some.size());
    return some;
  };
  StreamReader reader(source);
  const auto begin = reader.start();
  if (!begin) return false;
  check_record(*begin);
  check(parse_token(token_of(*begin)) == *begin, "a token that says something else");
  for (;;) {
    const auto record = reader.next();
    if (!record) return reader.point().records > 0;
    if (!*record) return true;
    check_record(**record);
  }
}

void put_frame(std::string& input, const StreamRecord& record) {
  put_u8(input, record_type(record));
  put_string(input, encode_payload(record));
}

std::vector<std::string> stream_examples() {
  std::string whole("\1");
  for (const StreamRecord& record : std::initializer_list<StreamRecord>{
           TakeRecord{.path = "a/b", .number = 1}, RemoveRecord{.path = "x"}, RemovedRecord(), PlaceRecord{.path = "c", .number = 1},
           NodeRecord{.path = "c/d", .contents = NodeRecord::Contents::fresh, .type = S_IFREG, .uid = 0, .gid = 0, .device = 0, .target = {}}, DataRecord{.offset = 0, .bytes = "data"},
           HoleRecord{.offset = 4096, .count = 4096}, XattrRecord{.name = "user.x", .value = "y"}, AttributesRecord{.mode = 0644, .size = 4, .accessed = {}, .modified = {}, .flags = 0, .xattrs = {"user.x"}},
           NodeRecord{.path = "l", .contents = NodeRecord::Contents::fresh, .type = S_IFLNK, .uid = 0, .gid = 0, .device = 0, .target = "../c"}, LinkRecord{.path = "e", .existing = "c/d"},
           FlagsRecord{.path = "c", .flags = 0x10}, EndRecord{.records = 12, .bytes = 4}}) {
    put_frame(whole, record);
  }
  std::string state = encode_state({.of = of_stream(), .at = {.records = 5, .chain = 6}, .node = "c/d", .has_node = true, .bytes = 77});
  state.resize(state.size() - sizeof(std::uint64_t));
  return {whole, "\2" + framed(std::string_view(whole).substr(1)), "\4" + state};
}

}  // namespace

const Target kStream{"stream", run_stream, stream_examples, 4096, 256, 100'000};

}  // namespace lsmfs::fuzz

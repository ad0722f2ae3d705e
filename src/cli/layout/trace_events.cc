#include "cli/layout/trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <tuple>

namespace lsmfs::cli {
namespace {

constexpr std::size_t kRecordMax = 64 * KiB;  // of a record or page, by far

Error not_understood(std::string_view what) { return make_error(EBADMSG, fmt::format("the kernel's trace: {}", what)); }

// The number that follows `key` in `line`.
std::optional<std::size_t> number_after(std::string_view line, std::string_view key) {
  const auto at = line.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = line.substr(at + key.size());
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || value > kRecordMax) return std::nullopt;
  return value;
}

// "field:char rwbs[10];	offset:34; ..." is of the name rwbs.
std::string_view name_in(std::string_view line) {
  std::string_view declaration = line.substr(line.find(':') + 1);
  declaration = declaration.substr(0, declaration.find(';'));
  declaration = declaration.substr(0, declaration.find('['));
  const auto blank = declaration.find_last_of(" \t");
  return blank == std::string_view::npos ? std::string_view() : declaration.substr(blank + 1);
}

// In the machine's own byte order. Must hold: the field lies in the bytes and has at most 8.
std::uint64_t number_at(Bytes bytes, TraceFormat::Field field) {
  std::uint64_t value = 0;
  std::byte* to = reinterpret_cast<std::byte*>(&value);
  if constexpr (std::endian::native == std::endian::big) to += sizeof value - field.size;
  std::memcpy(to, bytes.data() + field.offset, field.size);
  return value;
}

bool holds(Bytes bytes, TraceFormat::Field field) { return field.offset + field.size <= bytes.size(); }

}  // namespace

// ---- formats

Result<TraceFormat> TraceFormat::parse(std::string_view text) {
  TraceFormat format;
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.starts_with("ID:")) format.id_ = static_cast<std::uint32_t>(number_after(line, "ID: ").value_or(0));
    if (line.find("field:") == std::string_view::npos) continue;
    const auto offset = number_after(line, "offset:"), size = number_after(line, "size:");
    const auto name = name_in(line);
    if (!offset || !size || name.empty()) return not_understood(fmt::format("the format has a line \"{}\"", line));
    format.fields_.emplace_back(name, Field{*offset, *size});
  }
  return format;
}

Result<TraceFormat::Field> TraceFormat::field(std::string_view name) const {
  for (const auto& [known, field] : fields_) {
    if (known == name) return field;
  }
  return not_understood(fmt::format("the format has no field {}", name));
}

Result<TraceFormat::Field> TraceFormat::number(std::string_view name) const {
  LSMFS_ASSIGN(const Field found, field(name));
  if (found.size == 0 || found.size > 8) return not_understood(fmt::format("the field {} is not a number", name));
  return found;
}

// ---- pages

Result<TracePages> TracePages::from(const TraceFormat& header_page) {
  TracePages pages;
  LSMFS_ASSIGN(pages.time_, header_page.number("timestamp"));
  LSMFS_ASSIGN(pages.commit_, header_page.number("commit"));
  LSMFS_ASSIGN(pages.data_, header_page.field("data"));
  return pages;
}

// include/linux/ring_buffer.h: a record begins with 32 bits, 5 of a type and 27 of nanoseconds since the one before. The
// types 1 to 28 are records of as many words; 0 of as many bytes as the next word says, itself included.
Result<bool> TracePages::read(Bytes page, const Visitor& visit) const {
  constexpr unsigned kPadding = 29, kTimeExtend = 30, kTimeStamp = 31, kDeltaBits = 27, kTimeBits = 59;
  constexpr std::uint64_t kDelta = (1u << kDeltaBits) - 1, kWord = 4;
  constexpr std::uint64_t kLost = 1u << 31, kLength = (1u << 30) - 1;  // of `commit`
  if (!holds(page, time_) || !holds(page, commit_) || page.size() < data_.offset) return not_understood("a page is too short");
  std::uint64_t time = number_at(page, time_);
  const std::uint64_t commit = number_at(page, commit_);
  const std::uint64_t length = commit & kLength;
  const bool lost = (commit & kLost) != 0;
  if (length > page.size() - data_.offset) return not_understood("a page is longer than it can be");

  const auto damaged = [] { return not_understood("a page ends within a record"); };
  for (Bytes rest = page.subspan(data_.offset, length); !rest.empty();) {
    if (rest.size() < kWord) return damaged();
    const std::uint64_t head = number_at(rest, {0, kWord});
    const bool little = std::endian::native == std::endian::little;
    const auto type = static_cast<unsigned>(little ? head & 31 : head >> kDeltaBits);
    const std::uint64_t delta = little ? head >> 5 : head & kDelta;
    if (type == kPadding && delta == 0) break;  // nothing more in this page
    const bool has_word = type == 0 || type >= kPadding;
    if (has_word && rest.size() < 2 * kWord) return damaged();
    const std::uint64_t word = has_word ? number_at(rest, {kWord, kWord}) : 0;

    std::uint64_t whole = 2 * kWord;  // with its head
    if (type < kTimeExtend) whole = kWord + (has_word ? word : type * kWord);
    if (whole < (has_word ? 2 * kWord : kWord) || whole > rest.size()) return damaged();
    if (type == kTimeStamp) {
      time = (time >> kTimeBits << kTimeBits) | word << kDeltaBits | delta;
    } else {
      time += type == kTimeExtend ? word << kDeltaBits | delta : delta;
    }
    const std::size_t before = has_word ? 2 * kWord : kWord;
    if (type < kPadding) LSMFS_TRY(visit(time, rest.subspan(before, whole - before)));
    rest = rest.subspan(whole);
  }
  return lost;
}

// ---- records

Result<BlockEvents::Fields> BlockEvents::fields_of(const TraceFormat& format, const char* bytes) {
  Fields fields;
  LSMFS_ASSIGN(fields.disk, format.number("dev"));
  LSMFS_ASSIGN(fields.sector, format.number("sector"));
  LSMFS_ASSIGN(fields.bytes, format.number(bytes));
  LSMFS_ASSIGN(fields.rwbs, format.field("rwbs"));
  return fields;
}

Result<BlockEvents> BlockEvents::from(const TraceFormat& issue, const TraceFormat& requeue) {
  BlockEvents events;
  events.issue_id_ = issue.id();
  events.requeue_id_ = requeue.id();
  if (issue.id() == 0 || requeue.id() == 0 || issue.id() == requeue.id()) return not_understood("events without numbers");
  LSMFS_ASSIGN(events.id_, issue.number("common_type"));
  LSMFS_ASSIGN(events.issue_, fields_of(issue, "bytes"));
  LSMFS_ASSIGN(events.requeue_, fields_of(requeue, "nr_sector"));
  return events;
}

Result<std::optional<BlockEvent>> BlockEvents::read(std::uint64_t time_ns, Bytes record) const {
  if (!holds(record, id_)) return not_understood("a record is too short");
  const std::uint64_t id = number_at(record, id_);
  if (id != issue_id_ && id != requeue_id_) return std::optional<BlockEvent>();
  const Fields& fields = id == issue_id_ ? issue_ : requeue_;
  if (!holds(record, fields.disk) || !holds(record, fields.sector) || !holds(record, fields.bytes) || !holds(record, fields.rwbs)) {
    return not_understood("a record is too short");
  }
  const std::string_view rwbs = as_text(record.subspan(fields.rwbs.offset, fields.rwbs.size));
  const std::uint64_t sector = number_at(record, fields.sector);
  BlockEvent event;
  event.requeued = id == requeue_id_;
  event.request.time_ns = time_ns;
  event.request.disk = static_cast<DiskNumber>(number_at(record, fields.disk));
  event.request.kind = kind_of(rwbs.substr(0, rwbs.find('\0')));
  if (sector > UINT64_MAX / kSector) return not_understood("a request lies beyond the end of any disk");
  event.request.offset = ByteOffset{sector * kSector};
  if (!event.requeued) event.request.bytes = ByteCount{number_at(record, fields.bytes)};
  return std::optional(event);
}

std::vector<BlockRequest> in_order(std::vector<BlockEvent> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const BlockEvent& a, const BlockEvent& b) { return a.request.time_ns < b.request.time_ns; });
  // From the last to the first: a requeue takes away the issue before it of the same request.
  std::vector<BlockRequest> requests;
  std::map<std::tuple<DiskNumber, ByteOffset, RequestKind>, unsigned> taken_back;
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    const auto place = std::tuple(event->request.disk, event->request.offset, event->request.kind);
    if (event->requeued) {
      ++taken_back[place];
    } else if (const auto found = taken_back.find(place); found != taken_back.end()) {
      if (--found->second == 0) taken_back.erase(found);
    } else {
      requests.push_back(event->request);
    }
  }
  std::reverse(requests.begin(), requests.end());
  return requests;
}

}  // namespace lsmfs::cli

#include "kv/patch.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

namespace lsmfs::kv {

namespace {

constexpr std::uint8_t kVersion = 1;
constinit thread_local std::uint64_t patches_of_nothing = 0;

}  // namespace

Patch Patch::overwrite(std::uint32_t offset, std::string_view bytes) {
  Patch patch;
  patch.least_ = offset + static_cast<std::uint32_t>(bytes.size());
  if (!bytes.empty()) patch.segments_.push_back({offset, std::string(bytes)});
  return patch;
}

Patch Patch::cut(std::uint32_t length) {
  Patch patch;
  patch.keep_ = length;
  return patch;
}

std::optional<Patch> Patch::decode(std::string_view operand) {
  Reader in(operand);
  Patch patch;
  if (in.u8() != kVersion) return std::nullopt;
  const std::uint64_t keep = in.varint();
  const std::uint64_t least = in.varint();
  const std::uint64_t count = in.varint();
  if (!in.ok() || keep > std::uint64_t{std::numeric_limits<std::uint32_t>::max()} + 1 || least > kPatchEndMax ||
      count > least) {
    return std::nullopt;
  }
  if (keep > 0) patch.keep_ = static_cast<std::uint32_t>(keep - 1);
  patch.least_ = static_cast<std::uint32_t>(least);
  std::uint64_t position = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t gap = in.varint();
    const std::string_view bytes = in.string();
    if (!in.ok() || bytes.empty() || gap > least || position + gap + bytes.size() > least) return std::nullopt;
    position += gap;
    patch.segments_.push_back({static_cast<std::uint32_t>(position), std::string(bytes)});
    position += bytes.size();
  }
  if (!in.at_end()) return std::nullopt;
  return patch;
}

std::string Patch::encode() const {
  std::string out;
  put_u8(out, kVersion);
  put_varint(out, keep_ ? std::uint64_t{*keep_} + 1 : 0);
  put_varint(out, least_);
  put_varint(out, segments_.size());
  std::uint32_t position = 0;
  for (const Segment& segment : segments_) {
    put_varint(out, segment.offset - position);
    put_string(out, segment.bytes);
    position = segment.end();
  }
  return out;
}

void Patch::limit(std::uint32_t length) {
  keep_ = std::min(keep_.value_or(length), length);
  least_ = std::min(least_, length);
  while (!segments_.empty() && segments_.back().offset >= length) segments_.pop_back();
  if (!segments_.empty() && segments_.back().end() > length) {
    segments_.back().bytes.resize(length - segments_.back().offset);
  }
}

void Patch::insert(std::uint32_t offset, std::string_view bytes) {
  const std::uint32_t end = offset + static_cast<std::uint32_t>(bytes.size());
  // All segments that overlap or touch [offset, end) become one with it.
  auto first = std::lower_bound(segments_.begin(), segments_.end(), offset,
                                [](const Segment& s, std::uint32_t o) { return s.end() < o; });
  if (first == segments_.end() || first->offset > end) {
    segments_.insert(first, Segment{offset, std::string(bytes)});
    return;
  }
  if (first->offset > offset) {
    first->bytes.insert(0, bytes.substr(0, first->offset - offset));
    first->offset = offset;
  }
  const std::size_t at = offset - first->offset;
  if (first->bytes.size() < at + bytes.size()) first->bytes.resize(at + bytes.size());
  bytes.copy(first->bytes.data() + at, bytes.size());

  auto last = first + 1;
  for (; last != segments_.end() && last->offset <= first->end(); ++last) {
    const std::uint32_t reached = first->end();
    if (last->end() > reached) first->bytes.append(last->bytes, reached - last->offset);
  }
  segments_.erase(first + 1, last);
}

void Patch::then(const Patch& later) {
  if (later.keep_) limit(*later.keep_);
  least_ = std::max(least_, later.least_);
  for (const Segment& segment : later.segments_) insert(segment.offset, segment.bytes);
}

void Patch::apply(std::string& value) const {
  if (keep_ && value.size() > *keep_) value.resize(*keep_);
  if (value.size() < least_) value.resize(least_, '\0');
  for (const Segment& segment : segments_) segment.bytes.copy(value.data() + segment.offset, segment.bytes.size());
}

namespace {

class PatchOperator final : public rocksdb::MergeOperator {
 public:
  const char* Name() const override { return "lsmfs.patch.1"; }

  bool FullMergeV2(const MergeOperationInput& in, MergeOperationOutput* out) const override {
    // Built apart: new_value is documented to come empty, but iterators pass the row before in it.
    std::string value;
    if (in.existing_value != nullptr) {
      value.assign(in.existing_value->data(), in.existing_value->size());
    } else {
      ++patches_of_nothing;
    }
    for (const rocksdb::Slice& operand : in.operand_list) {
      const auto patch = Patch::decode({operand.data(), operand.size()});
      if (!patch) return false;
      patch->apply(value);
    }
    out->new_value = std::move(value);
    return true;
  }

  bool PartialMergeMulti(const rocksdb::Slice&, const std::deque<rocksdb::Slice>& operands, std::string* merged,
                         rocksdb::Logger*) const override {
    std::optional<Patch> sum;
    for (const rocksdb::Slice& operand : operands) {
      const auto patch = Patch::decode({operand.data(), operand.size()});
      if (!patch) return false;  // kept apart; the full merge then reports it
      if (sum) {
        sum->then(*patch);
      } else {
        sum = *patch;
      }
    }
    if (!sum) return false;
    *merged = sum->encode();
    return true;
  }
};

}  // namespace

std::uint64_t patches_of_nothing_by_this_thread() { return patches_of_nothing; }

std::shared_ptr<rocksdb::MergeOperator> make_patch_operator() { return std::make_shared<PatchOperator>(); }

}  // namespace lsmfs::kv

#include "tree/change_rows.h"

#include <algorithm>

#include "tree/keys.h"

namespace lsmfs {
namespace {

bool is_told_path(std::string_view path) {
  if (path.size() > ChangeRow::kPathMost) return false;
  while (!path.empty()) {
    const std::size_t slash = path.find('/');
    if (!keys::is_name(path.substr(0, slash)) || slash == path.size() - 1) return false;
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
  }
  return true;
}

}  // namespace

std::string encode(const ChangeHead& head) {
  std::string out;
  put_zigzag(out, head.asked);
  put_varint(out, head.dropped);
  put_varint(out, head.dropped_bytes);
  for (const ChangeHead::Log& log : head.logs) {
    put_le64(out, log.number);
    put_varint(out, log.from);
  }
  return out;
}

std::optional<ChangeHead> decode_change_head(std::string_view bytes) {
  Reader in(bytes);
  ChangeHead head;
  head.asked = in.zigzag();
  head.dropped = in.varint();
  head.dropped_bytes = in.varint();
  while (in.ok() && !in.at_end()) {
    ChangeHead::Log log;
    log.number = in.le64();
    log.from = in.varint();
    if (head.logs.size() == ChangeHead::kLogsMost || log.from > ChangeHead::kPositionMost) in.fail();
    if (!head.logs.empty() && log.from < head.logs.back().from) in.fail();
    head.logs.push_back(log);
  }
  if (!in.ok() || head.logs.empty() || head.dropped > ChangeHead::kPositionMost || head.dropped_bytes > ChangeHead::kPositionMost) return std::nullopt;
  return head;
}

std::string encode(const ChangeRow& row) {
  std::string out;
  put_varint(out, row.bytes);
  for (const auto& [path, changed] : row.paths) {
    put_string(out, path);
    put_varint(out, changed.all ? 0 : changed.names.size());
    for (const std::string& name : changed.names) put_string(out, name);
  }
  return out;
}

std::optional<ChangeRow> decode_change_row(std::string_view bytes) {
  Reader in(bytes);
  ChangeRow row;
  row.bytes = in.varint();
  if (row.bytes > ChangeHead::kPositionMost) in.fail();
  while (in.ok() && !in.at_end()) {
    std::string path(in.string());
    const std::uint64_t count = in.varint();
    ChangedNames changed{.all = count == 0, .names = {}};
    for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
      std::string name(in.string());
      if (!keys::is_name(name) || (!changed.names.empty() && *changed.names.rbegin() >= name)) in.fail();
      changed.names.insert(changed.names.end(), std::move(name));
    }
    if (!is_told_path(path) || (!row.paths.empty() && row.paths.rbegin()->first >= path)) in.fail();
    row.paths.emplace_hint(row.paths.end(), std::move(path), std::move(changed));
  }
  if (!in.ok() || row.paths.empty()) return std::nullopt;
  return row;
}

}  // namespace lsmfs

// The binary form in which the kernel hands out its trace: pages of a ring buffer, and in them records of events. Both are
// described by the kernel itself, in tracefs: events/header_page and events/*/*/format.
//
// Not by libtraceevent: that is told no size of a page (kbuffer_load_subbuffer), so it would read past the end of a wrong one.
//
// What it is not: it opens no file. All bytes are untrusted: what does not fit is an error (EBADMSG), never a read past an end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/layout/request.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {

// The fields of a record or page, from lines such as "field:sector_t sector;	offset:16;	size:8;	signed:0;".
class TraceFormat {
 public:
  struct Field {
    std::size_t offset = 0, size = 0;  // bytes
  };
  static Result<TraceFormat> parse(std::string_view text);

  std::uint32_t id() const { return id_; }  // of the event; 0: the text names none
  Result<Field> field(std::string_view name) const;
  // The same for a number of at most 8 bytes.
  Result<Field> number(std::string_view name) const;

 private:
  std::uint32_t id_ = 0;
  std::vector<std::pair<std::string, Field>> fields_;
};

class TracePages {
 public:
  static Result<TracePages> from(const TraceFormat& header_page);

  std::size_t size() const { return data_.offset + data_.size; }  // of a page, bytes
  // Calls `visit` for each record in the page, in the order of time. Gives whether events before it were lost.
  using Visitor = std::function<Result<void>(std::uint64_t time_ns, Bytes record)>;
  Result<bool> read(Bytes page, const Visitor& visit) const;

 private:
  TraceFormat::Field time_, commit_, data_;
};

struct BlockEvent {
  bool requeued = false;  // the disk did not take the request, which will be issued again; bytes is then not known
  BlockRequest request;
};

// Records of block:block_rq_issue and block:block_rq_requeue.
class BlockEvents {
 public:
  static Result<BlockEvents> from(const TraceFormat& issue, const TraceFormat& requeue);

  // nullopt: a record of something else.
  Result<std::optional<BlockEvent>> read(std::uint64_t time_ns, Bytes record) const;

 private:
  struct Fields {
    TraceFormat::Field disk, sector, bytes, rwbs;
  };
  static Result<Fields> fields_of(const TraceFormat& format, const char* bytes);

  std::uint32_t issue_id_ = 0, requeue_id_ = 0;
  TraceFormat::Field id_;
  Fields issue_, requeue_;
};

// In the order in which the requests were issued, each once: at the last time when it had been requeued.
std::vector<BlockRequest> in_order(std::vector<BlockEvent> events);

}  // namespace lsmfs::cli

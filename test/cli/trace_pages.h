// Pages of the kernel's trace for tests: one that was recorded, and a maker of others.
#pragma once

#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "cli/layout/trace_events.h"

namespace lsmfs::cli::test {

inline constexpr const char* kIssueFormat = R"(name: block_rq_issue
ID: 2104
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:unsigned int bytes;	offset:28;	size:4;	signed:0;
	field:unsigned short ioprio;	offset:32;	size:2;	signed:0;
	field:char rwbs[10];	offset:34;	size:10;	signed:0;
	field:char comm[16];	offset:44;	size:16;	signed:0;
	field:__data_loc char[] cmd;	offset:60;	size:4;	signed:0;
)";
inline constexpr const char* kRequeueFormat = R"(name: block_rq_requeue
ID: 2108
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:unsigned short ioprio;	offset:28;	size:2;	signed:0;
	field:char rwbs[10];	offset:30;	size:10;	signed:0;
	field:__data_loc char[] cmd;	offset:40;	size:4;	signed:0;
)";
inline constexpr const char* kHeaderPage = R"(	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
)";
inline constexpr DiskNumber kDisk = disk_number(7, 0);

// In hexadecimal: the head of the page, and a record in each line.
inline constexpr const char* kRecorded =
    "e3b5c60f422400009002000000000000"
    "1100000038080000770300000000700000000000020000000000000002000000000400000440575300000000000000006d6f756e7400000000000000000000004000010000000000"
    "512a050038080000cc2200000000700000000000000000000000000000000000000000000000464600000000000000006b776f726b65722f303a3248000000004000010000000000"
    "7178900438080000cc22000000007000000000000a020000000000000400000000080000044052414d000000000000006b776f726b65722f303a3248000000004000010000000000"
    "d1840a0038080000a1690000000070000000000002800000000000000200000000040000044057004d000000000000006b776f726b65722f75383a31000000004000010000000000"
    "11d4b83c38080000cc220000000070000000000014400400000000000200000000040000034057534d000000000000006b776f726b65722f303a3248000000004000010000000000"
    "3177030038080000cc2200000000700000000000000000000000000000000000000000000000464600000000000000006b776f726b65722f303a3248000000004000010000000000"
    "31b029003808000080030000000070000000000002000000000000000400000000080000044057534d0000000000000073796e630000000000000000000000004000010000000000"
    "deb8265a02000000"
    "1100000038080000cc2200000000700000000000320a000000000000f403000000e8070004404e5300000000000000006b776f726b65722f303a3248000000004000010000000000"
    "3109093d38080000cc2200000000700000000000021a000000000000f403000000e8070004404e5300000000000000006b776f726b65722f303a3248000000004000010000000000";

inline std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (; !hex.empty(); hex.remove_prefix(2)) {
    unsigned char byte = 0;
    std::from_chars(hex.data(), hex.data() + 2, byte, 16);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

inline TracePages pages() { return *TracePages::from(*TraceFormat::parse(kHeaderPage)); }
inline BlockEvents events() { return *BlockEvents::from(*TraceFormat::parse(kIssueFormat), *TraceFormat::parse(kRequeueFormat)); }

// A page by its records. `delta`: nanoseconds since the record before. Little-endian, as the recorded one.
class Page {
 public:
  explicit Page(std::uint64_t time) : time_(time) {}

  void issue(std::uint32_t delta, std::uint64_t sector, std::uint32_t bytes, std::string_view rwbs) {
    put(delta << 5 | 17, record(2104, sector, bytes, 28, 34, rwbs, 68));
  }
  // The same in the form for long records.
  void long_issue(std::uint32_t delta, std::uint64_t sector, std::uint32_t bytes, std::string_view rwbs) {
    std::string length;
    put_le32(length, 4 + 68);
    put(delta << 5, length + record(2104, sector, bytes, 28, 34, rwbs, 68));
  }
  void requeue(std::uint32_t delta, std::uint64_t sector, std::uint32_t sectors, std::string_view rwbs) {
    put(delta << 5 | 11, record(2108, sector, sectors, 24, 30, rwbs, 44));
  }
  void foreign(std::uint32_t delta) { put(delta << 5 | 2, record(77, 0, 0, 28, 34, "", 44).substr(0, 8)); }
  void time_extend(std::uint64_t delta) { put_word(30, delta); }
  void time_stamp(std::uint64_t time) { put_word(31, time); }
  void discarded(std::uint32_t bytes) {
    std::string length;
    put_le32(length, bytes);
    put(1 << 5 | 29, length + std::string(bytes - 4, 'x'));
  }
  void padding() { put(29, ""); }
  Page& lost() {
    flags_ = std::uint64_t{1} << 31;
    return *this;
  }

  std::string bytes() const {
    std::string page;
    put_le64(page, time_);
    put_le64(page, records_.size() | flags_);
    return page + records_;
  }

 private:
  static std::string record(std::uint16_t id, std::uint64_t sector, std::uint32_t number, std::size_t number_at, std::size_t rwbs_at,
                            std::string_view rwbs, std::size_t size) {
    std::string out;
    put_le16(out, id);
    out.resize(8);
    put_le32(out, kDisk);
    out.resize(16);
    put_le64(out, sector);
    out.resize(size);
    std::string bytes;
    put_le32(bytes, number);
    out.replace(number_at, 4, bytes);
    out.replace(rwbs_at, rwbs.size(), rwbs);
    return out;
  }
  void put(std::uint32_t head, const std::string& rest) {
    put_le32(records_, head);
    records_ += rest;
  }
  void put_word(std::uint32_t type, std::uint64_t time) {
    std::string word;
    put_le32(word, static_cast<std::uint32_t>(time >> 27));
    put(static_cast<std::uint32_t>(time) << 5 | type, word);
  }

  std::uint64_t time_, flags_ = 0;
  std::string records_;
};

}  // namespace lsmfs::cli::test

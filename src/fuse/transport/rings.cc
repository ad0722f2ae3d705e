#include "fuse/transport/rings.h"

#include <fmt/format.h>
#include <linux/fuse.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>

namespace lsmfs {
namespace {

constexpr unsigned kNumberMax = 65535;  // of a processor; a queue's number has 16 bits

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The queues of the rings to make, one list for each processor that is there; that processor's comes first.
Result<std::vector<std::vector<unsigned>>> queues_of_rings() {
  const auto possible = numbers_in_list(first_line("/sys/devices/system/cpu/possible"));
  const auto online = numbers_in_list(first_line("/sys/devices/system/cpu/online"));
  // The kernel counts the possible processors and takes their numbers for those of queues.
  if (possible.empty() || online.empty() || possible.back() != possible.size() - 1) {
    return make_error(ENOTSUP, "this machine's numbers of processors have gaps");
  }
  std::vector<std::vector<unsigned>> rings;
  for (const unsigned processor : online) rings.push_back({processor});
  for (const unsigned processor : possible) {
    if (std::find(online.begin(), online.end(), processor) == online.end()) rings.front().push_back(processor);
  }
  return rings;
}

// As Rings::make(), but for what automatic makes of errors.
Result<std::vector<std::unique_ptr<Ring>>> make_rings(Choice choice, std::size_t payload, const std::function<void(std::string_view)>& notice,
                                                      const RingsSwitch& kernel) {
  LSMFS_ASSIGN(const bool is_on, kernel.is_on());
  if (!is_on && choice != Choice::on) return make_error(ENOTSUP, "the kernel has that switched off");
  LSMFS_ASSIGN(const auto queues, queues_of_rings());
  std::vector<std::unique_ptr<Ring>> rings;
  for (const auto& of_ring : queues) {
    LSMFS_ASSIGN(auto ring, Ring::make(of_ring.front(), of_ring, payload));
    rings.push_back(std::move(ring));
  }
  if (is_on) return rings;
  // Last, when the rest of what rings take is there.
  LSMFS_TRY(kernel.turn_on());
  notice(fmt::format("io_uring=on: FUSE over io_uring was off, and is on now for all mounts to come ({} is Y)", kernel.path()));
  return rings;
}

}  // namespace

std::vector<unsigned> numbers_in_list(std::string_view list) {
  std::vector<unsigned> numbers;
  const char* at = list.data();
  const char* const end = at + list.size();
  const auto number = [&](unsigned& value) {
    const auto [next, error] = std::from_chars(at, end, value);
    at = next;
    return error == std::errc();
  };
  for (;;) {
    unsigned first = 0;
    if (!number(first)) return {};
    unsigned last = first;
    if (at != end && *at == '-' && (++at, !number(last))) return {};
    if (last < first || last > kNumberMax) return {};
    while (first <= last) numbers.push_back(first++);
    if (at == end) return numbers;
    if (*at++ != ',') return {};
  }
}

Result<std::unique_ptr<Rings>> Rings::make(Choice choice, std::size_t payload, const std::function<void(std::string_view)>& notice,
                                           const RingsSwitch& kernel) {
  if (choice == Choice::off) return std::unique_ptr<Rings>();
  auto made = make_rings(choice, payload, notice, kernel);
  if (!made && choice == Choice::on) return make_error(made.error().code, "io_uring=on: " + made.error().context);
  if (!made) return std::unique_ptr<Rings>();
  auto rings = std::make_unique<Rings>();
  rings->rings_ = std::move(*made);
  return rings;
}

Result<void> Rings::start(int fuse, const std::function<Serve()>& server, const std::function<void(std::string_view)>& notice) {
  for (auto& ring : rings_) LSMFS_TRY(ring->start(fuse, server, notice));
  return {};
}

bool Rings::answer(const iovec* parts, int count) {
  fuse_out_header header;
  std::memcpy(&header, parts[0].iov_base, sizeof header);
  if (header.unique == 0) return false;  // a notification
  Ring* own = Ring::of_this_thread();
  if (own != nullptr && own->answer(header.unique, parts, count)) return true;
  return std::any_of(rings_.begin(), rings_.end(), [&](auto& ring) { return ring->answer(header.unique, parts, count); });
}

std::vector<Deferring*> Rings::threads() const {
  std::vector<Deferring*> all;
  for (const auto& ring : rings_) all.push_back(ring.get());
  return all;
}

// Their threads use each other's rings: all end before the first is closed.
void Rings::stop() {
  for (auto& ring : rings_) ring->stop();
}

void Rings::close() {
  for (auto& ring : rings_) ring->close();
}

}  // namespace lsmfs

#include "cli/layout/block_trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/sizes.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {
namespace {

constexpr const char* kPlace = "/sys/kernel/tracing";
constexpr const char* kPrefix = "lsmfs-layout-";
constexpr const char* kIssue = "events/block/block_rq_issue";
constexpr const char* kRequeue = "events/block/block_rq_requeue";
constexpr ByteCount kBufferPerCpu{16 * MiB};  // some 200,000 requests, and it is emptied every few milliseconds
constexpr std::uint64_t kBuffersMax = 512 * MiB;

Error failed(int code, const std::string& file, std::string_view what) {
  const Error error = make_error(code, fmt::format("the kernel's trace: {} of {}", what, file));
  return make_error(code, error.message());
}

Result<void> write_file(int folder, const std::string& file, const std::string& text) {
  const Fd opened(openat(folder, file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!opened) return failed(errno, file, "opening");
  if (write(opened.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return failed(errno, file, "writing");
  return {};
}

Result<std::string> read_file(int folder, const std::string& file) {
  const Fd opened(openat(folder, file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened) return failed(errno, file, "opening");
  std::string text;
  char chunk[4096];
  ssize_t got = 0;
  while ((got = read(opened.get(), chunk, sizeof chunk)) > 0) text.append(chunk, static_cast<std::size_t>(got));
  if (got < 0) return failed(errno, file, "reading");
  return text;
}

Result<TraceFormat> read_format(int folder, const std::string& file) {
  LSMFS_ASSIGN(const std::string text, read_file(folder, file));
  return TraceFormat::parse(text);
}

Result<std::vector<std::string>> names_in(int folder, const std::string& name, std::string_view prefix) {
  Fd opened(openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const listing = opened ? fdopendir(opened.get()) : nullptr;
  if (listing == nullptr) return failed(errno, name, "opening");
  (void)opened.release();
  std::vector<std::string> names;
  while (const dirent* entry = readdir(listing)) {
    if (std::string_view(entry->d_name).starts_with(prefix)) names.emplace_back(entry->d_name);
  }
  closedir(listing);
  return names;
}

// Those of processes that were killed. The kernel keeps one that somebody reads.
void remove_stale(int tracefs) {
  const auto names = names_in(tracefs, "instances", kPrefix);
  if (!names) return;
  for (const std::string& name : *names) {
    const auto number = std::string_view(name).substr(std::string_view(kPrefix).size());
    const auto pid = parse_number(number.substr(0, number.find('.')), INT32_MAX);
    if (!pid || *pid == 0 || kill(static_cast<pid_t>(*pid), 0) == 0 || errno != ESRCH) continue;
    unlinkat(tracefs, ("instances/" + name).c_str(), AT_REMOVEDIR);
  }
}

Error overflow(std::uint64_t events) {
  const std::string number = events > 0 ? fmt::format("{} ", events) : "";
  return make_error(EOVERFLOW, fmt::format("the kernel lost {}requests of the trace, so there is no result; give it more memory "
                                           "with --buffer", number));
}

Error mount_error(int code) {
  if (code == EPERM || code == EACCES) return make_error(EPERM, "tracefs: no permission to mount it; run it with sudo");
  const Error error = make_error(code, fmt::format("tracefs cannot be mounted at {}; the kernel needs CONFIG_FTRACE", kPlace));
  return make_error(code, error.message());
}

}  // namespace

Result<Fd> open_tracefs() {
  Fd place(open(kPlace, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statfs facts {};
  if (place && fstatfs(place.get(), &facts) == 0 && facts.f_type == TRACEFS_MAGIC) return place;
  const Fd context(fsopen("tracefs", FSOPEN_CLOEXEC));
  if (!context || fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return mount_error(errno);
  Fd root(fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  if (!root) return mount_error(errno);
  return root;
}

ByteCount trace_buffer_default() {
  const std::uint64_t processors = std::max(1u, std::thread::hardware_concurrency());
  return std::min(kBufferPerCpu, ByteCount{kBuffersMax / processors});
}

Result<std::unique_ptr<BlockTrace>> BlockTrace::start(const Fd& tracefs, const std::vector<DiskNumber>& disks,
                                                      ByteCount buffer_per_cpu) {
  std::unique_ptr<BlockTrace> trace(new BlockTrace(tracefs));
  LSMFS_TRY(trace->begin(disks, buffer_per_cpu));
  return trace;
}

BlockTrace::~BlockTrace() {
  reader_.reset();  // its files are in use as long as they are open
  (void)remove_instance();
}

Result<void> BlockTrace::make_instance() {
  remove_stale(tracefs_.get());
  for (int attempt = 0;; ++attempt) {  // another container may have the same number of a process
    const std::string name = fmt::format("instances/{}{}.{}", kPrefix, getpid(), attempt);
    if (mkdirat(tracefs_.get(), name.c_str(), 0700) == 0) {
      instance_ = name;
      return {};
    }
    if (errno == EEXIST && attempt < 100) continue;
    return failed(errno, name, "making");
  }
}

Result<void> BlockTrace::remove_instance() {
  for (int attempt = 0; !instance_.empty(); ++attempt) {
    if (unlinkat(tracefs_.get(), instance_.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      instance_.clear();
    } else if (errno != EBUSY || attempt == 100) {
      return failed(errno, instance_, "removing");
    } else {
      system_clock().sleep(std::chrono::milliseconds(10));  // somebody is having a look
    }
  }
  return {};
}

Result<std::vector<Fd>> BlockTrace::open_streams() const {
  LSMFS_ASSIGN(const auto cpus, names_in(tracefs_.get(), at("per_cpu"), "cpu"));
  std::vector<Fd> streams;
  for (const std::string& cpu : cpus) {
    const std::string file = at("per_cpu/" + cpu + "/trace_pipe_raw");
    streams.emplace_back(openat(tracefs_.get(), file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!streams.back()) return failed(errno, file, "opening");
  }
  return streams;
}

Result<void> BlockTrace::begin(const std::vector<DiskNumber>& disks, ByteCount buffer_per_cpu) {
  LSMFS_TRY(make_instance());
  const int root = tracefs_.get();
  if (faccessat(root, at(kIssue).c_str(), F_OK, 0) != 0 || faccessat(root, at(kRequeue).c_str(), F_OK, 0) != 0) {
    return make_error(ENOENT, "the kernel cannot trace block devices: the event block_rq_issue is missing; it needs "
                              "CONFIG_BLK_DEV_IO_TRACE");
  }
  LSMFS_ASSIGN(const TraceFormat header, read_format(root, "events/header_page"));
  LSMFS_ASSIGN(const TracePages pages, TracePages::from(header));
  LSMFS_ASSIGN(const TraceFormat issue, read_format(root, at(kIssue) + "/format"));
  LSMFS_ASSIGN(const TraceFormat requeue, read_format(root, at(kRequeue) + "/format"));
  LSMFS_ASSIGN(const BlockEvents events, BlockEvents::from(issue, requeue));

  // One clock for all processors, or the order of requests is lost. It empties the buffers, so it comes first.
  LSMFS_TRY(write_file(root, at("trace_clock"), "mono"));
  if (auto sized = write_file(root, at("buffer_size_kb"), std::to_string(div_up(buffer_per_cpu.v, KiB))); !sized) {
    return make_error(sized.error().code, sized.error().context + "; give a smaller --buffer");
  }
  std::string filter;
  for (const DiskNumber disk : disks) filter += fmt::format("{}dev == {}", filter.empty() ? "" : " || ", disk);
  LSMFS_ASSIGN(auto streams, open_streams());
  for (const char* event : {kIssue, kRequeue}) LSMFS_TRY(write_file(root, at(event) + "/filter", filter));
  reader_ = std::make_unique<TraceReader>(system_clock(), std::move(streams), pages, events);
  begin_ns_ = static_cast<std::uint64_t>(system_clock().now_ns());  // "mono", too
  for (const char* event : {kRequeue, kIssue}) LSMFS_TRY(write_file(root, at(event) + "/enable", "1"));
  return {};
}

// The counters that the kernel keeps for each processor, such as "overrun: 12".
Result<std::uint64_t> BlockTrace::lost() const {
  LSMFS_ASSIGN(const auto cpus, names_in(tracefs_.get(), at("per_cpu"), "cpu"));
  std::uint64_t sum = 0;
  for (const std::string& cpu : cpus) {
    LSMFS_ASSIGN(const std::string text, read_file(tracefs_.get(), at("per_cpu/" + cpu + "/stats")));
    for (std::string_view rest = text; !rest.empty();) {
      const auto end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      // "entries" are there still, which after the last read is none.
      for (const std::string_view counter : {"overrun: ", "commit overrun: ", "dropped events: ", "entries: "}) {
        if (line.starts_with(counter)) sum += parse_number(line.substr(counter.size()), INT64_MAX).value_or(1);
      }
    }
  }
  return sum;
}

Result<BlockTrace::Recording> BlockTrace::stop() {
  const int root = tracefs_.get();
  for (const char* event : {kIssue, kRequeue}) LSMFS_TRY(write_file(root, at(event) + "/enable", "0"));
  LSMFS_TRY(write_file(root, at("tracing_on"), "0"));
  auto events = reader_->finish();
  if (!events && events.error().code != EOVERFLOW) return std::move(events.error());
  LSMFS_ASSIGN(const std::uint64_t missing, lost());
  if (missing > 0 || !events) return overflow(missing);
  reader_.reset();
  LSMFS_TRY(remove_instance());
  return Recording{begin_ns_, in_order(std::move(*events))};
}

}  // namespace lsmfs::cli

#include "simdisk/files.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <mutex>

#include "simdisk/control.h"

namespace lsmfs::simdisk {
namespace {

constexpr double kForever = 1e9;  // seconds; nothing changes but by the kernel's own requests

enum Node : fuse_ino_t { root_node = FUSE_ROOT_ID, disk_node, profile_node, stats_node, trace_node };

struct File {
  const char* name;
  Node node;
  mode_t mode;
};
constexpr std::array kFiles{File{"disk", disk_node, S_IFREG | 0600}, File{"profile", profile_node, S_IFREG | 0644},
                            File{"stats", stats_node, S_IFREG | 0444}, File{"trace", trace_node, S_IFREG | 0644}};

// What was to be read when a control file was opened.
struct Handle {
  std::string text;
  std::unique_ptr<TraceText> trace;
  std::mutex mutex;  // of `trace`, between workers
};

Mounted& mounted(fuse_req_t req) { return *static_cast<Mounted*>(fuse_req_userdata(req)); }

Handle* handle_of(fuse_file_info* info) { return reinterpret_cast<Handle*>(info->fh); }

struct stat attributes(const Mounted& m, fuse_ino_t node) {
  struct stat facts {};
  facts.st_ino = node;
  facts.st_uid = getuid();
  facts.st_gid = getgid();
  facts.st_nlink = 1;
  facts.st_blksize = kDeviceBlock;
  facts.st_atim = facts.st_mtim = facts.st_ctim = m.since;
  facts.st_mode = S_IFDIR | 0755;
  for (const File& file : kFiles) {
    if (file.node == node) facts.st_mode = file.mode;
  }
  if (node == disk_node) {
    facts.st_size = static_cast<off_t>(m.disk.size().v);
    facts.st_blocks = facts.st_size / 512;
  }
  return facts;
}

void lookup(fuse_req_t req, fuse_ino_t, const char* name) {
  const auto* found =
      std::find_if(kFiles.begin(), kFiles.end(), [&](const File& file) { return std::string_view(file.name) == name; });
  if (found == kFiles.end()) {
    fuse_reply_err(req, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = found->node;
  entry.attr = attributes(mounted(req), found->node);
  entry.attr_timeout = entry.entry_timeout = kForever;
  fuse_reply_entry(req, &entry);
}

void getattr(fuse_req_t req, fuse_ino_t node, fuse_file_info*) {
  const struct stat facts = attributes(mounted(req), node);
  fuse_reply_attr(req, &facts, kForever);
}

// A shell's `echo word > profile` truncates first. The disk keeps its size.
void setattr(fuse_req_t req, fuse_ino_t node, struct stat* change, int which, fuse_file_info* info) {
  if (node == disk_node && (which & FUSE_SET_ATTR_SIZE) != 0 &&
      static_cast<std::uint64_t>(change->st_size) != mounted(req).disk.size().v) {
    fuse_reply_err(req, EPERM);
    return;
  }
  getattr(req, node, info);
}

void readdir(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info*) {
  std::string out(size, '\0');
  std::size_t used = 0;
  for (auto i = static_cast<std::size_t>(offset); i < kFiles.size(); ++i) {
    const struct stat facts = attributes(mounted(req), kFiles[i].node);
    const std::size_t needed = fuse_add_direntry(req, out.data() + used, size - used, kFiles[i].name, &facts,
                                                 static_cast<off_t>(i + 1));
    if (needed > size - used) break;
    used += needed;
  }
  fuse_reply_buf(req, out.data(), used);
}

void open(fuse_req_t req, fuse_ino_t node, fuse_file_info* info) {
  const Mounted& m = mounted(req);
  auto handle = std::make_unique<Handle>();
  if (node == profile_node) handle->text = std::string(name_of(m.disk.profile())) + "\n";
  if (node == stats_node) handle->text = m.disk.stats();
  if (node == trace_node) handle->trace = m.disk.trace();
  info->fh = reinterpret_cast<std::uint64_t>(handle.get());
  info->direct_io = 1;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)
  info->parallel_direct_writes = 1;
#endif
  if (fuse_reply_open(req, info) == 0) (void)handle.release();
}

void release(fuse_req_t req, fuse_ino_t, fuse_file_info* info) {
  delete handle_of(info);
  fuse_reply_err(req, 0);
}

// ---- the disk

bool within(const Mounted& m, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t size = m.disk.size().v;
  return offset <= size && length <= size - offset;
}

void read_disk(fuse_req_t req, std::size_t size, std::uint64_t offset) {
  Mounted& m = mounted(req);
  const std::uint64_t end = m.disk.size().v;
  const std::size_t length = offset >= end ? 0 : std::min<std::uint64_t>(size, end - offset);
  if (length == 0 || length > kTransferMax) {
    length == 0 ? fuse_reply_buf(req, nullptr, 0) : fuse_reply_err(req, EINVAL);
    return;
  }
  auto job = std::make_shared<Job>();
  job->request = {Kind::read, ByteOffset{offset}, ByteCount{length}};
  job->arrival = m.disk.now();
  job->buffer = m.buffers.take();
  job->data = job->buffer->bytes().first(length);
  job->answer = [req](Job& done, int error) {
    if (error != 0) {
      fuse_reply_err(req, error);
    } else {
      fuse_reply_buf(req, reinterpret_cast<const char*>(done.data.data()), done.data.size());
    }
  };
  m.disk.submit(std::move(job));
}

void write_disk(fuse_req_t req, const char* data, std::size_t size, std::uint64_t offset) {
  Mounted& m = mounted(req);
  if (!within(m, offset, size)) {
    fuse_reply_err(req, ENOSPC);
    return;
  }
  auto job = std::make_shared<Job>();
  job->request = {Kind::write, ByteOffset{offset}, ByteCount{size}};
  job->arrival = m.disk.now();
  // The data lies within the message, which therefore has to stay.
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  job->data = m.message->bytes().subspan(static_cast<std::size_t>(bytes - m.message->data()), size);
  job->buffer = std::move(m.message);
  job->answer = [req, size](Job&, int error) {
    error != 0 ? fuse_reply_err(req, error) : fuse_reply_write(req, size);
  };
  m.disk.submit(std::move(job));
}

void submit_without_data(fuse_req_t req, const Request& request) {
  Mounted& m = mounted(req);
  auto job = std::make_shared<Job>();
  job->request = request;
  job->arrival = m.disk.now();
  job->answer = [req](Job&, int error) { fuse_reply_err(req, error); };
  m.disk.submit(std::move(job));
}

// ---- all files

void read(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* info) {
  const auto from = static_cast<std::uint64_t>(offset);
  if (node == disk_node) return read_disk(req, size, from);
  Handle* handle = handle_of(info);
  if (handle->trace) {
    mounted(req).workers.submit([=] {
      std::string text;
      {
        const std::lock_guard lock(handle->mutex);
        text = handle->trace->read(from, size);
      }
      fuse_reply_buf(req, text.data(), text.size());  // the last: the file may be closed from here on
    });
    return;
  }
  const std::string_view rest = std::string_view(handle->text).substr(std::min(from, handle->text.size()));
  fuse_reply_buf(req, rest.data(), std::min(size, rest.size()));
}

// Whether it was a command of that file.
bool obey(Disk& disk, fuse_ino_t node, std::string_view written) {
  if (node == profile_node) {
    const auto profile = parse_profile(written);
    if (profile) disk.set_profile(*profile);
    return profile.has_value();
  }
  const auto on = node == trace_node ? parse_switch(written) : std::nullopt;
  if (on) disk.set_trace(*on);
  return on.has_value();
}

void write(fuse_req_t req, fuse_ino_t node, const char* data, size_t size, off_t offset, fuse_file_info*) {
  if (node == disk_node) return write_disk(req, data, size, static_cast<std::uint64_t>(offset));
  if (obey(mounted(req).disk, node, {data, size})) {
    fuse_reply_write(req, size);
  } else {
    fuse_reply_err(req, EINVAL);
  }
}

void fsync(fuse_req_t req, fuse_ino_t node, int, fuse_file_info*) {
  if (node != disk_node) {
    fuse_reply_err(req, 0);
    return;
  }
  submit_without_data(req, {Kind::flush, {}, {}});
}

// Only what a discard of a loop device becomes. To zero a range, the kernel has to write zeros, as on a real disk.
void fallocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t length, fuse_file_info*) {
  const auto from = static_cast<std::uint64_t>(offset), bytes = static_cast<std::uint64_t>(length);
  if (node != disk_node || mode != (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) {
    fuse_reply_err(req, EOPNOTSUPP);
  } else if (!within(mounted(req), from, bytes)) {
    fuse_reply_err(req, EINVAL);
  } else {
    submit_without_data(req, {Kind::discard, ByteOffset{from}, ByteCount{bytes}});
  }
}

void statfs(fuse_req_t req, fuse_ino_t) {
  struct statvfs facts {};
  facts.f_bsize = facts.f_frsize = kDeviceBlock;  // a loop device discards in units of this
  facts.f_blocks = mounted(req).disk.size().v / kDeviceBlock;
  facts.f_files = kFiles.size() + 1;
  facts.f_namemax = NAME_MAX;
  fuse_reply_statfs(req, &facts);
}

void init(void* user_data, fuse_conn_info* conn) {
  const auto want = [&](unsigned capability, bool on) {
    conn->want = on ? conn->want | (conn->capable & capability) : conn->want & ~capability;
  };
  want(FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO, true);  // several requests of one reader at the same time
  want(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE, false);  // the data has to be in memory
  want(FUSE_CAP_ATOMIC_O_TRUNC, false);  // so that truncation can be refused
  want(FUSE_CAP_AUTO_INVAL_DATA, false);
#ifdef FUSE_CAP_OVER_IO_URING
  want(FUSE_CAP_OVER_IO_URING, false);  // requests would go past our loop
#endif
  conn->max_write = kTransferMax;  // libfuse makes the limit of reads from it
  conn->max_background = kBackgroundMax;
  conn->congestion_threshold = kBackgroundMax;
  static_cast<Mounted*>(user_data)->initialised = true;
}

}  // namespace

const fuse_lowlevel_ops& file_operations() {
  static const fuse_lowlevel_ops operations = [] {
    fuse_lowlevel_ops ops{};
    ops.init = init;
    ops.lookup = lookup;
    ops.getattr = getattr;
    ops.setattr = setattr;
    ops.readdir = readdir;
    ops.open = open;
    ops.release = release;
    ops.read = read;
    ops.write = write;
    ops.fsync = fsync;
    ops.fallocate = fallocate;
    ops.statfs = statfs;
    return ops;
  }();
  return operations;
}

}  // namespace lsmfs::simdisk

#include "fuse/serving/replies.h"

#include "fuse/transport/request.h"
#include "lsmfs/device.h"

namespace lsmfs {
namespace {

void take_back(Tree& tree, int reply_result, Ino ino) {
  if (reply_result == -ENOENT) tree.forget(ino, 1);
}

}  // namespace

void send(fuse_req_t req, Tree&, const Done&) { fuse_reply_err(req, 0); }

void send(fuse_req_t req, Tree& tree, const Entry& reply) {
  const auto entry = reply.attr ? to_entry(*reply.attr) : negative_entry();
  const int result = fuse_reply_entry(req, &entry);
  if (reply.attr) take_back(tree, result, reply.attr->ino);
}

void send(fuse_req_t req, Tree&, const Attributes& reply) {
  const struct stat attr = to_stat(reply.attr);
  fuse_reply_attr(req, &attr, kForever);
}

void send(fuse_req_t req, Tree&, const Target& reply) { fuse_reply_readlink(req, reply.path.c_str()); }

void send(fuse_req_t req, Tree&, const Data& reply) {
  fuse_reply_buf(req, reinterpret_cast<const char*>(reply.bytes.data()), reply.bytes.size());
}

void send(fuse_req_t req, Tree& tree, const DirectoryReply& reply) {
  const Bytes bytes = reply.bytes();
  const int result = fuse_reply_buf(req, reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Ino ino : reply.looked_up()) take_back(tree, result, ino);
}

void send(fuse_req_t req, Tree&, const Written& reply) { fuse_reply_write(req, reply.size); }

void send(fuse_req_t req, Tree&, const Sized& reply) {
  if (reply.size_only) {
    fuse_reply_xattr(req, reply.bytes.size());
  } else {
    fuse_reply_buf(req, reply.bytes.data(), reply.bytes.size());
  }
}

void send(fuse_req_t req, Tree&, const Position& reply) { fuse_reply_lseek(req, static_cast<off_t>(reply.offset.v)); }

void send(fuse_req_t req, Tree&, const IoctlOutput& reply) {
  fuse_reply_ioctl(req, 0, reply.bytes.data(), reply.bytes.size());
}

void send(fuse_req_t req, Tree&, const SpaceInfo& reply) {
  struct statvfs out {};
  out.f_bsize = out.f_frsize = kBlockSize;
  out.f_blocks = reply.total.v / kBlockSize;
  out.f_bfree = out.f_bavail = reply.free.v / kBlockSize;
  out.f_files = reply.files + reply.files_free;
  out.f_ffree = out.f_favail = reply.files_free;
  out.f_namemax = kNameMax;
  fuse_reply_statfs(req, &out);
}

MutableBytes scratch(std::size_t size) {
  if (size <= reply_room.size()) return reply_room.first(size);
  // Aligned, so that the device writes right into it.
  thread_local AlignedBuffer memory;
  if (size > memory.size()) memory = AlignedBuffer(size);
  return memory.bytes().first(size);
}

void ErrorLog::note(const Error& error) {
  switch (error.code) {
    case EIO:
    case EUCLEAN:
    case ENOMEM:
    case EROFS:
      break;
    default:
      return;  // what programs do wrong every day
  }
  constexpr std::int64_t kBetween = 1'000'000'000;
  const std::int64_t now = clock_.now_ns();
  std::int64_t next = next_ns_;
  if (now >= next && next_ns_.compare_exchange_strong(next, now + kBetween)) notice_(error.message());
}

}  // namespace lsmfs

// The kinds of reply, one send() for each.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "fuse/serving/attributes.h"
#include "fuse/serving/directory_reply.h"
#include "fuse/transport/libfuse.h"
#include "lsmfs/clock.h"
#include "lsmfs/tree.h"

namespace lsmfs {

struct Done {};
struct Entry {
  std::optional<Attr> attr;  // nullopt: there is no such name, and the kernel may remember that
};
struct Attributes {
  Attr attr;
};
struct Target {
  std::string path;
};
struct Data {
  Bytes bytes;  // in this thread's scratch()
};
struct Written {
  std::size_t size;
};
// An extended attribute's value or their names; or how long that is.
struct Sized {
  std::string bytes;
  bool size_only = false;
};
struct Position {
  ByteOffset offset;
};
// What an ioctl gives back, at most the size in its number; that it went well goes without saying.
struct IoctlOutput {
  std::string bytes;
};

// The kernel refuses a reply to a request whose caller was killed in the meantime; then it does not
// know of the inode it would have got, so the lookup is taken back.
void send(fuse_req_t req, Tree& tree, const Done& reply);
void send(fuse_req_t req, Tree& tree, const Entry& reply);
void send(fuse_req_t req, Tree& tree, const Attributes& reply);
void send(fuse_req_t req, Tree& tree, const Target& reply);
void send(fuse_req_t req, Tree& tree, const Data& reply);
void send(fuse_req_t req, Tree& tree, const DirectoryReply& reply);
void send(fuse_req_t req, Tree& tree, const Written& reply);
void send(fuse_req_t req, Tree& tree, const Sized& reply);
void send(fuse_req_t req, Tree& tree, const Position& reply);
void send(fuse_req_t req, Tree& tree, const IoctlOutput& reply);
void send(fuse_req_t req, Tree& tree, const SpaceInfo& reply);

// `size` bytes of this thread's own, for a reply that is sent before the next call. The contents
// are undefined.
MutableBytes scratch(std::size_t size);

// Tells people of errors that mean trouble with the device, once a second at most: a failing
// device fails every request.
class ErrorLog {
 public:
  ErrorLog(Clock& clock, std::function<void(std::string_view)> notice) : clock_(clock), notice_(std::move(notice)) {}
  void note(const Error& error);

 private:
  Clock& clock_;
  std::function<void(std::string_view)> notice_;
  std::atomic<std::int64_t> next_ns_{0};  // when it may tell again, as of Clock::now_ns()
};

}  // namespace lsmfs

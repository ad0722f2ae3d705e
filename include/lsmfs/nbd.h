// nbd: a device that a server keeps, on this machine or another, and that is reached by the protocol NBD
// (https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md), which libnbd speaks.
//
// It is a Device as any other. A connection may be lost: then requests wait, another one is made, and what was not answered is sent again.
// Of what was answered since the last flush, checksums are kept. So a server that has lost some of it, as one whose machine broke down, is found out.
// What it is not: who makes connections, which takes rights that the others of a daemon have given up.
//
// Promises, whatever becomes of connections:
//   1. A request returns once: with the server's answer; or with ETIMEDOUT, which then all return, when nothing was answered for `patience` since
//      a connection was lost. A server that is silent on a connection that lasts is waited for, as a disk is.
//   2. After another connection nothing is asked of a device that is smaller than before, that can do less, on which something is not what
//      was written there, or that `look` refuses: all requests return ESTALE then.
// What no client can prevent: that a server carries out late, after another connection, what came by one that is lost.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/device.h"

namespace lsmfs {

struct NbdOptions {
  std::string name;         // what path() tells, for people
  std::string export_name;  // which of the server's devices; "" is its default one
  Access access = Access::read_only;
  // A socket that is connected to the server. From any thread, one call at a time; again when a connection is lost.
  std::function<Result<Fd>()> connect;
  std::chrono::seconds patience{60};  // for how long requests wait for a connection after one is lost
  bool without_flush = false;         // write to a server that cannot flush, too
  // Looks at the device by another connection, before anything is sent again by it: it may not be this process's to write to any more.
  // An error is the end, as ESTALE.
  std::function<Result<void>(Device&)> look = [](Device&) { return Result<void>(); };
  Clock* clock = &system_clock();
  std::function<void(std::string_view)> notice = [](std::string_view) {};  // a line: a connection is lost, is there again, is given up
};

// Errors: those of `connect`, at once; ETIMEDOUT (no answer in ten seconds), EPROTO (what the server says makes no sense, or it
// refuses), ENOENT (it has no such device), EROFS (it does not let write there), EOPNOTSUPP (it cannot flush), EINVAL (it asks for requests
// that are multiples of more than kDeviceBlock).
Result<std::unique_ptr<Device>> nbd_device(NbdOptions options);

std::vector<Library> nbd_libraries();

}  // namespace lsmfs

// Devices of NBD servers, as people name them: nbd+unix:///EXPORT?socket=PATH, nbd://HOST[:PORT]/EXPORT.
// See https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md; one parameter is of our own, flush=no.
//
// A process that has given up its rights cannot connect any more. So a second process is forked before, which connects whenever it is asked to,
// to the one server that it was made for, and hands the socket over. It ends with the first.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/sources.h"
#include "lsmfs/device.h"

namespace lsmfs::cli {

struct NbdSource {
  std::string host, port;  // of a server that is reached by TCP
  std::string socket;      // the path of its socket, or ""
  std::string export_name;
  bool without_flush = false;
};

// Whether it names one, though perhaps wrongly.
bool is_nbd(std::string_view source);
// The error's context is a whole message.
Result<NbdSource> parse_nbd(const std::string& source);

// Must hold: this process has no other thread. Errors: those of parse_nbd() as EINVAL, of connecting, of nbd_device().
Result<std::unique_ptr<Device>> open_nbd(const std::string& source, Access access, const Away& away);

}  // namespace lsmfs::cli

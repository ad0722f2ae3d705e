// channel: short messages over a local socket, which may carry a file descriptor from one process to another.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs {

struct Message {
  std::string bytes;
  Fd descriptor;  // the receiver's own, if one came
};

// Must hold: not more than kMessageMax bytes, and at least one. False: nobody receives any more.
inline constexpr std::size_t kMessageMax = 4096;
bool send_message(int socket, std::string_view bytes, int descriptor = -1);
// Waits for one. On a stream it is whatever has come. nullopt: nobody sends any more.
std::optional<Message> receive_message(int socket);

}  // namespace lsmfs

#include "lsmfs/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace lsmfs {
namespace {

// Room for one descriptor beside a message.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

msghdr describe(iovec& part, Control* control) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (control != nullptr) {
    message.msg_control = control->bytes.data();
    message.msg_controllen = control->bytes.size();
  }
  return message;
}

}  // namespace

bool send_message(int socket, std::string_view bytes, int descriptor) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  Control control;
  msghdr message = describe(part, descriptor >= 0 ? &control : nullptr);
  if (descriptor >= 0) {
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

std::optional<Message> receive_message(int socket) {
  Message received;
  received.bytes.resize(kMessageMax);
  iovec part{received.bytes.data(), received.bytes.size()};
  Control control;
  msghdr message = describe(part, &control);
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return std::nullopt;
  received.bytes.resize(static_cast<std::size_t>(got));
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    received.descriptor.reset(descriptor);
  }
  return received;
}

}  // namespace lsmfs

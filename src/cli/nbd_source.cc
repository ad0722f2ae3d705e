#include "cli/nbd_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <optional>

#include "cli/messages.h"
#include "cli/sizes.h"
#include "lsmfs/channel.h"
#include "lsmfs/nbd.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

constexpr std::string_view kTcp = "nbd://", kUnix = "nbd+unix://", kTls = "nbds://", kTlsUnix = "nbds+unix://";
constexpr const char* kPort = "10809";
constexpr int kConnectWithin = 10;  // seconds
// A peer that is gone without a word, as one whose cable was pulled, is noticed after half a minute.
constexpr int kQuietFor = 15, kBetweenProbes = 5, kProbes = 3;  // seconds, seconds, how many
constexpr unsigned kUnacknowledged = 30000;  // ms

// RFC 3986, 2.1. nullopt: something else follows a "%".
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      plain += text[at];
      continue;
    }
    unsigned value = 0;
    for (int digit = 0; digit < 2; ++digit) {
      const char c = ++at < text.size() ? text[at] : '\0';
      const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
      if (lower >= '0' && lower <= '9') {
        value = value * 16 + static_cast<unsigned>(lower - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        value = value * 16 + static_cast<unsigned>(lower - 'a' + 10);
      } else {
        return std::nullopt;
      }
    }
    if (value == 0) return std::nullopt;
    plain += static_cast<char>(value);
  }
  return plain;
}

constexpr std::string_view kBadPercent = "has a % that two hexadecimal digits do not follow";
Error wrong(const std::string& source, std::string_view why) { return make_error(EINVAL, fmt::format("{}: {}", source, why)); }

// ---- connecting

// Errors: errno.
Fd connect_to(const sockaddr* address, socklen_t length, int family) {
  Fd made(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval within{kConnectWithin, 0};
  if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_SNDTIMEO, &within, sizeof within) != 0) return {};
  if (::connect(made.get(), address, length) != 0) {
    const int reason = errno == EINPROGRESS ? ETIMEDOUT : errno;
    made.reset();
    errno = reason;
  }
  return made;
}

Fd connect_to_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return connect_to(reinterpret_cast<const sockaddr*>(&address), sizeof address, AF_UNIX);
}

Fd connect_to_host(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) {
    errno = EHOSTUNREACH;
    return {};
  }
  Fd made;
  for (const addrinfo* one = found; one != nullptr && !made; one = one->ai_next) made = connect_to(one->ai_addr, one->ai_addrlen, one->ai_family);
  const int reason = errno;
  ::freeaddrinfo(found);
  if (made) {
    const int yes = 1;
    (void)::setsockopt(made.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)::setsockopt(made.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)::setsockopt(made.get(), IPPROTO_TCP, TCP_KEEPIDLE, &kQuietFor, sizeof kQuietFor);
    (void)::setsockopt(made.get(), IPPROTO_TCP, TCP_KEEPINTVL, &kBetweenProbes, sizeof kBetweenProbes);
    (void)::setsockopt(made.get(), IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
    (void)::setsockopt(made.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledged, sizeof kUnacknowledged);
  }
  errno = reason;
  return made;
}

// What was written before a connection was lost may be sent after that of another host, which took the lease meanwhile.
Result<void> check_lease(Device& device, const LeaseHolder& writer) {
  const auto info = read_volume_info(device);
  if (!info && info.error().code == EIO) return info.error();
  if (!info || (info->features.read_only & kLeaseFeature) == 0) return {};
  const auto lease = read_lease(device);
  if (lease && *lease && (*lease)->holder.host == writer.host) return {};
  return make_error(EBUSY, fmt::format("{}: another host has taken its lease meanwhile", device.path()));
}

[[noreturn]] void serve_connections(const NbdSource& source, int with) {
  // What a terminal sends to all of its processes is for the first one, with which this one ends.
  (void)::setsid();
  if (::chdir("/") != 0) _exit(1);  // else nobody could unmount what its first directory is in
  (void)::prctl(PR_SET_NAME, "lsmfs-connect");
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // Else it would keep open, and locked, what the first one closes.
  constexpr int kOwn = 3;
  if (::dup2(with, kOwn) != kOwn || ::close_range(kOwn + 1, ~0u, 0) != 0) _exit(1);
  const int null = ::open("/dev/null", O_RDWR);
  for (int standard = 0; standard < kOwn; ++standard) (void)::dup2(null, standard);
  ::close(null);
  // What it answers is the errno, and a socket if there is one.
  while (receive_message(kOwn)) {
    errno = 0;
    const Fd made = source.socket.empty() ? connect_to_host(source.host, source.port) : connect_to_socket(source.socket);
    (void)send_message(kOwn, std::to_string(errno), made.get());
  }
  _exit(0);
}

class Connector {
 public:
  static Result<std::shared_ptr<Connector>> fork_for(const NbdSource& source, const std::string& name) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return make_error(errno, "socketpair");
    Fd own(ends[0]), its(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return make_error(errno, "fork");
    if (child == 0) serve_connections(source, its.get());
    return std::make_shared<Connector>(std::move(own), child, name);
  }

  Connector(Fd own, pid_t child, std::string name) : own_(std::move(own)), child_(child), name_(std::move(name)) {}
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  ~Connector() {
    own_.reset();  // upon which it ends
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Result<Fd> connect() const {
    if (!send_message(own_.get(), "c")) return gone();
    auto answer = receive_message(own_.get());
    if (!answer) return gone();
    if (answer->descriptor) return std::move(answer->descriptor);
    const auto reason = parse_number(answer->bytes, INT_MAX);
    return make_error(reason.value_or(0) == 0 ? EIO : static_cast<int>(*reason), fmt::format("{}: cannot connect", name_));
  }

 private:
  Error gone() const { return make_error(EPIPE, fmt::format("{}: the process that connects is gone", name_)); }

  Fd own_;
  const pid_t child_;
  const std::string name_;
};

}  // namespace

bool is_nbd(std::string_view source) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{kTcp, kUnix, kTls, kTlsUnix}, [&](std::string_view scheme) { return source.starts_with(scheme); });
}

Result<NbdSource> parse_nbd(const std::string& source) {
  std::string_view rest = source;
  if (rest.starts_with(kTls) || rest.starts_with(kTlsUnix)) {
    return wrong(source, "TLS is not spoken here; reach the server by ssh -L or stunnel, and name their end of it");
  }
  const bool by_socket = rest.starts_with(kUnix);
  rest.remove_prefix(by_socket ? kUnix.size() : kTcp.size());
  NbdSource found;
  std::string_view query;
  if (const auto mark = rest.find('?'); mark != rest.npos) {
    query = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  const auto slash = rest.find('/');
  const std::string_view authority = rest.substr(0, slash);
  const auto name = decoded(slash == rest.npos ? std::string_view() : rest.substr(slash + 1));
  if (!name) return wrong(source, kBadPercent);
  found.export_name = *name;

  if (by_socket) {
    if (!authority.empty()) return wrong(source, "names a host, and a socket has none; write nbd+unix:///NAME?socket=PATH, or nbd://HOST/NAME");
  } else {
    // [::1]:10809 as well.
    const auto bracket = authority.find(']');
    const auto colon = authority.find(':', bracket == authority.npos ? 0 : bracket);
    std::string_view host = authority.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const auto plain = decoded(host);
    if (!plain) return wrong(source, kBadPercent);
    found.host = *plain;
    found.port = colon == authority.npos ? kPort : std::string(authority.substr(colon + 1));
    if (found.host.empty()) return wrong(source, "names no host; write nbd://HOST/NAME");
    if (found.host.find('@') != found.host.npos) return wrong(source, "names a user, and nbd knows none; write nbd://HOST/NAME");
    if (found.port.empty() || found.port.find_first_not_of("0123456789") != found.port.npos) return wrong(source, "has a port that is no number");
  }

  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    const auto value = decoded(one.substr(std::min(one.find('='), one.size())));  // with its "="
    if (one.starts_with("socket=") && by_socket && value) {
      found.socket = value->substr(1);
    } else if (one == "flush=no") {
      found.without_flush = true;
    } else {
      return wrong(source, fmt::format("has a parameter that is not known, {}; there are {}flush=no", one, by_socket ? "socket=PATH and " : ""));
    }
  }
  if (by_socket && found.socket.empty()) return wrong(source, "names no socket; write nbd+unix:///NAME?socket=PATH");
  if (found.socket.size() >= sizeof sockaddr_un{}.sun_path) return wrong(source, fmt::format("has a socket with a path of more than {} bytes", sizeof sockaddr_un{}.sun_path - 1));
  return found;
}

Result<std::unique_ptr<Device>> open_nbd(const std::string& source, Access access, const Away& away) {
  LSMFS_ASSIGN(const NbdSource server, parse_nbd(source));
  LSMFS_ASSIGN(const auto connector, Connector::fork_for(server, source));
  return nbd_device({.name = source,
                     .export_name = server.export_name,
                     .access = access,
                     .connect = [connector] { return connector->connect(); },
                     .patience = away.patience,
                     .without_flush = server.without_flush,
                     .look = [writer = away.writer](Device& device) { return writer ? check_lease(device, *writer) : Result<void>(); },
                     .notice = away.notice ? away.notice : tell});
}

}  // namespace lsmfs::cli

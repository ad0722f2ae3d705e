#include "device/nbd_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace lsmfs::test {
namespace {

// The protocol's numbers, by its own names.
constexpr std::uint64_t kInitialMagic = 0x4e42444d41474943, kOptionMagic = 0x49484156454f5054, kOptionReplyMagic = 0x3e889045565a9;
constexpr std::uint32_t kRequestMagic = 0x25609513, kSimpleReplyMagic = 0x67446698;
constexpr std::uint16_t kFixedNewstyle = 1, kNoZeroes = 2;
constexpr std::uint32_t kOptAbort = 2, kOptInfo = 6, kOptGo = 7;
constexpr std::uint32_t kRepAck = 1, kRepInfo = 3, kRepErrUnsup = 0x80000001, kRepErrPolicy = 0x80000002, kRepErrInvalid = 0x80000003,
                        kRepErrUnknown = 0x80000006;
constexpr std::uint16_t kInfoExport = 0, kInfoBlockSize = 3;
constexpr std::uint16_t kHasFlags = 1 << 0, kReadOnly = 1 << 1, kSendFlush = 1 << 2, kSendFua = 1 << 3, kSendTrim = 1 << 5,
                        kSendWriteZeroes = 1 << 6, kCanMultiConn = 1 << 8;
constexpr std::uint16_t kCmdRead = 0, kCmdWrite = 1, kCmdDisc = 2, kCmdFlush = 3, kCmdTrim = 4, kCmdWriteZeroes = 6;
constexpr std::uint16_t kCmdFlagFua = 1 << 0, kCmdFlagNoHole = 1 << 1;

constexpr std::uint32_t kLargestOption = 64 * KiB, kLargestPayload = 64 * MiB;  // more makes no sense: the connection ends
constexpr std::uint32_t kLargestUntold = 32 * MiB;                              // of a payload, when nothing is told of it
constexpr std::uint64_t kBlock = 4096;                                          // of what is flushed
constexpr std::size_t kMostQueued = 64;
constexpr int kQueueMs = 1;

template <class T>
void put_be(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof value) * 8 - 8; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

// Numbers from bytes that are there.
class Numbers {
 public:
  explicit Numbers(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T next() {
    std::uint64_t value = 0;
    for (const char byte : rest_.substr(0, sizeof(T))) value = value << 8 | static_cast<unsigned char>(byte);
    rest_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }

 private:
  std::string_view rest_;
};

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool receive_all(int socket, std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::recv(socket, bytes.data() + done, bytes.size() - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// Takes what comes and says nothing, until the connection is closed.
void hang(int socket) {
  std::string thrown_away(64 * KiB, '\0');
  while (receive_all(socket, thrown_away)) continue;
}

bool comes_within(int socket, int ms) {
  pollfd waited{socket, POLLIN, 0};
  return ::poll(&waited, 1, ms) > 0;
}

bool closed_by_either(int socket) {
  pollfd looked_at{socket, 0, 0};
  return ::poll(&looked_at, 1, 0) > 0 && (looked_at.revents & POLLHUP) != 0;
}

bool send_option_reply(int socket, std::uint32_t option, std::uint32_t type, std::string_view data = {}) {
  std::string reply;
  put_be(reply, kOptionReplyMagic);
  put_be(reply, option);
  put_be(reply, type);
  put_be(reply, static_cast<std::uint32_t>(data.size()));
  reply += data;
  return send_all(socket, reply);
}

std::uint16_t transmission_flags(const NbdServerOptions& told) {
  unsigned flags = kHasFlags;
  if (told.read_only) flags |= kReadOnly;
  if (told.flush) flags |= kSendFlush;
  if (told.fua) flags |= kSendFua;
  if (told.trim) flags |= kSendTrim;
  if (told.write_zeroes) flags |= kSendWriteZeroes;
  if (told.can_multi_conn) flags |= kCanMultiConn;
  return static_cast<std::uint16_t>(flags);
}

std::string export_info(const NbdServerOptions& told) {
  std::string info;
  put_be(info, kInfoExport);
  put_be(info, told.size.v);
  put_be(info, transmission_flags(told));
  return info;
}

std::string block_size_info(const NbdBlockSizes& sizes) {
  std::string info;
  put_be(info, kInfoBlockSize);
  put_be(info, sizes.minimum);
  put_be(info, sizes.preferred);
  put_be(info, sizes.maximum);
  return info;
}

// The name in the data of NBD_OPT_INFO and NBD_OPT_GO; what else is wanted is told anyway. nullopt: it makes no sense.
std::optional<std::string> wanted_export(const std::string& data) {
  if (data.size() < 6) return std::nullopt;
  const std::uint32_t length = Numbers(data).next<std::uint32_t>();
  if (length > data.size() - 6) return std::nullopt;
  const std::uint16_t infos = Numbers(std::string_view(data).substr(4 + length)).next<std::uint16_t>();
  if (data.size() != 6 + length + 2u * infos) return std::nullopt;
  return data.substr(4, length);
}

std::optional<NbdKind> kind_of(std::uint16_t type) {
  switch (type) {
    case kCmdRead:
      return NbdKind::read;
    case kCmdWrite:
      return NbdKind::write;
    case kCmdFlush:
      return NbdKind::flush;
    case kCmdTrim:
      return NbdKind::trim;
    case kCmdWriteZeroes:
      return NbdKind::write_zeroes;
    default:
      return std::nullopt;
  }
}

}  // namespace

NbdServer::NbdServer(NbdServerOptions options)
    : volatile_writes_(options.volatile_writes), options_(std::move(options)), seen_(options_.size.v, '\0') {
  if (volatile_writes_) durable_ = seen_;
}

NbdServer::~NbdServer() {
  std::list<std::unique_ptr<Connection>> ending;
  {
    const MutexLock lock(mutex_);
    refused_next_ = kAll;
    cut_all();
    ending.swap(connections_);
  }
  for (const auto& connection : ending) connection->thread.join();
}

Result<Fd> NbdServer::connect() {
  std::list<std::unique_ptr<Connection>> ended;
  Fd client;
  {
    const MutexLock lock(mutex_);
    if (refused_next_ > 0) {
      if (refused_next_ != kAll) --refused_next_;
      ++counts_.refused;
      return make_error(ECONNREFUSED, "the test's server");
    }
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return make_error(errno, "socketpair");
    client.reset(ends[0]);
    for (auto at = connections_.begin(); at != connections_.end();) {
      const auto next = std::next(at);
      if ((*at)->ended) ended.splice(ended.end(), connections_, at);
      at = next;
    }
    Connection& connection = *connections_.emplace_back(std::make_unique<Connection>());
    connection.number = counts_.connections++;
    connection.socket.reset(ends[1]);
    connection.thread = named_thread("nbd server", [this, &connection, told = options_] { serve(connection, told); });
  }
  for (const auto& connection : ended) connection->thread.join();
  return client;
}

void NbdServer::refuse(std::uint64_t connections) {
  const MutexLock lock(mutex_);
  refused_next_ = connections;
}

void NbdServer::change(const std::function<void(NbdServerOptions&)>& how) {
  const MutexLock lock(mutex_);
  how(options_);
}

void NbdServer::on_command(std::function<NbdVerdict(const NbdCommand&)> hook) {
  change([&](NbdServerOptions& options) { options.on_command = std::move(hook); });
}

void NbdServer::resize(ByteCount size) {
  const MutexLock lock(mutex_);
  options_.size = size;
  if (size.v > seen_.size()) seen_.resize(size.v);
  if (volatile_writes_) durable_.resize(seen_.size());
}

void NbdServer::cut() {
  const MutexLock lock(mutex_);
  cut_all();
}

void NbdServer::lose_volatile() {
  const MutexLock lock(mutex_);
  revert();
}

void NbdServer::crash() {
  const MutexLock lock(mutex_);
  cut_all();
  revert();
}

std::string NbdServer::contents() const {
  const MutexLock lock(mutex_);
  return seen_.substr(0, options_.size.v);
}

NbdCounts NbdServer::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

void NbdServer::cut_all() {
  for (const auto& connection : connections_) {
    if (connection->socket) ::shutdown(connection->socket.get(), SHUT_RDWR);
  }
}

void NbdServer::changed(ByteOffset from, ByteCount length, bool durable) {
  if (!volatile_writes_ || length.v == 0) return;
  if (durable) {
    std::memcpy(durable_.data() + from.v, seen_.data() + from.v, length.v);
  } else {
    for (std::uint64_t block = from.v / kBlock; block * kBlock < from.v + length.v; ++block) unflushed_.insert(block);
  }
}

void NbdServer::make_durable() {
  for (const std::uint64_t block : unflushed_) {
    const std::uint64_t from = block * kBlock;
    std::memcpy(durable_.data() + from, seen_.data() + from, std::min(kBlock, seen_.size() - from));
  }
  unflushed_.clear();
}

void NbdServer::revert() {
  for (const std::uint64_t block : unflushed_) {
    const std::uint64_t from = block * kBlock;
    std::memcpy(seen_.data() + from, durable_.data() + from, std::min(kBlock, seen_.size() - from));
  }
  unflushed_.clear();
}

// ---- a connection -------------------------------------------------------------------------

void NbdServer::serve(Connection& connection, const NbdServerOptions& told) {
  if (shake_hands(connection.socket.get(), told)) transmit(connection, told);
  const MutexLock lock(mutex_);
  connection.socket.reset();
  connection.ended = true;
}

bool NbdServer::shake_hands(int socket, const NbdServerOptions& told) {
  if (told.handshake == NbdHandshake::silent) {
    hang(socket);
    return false;
  }
  std::string greeting;
  if (told.handshake == NbdHandshake::garbage) {
    greeting = "220 mail.example.org ready; what do you want of me?\r\n";
    if (send_all(socket, greeting)) hang(socket);
    return false;
  }
  put_be(greeting, kInitialMagic);
  put_be(greeting, kOptionMagic);
  put_be(greeting, static_cast<std::uint16_t>(kFixedNewstyle | kNoZeroes));
  if (!send_all(socket, greeting) || told.handshake == NbdHandshake::cut) return false;
  std::string client_flags(4, '\0');
  return receive_all(socket, client_flags) && answer_options(socket, told);
}

// True: the client goes on with commands.
bool NbdServer::answer_options(int socket, const NbdServerOptions& told) {
  for (;;) {
    std::string header(16, '\0');
    if (!receive_all(socket, header)) return false;
    Numbers numbers(header);
    const auto magic = numbers.next<std::uint64_t>();
    const auto option = numbers.next<std::uint32_t>(), length = numbers.next<std::uint32_t>();
    if (magic != kOptionMagic || length > kLargestOption) return false;
    std::string data(length, '\0');
    if (!receive_all(socket, data)) return false;

    if (option == kOptAbort) {
      (void)send_option_reply(socket, option, kRepAck);
      return false;
    }
    if (option != kOptInfo && option != kOptGo) {
      if (!send_option_reply(socket, option, kRepErrUnsup)) return false;
      continue;
    }
    const std::optional<std::string> name = wanted_export(data);
    const std::uint32_t refusal = !name                                      ? kRepErrInvalid
                                  : *name != told.export_name                ? kRepErrUnknown
                                  : told.handshake == NbdHandshake::refusing ? kRepErrPolicy
                                                                             : 0;
    if (refusal) {
      if (!send_option_reply(socket, option, refusal)) return false;
      continue;
    }
    if (!send_option_reply(socket, option, kRepInfo, export_info(told))) return false;
    if (told.block_sizes && !send_option_reply(socket, option, kRepInfo, block_size_info(*told.block_sizes))) return false;
    if (!send_option_reply(socket, option, kRepAck)) return false;
    if (option == kOptGo) return true;
  }
}

void NbdServer::transmit(Connection& connection, const NbdServerOptions& told) {
  std::mt19937_64 random(told.shuffle_seed.value_or(0) + connection.number);
  std::vector<Request> queue;
  for (;;) {
    bool last = false;
    do {
      const Read read = read_request(connection, queue.emplace_back());
      if (read == Read::end) return;
      last = read == Read::disconnect;
      if (last) queue.pop_back();
    } while (!last && told.shuffle_seed && queue.size() < kMostQueued && comes_within(connection.socket.get(), kQueueMs));
    if (told.shuffle_seed) {
      std::ranges::shuffle(queue, random);
      const MutexLock lock(mutex_);
      counts_.most_queued = std::max<std::uint64_t>(counts_.most_queued, queue.size());
    }
    for (Request& request : queue) {
      if (!answer(connection, told, request)) return;
    }
    if (last) return;
    queue.clear();
  }
}

NbdServer::Read NbdServer::read_request(const Connection& connection, Request& request) {
  std::string header(28, '\0');
  if (!receive_all(connection.socket.get(), header)) return Read::end;
  Numbers numbers(header);
  const bool sound = numbers.next<std::uint32_t>() == kRequestMagic;
  request.flags = numbers.next<std::uint16_t>();
  request.type = numbers.next<std::uint16_t>();
  request.cookie = numbers.next<std::uint64_t>();
  request.command.offset.v = numbers.next<std::uint64_t>();
  request.command.length.v = numbers.next<std::uint32_t>();
  request.command.connection = connection.number;
  request.command.fua = (request.flags & kCmdFlagFua) != 0;
  request.command.kind = kind_of(request.type).value_or(NbdKind::read);
  const bool payload = request.type == kCmdWrite;
  {
    const MutexLock lock(mutex_);
    if (!sound || (payload && request.command.length.v > kLargestPayload)) {
      ++counts_.violations;
      return Read::end;
    }
    if (request.type == kCmdDisc) {
      ++counts_.disconnects;
      return Read::disconnect;
    }
  }
  if (!payload) return Read::command;
  request.data.resize(request.command.length.v);
  return receive_all(connection.socket.get(), request.data) ? Read::command : Read::end;
}

// False: the connection ends.
bool NbdServer::answer(Connection& connection, const NbdServerOptions& told, Request& request) {
  const int socket = connection.socket.get();
  using Kind = NbdVerdict::Kind;
  const NbdVerdict verdict = decide(request.command);
  if (verdict.kind == Kind::cut_before) return false;
  if (verdict.kind == Kind::hang) {
    hang(socket);
    return false;
  }
  std::string data;
  NbdErrno error = verdict.error;
  if (verdict.kind != Kind::error) {
    const std::optional<NbdErrno> done = carry_out(socket, told, request, data);
    if (!done) return false;
    error = *done;
  }
  if (verdict.kind == Kind::cut_after) return false;

  const bool wrong_magic = verdict.kind == Kind::wrong_magic, wrong_cookie = verdict.kind == Kind::wrong_cookie;
  std::string reply;
  put_be(reply, wrong_magic ? ~kSimpleReplyMagic : kSimpleReplyMagic);
  put_be(reply, static_cast<std::uint32_t>(error));
  put_be(reply, wrong_cookie ? ~request.cookie : request.cookie);
  if (verdict.kind == Kind::cut_in_reply) {
    if (data.empty()) {
      reply.resize(reply.size() / 2);
    } else {
      data.resize(data.size() / 2);
    }
    (void)send_all(socket, reply + data);
    return false;
  }
  if (verdict.kind == Kind::reply_later) {
    connection.replies += reply + data;
    return true;
  }
  if (!send_all(socket, reply + data + std::exchange(connection.replies, {}))) return false;
  if (!wrong_magic && !wrong_cookie) return true;
  hang(socket);
  return false;
}

// Gives the command its number.
NbdVerdict NbdServer::decide(NbdCommand& command) {
  std::function<NbdVerdict(const NbdCommand&)> hook;
  {
    const MutexLock lock(mutex_);
    command.number = counts_.commands++;
    hook = options_.on_command;
  }
  return hook ? hook(command) : NbdVerdict{};
}

// nullopt: the connection was closed before. Looks with the mutex held: who asks for another connection then has the mutex later.
std::optional<NbdErrno> NbdServer::carry_out(int socket, const NbdServerOptions& told, const Request& request, std::string& data) {
  const MutexLock lock(mutex_);
  if (closed_by_either(socket)) return std::nullopt;
  if (const NbdErrno refusal = allowed(told, request); refusal != NbdErrno::none) {
    ++counts_.violations;
    return refusal;
  }
  const NbdCommand& command = request.command;
  switch (command.kind) {
    case NbdKind::read:
      ++counts_.reads;
      counts_.largest_read = std::max(counts_.largest_read, command.length.v);
      data = seen_.substr(command.offset.v, command.length.v);
      break;
    case NbdKind::write:
      ++counts_.writes;
      counts_.largest_write = std::max(counts_.largest_write, command.length.v);
      seen_.replace(command.offset.v, command.length.v, request.data);
      changed(command.offset, command.length, command.fua);
      break;
    case NbdKind::flush:
      ++counts_.flushes;
      make_durable();
      break;
    case NbdKind::trim:
      ++counts_.trims;
      // Neither the old bytes nor zeros: nobody has promised either.
      std::memset(seen_.data() + command.offset.v, 0xd1, command.length.v);
      changed(command.offset, command.length, command.fua);
      break;
    case NbdKind::write_zeroes:
      ++counts_.zeroings;
      std::memset(seen_.data() + command.offset.v, 0, command.length.v);
      changed(command.offset, command.length, command.fua);
      break;
  }
  return NbdErrno::none;
}

NbdErrno NbdServer::allowed(const NbdServerOptions& told, const Request& request) const {
  const NbdCommand& command = request.command;
  const bool changes = command.kind != NbdKind::read && command.kind != NbdKind::flush;
  if (!kind_of(request.type)) return NbdErrno::einval;
  if (request.flags & ~(kCmdFlagFua | (command.kind == NbdKind::write_zeroes ? kCmdFlagNoHole : 0))) return NbdErrno::einval;
  if (command.fua && !told.fua) return NbdErrno::einval;
  if (changes && told.read_only) return NbdErrno::eperm;
  if (command.kind == NbdKind::flush) {
    return told.flush && command.offset.v == 0 && command.length.v == 0 ? NbdErrno::none : NbdErrno::einval;
  }
  if (command.kind == NbdKind::trim && !told.trim) return NbdErrno::einval;
  if (command.kind == NbdKind::write_zeroes && !told.write_zeroes) return NbdErrno::einval;

  const NbdBlockSizes sizes = told.block_sizes.value_or(NbdBlockSizes{.minimum = 1, .maximum = kLargestUntold});
  const bool payload = command.kind == NbdKind::read || command.kind == NbdKind::write;
  if (command.length.v == 0 || (payload && command.length.v > sizes.maximum)) return NbdErrno::einval;
  if ((command.offset.v | command.length.v) % sizes.minimum != 0) return NbdErrno::einval;
  if (command.offset.v > options_.size.v || command.length.v > options_.size.v - command.offset.v) {
    return command.kind == NbdKind::write ? NbdErrno::enospc : NbdErrno::einval;
  }
  return NbdErrno::none;
}

}  // namespace lsmfs::test

// NbdServer: a server of the protocol NBD within the process of a test, which decides what becomes of each command.
//
// It has one device, in memory. All connections share it, and what they are told is what was set when they were made.
// What it is not: quick, and complete. It speaks the fixed newstyle handshake with NBD_OPT_GO, and simple replies.
//
// Promises:
//   1. Each connection has a thread of its own, which carries out one command after another.
//   2. Nothing is carried out late: once a client has closed a connection, or it was cut, no command of it changes the device.
//   3. What a client may not ask is refused and counted.
//
// Threads: all functions, from any thread. on_command is called by the threads of connections, without a lock: it may call the server.
// What it uses must live longer than the server.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/mutex.h"

namespace lsmfs::test {

enum class NbdKind { read, write, flush, trim, write_zeroes };

struct NbdCommand {
  NbdKind kind = NbdKind::read;
  std::uint64_t number = 0;      // of this server's commands, from 0, in the order in which they are carried out
  std::uint64_t connection = 0;  // from 0
  ByteOffset offset;
  ByteCount length;
  bool fua = false;
};

// Error numbers as the protocol has them, whatever the system's are.
enum class NbdErrno : std::uint32_t {
  none = 0,
  eperm = 1,
  eio = 5,
  enomem = 12,
  einval = 22,
  enospc = 28,
  eoverflow = 75,
  enotsup = 95,
  eshutdown = 108,
};

// What becomes of a command. A connection that is cut ends both ways.
struct NbdVerdict {
  enum class Kind {
    ok,
    reply_later,   // carried out; the reply comes after that to the next command of the connection
    error,         // not carried out; the reply has `error`
    cut_before,    // not carried out
    cut_after,     // carried out, no reply
    cut_in_reply,  // carried out; of a read half of the data comes, of others half of the reply
    hang,          // not carried out, nor is any later one of this connection; no reply until it is closed
    wrong_magic,   // carried out; then as `hang`
    wrong_cookie,  // carried out; then as `hang`
  };
  Kind kind = Kind::ok;
  NbdErrno error = NbdErrno::none;
};
inline constexpr NbdVerdict nbd_error(NbdErrno error) { return {NbdVerdict::Kind::error, error}; }

enum class NbdHandshake {
  proper,
  garbage,   // bytes that are none
  silent,    // nothing comes
  cut,       // the connection ends after the greeting
  refusing,  // NBD_OPT_GO is against the server's policy
};

struct NbdBlockSizes {
  std::uint32_t minimum = 1, preferred = 4096, maximum = 32 * MiB;
};

struct NbdServerOptions {
  ByteCount size{4 * MiB};
  std::string export_name;
  NbdHandshake handshake = NbdHandshake::proper;
  bool flush = true, fua = true, trim = true, write_zeroes = true, read_only = false, can_multi_conn = false;
  std::optional<NbdBlockSizes> block_sizes;  // nothing is told of them otherwise
  bool volatile_writes = false;              // there is a cache that a crash loses; fixed when the server is made
  // Of a connection that is made then: commands that come within a millisecond of each other are carried out and answered in any order.
  std::optional<std::uint64_t> shuffle_seed;
  std::function<NbdVerdict(const NbdCommand&)> on_command;  // before each; counts at once, for all connections
};

struct NbdCounts {
  std::uint64_t connections = 0, refused = 0, commands = 0, reads = 0, writes = 0, flushes = 0, trims = 0, zeroings = 0;
  std::uint64_t disconnects = 0;                      // that the client has announced
  std::uint64_t violations = 0;                       // what the protocol, or what the connection was told, does not allow
  std::uint64_t largest_read = 0, largest_write = 0;  // bytes
  std::uint64_t most_queued = 0;                      // commands that a connection which shuffles had at a time
};

class NbdServer {
 public:
  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

  explicit NbdServer(NbdServerOptions options = {});
  ~NbdServer();  // ends all connections
  NbdServer(const NbdServer&) = delete;
  NbdServer& operator=(const NbdServer&) = delete;

  // The client's end of another connection. ECONNREFUSED: it is refused.
  Result<Fd> connect();
  void refuse(std::uint64_t connections = kAll);  // the next ones; 0: none any more

  // Calls `how` with a lock held; it may change all but the size and volatile_writes.
  void change(const std::function<void(NbdServerOptions&)>& how);
  void on_command(std::function<NbdVerdict(const NbdCommand&)> hook);
  void resize(ByteCount size);  // at once; what is behind the end stays for when it grows again

  void cut();            // all connections
  void lose_volatile();  // what was not flushed, as when the server's machine breaks down
  void crash();          // both, at once

  std::string contents() const;  // what reads see
  NbdCounts counts() const;

 private:
  struct Connection {
    std::uint64_t number = 0;
    Fd socket;            // its own thread closes it, with the mutex held; others use it with the mutex held
    std::string replies;  // that come later; its own thread's
    std::thread thread;
    bool ended = false;   // with the mutex held
  };
  struct Request {
    NbdCommand command;
    std::uint16_t type = 0, flags = 0;
    std::uint64_t cookie = 0;
    std::string data;  // to write
  };
  enum class Read { command, disconnect, end };

  void serve(Connection& connection, const NbdServerOptions& told);
  bool shake_hands(int socket, const NbdServerOptions& told);
  bool answer_options(int socket, const NbdServerOptions& told);
  void transmit(Connection& connection, const NbdServerOptions& told);
  Read read_request(const Connection& connection, Request& request);
  bool answer(Connection& connection, const NbdServerOptions& told, Request& request);
  NbdVerdict decide(NbdCommand& command);
  std::optional<NbdErrno> carry_out(int socket, const NbdServerOptions& told, const Request& request, std::string& data);
  NbdErrno allowed(const NbdServerOptions& told, const Request& request) const LSMFS_REQUIRES(mutex_);
  void changed(ByteOffset from, ByteCount length, bool durable) LSMFS_REQUIRES(mutex_);
  void make_durable() LSMFS_REQUIRES(mutex_);
  void revert() LSMFS_REQUIRES(mutex_);
  void cut_all() LSMFS_REQUIRES(mutex_);

  const bool volatile_writes_;
  mutable Mutex mutex_;
  NbdServerOptions options_ LSMFS_GUARDED_BY(mutex_);
  std::string seen_ LSMFS_GUARDED_BY(mutex_);                   // what reads see
  std::string durable_ LSMFS_GUARDED_BY(mutex_);                // what a crash leaves; empty when no writes are volatile
  std::set<std::uint64_t> unflushed_ LSMFS_GUARDED_BY(mutex_);  // numbers of blocks in which they may differ
  std::uint64_t refused_next_ LSMFS_GUARDED_BY(mutex_) = 0;
  NbdCounts counts_ LSMFS_GUARDED_BY(mutex_);
  std::list<std::unique_ptr<Connection>> connections_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace lsmfs::test

#include <fmt/format.h>
#include <libnbd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device/requests.h"
#include "lsmfs/mutex.h"
#include "lsmfs/nbd.h"

namespace lsmfs {
namespace {

// For an answer to a handshake, and to each read by which a new connection is checked.
constexpr auto kAnswerWithin = std::chrono::seconds(10);
constexpr auto kBetweenTries = std::chrono::milliseconds(200);
constexpr int kLookMs = 50;  // at the time, while an answer has an end
// The protocol allows more in one request only where the server says so. Of a discard its length is 32 bits.
constexpr std::uint64_t kMostData = 32 * MiB, kMostDiscarded = 1 * GiB;
constexpr std::uint64_t kCheckedAtOnce = 1 * MiB;

Error last_error(std::string_view context) {
  const char* const said = nbd_get_error();
  const int code = nbd_get_errno();
  return make_error(code == 0 ? EPROTO : code, fmt::format("{}: {}", context, said == nullptr ? "no reason is known" : said));
}

// What a server says of a device as somebody connects.
struct Export {
  std::uint64_t size = 0;
  std::uint64_t most = kMostData;  // bytes of a request
  bool writable = false, flush = false, trim = false;
};

// Asked of the server, or waiting until it can be. It lives as long as its caller waits.
struct Request {
  enum class Kind : std::uint8_t { read, write, flush, discard };
  Kind kind = Kind::read;
  std::uint64_t from = 0, length = 0;  // bytes
  std::byte* to = nullptr;
  const std::byte* data = nullptr;
  std::vector<std::uint64_t> sums;  // of each block that is written
  std::uint64_t flushes = 0;        // of a flush: what has been answered until then

  struct Caller* caller = nullptr;
  std::list<Request*>::iterator place;
  std::vector<Request*>* answered = nullptr;
  int error = 0;
};

struct Caller {
  std::condition_variable changed;
  std::size_t left = 0;  // requests without an answer
};

// One connection. Not thread-safe.
class Connection {
 public:
  static Result<Connection> make(const NbdOptions& options) {
    LSMFS_ASSIGN(Fd socket, options.connect());
    Connection made;
    made.handle_.reset(nbd_create());
    nbd_handle* const handle = made.handle_.get();
    if (handle == nullptr || nbd_set_export_name(handle, options.export_name.c_str()) != 0) return last_error(options.name);
    if (nbd_aio_connect_socket(handle, socket.get()) != 0) return refusal(options.name);
    (void)socket.release();  // it is the handle's
    LSMFS_TRY(made.drive(options, [handle] { return nbd_aio_is_ready(handle) == 1; }));
    LSMFS_ASSIGN(made.facts_, made.ask(options));
    return made;
  }

  const Export& facts() const { return facts_; }
  nbd_handle* handle() const { return handle_.get(); }
  bool lost() const { return nbd_aio_is_dead(handle_.get()) == 1 || nbd_aio_is_closed(handle_.get()) == 1; }
  bool wants_to_write() const { return (nbd_aio_get_direction(handle_.get()) & LIBNBD_AIO_DIRECTION_WRITE) != 0; }

  pollfd awaited() const {
    const unsigned direction = nbd_aio_get_direction(handle_.get());
    short events = 0;
    if ((direction & LIBNBD_AIO_DIRECTION_READ) != 0) events |= POLLIN;
    if ((direction & LIBNBD_AIO_DIRECTION_WRITE) != 0) events |= POLLOUT;
    return {nbd_aio_get_fd(handle_.get()), events, 0};
  }
  // Goes on with what poll() has seen. Errors: the connection is lost, and why.
  Result<void> go_on(short seen) {
    const unsigned direction = nbd_aio_get_direction(handle_.get());
    int done = 0;
    if ((seen & (POLLIN | POLLHUP)) != 0 && (direction & LIBNBD_AIO_DIRECTION_READ) != 0) {
      done = nbd_aio_notify_read(handle_.get());
    } else if ((seen & POLLOUT) != 0 && (direction & LIBNBD_AIO_DIRECTION_WRITE) != 0) {
      done = nbd_aio_notify_write(handle_.get());
    } else if ((seen & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
      return make_error(ECONNRESET, "the connection is lost");
    }
    if (done != 0) return last_error("the connection is lost");
    return {};
  }

  // Reads at once, while nobody else uses it. At most facts().most bytes. After a read without an answer there is none any more: that answer
  // could come later, for a buffer that has gone.
  Result<void> read(const NbdOptions& options, std::uint64_t from, MutableBytes to) {
    if (silent_) return make_error(ETIMEDOUT, options.name);
    *answer_ = {};
    const nbd_completion_callback then{&Answer::came, answer_.get(), nullptr};
    if (nbd_aio_pread(handle_.get(), to.data(), to.size(), from, then, 0) < 0) return last_error(options.name);
    auto came = drive(options, [this] { return answer_->is_there; });
    if (!came) {
      silent_ = true;
      return came;
    }
    if (answer_->error != 0) return make_error(answer_->error, options.name);
    return {};
  }

 private:
  struct Close {
    void operator()(nbd_handle* handle) const {
      (void)nbd_aio_disconnect(handle, 0);  // says goodbye, if that can be said at once
      nbd_close(handle);
    }
  };
  struct Answer {
    bool is_there = false;
    int error = 0;
    static int came(void* self, int* error) {
      auto* const answer = static_cast<Answer*>(self);
      answer->is_there = true;
      answer->error = *error;
      return 1;
    }
  };

  // What the server refuses in a handshake: ENOENT, if it has no such device.
  static Error refusal(const std::string& name) {
    Error error = last_error(name);
    return error.code == ENOENT ? error : make_error(EPROTO, error.context);
  }

  template <class Done>
  Result<void> drive(const NbdOptions& options, Done done) {
    const Clock::Time due = options.clock->now() + kAnswerWithin;
    while (!done()) {
      if (lost()) return make_error(EPROTO, fmt::format("{}: the server ended the connection", options.name));
      if (options.clock->now() >= due) return make_error(ETIMEDOUT, fmt::format("{}: the server does not answer", options.name));
      pollfd awaiting = awaited();
      if (::poll(&awaiting, 1, kLookMs) <= 0) continue;
      if (!go_on(awaiting.revents)) return refusal(options.name);
    }
    return {};
  }

  Result<Export> ask(const NbdOptions& options) const {
    nbd_handle* const handle = handle_.get();
    const std::int64_t size = nbd_get_size(handle), least = nbd_get_block_size(handle, LIBNBD_SIZE_MINIMUM), most = nbd_get_block_size(handle, LIBNBD_SIZE_MAXIMUM);
    if (size < 0) return refusal(options.name);
    if (least > 0 && kDeviceBlock % static_cast<std::uint64_t>(least) != 0) {
      return make_error(EINVAL, fmt::format("{} takes multiples of {} bytes alone; at most {} are supported", options.name, least, kDeviceBlock));
    }
    Export facts;
    facts.size = round_down(static_cast<std::uint64_t>(size), kDeviceBlock);
    if (most > 0) facts.most = std::clamp<std::uint64_t>(round_down(static_cast<std::uint64_t>(most), kDeviceBlock), kDeviceBlock, kMostData);
    facts.writable = nbd_is_read_only(handle) == 0;
    facts.flush = nbd_can_flush(handle) == 1;
    facts.trim = nbd_can_trim(handle) == 1;
    return facts;
  }

  std::unique_ptr<Answer> answer_ = std::make_unique<Answer>();  // libnbd tells it of the end as well
  bool silent_ = false;
  std::unique_ptr<nbd_handle, Close> handle_;
  Export facts_;
};

// What was written and answered, and may not be durable yet: a checksum of each block, and after how many flushes it was answered.
class Unflushed {
 public:
  void forget(std::uint64_t from, std::uint64_t length) { blocks_.erase(blocks_.lower_bound(from / kDeviceBlock), blocks_.lower_bound((from + length) / kDeviceBlock)); }
  void note(const Request& write, std::uint64_t flushes) {
    std::uint64_t block = write.from / kDeviceBlock;
    for (const std::uint64_t sum : write.sums) blocks_.insert_or_assign(block++, Block{sum, flushes});
  }
  void flushed(std::uint64_t flushes) {
    std::erase_if(blocks_, [&](const auto& block) { return block.second.flushes <= flushes; });
  }

  // Errors: ESTALE, something else is there; those of reading.
  Result<void> check(Connection& connection, const NbdOptions& options) const {
    AlignedBuffer read = AlignedBuffer::of_any_contents(kCheckedAtOnce);
    const std::uint64_t most = std::min(kCheckedAtOnce, connection.facts().most) / kDeviceBlock;
    for (auto block = blocks_.begin(); block != blocks_.end();) {
      const std::uint64_t first = block->first;
      auto end = block;
      std::uint64_t count = 0;
      while (end != blocks_.end() && end->first == first + count && count < most) ++end, ++count;
      LSMFS_TRY(connection.read(options, first * kDeviceBlock, read.bytes().first(count * kDeviceBlock)));
      for (; block != end; ++block) {
        const std::uint64_t at = (block->first - first) * kDeviceBlock;
        if (checksum(Bytes(read.bytes()).subspan(at, kDeviceBlock)) == block->second.sum) continue;
        return make_error(ESTALE, fmt::format("{}: its server has lost what was written at {}", options.name, block->first * kDeviceBlock));
      }
    }
    return {};
  }

 private:
  struct Block {
    std::uint64_t sum = 0, flushes = 0;
  };
  std::map<std::uint64_t, Block> blocks_;  // by number
};

// A device by a connection that nobody else uses yet, to look at it.
class Glance final : public Device {
 public:
  Glance(Connection& connection, const NbdOptions& options) : connection_(connection), options_(options) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    LSMFS_TRY(check_request(*this, "read", from, to.size(), to.data()));
    for (std::size_t at = 0, most = connection_.facts().most; at < to.size(); at += most) {
      const auto read = connection_.read(options_, from.v + at, to.subspan(at, std::min(most, to.size() - at)));
      if (!read) {
        const int code = read.error().code;
        if (connection_.lost() || code == ETIMEDOUT || code == EPROTO || code == ESHUTDOWN) unanswered_ = make_error(ETIMEDOUT, read.error().message());
        return read;
      }
    }
    return {};
  }
  // Of a read, if one had no answer: nothing is known then, whatever somebody makes of it.
  const std::optional<Error>& unanswered() const { return unanswered_; }

  Result<void> write(ByteOffset, Bytes) override { return make_error(EROFS, path()); }
  Result<void> flush() override { return {}; }
  Result<void> discard(ByteOffset, ByteCount) override { return make_error(EROFS, path()); }
  ByteCount size() const override { return ByteCount{connection_.facts().size}; }
  bool writable() const override { return false; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return options_.name; }

 private:
  Connection& connection_;
  const NbdOptions& options_;
  std::optional<Error> unanswered_;
};

// The threads that wait for answers take turns: one waits for the socket, for all; when it has its own answers, another one does.
class NbdDevice final : public Device {
 public:
  NbdDevice(NbdOptions options, Connection connection, Fd wake)
      : options_(std::move(options)), facts_(connection.facts()), wake_(std::move(wake)), connection_(std::move(connection)) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    LSMFS_TRY(check_request(*this, "read", from, to.size(), to.data()));
    const Waiting waiting("read", from, ByteCount{to.size()});
    return run("read", from.v, to.size(), facts_.most, [&](std::uint64_t at, std::uint64_t length) {
      return Request{.kind = Request::Kind::read, .from = from.v + at, .length = length, .to = to.data() + at};
    });
  }

  Result<void> write(ByteOffset to, Bytes data) override {
    LSMFS_TRY(check_request(*this, "write", to, data.size(), data.data()));
    if (!writable()) return make_error(EBADF, fmt::format("write of {} bytes at {} of {}", data.size(), to.v, path()));
    const Waiting waiting("write", to, ByteCount{data.size()});
    return run("write", to.v, data.size(), facts_.most, [&](std::uint64_t at, std::uint64_t length) {
      Request request{.kind = Request::Kind::write, .from = to.v + at, .length = length, .data = data.data() + at};
      for (std::uint64_t block = 0; block < length; block += kDeviceBlock) request.sums.push_back(checksum(data.subspan(at + block, kDeviceBlock)));
      return request;
    });
  }

  Result<void> flush() override {
    if (!writable() || !facts_.flush) return {};
    const Waiting waiting("flush", {}, {});
    return run("flush", 0, 1, 1, [](std::uint64_t, std::uint64_t) { return Request{.kind = Request::Kind::flush}; });
  }

  Result<void> discard(ByteOffset from, ByteCount length) override {
    LSMFS_TRY(check_request(*this, "discard", from, length.v, nullptr));
    if (!writable()) return make_error(EBADF, fmt::format("discard of {} bytes at {} of {}", length.v, from.v, path()));
    if (!facts_.trim) return make_error(EOPNOTSUPP, fmt::format("discard of {} bytes at {} of {}", length.v, from.v, path()));
    const Waiting waiting("discard", from, length);
    return run("discard", from.v, length.v, kMostDiscarded, [&](std::uint64_t at, std::uint64_t piece) {
      return Request{.kind = Request::Kind::discard, .from = from.v + at, .length = piece};
    });
  }

  ByteCount size() const override { return ByteCount{facts_.size}; }
  bool writable() const override { return options_.access == Access::read_write; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return options_.name; }

 private:
  // Makes requests of at most so many bytes of all of them, and waits for their answers.
  template <class Make>
  Result<void> run(const char* what, std::uint64_t from, std::uint64_t length, std::uint64_t most, Make make) {
    std::vector<Request> requests;
    for (std::uint64_t at = 0; at < length; at += most) requests.push_back(make(at, std::min(most, length - at)));
    LSMFS_TRY(wait_for(requests));
    for (const Request& request : requests) {
      if (request.error != 0) return make_error(request.error == ENOSPC ? EIO : request.error, fmt::format("{} of {} bytes at {} of {}", what, length, from, path()));
    }
    return {};
  }

  Result<void> wait_for(std::span<Request> requests) {
    MutexLock lock(mutex_);
    if (failed_) return *failed_;
    Caller caller;
    caller.left = requests.size();
    callers_.push_back(&caller);
    for (Request& request : requests) {
      request.caller = &caller;
      request.answered = &answered_;
      if (request.kind == Request::Kind::flush) request.flushes = flushes_++;
      request.place = unanswered_.insert(unanswered_.end(), &request);
      if (connection_) issue(request);
    }
    settle();
    // Who waits for the socket must wait for more, or for none any more.
    if (led_ && connection_ && (connection_->lost() || connection_->wants_to_write())) (void)::eventfd_write(wake_.get(), 1);
    while (caller.left > 0) {
      if (led_) {
        caller.changed.wait(lock);
        continue;
      }
      led_ = true;
      while (caller.left > 0) lead();
      led_ = false;
    }
    std::erase(callers_, &caller);
    if (!led_ && !callers_.empty()) callers_.front()->changed.notify_one();
    if (failed_ && std::ranges::any_of(requests, [](const Request& request) { return request.error == kNeverAnswered; })) return *failed_;
    return {};
  }

  // One step of waiting for the socket.
  void lead() LSMFS_REQUIRES(mutex_) {
    if (!connection_ || connection_->lost()) return connect_again();
    pollfd awaited[] = {connection_->awaited(), {wake_.get(), POLLIN, 0}};
    {
      const Unlocked unlocked(mutex_);
      if (::poll(awaited, std::size(awaited), -1) < 0) return;  // EINTR
    }
    if (awaited[1].revents != 0) {
      eventfd_t times = 0;
      (void)::eventfd_read(wake_.get(), &times);
    }
    if (awaited[0].revents != 0) {
      if (const auto gone = connection_->go_on(awaited[0].revents); !gone) lose(gone.error().context);
    }
    settle();
  }

  void lose(std::string reason) LSMFS_REQUIRES(mutex_) {
    if (lost_because_.empty()) lost_because_ = std::move(reason);
    // At its end libnbd tells of all requests as if they were answered.
    std::vector<Request*> answered = std::exchange(answered_, {});
    connection_.reset();
    answered_ = std::move(answered);
  }

  // Sends it, or as much of it as the socket takes now. Whatever fails by a connection is sent again by the next one.
  void issue(Request& request) LSMFS_REQUIRES(mutex_) {
    nbd_handle* const handle = connection_->handle();
    const nbd_completion_callback then{&NbdDevice::came, &request, nullptr};
    std::int64_t sent = 0;
    switch (request.kind) {
      case Request::Kind::read:
        sent = nbd_aio_pread(handle, request.to, request.length, request.from, then, 0);
        break;
      case Request::Kind::write:
        unflushed_.forget(request.from, request.length);
        sent = nbd_aio_pwrite(handle, request.data, request.length, request.from, then, 0);
        break;
      case Request::Kind::flush:
        sent = nbd_aio_flush(handle, then, 0);
        break;
      case Request::Kind::discard:
        unflushed_.forget(request.from, request.length);
        sent = nbd_aio_trim(handle, request.length, request.from, then, 0);
        break;
    }
    if (sent < 0 && !connection_->lost()) {
      request.error = nbd_get_errno() == 0 ? EPROTO : nbd_get_errno();
      answered_.push_back(&request);
    }
  }

  static int came(void* self, int* error) {
    auto* const request = static_cast<Request*>(self);
    request->error = *error;
    request->answered->push_back(request);
    return 1;  // libnbd may forget it
  }

  // Of those that were answered, tells who waits.
  void settle() LSMFS_REQUIRES(mutex_) {
    for (Request* const request : std::exchange(answered_, {})) {
      // ENOTCONN is libnbd's word for all that a lost connection leaves, and no server's.
      if (request->error == ENOTCONN) continue;
      if (request->error == ESHUTDOWN) {
        lose("the server is shutting down");
        continue;
      }
      if (request->error == 0 && request->kind == Request::Kind::write && facts_.flush) unflushed_.note(*request, flushes_);
      if (request->error == 0 && request->kind == Request::Kind::flush) unflushed_.flushed(request->flushes);
      end(*request);
    }
  }

  void end(Request& request) LSMFS_REQUIRES(mutex_) {
    unanswered_.erase(request.place);
    away_since_.reset();
    if (--request.caller->left == 0) request.caller->changed.notify_one();
  }

  void connect_again() LSMFS_REQUIRES(mutex_) {
    lose("the server ended it");
    answered_.clear();
    options_.notice(fmt::format("{}: the connection is lost ({}); what waits for it goes on when there is another one", path(), lost_because_));
    // A server that takes each connection and answers nothing is away, too.
    bool again = away_since_.has_value();
    if (!again) away_since_ = options_.clock->now();
    const Clock::Time due = *away_since_ + options_.patience;
    std::string reason = std::exchange(lost_because_, {});
    while (true) {
      if (std::exchange(again, true)) {
        if (options_.clock->now() >= due) return give_up(no_patience(reason));
        const Unlocked unlocked(mutex_);
        options_.clock->sleep(kBetweenTries);
      }
      Unflushed unflushed = std::exchange(unflushed_, {});
      Result<Connection> made = make_error(ETIMEDOUT, path());
      {
        const Unlocked unlocked(mutex_);
        made = connect_to_the_same(unflushed);
      }
      unflushed_ = std::move(unflushed);
      if (made) {
        connection_ = std::move(*made);
        options_.notice(fmt::format("{}: there is a connection again", path()));
        for (Request* const request : unanswered_) issue(*request);
        return settle();
      }
      if (made.error().code == ESTALE) return give_up(made.error());
      reason = made.error().message();
    }
  }

  Error no_patience(std::string_view reason) const {
    return make_error(ETIMEDOUT, fmt::format("{}: nothing was answered for {} seconds ({})", path(), options_.patience.count(), reason));
  }

  // Another connection, to what is the same device still. Errors: ESTALE, it is not.
  Result<Connection> connect_to_the_same(const Unflushed& unflushed) const {
    LSMFS_ASSIGN(Connection made, Connection::make(options_));
    const Export& now = made.facts();
    if (now.size < facts_.size) return make_error(ESTALE, fmt::format("{} has become smaller, from {} to {} bytes", path(), facts_.size, now.size));
    if (writable() && (!now.writable || (facts_.flush && !now.flush))) return make_error(ESTALE, fmt::format("{} cannot be written any more", path()));
    if (now.most < facts_.most || (facts_.trim && !now.trim)) return make_error(ESTALE, fmt::format("{} takes less than before", path()));
    LSMFS_TRY(unflushed.check(made, options_));
    Glance glance(made, options_);
    const auto looked = options_.look(glance);
    if (glance.unanswered()) return *glance.unanswered();
    if (!looked) return make_error(ESTALE, looked.error().context);
    return made;
  }

  void give_up(const Error& why) LSMFS_REQUIRES(mutex_) {
    failed_ = why;
    options_.notice(fmt::format("{}; nothing is read or written any more", why.message()));
    while (!unanswered_.empty()) {
      unanswered_.front()->error = kNeverAnswered;
      end(*unanswered_.front());
    }
  }

  static constexpr int kNeverAnswered = -1;

  const NbdOptions options_;
  const Export facts_;  // of the first connection
  const Fd wake_;       // for who waits for the socket

  Mutex mutex_;
  std::optional<Connection> connection_ LSMFS_GUARDED_BY(mutex_);
  std::optional<Error> failed_ LSMFS_GUARDED_BY(mutex_);
  std::string lost_because_ LSMFS_GUARDED_BY(mutex_);
  std::list<Request*> unanswered_ LSMFS_GUARDED_BY(mutex_);   // in the order of coming
  std::vector<Request*> answered_ LSMFS_GUARDED_BY(mutex_);   // and not told yet
  std::optional<Clock::Time> away_since_ LSMFS_GUARDED_BY(mutex_);  // when the connection was lost, if nothing was answered since
  std::vector<Caller*> callers_ LSMFS_GUARDED_BY(mutex_);     // in the order of coming
  Unflushed unflushed_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t flushes_ LSMFS_GUARDED_BY(mutex_) = 0;        // asked for so far
  bool led_ LSMFS_GUARDED_BY(mutex_) = false;                 // somebody waits for the socket
};

}  // namespace

std::vector<Library> nbd_libraries() {
  nbd_handle* const handle = nbd_create();
  const std::string version = handle == nullptr ? "" : nbd_get_version(handle);  // no memory
  nbd_close(handle);
  return {{"libnbd", version}};
}

Result<std::unique_ptr<Device>> nbd_device(NbdOptions options) {
  LSMFS_ASSIGN(Connection connection, Connection::make(options));
  if (options.access == Access::read_write) {
    if (!connection.facts().writable) return make_error(EROFS, fmt::format("{} may only be read", options.name));
    if (!connection.facts().flush && !options.without_flush) {
      return make_error(EOPNOTSUPP, fmt::format("{}: its server cannot flush, so nothing that is written is ever certain to last", options.name));
    }
  }
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return make_error(errno, "eventfd");
  return std::unique_ptr<Device>(std::make_unique<NbdDevice>(std::move(options), std::move(connection), std::move(wake)));
}

}  // namespace lsmfs

#include "fuse/mounting/fuse_mount.h"

#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "fuse/mounting/kernel_mount.h"
#include "fuse/mounting/signals.h"
#include "fuse/serving/handlers.h"
#include "fuse/serving/newer.h"
#include "fuse/transport/message.h"
#include "fuse/transport/request_memory.h"

namespace lsmfs {
namespace {

constexpr auto kInterruptEvery = std::chrono::milliseconds(10);

// What the kernel sends, as libfuse takes it. It is read here: libfuse prints what read(2) says of an end, in a way that takes
// system calls which are not allowed.
class RequestBuffer : public fuse_buf {
 public:
  RequestBuffer() : fuse_buf{} { request_memory = &memory_; }
  ~RequestBuffer() { request_memory = nullptr; }
  RequestBuffer(const RequestBuffer&) = delete;
  RequestBuffer& operator=(const RequestBuffer&) = delete;

  // Waits for a request. Gives its bytes; 0: the connection is gone; else an errno value, negative.
  int receive(int from) {
    if (!memory_) memory_ = pool_.take();
    mem = memory_->data();
    const ssize_t got = read(from, mem, kSize);
    if (got < 0) return errno == ENODEV ? 0 : -errno;
    if (static_cast<std::size_t>(got) < sizeof(fuse_in_header)) return -EIO;
    size = static_cast<std::size_t>(got);
    return static_cast<int>(got);
  }

 private:
  // The kernel wants to know that any request fits: the largest write, and what comes before its data.
  static constexpr std::size_t kSize = kTransferMax + kDeviceBlock;
  RequestMemory pool_{kSize};
  std::shared_ptr<AlignedBuffer> memory_;  // empty: somebody has taken it
};

// What libfuse and lsmfs send to the kernel, all of it, as writev(2).
ssize_t deliver(int fd, const iovec* parts, int count, Context& context) {
  if (context.rings != nullptr && context.rings->answer(parts, count)) {
    ssize_t size = 0;
    for (int i = 0; i < count; ++i) size += static_cast<ssize_t>(parts[i].iov_len);
    return size;
  }
  return writev(fd, parts, count);
}

// From now on libfuse sends by the function above. ENOTSUP: it was built without that. Must hold: the session's user data is
// a Context.
Result<void> deliver_for(fuse_session* session) {
  fuse_custom_io io{};
  io.read = [](int from, void* buffer, std::size_t size, void*) { return read(from, buffer, size); };
  io.writev = [](int to, iovec* parts, int count, void* context) {
    return deliver(to, parts, count, *static_cast<Context*>(context));
  };
  if (const int failed = fuse_session_custom_io(session, &io, fuse_session_fd(session))) {
    return make_error(-failed, "libfuse session");
  }
  return {};
}

const fuse_in_header& header_of(const fuse_buf& buffer) { return *static_cast<const fuse_in_header*>(buffer.mem); }

}  // namespace

// How MountOptions::shows appears at the mount point.
struct FuseMount::Shown {
  std::function<void()> on_shown;
  Fd found;  // readable when it can; none: nothing is to appear, or it has, or cannot
  Result<void> result = make_error(EINTR, "told to stop before it was mounted");
};

// Waits in a thread of its own for a signal that says stop, and unmounts; that ends the loop. Before that it has what is to be shown appear.
class FuseMount::Watch {
 public:
  Watch(FuseMount& mount, Shown& shown) : mount_(mount), shown_(shown), thread_(named_thread("lsmfs-signals", [this] { run(); })) {}
  ~Watch() {
    const std::uint64_t one = 1;
    if (write(done_, &one, sizeof one) < 0) std::abort();  // an eventfd takes its first write
    thread_.join();
    close(done_);
  }

 private:
  void run() {
    while (told_to_stop()) {
      // The mounter does one thing at a time: while it waits for the last answers, it could give nobody the usual policy back.
      mount_.nearness_->stop_deferring();
      // The kernel then ends the session, unless more mounts show it (mount --bind): a further signal is needed to leave
      // those without a daemon.
      if (mount_.still_mounted() && mount_.mounter().unmount(false)) continue;
      return end_loop();
    }
  }

  bool ended() const { return mount_.loop_done_ || mount_.context_.turnstile.closed(); }

  // Waits for a signal to stop that has not been heard before, or for a failure to show what is to be shown; false: the end comes without.
  bool told_to_stop() {
    for (;;) {
      // Of a descriptor below 0 poll(2) tells nothing.
      std::array<pollfd, 4> wait{{{signals_.stop(), POLLIN, 0}, {signals_.hangup(), POLLIN, 0}, {done_, POLLIN, 0}, {shown_.found.get(), POLLIN, 0}}};
      while (poll(wait.data(), wait.size(), -1) < 0) {
      }
      const auto heard = [](const pollfd& signal) {
        std::uint64_t count = 0;
        return signal.revents != 0 && read(signal.fd, &count, sizeof count) > 0;
      };
      const bool stop = heard(wait[0]), hangup = heard(wait[1]);
      if (hangup && mount_.options_.open_log) mount_.options_.log_opened(mount_.mounter().open_log());
      if (stop || (hangup && !mount_.options_.open_log)) {
        if (ended()) return false;
        mount_.options_.notice("stopping on a signal");
        return true;
      }
      // Before the end is heard of: it may have come since there is nothing to show.
      if (wait[3].revents != 0 && !show()) return !ended();
      if (wait[2].revents != 0) return false;
    }
  }

  // The loop goes on meanwhile: after an error, or when somebody unmounts it at once, the mounter may wait for its last answer. As in run(), it
  // then does nothing else.
  bool show() {
    shown_.found.reset();
    mount_.nearness_->pause_deferring();
    shown_.result = mount_.mounter().show();
    mount_.nearness_->resume_deferring();
    if (!shown_.result) return false;
    mount_.note_entry();
    shown_.on_shown();
    return true;
  }

  void end_loop() {
    const std::string& where = mount_.options_.mount_point;
    if (mount_.still_mounted()) {
      const auto gone = mount_.mounter().unmount(true);
      mount_.options_.notice(gone ? where + " was in use: files open there cannot be used any more"
                                  : fmt::format("{} cannot be unmounted ({}): umount -l takes it away", where, gone.error().message()));
    }
    mount_.stop_ = true;
    while (!mount_.loop_done_) {
      loop_.interrupt();
      mount_.options_.clock->sleep(kInterruptEvery);
    }
  }

  FuseMount& mount_;
  Shown& shown_;
  Signals signals_;
  Interruptible loop_;
  int done_ = eventfd(0, EFD_CLOEXEC);
  std::thread thread_;
};

FuseMount::FuseMount(Tree& tree, const MountOptions& options, Administration administration)
    : options_(options),
      kernel_cache_(*options.clock, [this](const Request& request) { ended(request); }),
      workers_(options.workers, "lsmfs-worker", *options.clock, [this](const Request& request) { ended(request); }),
      context_{.tree = tree,
               .workers = workers_,
               .kernel_cache = kernel_cache_,
               .listings = listings_,
               .answers = answers_,
               .administration = std::move(administration),
               .mounted_ns = [&clock = *options.clock, begin = options.clock->now_ns()] { return static_cast<std::uint64_t>(clock.now_ns() - begin); },
               .writeback = options.writeback,
               .acl = options.acl && options.xattr,
               .xattr = options.xattr,
               .user_rm = options.user_rm,
               .durable_names = options.durable_names,
               .errors = ErrorLog(*options.clock, options.notice),
               .clones = CloneOrders(*options.clock)} {}

FuseMount::~FuseMount() {
  // The descriptors first: unmounting waits for answers as long as somebody could give them.
  context_.turnstile.close();
  if (nearness_) nearness_->stop();
  session_.reset();
  if (still_mounted()) (void)mounter().unmount(true);
}

bool FuseMount::still_mounted() const {
  // The kernel sends DESTROY when nothing of it is mounted anywhere any more.
  return attached_ && requests(FUSE_DESTROY) == 0 && lsmfs::still_mounted(*entry_);
}

void FuseMount::note_entry() {
  auto entry = mounted_at(options_.mount_point);
  if (!entry || !*entry) return;
  entry_ = std::move(*entry);
  attached_ = true;
}

Result<void> FuseMount::begin() {
  if (!options_.prepared) {
    LSMFS_ASSIGN(options_.prepared, prepare_here(options_));
  }
  nearness_.emplace(std::move(options_.prepared->nearness),
                    Nearness::Means{.set_deferring = [this](pid_t thread, bool defers) { return mounter().set_deferring(thread, defers); },
                                    .keep_off = [this](int processor, pid_t server) { (void)mounter().keep_off(processor, server); }},
                    *options_.clock);
  char name[] = "lsmfs";
  char* argv[] = {name, nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, argv);
  session_.reset(fuse_session_new(&args, &handlers(), sizeof(fuse_lowlevel_ops), &context_));
  fuse_opt_free_args(&args);
  if (!session_) return make_error(ENOMEM, "libfuse session");

  LSMFS_ASSIGN(Fd fd, mounter().mount());
  if (options_.shows.empty()) note_entry();
  if (fuse_session_mount(session_.get(), fmt::format("/dev/fd/{}", fd.get()).c_str()) != 0) {
    return make_error(EIO, "libfuse does not take /dev/fuse");
  }
  fd.release();  // the session closes it
  if (nearness_->rings()) {
    if (const auto done = deliver_for(session_.get()); !done) {
      if (options_.io_uring == Choice::on) return make_error(done.error().code, "io_uring=on: libfuse was built without fuse_session_custom_io");
      nearness_->do_without_rings();
    }
  }
  RequestBuffer buffer;
  const int got = buffer.receive(fuse_session_fd(session_.get()));  // INIT
  Handshake& handshake = options_.prepared->handshake;
  if (got > 0) LSMFS_TRY(handshake.run(fuse_session_fd(session_.get()), header_of(buffer), nearness_->rings() != nullptr, [&] { process(buffer); }));
  kernel_cache_.start(session_.get());
  if (got <= 0 || fuse_session_exited(session_.get())) return make_error(EPROTO, "the kernel's FUSE and libfuse");
  if (!handshake.io_uring()) nearness_->do_without_rings();
  if (Rings* const rings = nearness_->rings()) {
    context_.rings = rings;
    // The kernel sends nothing more before it has them all.
    const auto started = rings->start(fuse_session_fd(session_.get()), [this] { return server(); }, options_.notice);
    if (!started && started.error().code == EOPNOTSUPP && options_.io_uring != Choice::on) {
      // It was switched off while the two agreed on it.
      context_.rings = nullptr;
      nearness_->do_without_rings();
    } else if (!started) {
      return make_error(started.error().code, "rings of io_uring, without which it works: -o io_uring=off");
    }
  }
  nearness_->defer(fuse_session_fd(session_.get()));
  mounter().tune();
  return {};
}

Result<void> FuseMount::serve(std::function<void()> on_ready, std::function<void()> on_destroy) {
  Shown shown{.on_shown = on_ready};
  if (!options_.shows.empty()) {
    LSMFS_ASSIGN(shown.found, mounter().found());
  }
  std::once_flag destroyed;
  // Until it is taken back below: nothing may return before that.
  context_.destroy = [&] {
    std::call_once(destroyed, [&] {
      nearness_->last_request();
      context_.turnstile.close();
      context_.tree.on_swept({});
      workers_.drain();
      kernel_cache_.drain();
      context_.imports.forget_all();
      on_destroy();
    });
  };
  const auto [for_pages, for_names] = kernel_cache_.workers();
  watchdog_.emplace(*options_.clock, options_.patience, std::vector<const Workers*>{&workers_, for_pages, for_names}, options_.notice);
  Result<void> result;
  {
    Watch watch(*this, shown);
    context_.tree.on_swept([this](std::vector<SweptEntry> entries) { kernel_cache_.drop_entries(std::move(entries)); });
    context_.turnstile.open();
    if (options_.shows.empty()) on_ready();
    result = loop();
    loop_done_ = true;
    // On a mount that is not a fuseblk the kernel sends no DESTROY.
    context_.destroy();
    nearness_->stop();
    session_.reset();
  }
  context_.destroy = [] {};
  watchdog_.reset();
  if (still_mounted()) (void)mounter().unmount(true);
  // Nothing of the mount is left when this returns, nor anything to be done about it.
  attached_ = false;
  options_.prepared.reset();
  return options_.shows.empty() || shown.result ? result : shown.result;
}

Serve FuseMount::server() {
  if (!context_.turnstile.wait()) return [](fuse_buf&) {};
  IoFor::all_of_this_thread(IoCause::miss);
  return [this, &clock = *options_.clock, reader = std::make_shared<Watchdog::Reader>(*watchdog_),
          counts = std::make_shared<RequestCounts::Server>(answers_),
          pass = std::make_shared<Turnstile::Pass>(context_.turnstile)](fuse_buf& message) {
    const fuse_in_header& header = header_of(message);
    nearness_->request();
    // This one closes it, or waits until it is closed.
    const bool last = header.opcode == FUSE_DESTROY;
    if (!last && !pass->enter()) return refuse(header);
    reader->begin({header.unique, header.nodeid, header.opcode});
    const std::uint64_t before = handed_on;
    const unsigned weight = counts->weight(header.opcode);
    const Clock::Time began = weight > 0 ? clock.now() : Clock::Time();
    const Request request = process(message);
    if (handed_on == before) counts->answered(request, weight, weight > 0 ? clock.now() - began : Clock::Duration());
    if (!last) make_room();
    reader->end();
    if (!last) pass->leave();
  };
}

// As the kernel itself does with requests of a connection that is gone.
void FuseMount::refuse(const fuse_in_header& request) {
  switch (request.opcode) {
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
      return;  // nobody waits for an answer
    default:
      reply(request.unique, ENODEV, {});
  }
}

Result<void> FuseMount::loop() {
  RequestBuffer buffer;
  const Serve serve = server();
  while (!fuse_session_exited(session_.get()) && !(stop_ && kernel_cache_.end())) {
    const int got = buffer.receive(fuse_session_fd(session_.get()));
    // ENOENT: the request was interrupted before it was read.
    if (got == -EINTR || got == -EAGAIN || got == -ENOENT) continue;
    // Unmounted. The kernel says ECONNABORTED when requests were under way, mostly to forget inodes.
    if (got == 0 || (got == -ECONNABORTED && !still_mounted())) break;
    if (got < 0) return make_error(-got, "reading /dev/fuse");
    nearness_->begin(static_cast<pid_t>(header_of(buffer).pid));
    const std::uint64_t before = handed_on;
    serve(buffer);
    nearness_->end(handed_on == before);
  }
  return {};
}

void FuseMount::ended(const Request& request) { answers_.ended(request, options_.clock->now()); }

Request FuseMount::process(fuse_buf& buffer) {
  const fuse_in_header& header = header_of(buffer);
  const Request request{.unique = header.unique, .ino = header.nodeid, .opcode = header.opcode, .program = header.pid,
                        .bytes = header.opcode == FUSE_WRITE ? body_of<fuse_write_in>(header).size : 0};
  current_request = request;
  counts_[std::min<std::size_t>(header.opcode, kKinds - 1)].fetch_add(1, std::memory_order_relaxed);
  // What libfuse does not know, or not in every version.
  if (header.opcode == FUSE_SYNCFS) {
    sync_file_system(header.unique);
  } else if (header.opcode == kStatxOpcode) {
    statx(header.unique, Ino{header.nodeid});
  } else if (header.opcode == kTmpfileOpcode) {
    tmpfile(header);
  } else {
    drops_privileges = privileges_.drops(header);
    fuse_session_process_buf(session_.get(), &buffer);
  }
  return request;
}

// The kernel knows no limit to how many inodes the daemon must have at hand. Must hold: the turnstile lets pass.
void FuseMount::make_room() {
  if (!kernel_cache_.can_drop_inodes()) return;
  auto inodes = context_.tree.surplus();
  if (inodes.empty()) return;
  current_request = {};  // it has been answered, or is a worker's
  kernel_cache_.drop_inodes(std::move(inodes));
}

void FuseMount::sync_file_system(std::uint64_t unique) {
  workers_.submit([this, unique] {
    const auto synced = context_.tree.sync();
    reply(unique, synced ? 0 : reply_code(synced.error()), {});
  });
}

void FuseMount::statx(std::uint64_t unique, Ino ino) {
  const auto answer = [this, unique](const Result<Attr>& attr) {
    if (!attr) {
      reply(unique, reply_code(attr.error()), {});
      return;
    }
    const StatxReply body = to_statx(*attr);
    reply(unique, 0, {reinterpret_cast<const std::byte*>(&body), sizeof body});
  };
  const auto attr = context_.tree.getattr(ino, Wait::no);
  if (attr || attr.error().code != EAGAIN) return answer(attr);
  workers_.submit([this, ino, answer] { answer(context_.tree.getattr(ino, Wait::yes)); });
}

void FuseMount::tmpfile(const fuse_in_header& request) {
  NewInode inode;
  inode.mode = S_IFREG | tmpfile_mode(request);
  inode.umask = tmpfile_umask(request);
  inode.inherits_acl = context_.acl;
  inode.uid = request.uid;
  inode.gid = request.gid;
  workers_.submit([this, inode, unique = request.unique, dir = Ino{request.nodeid}] {
    const auto made = context_.tree.make_unnamed(dir, inode, Wait::yes);
    if (!made) {
      reply(unique, reply_code(made.error()), {});
      return;
    }
    const TmpfileReply body = to_tmpfile(*made);
    if (reply(unique, 0, {reinterpret_cast<const std::byte*>(&body), sizeof body}) == ENOENT) {
      context_.tree.forget(made->ino, 1);
    }
  });
}

int FuseMount::reply(std::uint64_t unique, int error, Bytes body) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.error = -error;
  header.unique = unique;
  const iovec parts[2] = {{&header, sizeof header}, {const_cast<std::byte*>(body.data()), body.size()}};
  if (deliver(fuse_session_fd(session_.get()), parts, 2, context_) >= 0) return 0;
  const int refused = errno;
  if (refused != ENOENT && refused != ENODEV) options_.notice(make_error(refused, "reply to the kernel").message());
  return refused;
}

}  // namespace lsmfs

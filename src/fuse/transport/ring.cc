#include "fuse/transport/ring.h"

#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <future>
#include <utility>

#include "fuse/transport/request.h"

namespace lsmfs {
namespace {

// ---- of linux/fuse.h since 6.14

constexpr std::uint32_t kRegister = 1, kCommitAndFetch = 2;  // FUSE_IO_URING_CMD_*

// struct fuse_uring_req_header: the header of the request, then of the answer; what is the operation's own in the request;
// and how much of the payload is used.
struct EntryHeader {
  std::array<std::byte, 128> in_out, operation;
  std::uint64_t flags, commit;
  std::uint32_t payload, padding;
  std::uint64_t reserved;
};
static_assert(sizeof(EntryHeader) == 288);

// struct fuse_uring_cmd_req, in the last 80 bytes of a submission.
struct CommandDetails {
  std::uint64_t flags = 0, commit = 0;
  std::uint16_t queue = 0;
  std::uint8_t padding[6]{};
};
static_assert(sizeof(CommandDetails) == 24);

// ---- sizes

// Requests of one processor that can be under way at a time; more wait in the kernel. Each may wait for the device, so
// that these are also the readers of one processor that a slow device can hold before others are held up by them.
constexpr unsigned kDepth = 16;
// The same of a processor that is not there, until somebody plugs one in.
constexpr unsigned kDepthOfAbsent = 1;
// Before the payload: the entry's header, and at its end the place where a request's own headers are put.
constexpr std::size_t kFront = 4096;
static_assert(kFront >= sizeof(EntryHeader) + sizeof(fuse_in_header) + sizeof(EntryHeader::operation));

// Files registered with the ring: the only two that it can be used with.
enum : int { kFuseFile, kWakeFile };

constinit thread_local Ring* ring_of_this_thread = nullptr;

// What liburing 2.3 declares and does not export. 0 or a negative errno value.
int register_with(const io_uring& ring, unsigned operation, const void* argument, unsigned count) {
  return syscall(SYS_io_uring_register, ring.ring_fd, operation, argument, count) < 0 ? -errno : 0;
}

// Lets it be used for requests of FUSE and for waiting alone, by registered files alone: else it would be a way around
// the filter of system calls.
int restrict(const io_uring& ring) {
  std::array<io_uring_restriction, 3> allowed{};
  allowed[0].opcode = IORING_RESTRICTION_SQE_OP;
  allowed[0].sqe_op = IORING_OP_URING_CMD;
  allowed[1].opcode = IORING_RESTRICTION_SQE_OP;
  allowed[1].sqe_op = IORING_OP_POLL_ADD;
  allowed[2].opcode = IORING_RESTRICTION_SQE_FLAGS_REQUIRED;
  allowed[2].sqe_flags = IOSQE_FIXED_FILE;
  return register_with(ring, IORING_REGISTER_RESTRICTIONS, allowed.data(), allowed.size());
}

// Where it is not allowed to choose, it runs wherever the kernel puts it.
void bind_to(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

struct Ring::Entry {
  unsigned queue = 0;
  EntryHeader* header = nullptr;
  MutableBytes payload;
  std::array<iovec, 2> parts{};             // the two above, as the kernel wants to know them once
  std::uint64_t commit = 0;                 // the kernel's number of the request
  std::atomic<std::uint64_t> unique{0};     // of the request to be answered; 0: there is none

  Entry() = default;
  Entry(Entry&& other) noexcept : queue(other.queue), header(other.header), payload(other.payload), parts(other.parts) {}
};

Result<std::unique_ptr<Ring>> Ring::make(unsigned processor, const std::vector<unsigned>& queues, std::size_t payload) {
  std::unique_ptr<Ring> ring(new Ring);
  ring->processor_ = processor;
  ring->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!ring->wake_) return make_error(errno, "eventfd");

  std::vector<unsigned> queue_of;  // by entry
  for (const unsigned queue : queues) queue_of.insert(queue_of.end(), queue == queues.front() ? kDepth : kDepthOfAbsent, queue);
  const std::size_t stride = kFront + payload;
  ring->memory_size_ = queue_of.size() * stride;
  void* memory = mmap(nullptr, ring->memory_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return make_error(errno, "memory of a ring");
  ring->memory_ = static_cast<std::byte*>(memory);
  ring->entries_.resize(queue_of.size());
  for (std::size_t i = 0; i < queue_of.size(); ++i) {
    Entry& entry = ring->entries_[i];
    std::byte* begin = ring->memory_ + i * stride;
    entry.queue = queue_of[i];
    entry.header = reinterpret_cast<EntryHeader*>(begin);
    entry.payload = {begin + kFront, payload};
    entry.parts = {{{entry.header, sizeof(EntryHeader)}, {entry.payload.data(), payload}}};
  }

  // One thread submits, and hears of requests when it asks: no interrupts in between. It is the one that enables the ring.
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
                     IORING_SETUP_R_DISABLED;
  const auto size = static_cast<unsigned>(queue_of.size() + 1);
  if (const int failed = io_uring_queue_init_params(size, &ring->ring_, &parameters)) return make_error(-failed, "io_uring");
  ring->made_ = true;
  if (const int failed = restrict(ring->ring_)) return make_error(-failed, "restrictions of io_uring");
  return ring;
}

Ring::~Ring() {
  stop();
  close();
  if (memory_ != nullptr) munmap(memory_, memory_size_);
}

Result<void> Ring::start(int fuse, std::function<Serve()> server, std::function<void(std::string_view)> notice) {
  notice_ = std::move(notice);
  const std::array<int, 2> files{fuse, wake_.get()};
  if (const int failed = io_uring_register_files(&ring_, files.data(), files.size())) return make_error(-failed, "files of io_uring");
  std::promise<Result<void>> begun;
  auto outcome = begun.get_future();
  thread_ = named_thread("lsmfs-ring", [this, server = std::move(server), begun = std::move(begun)]() mutable {
    bind_to(processor_);
    thread_id_ = gettid();
    auto registered = register_entries();
    const bool usable = registered.has_value();
    begun.set_value(std::move(registered));
    if (usable) run(server());
  });
  return outcome.get();
}

Result<void> Ring::register_entries() {
  if (const int failed = register_with(ring_, IORING_REGISTER_ENABLE_RINGS, nullptr, 0)) return make_error(-failed, "io_uring");
  for (Entry& entry : entries_) submit(entry, kRegister);
  registered_ = entries_.size();
  listen();
  const int submitted = io_uring_submit(&ring_);
  if (submitted < 0) return make_error(-submitted, "io_uring");
  // The kernel says no at once. A yes is the first request, which stays there until somebody serves it.
  unsigned head = 0;
  io_uring_cqe* done = nullptr;
  io_uring_for_each_cqe(&ring_, head, done) {
    if (done->res < 0) return make_error(-done->res, "registering with FUSE");
  }
  return {};
}

bool Ring::wanted() const {
  return turns() % 2 != 0 || (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN);
}

void Ring::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  thread_.join();
}

void Ring::close() {
  if (std::exchange(made_, false)) io_uring_queue_exit(&ring_);
}

void Ring::submit(Entry& entry, std::uint32_t command) {
  // There are as many places as entries, and one for listen().
  io_uring_sqe* place = io_uring_get_sqe(&ring_);
  const bool registers = command == kRegister;
  io_uring_prep_rw(IORING_OP_URING_CMD, place, kFuseFile, registers ? entry.parts.data() : nullptr,
                   registers ? entry.parts.size() : 0, 0);
  place->flags = IOSQE_FIXED_FILE;
  place->cmd_op = command;
  place->__pad1 = 0;
  io_uring_sqe_set_data(place, &entry);
  const CommandDetails details{.commit = entry.commit, .queue = static_cast<std::uint16_t>(entry.queue)};
  std::memcpy(reinterpret_cast<std::byte*>(place) + offsetof(io_uring_sqe, cmd), &details, sizeof details);
}

void Ring::listen() {
  io_uring_sqe* place = io_uring_get_sqe(&ring_);
  io_uring_prep_poll_add(place, kWakeFile, POLLIN);
  place->flags = IOSQE_FIXED_FILE;
  io_uring_sqe_set_data(place, nullptr);
}

void Ring::run(const Serve& serve) {
  ring_of_this_thread = this;
  // When the connection ends, the kernel gives all entries back.
  while (!stopping_ && registered_ > 0) {
    const int submitted = io_uring_submit_and_wait(&ring_, 1);
    if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) {
      // Nobody would serve this processor's requests any more. Let the mount end rather than hang.
      notice_(make_error(-submitted, "io_uring does not go on").message());
      std::abort();
    }
    turns_.fetch_add(1, std::memory_order_relaxed);
    unsigned head = 0;
    io_uring_cqe* done = nullptr;
    io_uring_for_each_cqe(&ring_, head, done) {
      auto* entry = static_cast<Entry*>(io_uring_cqe_get_data(done));
      const int error = done->res;
      io_uring_cq_advance(&ring_, 1);
      if (entry == nullptr) {
        std::uint64_t count = 0;
        (void)!read(wake_.get(), &count, sizeof count);
        listen();
        send_answered();
        continue;
      }
      if (error < 0) {
        --registered_;
        if (error != -ENOTCONN && error != -ECONNABORTED) notice_(make_error(-error, "an answer to the kernel").message());
        continue;
      }
      // An answer does not wait until the next request has been served.
      if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
      this->serve(*entry, serve);
    }
    turns_.fetch_add(1, std::memory_order_relaxed);
  }
  ring_of_this_thread = nullptr;
  // What is answered by now reaches its caller.
  send_answered();
  (void)io_uring_submit(&ring_);
}

void Ring::serve(Entry& entry, const Serve& serve) {
  const EntryHeader& header = *entry.header;
  fuse_in_header request;
  std::memcpy(&request, header.in_out.data(), sizeof request);
  const std::size_t payload = header.payload, heads = request.len - payload, operation = heads - sizeof request;
  entry.commit = header.commit;
  // The message as one piece: its heads go right before the payload.
  std::byte* message = entry.payload.data() - heads;
  std::memcpy(message, &request, sizeof request);
  std::memcpy(message + sizeof request, header.operation.data(), operation);
  entry.unique.store(request.unique, std::memory_order_release);

  fuse_buf buffer{};
  buffer.mem = message;
  buffer.size = request.len;
  const bool room = request.opcode == FUSE_READ || request.opcode == FUSE_READDIR || request.opcode == FUSE_READDIRPLUS;
  if (room) reply_room = entry.payload;
  serve(buffer);
  reply_room = {};
}

Ring* Ring::of_this_thread() { return ring_of_this_thread; }

bool Ring::answer(std::uint64_t unique, const iovec* parts, int count) {
  for (Entry& entry : entries_) {
    std::uint64_t expected = unique;
    if (entry.unique.load(std::memory_order_acquire) != unique || !entry.unique.compare_exchange_strong(expected, 0)) continue;
    std::memcpy(entry.header->in_out.data(), parts[0].iov_base, sizeof(fuse_out_header));
    std::size_t used = 0;
    for (int i = 1; i < count; ++i) {
      std::byte* to = entry.payload.data() + used;
      const std::size_t size = std::min(parts[i].iov_len, entry.payload.size() - used);
      if (size > 0 && parts[i].iov_base != to) std::memcpy(to, parts[i].iov_base, size);
      used += size;
    }
    entry.header->payload = static_cast<std::uint32_t>(used);
    if (ring_of_this_thread == this) {
      submit(entry, kCommitAndFetch);
      return true;
    }
    bool first = false;
    {
      const MutexLock lock(mutex_);
      first = answered_.empty();
      answered_.push_back(&entry);
    }
    const std::uint64_t one = 1;
    if (first) (void)!write(wake_.get(), &one, sizeof one);
    return true;
  }
  return false;
}

void Ring::send_answered() {
  std::vector<Entry*> answered;
  {
    const MutexLock lock(mutex_);
    answered.swap(answered_);
  }
  for (Entry* entry : answered) submit(*entry, kCommitAndFetch);
}

}  // namespace lsmfs

// What every handler needs, and the way each request takes: first at once from memory, and if that
// would wait, again on a worker.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fuse/serving/clone_orders.h"
#include "fuse/serving/imports.h"
#include "fuse/serving/kernel_cache.h"
#include "fuse/serving/listings.h"
#include "fuse/serving/privileges.h"
#include "fuse/serving/replies.h"
#include "fuse/serving/request_counts.h"
#include "fuse/serving/turnstile.h"
#include "fuse/serving/workers.h"
#include "fuse/transport/libfuse.h"
#include "fuse/transport/request.h"
#include "fuse/transport/rings.h"
#include "lsmfs/fuse.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// Of the request that this thread hands to its handler: it takes privileges away from its file.
inline constinit thread_local bool drops_privileges = false;

struct Context {
  Rings* rings = nullptr;  // once requests come through them
  Tree& tree;
  Workers& workers;
  KernelCache& kernel_cache;
  Listings& listings;
  const RequestCounts& answers;
  Administration administration;
  std::function<std::uint64_t()> mounted_ns = [] { return std::uint64_t{0}; };
  bool writeback = false, acl = true, xattr = true, user_rm = false;
  std::atomic<bool> durable_names{false};
  // Runs `on_destroy` of Mount::serve, once.
  std::function<void()> destroy = [] {};
  ErrorLog errors;
  CloneOrders clones;
  Imports imports;
  // Closed when the session is over: no request comes to the tree, and what takes long and could be done later ends.
  Turnstile turnstile;
};

inline Context& context_of(fuse_req_t req) { return *static_cast<Context*>(fuse_req_userdata(req)); }

// What points into the request, for a worker: by the time it comes to it, the next request lies there.
struct OwnedBytes {
  std::shared_ptr<const void> memory;  // where they lie
  Bytes bytes;
  operator Bytes() const { return bytes; }
};
inline std::string owned(std::string_view text) { return std::string(text); }
inline OwnedBytes owned(Bytes bytes) {
  // With the memory that the request was read into, unless most of that would be held for nothing.
  if (request_memory && *request_memory && bytes.size() >= (*request_memory)->size() / 2) return {std::move(*request_memory), bytes};
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {copy, *copy};
}

// Answers with the result of a call; false when it has to be made again with Wait::yes.
template <class Reply>
bool answer(fuse_req_t req, Result<Reply> result, Wait wait) {
  if (result) {
    send(req, context_of(req).tree, *result);
    return true;
  }
  const int code = result.error().code;
  if (std::uint64_t seen = 0; wait == Wait::no && (code == EAGAIN || (code == ENOSPC && context_of(req).tree.room_comes(wait, seen)))) return false;
  context_of(req).errors.note(result.error());
  fuse_reply_err(req, reply_code(result.error()));
  return true;
}

// Calls with Wait::yes, again as long as that may find room.
template <class Call, class Arguments>
auto with_room(Tree& tree, const Call& call, const Arguments& arguments) {
  return with_room(tree, [&] { return std::apply([&](const auto&... each) { return call(Wait::yes, each...); }, arguments); });
}

// Runs `call(wait, arguments...)`, which gives a Result of one of the replies in replies.h. The
// arguments are names and data that lie in the request; all else is captured by value in `call`.
template <class Call, class... Arguments>
void serve(fuse_req_t req, Call call, Arguments... arguments) {
  if (answer(req, call(Wait::no, arguments...), Wait::no)) return;
  context_of(req).workers.submit([req, call, copies = std::make_tuple(owned(arguments)...)] {
    answer(req, with_room(context_of(req).tree, call, copies), Wait::yes);
  });
}

// For calls that change names, which may have to be durable before they are answered.
template <class Call, class... Arguments>
void serve_names(fuse_req_t req, Call call, Arguments... arguments) {
  if (!context_of(req).durable_names) return serve(req, call, arguments...);
  context_of(req).workers.submit([req, call, copies = std::make_tuple(owned(arguments)...)] {
    auto& tree = context_of(req).tree;
    auto result = with_room(tree, call, copies);
    if (result) {
      if (auto synced = tree.sync(); !synced) result = std::move(synced.error());
    }
    answer(req, std::move(result), Wait::yes);
  });
}

// For calls that always wait for the device.
template <class Call>
void serve_waiting(fuse_req_t req, Call call) {
  context_of(req).workers.submit([req, call] { answer(req, call(), Wait::yes); });
}

}  // namespace lsmfs

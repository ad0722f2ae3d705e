#include "tree/history.h"

#include <fmt/format.h>

#include <cassert>
#include <utility>

namespace lsmfs {

History::History(Store& store, Clock& clock, Client& client, std::function<void(std::string_view)> notice)
    : store_(store), client_(client), notice_(std::move(notice)), committer_(store, clock) {
  open_->begin(1);
}

bool History::larger_than(std::size_t times) const {
  return open_->bytes() > times * kGroupBytes || open_->records.size() > times * kGroupRecords;
}

std::uint64_t History::last_rows() const {
  if (!open_->batch.empty() || !open_->entries.empty() || open_->tail || !open_->new_files.empty()) return open_->number;
  return sealed_ ? sealed_->number : committed_;
}

void History::pass_on(Committer::By by) {
  assert(!sealed_);
  seal();
  sealed_ = &next();
  committer_.begin(*sealed_, by);
}

Result<void> History::settle(const TreeLock& lock, std::uint64_t group) const {
  assert(lock.owns_lock());
  if (group <= committed_) return {};
  lock.want(group);
  return make_error(EAGAIN, "");
}

void History::await(TreeLock& lock, std::uint64_t group) {
  while (committed_ < group && (sealed_ || !failure_)) {
    if (!sealed_) pass_on(Committer::By::who_waits);
    if (!committer_.ended()) lock.without([this] { committer_.wait(); });
    (void)finish_ended(lock);  // a failure is kept there
  }
}

Result<void> History::finish_ended(const TreeLock& lock) {
  assert(lock.owns_lock());
  if (!sealed_ || !committer_.ended()) return {};
  Group& group = *std::exchange(sealed_, nullptr);
  const Result<void> outcome = committer_.finish();
  if (!outcome) {
    client_.keep(group);
    store_.keep_in_memory(group.batch);
  }
  settled(group);
  group.drop_streamed();  // who had to know them does
  if (!outcome) {
    fail("a commit", outcome.error());
    return make_error(EIO, outcome.error().context);
  }
  client_.committed(group);
  if (failure_) keep_open();
  return {};
}

void History::fail(std::string_view what, const Error& error) {
  if (!failure_) notice_(fmt::format("read-only from now on, since {} failed: {}", what, error.message()));
  if (!failure_) failure_ = error;
  if (!sealed_) keep_open();  // else when the committer has ended, for that comes first
}

void History::seal() {
  open_->put_tail();
  client_.put_records(*open_);
  open_->sealed_bytes = open_->bytes();
}

Group& History::next() {
  Group& group = *open_;
  open_ = &group == &groups_[0] ? &groups_[1] : &groups_[0];
  open_->begin(group.number + 1);
  return group;
}

// What was acknowledged can still be read.
void History::keep_open() {
  if (open_->empty()) return;
  seal();
  open_->put_new_files();
  Group& group = next();
  client_.keep(group);
  store_.keep_in_memory(group.batch);
  settled(group);
}

void History::settled(const Group& group) {
  committed_ = group.number;
  client_.settled(group);
}

}  // namespace lsmfs

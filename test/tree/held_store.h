// A store whose commits wait while it is held, or fail, and are counted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "gate.h"
#include "kv/store_decorator.h"

namespace lsmfs::test {

class HeldStore final : public StoreDecorator {
 public:
  HeldStore(std::unique_ptr<Store> inner, Gate& commits) : StoreDecorator(std::move(inner)), gate_(commits) {}

  void hold() { gate_.shut(); }
  void release(int error = 0) {
    error_ = error;
    gate_.open();
  }
  bool await_waiting() { return gate_.await(1); }  // a commit
  void fail_syncs(int error) { sync_error_ = error; }

  int commits() const { return commits_; }  // begun
  std::size_t bytes() const { return bytes_; }  // of the batches that were committed
  int syncs() const { return syncs_; }
  int notes() const { return notes_; }

  std::function<void()> on_commit = [] {};  // in the thread that commits

  Result<void> commit(Batch& batch) override {
    ++commits_;
    on_commit();
    gate_.pass();
    if (error_ != 0) return make_error(error_, "the device");
    bytes_ += batch.bytes();
    return inner().commit(batch);
  }
  Result<void> sync() override {
    ++syncs_;
    if (sync_error_ != 0) return make_error(sync_error_, "the device");
    return inner().sync();
  }
  Result<void> note_synced() override {
    ++notes_;
    return inner().note_synced();
  }

 private:
  Gate& gate_;
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<int> commits_ = 0, notes_ = 0, syncs_ = 0, error_ = 0, sync_error_ = 0;
};

}  // namespace lsmfs::test

// A tree on a volume in memory, with remounts and crashes.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lsmfs/tree.h"
#include "until.h"

namespace lsmfs::test {

// Calls f(Wait::no), as the request loop does, and f(Wait::yes) when that would have to wait.
template <class F>
auto both_ways(F&& f) {
  auto result = f(Wait::no);
  if (!result.has_value() && result.error().code == EAGAIN) return f(Wait::yes);
  return result;
}

// What is put between the layers, to get something wrong there.
struct Between {
  std::function<std::unique_ptr<Device>(Device&)> device = {};                  // below the volume
  std::function<std::unique_ptr<Volume>(std::unique_ptr<Volume>)> volume = {};  // below the store
  std::function<std::unique_ptr<Store>(std::unique_ptr<Store>)> store = {};     // below the tree
};

// The layers over a device. Its end is like a crash, unless it was closed.
struct Stack {
  std::unique_ptr<Device> decorated;  // null: nothing is below the volume but the device itself
  std::unique_ptr<Volume> volume;
  std::unique_ptr<Store> store;
  std::unique_ptr<Tree> tree;

  static Result<void> format(Device& device);
  // `device` must outlive it.
  static Result<Stack> mount(Device& device, const TreeOptions& options = {.sync_interval_ms = 0}, const Between& between = {});
  Result<void> close();
  void crash();  // its end, from above
};

class Harness {
 public:
  explicit Harness(ByteCount size = ByteCount{kDeviceMin}, TreeOptions options = {.sync_interval_ms = 0}, Between between = {});
  ~Harness();

  void unmount();      // closes tree, store and volume in order
  void mount();
  void remount() { unmount(); mount(); }
  void crash();        // drops everything that was not synced and mounts again

  Device& device() { return *device_; }
  Tree& tree() { return *stack_.tree; }
  Store& store() { return *stack_.store; }
  TreeOptions options;
  Between between;  // from the next mount on

  // Shorthands that fail the test when the operation fails.
  Ino make(Ino dir, std::string_view name, std::uint32_t mode, std::string_view symlink = {});
  Ino mkdir(Ino dir, std::string_view name) { return make(dir, name, S_IFDIR | 0755); }
  Ino create(Ino dir, std::string_view name, std::string_view data = {});
  void write(Ino ino, std::uint64_t offset, std::string_view data);
  std::string read(Ino ino, std::uint64_t offset = 0, std::size_t length = 64 * MiB);
  std::string read_path(std::string_view path);
  Ino walk(std::string_view path);       // 0 when it does not exist; the lookups are not given back
  Attr attr(Ino ino);
  std::vector<std::string> list(Ino dir, std::size_t at_a_time = 1000);  // without the dots
  std::uint64_t rows(Family family, std::string_view prefix = {});
  std::string repair();                  // what repair_tree() says, after which the tree is mounted anew
  std::string check();                   // the first problem that check_tree() finds, empty: none

 private:
  std::unique_ptr<Device> device_;
  Stack stack_;
};

// The errno of an operation, 0 when it succeeded.
template <class T>
int code(const Result<T>& result) {
  return result.has_value() ? 0 : result.error().code;
}

// Calls f(Wait::no) until it says something else than EAGAIN: others may have the tree's mutex for a moment.
template <class F>
auto at_once(F&& f) {
  auto result = f(Wait::no);
  (void)until([&] {
    if (code(result) == EAGAIN) result = f(Wait::no);
    return code(result) != EAGAIN;
  });
  return result;
}

}  // namespace lsmfs::test

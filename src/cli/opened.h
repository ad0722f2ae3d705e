// A whole file system, opened: device, volume, store, tree, and taken down in the right order.
#pragma once

#include <memory>

#include "lsmfs/control.h"
#include "lsmfs/device.h"
#include "lsmfs/kv.h"
#include "lsmfs/lease.h"
#include "lsmfs/tree.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {

struct OpenOptions {
  StoreOptions store;  // notice is set here, and read_only when the device is
  TreeOptions tree;    // the same
  LeaseHolder holder;  // who takes the lease, if the device is writable, for as long as it is open
  std::function<void(std::string_view)> notice = [](std::string_view) {};  // for a log
  // While it is opened: copies that are damaged, of what is there twice; a host that is waited for.
  std::function<void(std::string_view)> opening = [](std::string_view) {};
};

class Opened {
 public:
  static Result<Opened> open(std::unique_ptr<Device> device, const OpenOptions& options);
  Opened(Opened&&) = default;
  ~Opened() { (void)close(); }

  // Writes everything; the first error of all that is done. Only the device stays open, and locked.
  Result<void> close();
  void release_device() { device_.reset(); }  // after close()
  std::unique_ptr<Device> take_device() { return std::move(device_); }  // likewise

  Device& device() { return *device_; }
  LayerStats stats() const { return {device_->stats(), volume_->usage(), store_->activity(), tree_->activity()}; }
  Volume& volume() { return *volume_; }
  Store& store() { return *store_; }
  Tree& tree() { return *tree_; }

 private:
  Opened() = default;

  // The destructors must run from the last to the first.
  std::unique_ptr<MeteredDevice> device_;
  std::unique_ptr<Lease> lease_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Tree> tree_;
};

}  // namespace lsmfs::cli

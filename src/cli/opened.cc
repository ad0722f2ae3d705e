#include "cli/opened.h"

namespace lsmfs::cli {

Result<Opened> Opened::open(std::unique_ptr<Device> device, const OpenOptions& options) {
  Opened opened;
  opened.device_ = metered_device(std::move(device));
  LSMFS_ASSIGN(opened.lease_, Lease::take(*opened.device_, {.holder = options.holder, .waiting = options.opening, .notice = options.notice}));
  LSMFS_ASSIGN(opened.volume_, Volume::open(opened.lease_->device(), {.notice = options.opening}));
  StoreOptions store = options.store;
  store.read_only = !opened.device_->writable();
  store.notice = options.notice;
  store.describe = [](const LostRange& range) { return rows_between(range.family, range.from, range.to); };
  LSMFS_ASSIGN(opened.store_, Store::open(*opened.volume_, store));
  TreeOptions tree = options.tree;
  tree.read_only = store.read_only;
  tree.notice = options.notice;
  LSMFS_ASSIGN(opened.tree_, Tree::open(*opened.store_, tree));
  return opened;
}

Result<void> Opened::close() {
  Result<void> result;
  const auto note = [&](Result<void> step) {
    if (!step && result) result = std::move(step);
  };
  if (tree_) note(tree_->close());
  tree_.reset();
  if (store_) note(store_->close());
  store_.reset();
  volume_.reset();
  lease_.reset();
  return result;
}

}  // namespace lsmfs::cli

// Random operations on the tree and on a plain model side by side: every errno, every listing and
// every byte must agree, through remounts and crashes.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <utility>

#include "base/planted.h"
#include "kv/store_decorator.h"
#include "noise.h"
#include "seed.h"
#include "tree/cold_store.h"
#include "tree/harness.h"
#include "tree/hides_users.h"
#include "tree/keys.h"
#include "tree/model.h"

namespace lsmfs::test::random_operations_test {
namespace {

enum class Clones { none, some };

class Driver {
 public:
  Driver(std::uint64_t seed, int steps, Between between = {}, ByteCount stream_from = TreeOptions().stream_from,
         ByteCount share_past = TreeOptions().share_past, Clones clones = Clones::none)
      : random_(seed), steps_(steps), clones_(clones),
        // On small volumes there are no streams.
        harness_(stream_from < TreeOptions().stream_from ? ByteCount{GiB} : ByteCount{kDeviceMin},
                 {.sync_interval_ms = 0, .stream_from = stream_from, .share_past = share_past,
                  .expand_at_once = clones == Clones::some && seed % 4 < 2 ? 2 : TreeOptions().expand_at_once}, std::move(between)) {
    know_tops();
    for (const NodePtr& top : known_) copy_times(top);
  }

  void run() {
    synced();  // the empty tree is a moment to which a crash may lead back
    for (int i = 0; i < steps_ && !complained(); ++i) {
      step();
      record();
      if (i % 97 == 96) compare("during the run");
    }
    if (complained()) return;
    remount();
    sweep(INT_MAX);
    // Whatever is not in the tree any more must have left nothing behind.
    compare("at the end");
    if (!complained() && cloned_) remove_everything();
  }

 private:
  std::uint64_t below(std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < static_cast<std::uint64_t>(percent); }

  // What cannot change any more comes less often.
  NodePtr pick(bool directory) {
    std::vector<NodePtr> fit;
    const bool any = clones_ == Clones::none || chance(20);
    for (auto& n : known_) if (n->is_directory() == directory && (any || !n->read_only)) fit.push_back(n);
    return fit.empty() ? nullptr : fit[below(fit.size())];
  }
  // Few names, so that they meet; some that sort next to each other in awkward ways.
  std::string name() {
    static const char* names[] = {"a", "b", "c", "a.c", "a\x01", "b\xff", "aa", "-", "A", "a b", "z", "\x01"};
    return chance(95) ? names[below(std::size(names))] : std::string(200 + below(56), 'n');
  }
  std::string bytes(std::size_t n) {
    std::string s(n, '\0');
    if (chance(80)) fill_with_noise(random_(), s);
    return s;
  }
  std::uint64_t position(const NodePtr& node) {
    switch (below(4)) {
      case 0: return node->data->size();
      case 1: return below(node->data->size() + 1);
      case 2: return below(40) * kBlockSize;
      default: return below(200'000);
    }
  }

  // After each success the tree's own clock decides the times; what counts is that they persist.
  void copy_times(const NodePtr& node) { node->take_times(harness_.attr(node->ino)); }
  template <class F>
  void both(const char* what, int expected, F&& call, std::vector<NodePtr> touched) {
    const auto got = both_ways(call);
    ASSERT_EQ(code(got), expected) << what;
    if (expected != 0) return;
    for (auto& node : touched) if (node) copy_times(node);
    ++changes_;
  }

  // As who uses a name does: it is looked up before.
  NodePtr at(const NodePtr& dir, const std::string& n) {
    auto it = dir->entries.find(n);
    if (it == dir->entries.end()) return nullptr;
    if (it->second->ino != Ino{} && !knows(it->second)) look_up(dir, n);
    return it->second;
  }
  // What is always in use.
  bool is_top(const NodePtr& node) const { return node == model_.root || node == model_.snapshots; }
  void know_tops() {
    known_ = {model_.root};
    if (clones_ == Clones::some) known_.push_back(model_.snapshots);
    lookups_.clear();
  }
  // The tree has raised its lookup count.
  void has_found(const NodePtr& node) {
    ++lookups_[node];
    if (!knows(node)) known_.push_back(node);
  }
  // No more than was raised: what the tree itself holds on to is its own matter.
  void forget(const NodePtr& node) { harness_.tree().forget(node->ino, std::exchange(lookups_[node], 0)); }
  bool knows(const NodePtr& node) const { return std::ranges::find(known_, node) != known_.end(); }
  void look_up(const NodePtr& dir, const std::string& n) {
    const NodePtr& child = dir->entries.at(n);
    const auto found = both_ways([&](Wait w) { return harness_.tree().lookup(dir->ino, n, w); });
    ASSERT_TRUE(found && *found) << n;
    ASSERT_EQ((*found)->ino, child->ino) << n;
    has_found(child);
  }

  void step() {
    Tree& tree = harness_.tree();
    const NodePtr dir = pick(true);
    const std::string n = name();
    if (clones_ == Clones::some && chance(10)) return chance(30) ? clone() : chance(30) ? use_a_snapshot() : chance(10) ? forget_files() : use_a_name();
    switch (below(29)) {
      case 0: case 1: case 2: case 3: {
        static const std::uint32_t kinds[] = {S_IFREG, S_IFREG, S_IFREG, S_IFDIR, S_IFDIR, S_IFLNK, S_IFIFO, S_IFCHR, S_IFSOCK};
        const std::uint32_t mode = kinds[below(std::size(kinds))] | (0600 + static_cast<std::uint32_t>(below(64)));
        const std::string target = S_ISLNK(mode) ? "target " + std::to_string(below(1000)) : "";
        NodePtr made;
        const int expected = model_.make(dir, n, mode, target, made);
        const std::uint64_t rdev = S_ISCHR(mode) ? 0x103 : 0;
        Ino ino;
        const auto got = both_ways([&](Wait w) {
          return tree.make(dir->ino, n, {.mode = mode, .uid = 7, .gid = 8, .rdev = rdev, .symlink = target}, w);
        });
        ASSERT_EQ(code(got), expected) << "make";
        if (expected) return;
        made->ino = got->ino;
        made->uid = 7;
        made->gid = dir->mode & S_ISGID ? dir->gid : 8;
        if (S_ISDIR(mode) && (dir->mode & S_ISGID)) made->mode |= S_ISGID;
        made->rdev = rdev;
        has_found(made);
        copy_times(made);
        copy_times(dir);
        ++changes_;
        return;
      }
      case 4: case 5: case 6: case 7: case 8: {
        const NodePtr node = pick(false);
        if (!node) return;
        const std::uint64_t offset = position(node);
        const std::string data = bytes(chance(70) ? below(6000) : below(100'000));
        both("write", model_.write(node, offset, data),
             [&](Wait w) { return tree.write(node->ino, ByteOffset{offset}, as_bytes(data), w); }, {node});
        return;
      }
      case 9: {
        const NodePtr node = pick(chance(5));
        if (!node) return;
        const std::uint64_t size = chance(30) ? 0 : position(node);
        both("truncate", model_.truncate(node, size),
             [&](Wait w) { return tree.setattr(node->ino, {.size = size}, w); }, {node});
        return;
      }
      case 10: {
        const NodePtr node = pick(chance(30));
        if (!node) return;
        AttrChange change;
        if (chance(50)) change.mode = static_cast<std::uint32_t>(below(07777));
        if (chance(50)) change.uid = static_cast<std::uint32_t>(random_());
        if (!node->read_only) {
          if (change.mode) node->mode = (node->mode & S_IFMT) | *change.mode;
          node->uid = change.uid.value_or(node->uid);
        }
        if (chance(50)) change.mtime = Time{static_cast<std::int64_t>(below(1ull << 35)) - (1ll << 33), static_cast<std::uint32_t>(below(1'000'000'000))};
        both("setattr", node->read_only ? EROFS : 0, [&](Wait w) { return tree.setattr(node->ino, change, w); }, {node});
        return;
      }
      case 11: {
        const NodePtr node = pick(chance(5));
        if (!node) return;
        const int expected = model_.link(node, dir, n);
        both("link", expected, [&](Wait w) { return tree.link(node->ino, dir->ino, n, w); }, {node, dir});
        if (expected == 0) has_found(node);
        return;
      }
      case 12: case 13: {
        const NodePtr victim = at(dir, n);
        both("unlink", model_.unlink(dir, n), [&](Wait w) { return tree.unlink(dir->ino, n, w); }, {dir, victim});
        return;
      }
      case 14: {
        const NodePtr victim = at(dir, n);
        both("rmdir", model_.rmdir(dir, n), [&](Wait w) { return tree.rmdir(dir->ino, n, w); }, {dir, victim});
        return;
      }
      case 25:
        if (chance(30)) remove_tree(dir, n);  // else little would be left
        return;
      case 15: case 16: case 17: {
        const NodePtr to_dir = chance(40) ? dir : pick(true);
        const std::string to = name();
        static const unsigned kinds[] = {RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, RENAME_WHITEOUT | RENAME_NOREPLACE};
        rename(dir, n, to_dir, to, chance(60) ? 0 : kinds[below(std::size(kinds))]);
        return;
      }
      case 18: {
        const NodePtr node = pick(false);
        if (!node || !S_ISREG(node->mode)) return;
        check_read(node);
        return;
      }
      case 21: {
        const NodePtr node = pick(chance(5));
        if (!node) return;
        static const int modes[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                                    FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
        const int mode = modes[below(std::size(modes))];
        const std::uint64_t offset = position(node);
        const std::uint64_t length = 1 + (chance(50) ? below(30'000) : kBlockSize * (1 + below(10)) - 1);
        both("fallocate", model_.fallocate(node, mode, offset, length),
             [&](Wait w) { return tree.fallocate(node->ino, mode, ByteOffset{offset}, ByteCount{length}, w); }, {node});
        return;
      }
      case 23: {
        if (dir->nlink == 0) return;
        const auto got = both_ways([&](Wait w) {
          return tree.make_unnamed(dir->ino, {.mode = S_IFREG | 0600, .uid = 7, .gid = 8}, w);
        });
        const bool permitted = !dir->read_only && dir != model_.snapshots;
        ASSERT_EQ(code(got), permitted ? 0 : EROFS) << "make_unnamed";
        if (!permitted) return;
        NodePtr made = std::make_shared<Node>();
        made->ino = got->ino;
        made->mode = S_IFREG | 0600;
        made->uid = 7;
        made->gid = dir->mode & S_ISGID ? dir->gid : 8;
        made->linkable = true;
        has_found(made);
        copy_times(made);
        ++changes_;
        return;
      }
      case 24: case 26: case 27: {
        const NodePtr from = pick(chance(2)), to = pick(chance(2));
        if (!from || !to) return;
        const std::uint64_t size = from->data->size();
        std::uint64_t offset = chance(40) ? 0 : position(from), target = chance(50) ? offset : position(to);
        if (chance(70)) offset = round_down(offset, kBlockSize);
        if (chance(70)) target = round_down(target, kBlockSize);
        std::uint64_t length = size > offset && chance(50) ? size - offset : below(200'000);
        if (length > kBlockSize && chance(30)) length = round_down(length, kBlockSize);
        if (from == to) length = std::min(length, size - std::min(size, offset));  // as the kernel does: it grows meanwhile
        if (length == 0) return;
        // Else it may be several writes, each of them a moment that is not known here.
        const std::uint64_t there = std::min(length, size - std::min(size, offset));
        const bool is_one = offset % kBlockSize == 0 && target % kBlockSize == 0 && there % kBlockSize == 0;
        if (from == to && offset < target + length && target < offset + length) return;  // which the kernel refuses
        // As a caller does, until there is no more.
        for (;;) {
          const auto got = both_ways([&](Wait w) {
            return tree.copy_range(from->ino, ByteOffset{offset}, to->ino, ByteOffset{target}, ByteCount{length}, w);
          });
          const int expected = model_.copy_range(from, offset, to, target, got ? got->v : length);
          ASSERT_EQ(code(got), expected) << "copy_range";
          if (expected != 0) return;
          if (got->v == 0) break;
          ASSERT_LE(got->v, length);
          copy_times(to);
          ++changes_;
          record();
          if (!is_one) {
            ASSERT_TRUE(tree.sync());
            synced();
          }
          offset += got->v;
          target += got->v;
          length -= got->v;
          if (length == 0) return;
        }
        ASSERT_GE(offset, size) << "copied too little";
        return;
      }
      case 22: {
        const NodePtr node = pick(false);
        if (node && S_ISREG(node->mode)) check_holes(node);
        return;
      }
      case 19: case 20: {
        const NodePtr node = pick(chance(30));
        if (!node) return;
        static const char* names[] = {"user.a", "user.b", "user.\xff", "security.capability", "trusted.x", "user.aa"};
        const std::string xattr = names[below(std::size(names))];
        if (chance(30)) {
          const int expected = node->read_only ? EROFS : node->xattrs.erase(xattr) ? 0 : ENODATA;
          both("removexattr", expected, [&](Wait w) { return tree.removexattr(node->ino, xattr, w); }, {node});
          return;
        }
        const std::string value = bytes(chance(60) ? below(300) : chance(80) ? below(3000) : below(kXattrSizeMax + 1));
        const int flags = chance(70) ? 0 : chance(50) ? XATTR_CREATE : XATTR_REPLACE;
        const bool exists = node->xattrs.contains(xattr);
        const int expected = node->read_only ? EROFS : exists && flags == XATTR_CREATE ? EEXIST : !exists && flags == XATTR_REPLACE ? ENODATA : 0;
        if (expected == 0) node->xattrs[xattr] = value;
        both("setxattr", expected, [&](Wait w) { return tree.setxattr(node->ino, xattr, value, flags, w); }, {node});
        return;
      }
      default:
        if (chance(10)) {
          chance(50) ? remount() : crash();
        } else if (chance(20)) {
          ASSERT_TRUE(harness_.tree().sync());
          synced();
        } else if (chance(20)) {
          ASSERT_TRUE(harness_.store().flush());
        } else if (chance(30)) {
          sweep(static_cast<int>(below(5)));
        } else if (chance(50)) {
          relocate(70);
        } else if (clones_ == Clones::some && chance(50)) {
          ASSERT_TRUE(harness_.tree().drop_caches());
          synced();
        } else {
          forget_one();
        }
    }
  }

  void rename(const NodePtr& dir, const std::string& n, const NodePtr& to_dir, const std::string& to, unsigned flags) {
    Tree& tree = harness_.tree();
    const NodePtr source = at(dir, n), target = at(to_dir, to);
    ASSERT_NO_FATAL_FAILURE(both("rename", model_.rename(dir, n, to_dir, to, flags),
                                 [&](Wait w) { return tree.rename(dir->ino, n, to_dir->ino, to, flags, w); }, {dir, to_dir, source, target}));
    if (const NodePtr whiteout = at(dir, n); whiteout && whiteout->ino == Ino{}) {
      const auto found = both_ways([&](Wait w) { return tree.lookup(dir->ino, n, w); });
      ASSERT_TRUE(found && *found) << "the whiteout";
      whiteout->ino = (*found)->ino;
      has_found(whiteout);
      copy_times(whiteout);
    }
  }

  void remove_tree(const NodePtr& dir, const std::string& n) {
    const NodePtr victim = at(dir, n);
    if (!victim) return;
    // What is known of a file by its other names changes with the sweep alone.
    const bool whole = victim->is_directory() && Model::has_all_names(victim);
    const std::vector<NodePtr> below = Model::all_below(victim);
    const bool linked = std::ranges::any_of(below, [](const NodePtr& node) { return !node->is_directory() && node->nlink > 1; });
    if (linked) look_up_below(victim);
    ASSERT_NO_FATAL_FAILURE(both("remove_tree", model_.remove_tree(dir, n), [&](Wait w) { return harness_.tree().remove_tree(victim->ino, dir->ino, w); }, {dir, victim}));
    if (!victim->is_directory() || victim->nlink > 0 || (whole && !linked)) return;
    sweep(INT_MAX);
    for (const NodePtr& node : below) {
      if (knows(node)) copy_times(node);
    }
    ASSERT_TRUE(harness_.tree().sync());
    synced();
  }

  // Of a directory, or a snapshot, often of all.
  void clone() {
    const bool is_snapshot = chance(40);
    clone(is_snapshot && chance(60) ? model_.root : pick(chance(95)), is_snapshot ? model_.snapshots : pick(chance(97)));
  }

  void clone(const NodePtr& dir, const NodePtr& to) {
    if (!dir || !to) return;
    const std::string n = name();
    // What is there must not grow without end.
    std::size_t files = 0, bytes = 0;
    for (const NodePtr& top : {model_.root, model_.snapshots, dir}) {
      for (const NodePtr& node : Model::all_below(top)) {
        ++files;
        bytes += node->data->size();
      }
    }
    if (files > kFilesMost || bytes > kBytesMost) return;
    NodePtr made;
    const int expected = model_.clone(dir, to, n, made);
    if (chance(20)) {
      ASSERT_TRUE(harness_.tree().sync());
    }
    ASSERT_NO_FATAL_FAILURE(both("clone", expected, [&](Wait w) { return harness_.tree().clone(dir->ino, to->ino, n, w); }, {dir, to}));
    if (expected != 0) return;
    cloned_ = true;
    const auto numbered = take_numbers(harness_.tree(), to, n);
    ASSERT_TRUE(numbered) << numbered.error().message();
    if (chance(80) || made->read_only) look_up(to, n);
    if (made->read_only) made->btime = harness_.attr(made->ino).btime;
    if (chance(30)) look_up_below(made);
  }

  void use_a_snapshot() {
    const auto& snapshots = model_.snapshots->entries;
    if (snapshots.empty()) return;
    auto it = snapshots.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(below(snapshots.size())));
    const std::string n = it->first;
    switch (below(8)) {
      case 0: case 1: case 2: return remove_tree(model_.snapshots, n);
      case 4: case 5: return roll_back(chance(40) ? model_.root : pick(chance(97)), chance(95) ? at(model_.snapshots, n) : pick(chance(95)));
      case 3: return rename(model_.snapshots, n, chance(90) ? model_.snapshots : pick(true), name(), chance(70) ? 0 : RENAME_EXCHANGE);
      default: break;
    }
    // Who brings back what was there looks into it.
    const NodePtr snapshot = at(model_.snapshots, n);
    ASSERT_NO_FATAL_FAILURE(look_up_below(snapshot));
    std::vector<NodePtr> sources = known_;
    std::erase_if(sources, [](const NodePtr& node) { return !node->is_directory() || !node->read_only || node->nlink == 0; });
    clone(chance(50) ? snapshot : sources[below(sources.size())], pick(true));
  }

  void roll_back(const NodePtr& dir, const NodePtr& snapshot) {
    if (!dir || !snapshot) return;
    const std::vector<NodePtr> below = Model::all_below(dir);
    const bool linked = std::ranges::any_of(below, [](const NodePtr& node) { return node->had_several; });
    if (linked) look_up_below(dir);
    const int expected = model_.roll_back(dir, snapshot);
    ASSERT_NO_FATAL_FAILURE(both("roll_back", expected, [&](Wait w) { return harness_.tree().roll_back(dir->ino, snapshot->ino, w); }, {dir}));
    if (expected != 0) return;
    for (const auto& [n, child] : dir->entries) {
      const auto numbered = take_numbers(harness_.tree(), dir, n);
      ASSERT_TRUE(numbered) << numbered.error().message();
      if (chance(30)) look_up(dir, n);
    }
    if (chance(20)) look_up_below(dir);
    if (!linked) return;
    sweep(INT_MAX);  // as after remove_tree()
    for (const NodePtr& node : below) {
      if (knows(node)) copy_times(node);
    }
    ASSERT_TRUE(harness_.tree().sync());
    synced();
  }

  // Files that have names, of which the kernel lets go when it wants memory. They are found by these again.
  void forget_files() {
    const int percent = static_cast<int>(below(101));
    std::erase_if(known_, [&](const NodePtr& node) {
      const bool goes = !node->is_directory() && node->nlink > 0 && chance(percent);
      if (goes) forget(node);
      return goes;
    });
  }

  // Who was not used since it was cloned is found by its name only.
  void use_a_name() {
    const NodePtr dir = pick(true);
    if (dir->entries.empty()) return;
    auto it = dir->entries.begin();
    std::advance(it, static_cast<std::ptrdiff_t>(below(dir->entries.size())));
    (void)at(dir, it->first);
  }

  void look_up_below(const NodePtr& dir) {
    if (!knows(dir)) return;
    for (const auto& [n, child] : dir->entries) {
      ASSERT_NO_FATAL_FAILURE(look_up(dir, n));
      if (child->is_directory()) look_up_below(child);
    }
  }

  // All space is back, whatever had what in common.
  void remove_everything() {
    while (!model_.root->entries.empty() || !model_.snapshots->entries.empty()) {
      const NodePtr dir = model_.root->entries.empty() || (!model_.snapshots->entries.empty() && chance(50)) ? model_.snapshots : model_.root;
      auto it = dir->entries.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(below(dir->entries.size())));
      const std::string n = it->first;
      const NodePtr node = at(dir, n);
      if (node->is_directory()) {
        ASSERT_EQ(model_.remove_tree(dir, n), 0);
        const auto removed = both_ways([&](Wait w) { return harness_.tree().remove_tree(node->ino, dir->ino, w); });
        ASSERT_TRUE(removed) << removed.error().message();
      } else {
        ASSERT_EQ(model_.unlink(dir, n), 0);
        ASSERT_EQ(code(both_ways([&](Wait w) { return harness_.tree().unlink(dir->ino, n, w); })), 0);
      }
      if (chance(20)) relocate(50);
      if (chance(20)) sweep(static_cast<int>(below(5)));
    }
    for (const NodePtr& node : known_) {
      if (!is_top(node)) forget(node);
    }
    know_tops();
    for (const NodePtr& top : known_) {
      for (const auto& [n, value] : top->xattrs) {
        ASSERT_EQ(code(both_ways([&](Wait w) { return harness_.tree().removexattr(top->ino, n, w); })), 0);
      }
    }
    sweep(INT_MAX);
    relocate(100);
    const TreeCounts counts = harness_.tree().counts();
    EXPECT_EQ(counts.regular + counts.symlinks + counts.others, 0u);
    EXPECT_EQ(counts.directories, 1u);
    EXPECT_EQ(harness_.rows(Family::blocks), 0u);
    ASSERT_TRUE(harness_.tree().sync());
    EXPECT_EQ(other_rows(), "") << "more than the root, the state and the directory of snapshots";
    EXPECT_EQ(harness_.store().blobs(), decltype(harness_.store().blobs()){});
    EXPECT_EQ(harness_.check(), "") << "with nothing left";
  }

  // The keys of all rows of names that are not always there, for people.
  std::string other_rows() {
    std::string others;
    const auto cursor = harness_.store().cursor(Family::names, {});
    for (cursor->seek(""); cursor->valid(); cursor->next()) {
      if (cursor->key() != keys::kRoot && cursor->key() != keys::kState && cursor->key() != keys::kSnapshots) others += testing::PrintToString(std::string(cursor->key())) + "\n";
    }
    return others;
  }

  void relocate(int percent) {
    for (bool more = true; more;) {
      const auto relocated = harness_.tree().relocate();
      ASSERT_TRUE(relocated) << relocated.error().message();
      more = *relocated && chance(percent);
    }
  }

  // Different files have different numbers, with or without a name.
  void check_numbers() {
    std::map<Ino, NodePtr> owners{{kRootIno, model_.root}, {kSnapshotsIno, model_.snapshots}};
    std::vector<NodePtr> all = known_;
    for (const NodePtr& top : {model_.root, model_.snapshots}) std::ranges::copy(Model::all_below(top), std::back_inserter(all));
    for (const NodePtr& node : all) {
      ASSERT_EQ(owners.emplace(node->ino, node).first->second, node) << node->ino.v << " is the number of two";
      ASSERT_LT(node->ino, kInoMax);
    }
  }

  void sweep(int steps) {
    for (bool more = true; more && steps > 0; --steps) {
      const auto swept = harness_.tree().sweep();
      ASSERT_TRUE(swept) << swept.error().message();
      more = *swept;
    }
  }

  void check_read(const NodePtr& node) {
    const std::uint64_t offset = position(node);
    std::string got(below(30'000), '?');
    MutableBytes to{reinterpret_cast<std::byte*>(got.data()), got.size()};
    const auto n = both_ways([&](Wait w) { return harness_.tree().read(node->ino, ByteOffset{offset}, to, w); });
    ASSERT_TRUE(n) << n.error().message();
    const std::string expected = offset < node->data->size() ? node->data->substr(offset, got.size()) : "";
    got.resize(*n);
    ASSERT_EQ(got, expected) << "read at " << offset << " of inode " << node->ino.v;
  }

  // Data and holes must take turns up to the end, and holes hold nothing.
  void check_holes(const NodePtr& node) {
    const std::string& data = *node->data;
    const auto seek = [&](std::uint64_t from, int whence) {
      return both_ways([&](Wait w) { return harness_.tree().seek(node->ino, ByteOffset{from}, whence, w); });
    };
    ASSERT_EQ(code(seek(data.size(), SEEK_DATA)), ENXIO);
    ASSERT_EQ(code(seek(data.size(), SEEK_HOLE)), ENXIO);
    std::uint64_t at = 0;
    while (at < data.size()) {
      const auto next = seek(at, SEEK_DATA);
      ASSERT_TRUE(next || code(next) == ENXIO);
      const std::uint64_t hole_end = next ? next->v : data.size();
      ASSERT_GE(hole_end, at);
      ASSERT_LE(hole_end, data.size());
      ASSERT_EQ(data.substr(at, hole_end - at).find_first_not_of('\0'), std::string::npos) << "data in a hole";
      at = hole_end;
      if (!next) break;
      const auto end = seek(at, SEEK_HOLE);
      ASSERT_TRUE(end);
      ASSERT_GT(end->v, at);
      ASSERT_LE(end->v, data.size());
      at = end->v;
    }
  }

  // Whether something is still in use that was last found there. Then a kernel does not give the directory back.
  bool was_found_in(const NodePtr& dir) {
    return dir->is_directory() && std::ranges::any_of(known_, [&](const NodePtr& node) {
      const auto found = both_ways([&](Wait w) { return harness_.tree().directory_of(node->ino, w); });
      return node != dir && found && *found == dir->ino;
    });
  }

  // Gives back the lookup of an inode that has no name, which must erase it for good.
  void forget_one() {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (known_[i]->nlink > 0 || was_found_in(known_[i])) continue;
      sweep(INT_MAX);  // or something may be in it, or a removed directory still names it
      forget(known_[i]);
      ASSERT_EQ(code(harness_.tree().getattr(known_[i]->ino, Wait::yes)), ESTALE);
      known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  // A fresh tree knows no inode: drop those without a name and look up all the others again.
  void look_up_again() {
    know_tops();
    std::function<void(const NodePtr&)> visit = [&](const NodePtr& dir) {
      for (auto& [n, child] : dir->entries) {
        if (cloned_ && chance(20)) continue;  // is found later, if at all
        ASSERT_NO_FATAL_FAILURE(look_up(dir, n));
        if (child->is_directory()) visit(child);
      }
    };
    for (const NodePtr& top : std::vector(known_)) visit(top);
  }

  void remount() {
    harness_.remount();
    compare("after a remount");
    if (complained()) return;
    look_up_again();
    synced();
  }

  // The tree must be what it was after one of the operations since the last sync. Then it, not the
  // model, is the truth: the model goes back to that moment.
  void crash() {
    record();
    harness_.crash();
    const std::string now = dump(harness_.tree());
    auto it = std::find_if(history_.rbegin(), history_.rend(), [&](const Moment& m) { return m.dump == now; });
    ASSERT_TRUE(it != history_.rend()) << "after a crash the tree is at no moment since the last sync:\n"
                                       << now << "the last moment was:\n" << history_.back().dump;
    ASSERT_EQ(harness_.check(), "") << "after a crash";
    model_ = it->model;
    look_up_again();
    synced();
  }

  struct Moment {
    std::string dump;
    Model model;  // a copy of it as it was
  };

  void record() {
    if (changes_ == recorded_) return;
    recorded_ = changes_;
    history_.push_back({model_.dump(), model_.copy()});
  }
  void synced() {
    history_.clear();
    recorded_ = ++changes_;
    history_.push_back({model_.dump(), model_.copy()});
  }

  // Says the first line that differs: the whole is long.
  void compare(const char* when) {
    ASSERT_EQ(harness_.check(), "") << when;
    ASSERT_NO_FATAL_FAILURE(check_numbers()) << when;
    std::istringstream tree(dump(harness_.tree())), model(model_.dump());
    std::string got, expected;
    while (bool(std::getline(tree, got)) | bool(std::getline(model, expected))) {
      ASSERT_EQ(got, expected) << when;
      got.clear();
      expected.clear();
    }
  }

  static constexpr std::size_t kFilesMost = 300, kBytesMost = 16 * MiB;

  std::mt19937_64 random_;
  int steps_;
  const Clones clones_;
  bool cloned_ = false;
  Harness harness_;
  Model model_;
  std::vector<NodePtr> known_;  // those whose number may be used: with a lookup held
  std::map<NodePtr, std::uint64_t> lookups_;  // of these
  std::uint64_t changes_ = 1, recorded_ = 0;
  std::vector<Moment> history_;
};

TEST(RandomOperations, AgreeWithAPlainModelThroughRemountsAndCrashes) {
  const char* given = std::getenv("LSMFS_SEED");
  const int rounds = given ? 1 : 6;
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    const std::uint64_t seed = given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("seed %llu (run again with LSMFS_SEED=%llu)\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(seed));
    SCOPED_TRACE("LSMFS_SEED=" + std::to_string(seed));
    Driver(seed, 700).run();
  }
}

// Nearly all that is appended goes into blobs.
TEST(RandomOperations, AgreeWhereFilesAreStreams) {
  const std::uint64_t seed = drawn_seed();
  for (std::uint64_t i = 0; i < 4 && !HasFailure(); ++i) {
    SCOPED_TRACE("LSMFS_SEED=" + std::to_string(seed + i));
    Driver(seed + i, 700, {}, ByteCount{kBlockSize}).run();
  }
}

// Nearly all copies are shared.
TEST(RandomOperations, AgreeWhereFilesShareBlocks) {
  const std::uint64_t seed = drawn_seed();
  for (std::uint64_t i = 0; i < 6 && !HasFailure(); ++i) {
    SCOPED_TRACE("LSMFS_SEED=" + std::to_string(seed + i));
    Driver(seed + i, 1000, {}, i % 2 == 0 ? ByteCount{kBlockSize} : TreeOptions().stream_from, ByteCount{kBlockSize - 1}).run();
  }
}

// Directories are cloned, also within clones, and both sides change.
TEST(RandomOperations, AgreeWhereDirectoriesAreClones) {
  const std::uint64_t seed = drawn_seed();
  for (std::uint64_t i = 0; i < 4 && !HasFailure(); ++i) {
    SCOPED_TRACE("LSMFS_SEED=" + std::to_string(seed + i));
    const ByteCount stream_from = (seed + i) % 3 == 0 ? ByteCount{kBlockSize} : TreeOptions().stream_from;
    const ByteCount share_past = (seed + i) % 2 == 0 ? ByteCount{kBlockSize - 1} : TreeOptions().share_past;
    Driver(seed + i, 1000, {}, stream_from, share_past, Clones::some).run();
  }
}

TEST(RandomOperations, AgreeWhereRowsOfClonesAreNotInMemory) {
  for (const bool always : {true, false}) {
    const std::uint64_t seed = drawn_seed();
    std::atomic<std::uint64_t> draws = seed;
    const ColdStore::Weather weather{.draws = always ? nullptr : &draws};
    const Between between{.store = [&](std::unique_ptr<Store> inner) { return std::make_unique<ColdStore>(std::move(inner), weather); }};
    for (std::uint64_t i = 0; i < 2 && !HasFailure(); ++i) {
      Driver(seed + i, 700, between, TreeOptions().stream_from, ByteCount{kBlockSize - 1}, Clones::some).run();
    }
  }
}

// What begins again where rows are not in memory has changed nothing before.
TEST(RandomOperations, AgreeWhereRowsAreNotInMemory) {
  for (const bool always : {true, false}) {
    const std::uint64_t seed = drawn_seed();
    std::atomic<std::uint64_t> draws = seed;
    const ColdStore::Weather weather{.draws = always ? nullptr : &draws};
    const Between between{.store = [&](std::unique_ptr<Store> inner) { return std::make_unique<ColdStore>(std::move(inner), weather); }};
    for (int i = 0; i < 2 && !HasFailure(); ++i) Driver(seed + static_cast<std::uint64_t>(i), 700, between).run();
  }
}

class LosesABatch : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> commit(Batch& batch) override { return ++commits_ == 5 ? Result<void>() : inner().commit(batch); }

 private:
  int commits_ = 0;  // of this mount
};

template <class Fault>
std::string complaints(ByteCount share_past = TreeOptions().share_past, Clones clones = Clones::none) {
  const Between between{.store = [](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> { return std::make_unique<Fault>(std::move(inner)); }};
  std::string said;
  for (std::uint64_t seed = 1; seed <= 20 && said.empty(); ++seed) said = complaints_of([&] { Driver(seed, 700, between, TreeOptions().stream_from, share_past, clones).run(); });
  return said;
}

TEST(RandomOperationsPlanted, ABatchThatIsLostIsFound) { EXPECT_NE(complaints<LosesABatch>(), ""); }

TEST(RandomOperationsPlanted, ASyncThatDoesNothingIsFound) {
  const std::string said = complaints<ForgetsSyncs>();
  EXPECT_NE(said.find("at no moment since the last sync"), said.npos) << said;
}

TEST(RandomOperationsPlanted, ABaseThatIsChangedWhileItIsUsedIsFound) {
  EXPECT_NE(complaints<HidesUsers>(ByteCount{kBlockSize - 1}), "");
}

TEST(RandomOperationsPlanted, ABaseOfADirectoryThatGoesWhileItIsShownIsFound) {
  EXPECT_NE(complaints<HidesUsers>(TreeOptions().share_past, Clones::some), "");
}

}  // namespace
}  // namespace lsmfs::test::random_operations_test

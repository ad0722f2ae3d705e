// What tests of clones and snapshots have in common: a tree that is used by path, and pictures of what is in it.
#pragma once

#include <gtest/gtest.h>
#include <linux/posix_acl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "noise.h"
#include "tree/acl.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/model.h"
#include "tree/record.h"

namespace lsmfs::test {

inline constexpr std::uint64_t kSmall = 3 * kBlockSize;  // is copied as a whole when it is written
inline constexpr std::uint64_t kLarge = 500'000;       // and this is not

inline std::string noise(std::uint64_t bytes, std::uint64_t seed) {
  std::string out(bytes, '\0');
  fill_with_noise(seed, out);
  return out;
}

// The first line in which two pictures differ; "": none does.
inline std::string difference(const std::string& found, const std::string& expected) {
  std::istringstream left(found), right(expected);
  std::string got, wanted;
  while (bool(std::getline(left, got)) | bool(std::getline(right, wanted))) {
    if (got != wanted) return fmt::format("\n  found    {}\n  expected {}", got, wanted);
    got.clear();
    wanted.clear();
  }
  return "";
}

class CloneFixture : public testing::Test {
 protected:
  explicit CloneFixture(ByteCount size = ByteCount{kDeviceMin}, Between between = {}) : h_(size, {.sync_interval_ms = 0}, std::move(between)) {}

  Tree& tree() { return h_.tree(); }
  template <class T>
  static void must(const Result<T>& result) { ASSERT_TRUE(result.has_value()) << result.error().message(); }
  static std::string last(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  static std::string above(const std::string& path) { return path.find('/') == path.npos ? "" : path.substr(0, path.rfind('/')); }

  // What is walked over stays in use, as by open files, until forget_all(). 0: there is no such thing.
  Ino find(const std::string& path) {
    Ino at = kRootIno;
    for (std::size_t from = 0; from < path.size();) {
      const std::size_t end = std::min(path.find('/', from), path.size());
      const auto found = both_ways([&](Wait w) { return tree().lookup(at, path.substr(from, end - from), w); });
      if (!found || !*found) return Ino{};
      at = (*found)->ino;
      held_.insert(at);
      from = end + 1;
    }
    return at;
  }
  Ino ino(const std::string& path) {
    const Ino found = find(path);
    EXPECT_NE(found, Ino{}) << path;
    return found;
  }
  void forget_all() {
    for (const Ino held : held_) tree().forget(held, 1'000'000);
    held_.clear();
  }
  void remount() {
    held_.clear();
    h_.remount();
  }
  void crash() {
    must(tree().sync());
    held_.clear();
    h_.crash();
  }

  // ---- operations by path
  int clone(const std::string& from, const std::string& to) {
    const Ino dir = ino(from), into = ino(above(to));
    return code(both_ways([&](Wait w) { return tree().clone(dir, into, last(to), w); }));
  }
  Ino make(const std::string& path, std::uint32_t mode, std::string_view target = {}) {
    const Ino made = h_.make(ino(above(path)), last(path), mode, target);
    held_.insert(made);
    return made;
  }
  Ino mkdir(const std::string& path) { return make(path, S_IFDIR | 0755); }
  Ino create(const std::string& path, const std::string& data = "") {
    const Ino made = make(path, S_IFREG | 0644);
    if (!data.empty()) h_.write(made, 0, data);
    return made;
  }
  void write(const std::string& path, std::uint64_t at, const std::string& data) { h_.write(ino(path), at, data); }
  std::string read(const std::string& path) { return h_.read(ino(path)); }
  void unlink(const std::string& path) { EXPECT_EQ(code(both_ways([&](Wait w) { return tree().unlink(ino(above(path)), last(path), w); })), 0) << path; }
  void rmdir(const std::string& path) { EXPECT_EQ(code(both_ways([&](Wait w) { return tree().rmdir(ino(above(path)), last(path), w); })), 0) << path; }
  void link(const std::string& from, const std::string& to) {
    EXPECT_EQ(code(both_ways([&](Wait w) { return tree().link(ino(from), ino(above(to)), last(to), w); })), 0) << to;
  }
  void rename(const std::string& from, const std::string& to, unsigned flags = 0) {
    find(to);  // as who replaces it does
    EXPECT_EQ(code(both_ways([&](Wait w) { return tree().rename(ino(above(from)), last(from), ino(above(to)), last(to), flags, w); })), 0) << to;
  }
  void set(const std::string& path, const AttrChange& change) {
    EXPECT_EQ(code(both_ways([&](Wait w) { return tree().setattr(ino(path), change, w); })), 0) << path;
  }
  void setxattr(const std::string& path, const std::string& name, const std::string& value) {
    EXPECT_EQ(code(both_ways([&](Wait w) { return tree().setxattr(ino(path), name, value, 0, w); })), 0) << path;
  }
  void remove_tree(const std::string& path) {
    const Ino dir = ino(path);
    const auto removed = both_ways([&](Wait w) { return tree().remove_tree(dir, ino(above(path)), w); });
    EXPECT_TRUE(removed) << path << ": " << removed.error().message();
  }
  void fallocate(const std::string& path, int mode, std::uint64_t at, std::uint64_t length) {
    EXPECT_EQ(code(both_ways([&](Wait w) { return tree().fallocate(ino(path), mode, ByteOffset{at}, ByteCount{length}, w); })), 0) << path;
  }
  void copy(const std::string& from, const std::string& to) {
    const Ino source = ino(from), target = ino(to);
    for (std::uint64_t at = 0;;) {
      const auto n = both_ways([&](Wait w) { return tree().copy_range(source, ByteOffset{at}, target, ByteOffset{at}, ByteCount{kLarge}, w); });
      ASSERT_TRUE(n) << n.error().message();
      if (n->v == 0) return;
      at += n->v;
    }
  }
  // After another mount, with nothing in use: nobody can decode the rows of entries of that name any more.
  void damage_entries(std::string_view name) {
    h_.unmount();
    h_.mount();
    held_.clear();
    Batch batch;
    const auto names = h_.store().cursor(Family::names, {.lower = {}, .upper = {}});
    for (names->seek(""); names->valid(); names->next()) {
      const auto parsed = keys::parse_names(names->key());
      if (parsed && parsed->name == name && decode_entry(names->value())) batch.put(Family::names, names->key(), "?");
    }
    ASSERT_FALSE(batch.empty());
    must(h_.store().commit(batch));
  }
  void remove_all_below(const std::string& path) {
    for (const std::string& name : h_.list(ino(path))) {
      const std::string each = path + "/" + name;
      if (!S_ISDIR(h_.attr(ino(each)).mode)) {
        unlink(each);
        continue;
      }
      remove_all_below(each);
      rmdir(each);
    }
  }

  template <class T>
  static Result<void> discard(const Result<T>& result) { return result ? Result<void>() : make_error(result.error().code, ""); }
  Result<void> forgotten(const Result<Attr>& made) {
    if (made) tree().forget(made->ino, 1);
    return discard(made);
  }

  // ---- what there is
  enum class Times { with, without };
  // Of a directory and all below it, all but inode numbers.
  std::string picture(const std::string& path, Times times = Times::with) {
    std::string out;
    walk(ino(path), "", [&](const std::string& below, Attr attr) {
      std::string contents;
      if (S_ISREG(attr.mode)) contents = h_.read(attr.ino);
      if (S_ISLNK(attr.mode)) contents = *both_ways([&](Wait w) { return tree().readlink(attr.ino, w); });
      std::map<std::string, std::string> xattrs;
      std::istringstream list(*both_ways([&](Wait w) { return tree().listxattr(attr.ino, w); }));
      for (std::string name; std::getline(list, name, '\0');) xattrs[name] = *both_ways([&](Wait w) { return tree().getxattr(attr.ino, name, w); });
      out += fmt::format("{} blocks, ", attr.blocks);
      attr.ino = {};
      if (times == Times::without) attr.mtime = attr.ctime = attr.btime = {};
      out += Model::line(below, attr, Contents(std::move(contents)), xattrs);
    });
    return out;
  }
  // By path.
  std::map<std::string, Ino> numbers() {
    std::map<std::string, Ino> out;
    std::map<Ino, std::uint32_t> names, links;
    walk(kRootIno, "", [&](const std::string& path, const Attr& attr) {
      out[path] = attr.ino;
      EXPECT_LT(attr.ino, kInoMax);
      ++names[attr.ino];
      links[attr.ino] = S_ISDIR(attr.mode) ? 1 : attr.nlink;
    });
    for (const auto& [number, n] : names) EXPECT_EQ(n, links[number]) << "names of " << number.v;
    return out;
  }
  template <class Visit>
  void walk(Ino at, const std::string& path, const Visit& visit) {
    const Attr attr = h_.attr(at);
    visit(path, attr);
    if (!S_ISDIR(attr.mode)) return;
    std::map<std::string, Attr> listed;
    std::uint64_t cookie = 0;
    for (bool more = true; more;) {
      more = false;
      must(both_ways([&](Wait w) {
        return tree().readdir(at, cookie, AttrsOf::all, [&](const DirEntry& e) {
          more = true;
          cookie = e.next_cookie;
          if (e.name == "." || e.name == "..") return true;
          EXPECT_TRUE(listed.emplace(e.name, e.attr).second) << e.name << " is listed twice";
          return true;
        }, w);
      }));
    }
    EXPECT_EQ(attr.nlink, 2 + std::ranges::count_if(listed, [](const auto& each) { return S_ISDIR(each.second.mode); })) << path;
    for (const auto& [name, child] : listed) {
      walk(child.ino, path + "/" + name, visit);
      tree().forget(child.ino, 1);
    }
  }
  std::uint64_t blocks() { return h_.rows(Family::blocks); }
  std::uint64_t names() { return h_.rows(Family::names); }
  void sweep() {
    for (bool more = true; more;) {
      const auto swept = tree().sweep();
      ASSERT_TRUE(swept) << swept.error().message();
      more = *swept;
    }
  }
  // What nobody uses any more has gone.
  void settle() {
    sweep();
    for (auto more = tree().relocate(); more && *more;) more = tree().relocate();
    must(tree().sync());
  }
  void sound() { EXPECT_EQ(h_.check(), ""); }
  // When all has been removed.
  void nothing_is_left() {
    forget_all();
    settle();
    EXPECT_EQ(h_.list(kRootIno), std::vector<std::string>{});
    EXPECT_EQ(blocks(), 0u);
    EXPECT_EQ(names(), 2u) << "rows beside the root and the state";
    EXPECT_TRUE(h_.store().blobs().empty());
    const TreeCounts counts = tree().counts();
    EXPECT_EQ(counts.regular + counts.symlinks + counts.others + counts.fixed + counts.displaced, 0u);
    EXPECT_EQ(counts.directories, 1u);
    EXPECT_EQ(h_.check(), "");
  }
  void remove_all() {
    for (const std::string& name : h_.list(kRootIno)) S_ISDIR(h_.attr(ino(name)).mode) ? remove_tree(name) : unlink(name);
    nothing_is_left();
  }

  // A directory with something of each kind.
  void populate(const std::string& d) {
    mkdir(d);
    create(d + "/small", noise(kSmall, 1));
    create(d + "/large", noise(kLarge, 2));
    create(d + "/empty");
    make(d + "/symlink", S_IFLNK | 0777, "target");
    make(d + "/pipe", S_IFIFO | 0600);
    mkdir(d + "/nothing");
    mkdir(d + "/sub");
    mkdir(d + "/sub/deep");
    create(d + "/sub/file", noise(5000, 3));
    create(d + "/sub/deep/file", noise(300, 4));
    create(d + "/sub/deep/other", noise(kSmall, 5));
    const Ino sparse = create(d + "/sparse");
    for (const std::uint64_t block : {3, 40, 41, 100}) h_.write(sparse, block * kBlockSize, noise(kBlockSize, block));
    create(d + "/attributed", "a");
    setxattr(d + "/attributed", "user.large", noise(5000, 6));
    setxattr(d + "/attributed", "user.small", "s");
    setxattr(d + "/sub", "user.large", noise(6000, 7));
    setxattr(d + "/sub/deep", "system.posix_acl_default", acl_);
    set(d + "/sub/deep", {.mode = 0750, .uid = 3, .gid = 4});
  }
  // With names of files outside, and of those inside.
  void add_links(const std::string& d) {
    create(d + "/two", "two names");
    link(d + "/two", d + "/sub/two");
    create(d + "/inside and outside", "cut");
    link(d + "/inside and outside", d + "-outside");
  }

  static constexpr std::uint32_t kNoId = ACL_UNDEFINED_ID;
  const std::string acl_ = acl::encode({{ACL_USER_OBJ, 7, kNoId}, {ACL_USER, 6, 5}, {ACL_GROUP_OBJ, 5, kNoId},
                                        {ACL_MASK, 7, kNoId}, {ACL_OTHER, 1, kNoId}});
  std::set<Ino> held_;
  Harness h_;
};

}  // namespace lsmfs::test

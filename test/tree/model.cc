#include "tree/model.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <algorithm>
#include <functional>

#include "tree/harness.h"

namespace lsmfs::test {
namespace {

bool contains(const NodePtr& top, const NodePtr& node) {
  if (top == node) return true;
  for (auto& [name, child] : top->entries) {
    if (child->is_directory() && contains(child, node)) return true;
  }
  return false;
}

// With nodes of its own; names of one file stay so.
NodePtr deep_copy(const NodePtr& top) {
  std::map<const Node*, NodePtr> copies;
  const std::function<NodePtr(const NodePtr&)> visit = [&](const NodePtr& node) {
    if (const auto known = copies.find(node.get()); known != copies.end()) return known->second;
    const NodePtr twin = copies[node.get()] = std::make_shared<Node>(*node);
    for (auto& [name, child] : twin->entries) child = visit(child);
    return twin;
  };
  return visit(top);
}

// Of attributes of the directory of snapshots. One that has always been empty has no lines.
bool is_worth_a_line(const auto& snapshots) { return snapshots.nlink > 2 || snapshots.ctime != snapshots.btime; }

// "": it is not below.
std::string path_below(const NodePtr& top, const NodePtr& dir) {
  for (const auto& [name, child] : top->entries) {
    if (!child->is_directory()) continue;
    const std::string below = child == dir ? "" : path_below(child, dir);
    if (child == dir || !below.empty()) return "/" + name + below;
  }
  return "";
}

}  // namespace

Model::Model() : root(std::make_shared<Node>()), snapshots(std::make_shared<Node>()) {
  root->ino = kRootIno;
  snapshots->ino = kSnapshotsIno;
  for (const NodePtr& top : {root, snapshots}) {
    top->mode = S_IFDIR | 0755;
    top->nlink = 2;
  }
}

Model Model::copy() const {
  Model twin;
  twin.root = deep_copy(root);
  twin.snapshots = deep_copy(snapshots);
  return twin;
}

std::string Model::path_of(const NodePtr& dir) const {
  if (dir == root) return "/";
  const std::string path = path_below(root, dir);
  return path.empty() ? fmt::format("/{}{}", kSnapshotsName, path_below(snapshots, dir)) : path;
}

int Model::make(const NodePtr& dir, const std::string& name, std::uint32_t mode, const std::string& target, NodePtr& made) {
  if (dir->nlink == 0) return ENOENT;
  if (dir->entries.contains(name)) return EEXIST;
  if (dir->read_only || dir == snapshots) return EROFS;
  made = std::make_shared<Node>();
  made->mode = mode;
  made->nlink = S_ISDIR(mode) ? 2 : 1;
  made->data = Contents(target);
  made->inherit_flags(*dir);
  dir->entries[name] = made;
  if (S_ISDIR(mode)) ++dir->nlink;
  return 0;
}

int Model::link(const NodePtr& node, const NodePtr& dir, const std::string& name) {
  if (dir->nlink == 0) return ENOENT;
  if (dir->entries.contains(name)) return EEXIST;
  if (dir->read_only || dir == snapshots || node->read_only) return EROFS;
  if (node->is_directory()) return EPERM;
  if (node->nlink == 0 && !node->linkable) return ENOENT;
  node->linkable = false;
  node->had_several |= ++node->nlink > 1;
  dir->entries[name] = node;
  return 0;
}

int Model::unlink(const NodePtr& dir, const std::string& name) {
  if (dir->nlink == 0) return ENOENT;
  auto it = dir->entries.find(name);
  if (it == dir->entries.end()) return ENOENT;
  if (dir->read_only) return EROFS;
  if (it->second->is_directory()) return EISDIR;
  --it->second->nlink;
  dir->entries.erase(it);
  return 0;
}

int Model::rmdir(const NodePtr& dir, const std::string& name) {
  if (dir->nlink == 0) return ENOENT;
  auto it = dir->entries.find(name);
  if (it == dir->entries.end()) return ENOENT;
  if (dir->read_only) return EROFS;
  if (!it->second->is_directory()) return ENOTDIR;
  if (!it->second->entries.empty()) return ENOTEMPTY;
  it->second->nlink = 0;
  --dir->nlink;
  dir->entries.erase(it);
  return 0;
}

std::vector<NodePtr> Model::all_below(const NodePtr& dir) {
  std::set<NodePtr> found;
  const std::function<void(const Node&)> visit = [&](const Node& at) {
    for (const auto& [name, child] : at.entries) {
      if (found.insert(child).second) visit(*child);
    }
  };
  visit(*dir);
  return {found.begin(), found.end()};
}

bool Model::has_all_names(const NodePtr& dir) {
  std::map<NodePtr, std::uint32_t> names;
  auto directories = all_below(dir);
  directories.push_back(dir);
  for (const NodePtr& at : directories) {
    for (const auto& [name, child] : at->entries) ++names[child];
  }
  return std::ranges::all_of(names, [](const auto& each) { return each.first->is_directory() || each.first->nlink == each.second; });
}

namespace {

// All that is below loses its names there.
void remove_below(const NodePtr& dir) {
  auto directories = Model::all_below(dir);
  directories.push_back(dir);
  std::erase_if(directories, [](const NodePtr& node) { return !node->is_directory(); });
  for (const NodePtr& at : directories) {
    for (const auto& [of, child] : at->entries) {
      if (!child->is_directory()) --child->nlink;
    }
    at->entries.clear();
    if (at != dir) at->nlink = 0;
  }
}

// A directory with all that is below, in another place.
NodePtr cloned(const NodePtr& dir, bool read_only) {
  const NodePtr made = deep_copy(dir);
  auto all = Model::all_below(made);
  for (const NodePtr& node : all) {
    if (!node->is_directory()) node->nlink = 0;
  }
  all.push_back(made);
  for (const NodePtr& node : all) {
    node->ino = Ino{};
    node->held = node->linkable = false;
    node->read_only = read_only;
    for (const auto& [of, child] : node->entries) child->nlink += !child->is_directory();
  }
  return made;
}

}  // namespace

int Model::remove_tree(const NodePtr& dir, const std::string& name) {
  if (dir->nlink == 0) return ENOENT;
  auto it = dir->entries.find(name);
  if (it == dir->entries.end()) return ENOENT;
  const NodePtr tree = it->second;
  if (!tree->is_directory()) return ENOTDIR;
  if (dir->read_only) return EROFS;
  remove_below(tree);
  tree->nlink = 0;
  --dir->nlink;
  dir->entries.erase(it);
  return 0;
}

int Model::clone(const NodePtr& dir, const NodePtr& to, const std::string& name, NodePtr& made) {
  for (const NodePtr& node : {dir, to}) {
    if (!node->is_directory()) return ENOTDIR;
    if (node->nlink == 0) return ENOENT;
  }
  if (to->entries.contains(name)) return EEXIST;
  if (to->read_only) return EROFS;
  if (dir == snapshots || contains(dir, to)) return EINVAL;
  const bool is_snapshot = to == snapshots;
  made = cloned(dir, is_snapshot);
  made->data = Contents(is_snapshot ? path_of(dir) : "");
  if (is_snapshot) made->btime = {};
  to->entries[name] = made;
  ++to->nlink;
  return 0;
}

int Model::roll_back(const NodePtr& dir, const NodePtr& snapshot) {
  for (const NodePtr& node : {dir, snapshot}) {
    if (!node->is_directory()) return ENOTDIR;
    if (node->nlink == 0) return ENOENT;
  }
  if (std::ranges::none_of(snapshots->entries, [&](const auto& entry) { return entry.second == snapshot; })) return EINVAL;
  if (dir->read_only || dir == snapshots) return EROFS;
  remove_below(dir);
  const NodePtr made = cloned(snapshot, false);
  dir->mode = made->mode;
  dir->nlink = made->nlink;
  dir->uid = made->uid;
  dir->gid = made->gid;
  dir->flags = made->flags;
  dir->xattrs = made->xattrs;
  dir->entries = made->entries;
  return 0;
}

int Model::rename(const NodePtr& from_dir, const std::string& from, const NodePtr& to_dir, const std::string& to,
                  unsigned flags) {
  if (from_dir->nlink == 0 || to_dir->nlink == 0) return ENOENT;
  auto source = from_dir->entries.find(from);
  if (source == from_dir->entries.end()) return ENOENT;
  auto target = to_dir->entries.find(to);
  const bool exists = target != to_dir->entries.end();
  if ((flags & RENAME_EXCHANGE) && !exists) return ENOENT;
  if ((flags & RENAME_NOREPLACE) && exists) return EEXIST;
  NodePtr node = source->second;
  if (exists && target->second == node) return 0;
  if (from_dir->read_only || to_dir->read_only) return EROFS;
  if ((from_dir == snapshots) != (to_dir == snapshots)) return EROFS;
  if (from_dir == snapshots && (flags & RENAME_WHITEOUT)) return EROFS;
  if (node->is_directory() && contains(node, to_dir)) return EINVAL;
  if (flags & RENAME_EXCHANGE) {
    NodePtr other = target->second;
    if (other->is_directory() && contains(other, from_dir)) return EINVAL;
    source->second = other;
    target->second = node;
    from_dir->nlink += other->is_directory() - node->is_directory();
    to_dir->nlink += node->is_directory() - other->is_directory();
    return 0;
  }
  if (exists) {
    NodePtr other = target->second;
    if (other->is_directory()) {
      if (!node->is_directory()) return EISDIR;
      if (!other->entries.empty()) return ENOTEMPTY;
      other->nlink = 0;
      --to_dir->nlink;
    } else {
      if (node->is_directory()) return ENOTDIR;
      --other->nlink;
    }
  }
  from_dir->entries.erase(source);
  to_dir->entries[to] = node;
  if (flags & RENAME_WHITEOUT) {
    auto whiteout = std::make_shared<Node>();
    whiteout->mode = S_IFCHR;
    whiteout->nlink = 1;
    whiteout->inherit_flags(*from_dir);
    whiteout->gid = from_dir->mode & S_ISGID ? from_dir->gid : 0;
    from_dir->entries[from] = whiteout;
  }
  if (node->is_directory()) {
    --from_dir->nlink;
    ++to_dir->nlink;
  }
  return 0;
}

int Model::write(const NodePtr& node, std::uint64_t offset, const std::string& data) {
  if (!S_ISREG(node->mode)) return node->is_directory() ? EISDIR : EINVAL;
  if (data.empty()) return 0;
  if (node->read_only) return EROFS;
  std::string& bytes = node->data.change();
  if (bytes.size() < offset + data.size()) bytes.resize(offset + data.size());
  bytes.replace(offset, data.size(), data);
  return 0;
}

int Model::truncate(const NodePtr& node, std::uint64_t size) {
  if (node->read_only) return EROFS;
  if (!S_ISREG(node->mode)) return node->is_directory() ? EISDIR : EINVAL;
  node->data.change().resize(size);
  return 0;
}

int Model::copy_range(const NodePtr& from, std::uint64_t at, const NodePtr& to, std::uint64_t to_at, std::uint64_t length) {
  for (const NodePtr& node : {from, to}) {
    if (!S_ISREG(node->mode)) return node->is_directory() ? EISDIR : EINVAL;
  }
  return at < from->data->size() ? write(to, to_at, from->data->substr(at, length)) : 0;
}

int Model::fallocate(const NodePtr& node, int mode, std::uint64_t offset, std::uint64_t length) {
  if (!S_ISREG(node->mode)) return node->is_directory() ? EISDIR : ENODEV;
  if (node->read_only) return EROFS;
  const std::uint64_t end = offset + length;
  std::string& bytes = node->data.change();
  if (!(mode & FALLOC_FL_KEEP_SIZE) && end > bytes.size()) bytes.resize(end);
  if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
    const auto at = [&](std::uint64_t offset_in) { return bytes.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(offset_in, bytes.size())); };
    std::fill(at(offset), at(end), '\0');
  }
  return 0;
}

std::string Model::line(const std::string& path, const Attr& a, const Contents& contents,
                        const std::map<std::string, std::string>& xattrs) {
  std::string more;
  for (const auto& [name, value] : xattrs) more += fmt::format(" {}={}:{:x}", name, value.size(), checksum(value));
  const auto text = [](const Time& t) { return fmt::format("{}.{}", t.seconds, t.nanoseconds); };
  return fmt::format("{} ino={} mode={:o} nlink={} uid={} gid={} rdev={} flags={:x} size={} mtime={} ctime={} btime={} data={:x}{}\n", path,
                     a.ino.v, a.mode, a.nlink, a.uid, a.gid, a.rdev, a.flags, S_ISDIR(a.mode) ? 0 : a.size, text(a.mtime),
                     text(a.ctime), text(a.btime), contents.checksum(), more);
}

std::string Model::dump() const {
  std::string out;
  std::function<void(const std::string&, const Node&)> visit = [&](const std::string& path, const Node& n) {
    Attr a;
    a.ino = n.ino;
    a.mode = n.mode;
    a.nlink = n.nlink;
    a.uid = n.uid;
    a.gid = n.gid;
    a.rdev = n.rdev;
    a.flags = n.flags;
    a.size = n.data->size();
    a.mtime = n.mtime;
    a.ctime = n.ctime;
    a.btime = n.btime;
    out += line(path, a, n.data, n.xattrs);
    for (auto& [name, child] : n.entries) visit(path + "/" + name, *child);
  };
  visit("", *root);
  if (is_worth_a_line(*snapshots)) visit(fmt::format("/{}", kSnapshotsName), *snapshots);
  return out;
}

std::string dump(Tree& tree, std::set<std::string>* failed) {
  std::string out;
  const auto fail = [&](const std::string& path, const Error& error) {
    if (failed) failed->insert(path);
    return error.message();
  };
  std::function<void(const std::string&, const Attr&, bool)> visit = [&](const std::string& path, const Attr& a, bool in_snapshots) {
    std::string contents;
    if (S_ISREG(a.mode)) {
      contents.assign(a.size, '?');
      MutableBytes to{reinterpret_cast<std::byte*>(contents.data()), contents.size()};
      auto n = both_ways([&](Wait w) { return tree.read(a.ino, ByteOffset{0}, to, w); });
      if (!n) contents = fail(path, n.error());
      else if (*n != a.size) contents = "short read";
      if (a.blocks > div_up(a.size, kBlockSize) * 8) contents = "more blocks than the size allows";
    } else if (S_ISLNK(a.mode)) {
      auto target = both_ways([&](Wait w) { return tree.readlink(a.ino, w); });
      contents = target ? *target : fail(path, target.error());
    } else if (in_snapshots) {
      auto info = both_ways([&](Wait w) { return tree.snapshot_info(a.ino, w); });
      contents = !info ? fail(path, info.error()) : info->made == a.btime ? info->of : "was made at another time than it says";
    }
    std::map<std::string, std::string> xattrs;
    const auto names = both_ways([&](Wait w) { return tree.listxattr(a.ino, w); });
    const std::string text = names ? *names : fail(path, names.error());
    std::string_view rest = text;
    while (!rest.empty()) {
      const std::string name(rest.substr(0, rest.find('\0')));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      auto value = both_ways([&](Wait w) { return tree.getxattr(a.ino, name, w); });
      xattrs[name] = value ? *value : fail(path, value.error());
    }
    out += Model::line(path, a, Contents(std::move(contents)), xattrs);
    if (!S_ISDIR(a.mode)) return;
    std::vector<std::pair<std::string, Attr>> children;
    std::uint64_t cookie = 0;
    for (bool more = true; more;) {
      more = false;
      auto listed = both_ways([&](Wait w) {
        return tree.readdir(a.ino, cookie, AttrsOf::all, [&](const DirEntry& e) {
          more = true;
          cookie = e.next_cookie;
          if (e.name != "." && e.name != "..") children.emplace_back(e.name, e.attr);
          return true;
        }, w);
      });
      if (!listed) out += fail(path, listed.error()) + "\n";
    }
    for (auto& [name, attr] : children) {
      visit(path + "/" + name, attr, a.ino == kSnapshotsIno);
      tree.forget(attr.ino, 1);
    }
  };
  auto root = both_ways([&](Wait w) { return tree.getattr(kRootIno, w); });
  if (!root) return fail("", root.error());
  visit("", *root, false);
  auto snapshots = both_ways([&](Wait w) { return tree.getattr(kSnapshotsIno, w); });
  const std::string path = fmt::format("/{}", kSnapshotsName);
  if (!snapshots) out += fail(path, snapshots.error());
  else if (is_worth_a_line(*snapshots)) visit(path, *snapshots, false);
  return out;
}

Result<void> take_numbers(Tree& tree, const NodePtr& dir, const std::string& name) {
  const auto wrong = [&](const std::string& what) { return make_error(EUCLEAN, fmt::format("{} in inode {}: {}", name, dir->ino.v, what)); };
  const NodePtr node = dir->entries.at(name);
  LSMFS_ASSIGN(const std::optional<Attr> found, both_ways([&](Wait w) { return tree.lookup(dir->ino, name, w); }));
  if (!found) return wrong("is not there");
  const auto below = [&]() -> Result<void> {
    if (node->ino != Ino{} && node->ino != found->ino) return wrong(fmt::format("is {} and not {}", found->ino.v, node->ino.v));
    node->ino = found->ino;
    if (!node->is_directory()) return {};
    std::map<std::string, Ino> listed;
    std::uint64_t cookie = 0;
    for (bool more = true; more;) {
      more = false;
      LSMFS_TRY(both_ways([&](Wait w) {
        return tree.readdir(node->ino, cookie, AttrsOf::none, [&](const DirEntry& e) {
          more = true;
          cookie = e.next_cookie;
          if (e.name != "." && e.name != "..") listed[std::string(e.name)] = e.attr.ino;
          return true;
        }, w);
      }));
    }
    if (listed.size() != node->entries.size()) return wrong(fmt::format("lists {} names and not {}", listed.size(), node->entries.size()));
    for (const auto& [of, child] : node->entries) {
      LSMFS_TRY(take_numbers(tree, node, of));
      if (listed[of] != child->ino) return wrong(fmt::format("lists {} as {}, which is {}", of, listed[of].v, child->ino.v));
    }
    return {};
  }();
  tree.forget(found->ino, 1);
  return below;
}

}  // namespace lsmfs::test

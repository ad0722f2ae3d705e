#include "cli/transfer/changes.h"

#include <algorithm>
#include <utility>

#include "cli/transfer/beneath.h"

namespace lsmfs::cli {
namespace {

using What = ChangePlan::Item::What;
using Gone = ChangePlan::Gone;
using Item = ChangePlan::Item;
using Groups = std::map<std::uint64_t, std::set<std::string>>;  // names of a file, by its inode number

// `path` with what is known of the nearest one above it, or of itself, put in its place. nullopt: nothing is known.
std::optional<std::string> translated(const std::string& path, const std::map<std::string, std::string>& known) {
  for (std::string above = path;; above = parent_of(above)) {
    if (const auto found = known.find(above); found != known.end()) return found->second + path.substr(above.size());
    if (above.empty()) return std::nullopt;
  }
}

bool is_in(const std::string& path, const std::set<std::string>& tops) {
  for (std::string above = path;; above = parent_of(above)) {
    if (tops.contains(above)) return true;
    if (above.empty()) return false;
  }
}

class Planner {
 public:
  explicit Planner(const BothSides& sides) : sides_(sides) {}

  Result<ChangePlan> plan(const std::vector<Difference>& differences) {
    for (const Difference& each : differences) {
      if (each.kind != Difference::Kind::renamed) continue;
      old_of_[each.path] = each.old;
      new_of_[each.old] = each.path;
    }
    for (const Difference& each : differences) LSMFS_TRY(take(each));
    LSMFS_TRY(plan_links());
    for (const auto& [path, number] : gone_) {
      plan_.gone.push_back({path, number});
      if (const auto after = path_after(parent_of(path))) plan_.directories.insert(*after);
    }
    std::ranges::sort(plan_.gone, [](const Gone& a, const Gone& b) { return is_earlier(b.path, a.path); });
    for (const auto& [path, items] : items_) {
      for (const Item& item : items) {
        if (item.what == What::place || item.what == What::fresh) plan_.directories.insert(parent_of(path));
        plan_.items.push_back(item);
      }
    }
    std::ranges::sort(plan_.items, [](const Item& a, const Item& b) { return a.path == b.path ? a.what < b.what : is_earlier(a.path, b.path); });
    for (const auto& [path, existing] : plan_.links) plan_.directories.insert(parent_of(path));
    return std::move(plan_);
  }

 private:
  // ---- one difference after the other

  Result<void> take(const Difference& each) {
    switch (each.kind) {
      case Difference::Kind::removed:
        removed_.insert(each.path);
        gone_[each.path] = std::nullopt;
        return {};
      case Difference::Kind::added:
        fresh_.insert(each.path);
        add({.path = each.path, .what = What::fresh, .number = 0, .old_path = {}});
        return {};
      case Difference::Kind::renamed:
        gone_[each.old] = ++taken_;
        add({.path = each.path, .what = What::place, .number = taken_, .old_path = {}});
        add_attributes(each);  // no flag hinders the receiver, who takes those away that would
        return {};
      case Difference::Kind::attributes:
        add_attributes(each);
        return {};
      case Difference::Kind::contents:
        break;
    }
    const std::string old = translated(each.path, old_of_).value_or(each.path);
    LSMFS_ASSIGN(const auto before, sides_.base(old));
    LSMFS_ASSIGN(const auto after, sides_.snapshot(each.path));
    if (before && after && S_ISREG(before->st_mode) && S_ISREG(after->st_mode)) {
      add({.path = each.path, .what = What::contents, .number = 0, .old_path = old});
      return {};
    }
    // It is another thing under the same name. What was renamed keeps its type, so it has no other one.
    removed_.insert(old);
    gone_[old] = std::nullopt;
    fresh_.insert(each.path);
    items_.erase(each.path);
    add({.path = each.path, .what = What::fresh, .number = 0, .old_path = {}});
    return {};
  }

  // What changes the data sends the attributes as well.
  void add(Item item) {
    std::vector<Item>& told = items_[item.path];
    if (item.what == What::attributes && std::ranges::any_of(told, [](const Item& each) { return each.what != What::place; })) return;
    if (item.what == What::contents) std::erase_if(told, [](const Item& each) { return each.what == What::attributes; });
    told.push_back(std::move(item));
  }
  void add_attributes(const Difference& of) {
    if (of.is_directory) plan_.directories.insert(of.path);
    else add({.path = of.path, .what = What::attributes, .number = 0, .old_path = {}});
  }

  // Where what is at a path of the snapshot was in the base; nullopt: it is new.
  std::optional<std::string> path_before(const std::string& path) const {
    if (is_in(path, fresh_)) return std::nullopt;
    return translated(path, old_of_).value_or(path);
  }
  // Where what was at a path of the base is in the snapshot; nullopt: it has gone.
  std::optional<std::string> path_after(const std::string& path) const {
    // What was renamed lies in nothing that has gone.
    for (std::string above = path;; above = parent_of(above)) {
      if (removed_.contains(above)) return std::nullopt;
      if (const auto found = new_of_.find(above); found != new_of_.end()) return found->second + path.substr(above.size());
      if (above.empty()) return path;
    }
  }

  // ---- names of files of several. Differences are told by name, so they do not tell which names are one file.

  Result<Groups> grouped(const std::vector<LinkedName>& names, const BothSides::Look& look) {
    Groups groups;
    for (const LinkedName& name : names) {
      LSMFS_ASSIGN(const auto facts, look(name.path));
      if (facts) groups[facts->st_ino].insert(name.path);
    }
    return groups;
  }

  Result<void> plan_links() {
    LSMFS_ASSIGN(Groups before, grouped(sides_.base_links, sides_.base));
    LSMFS_ASSIGN(const Groups after, grouped(sides_.snapshot_links, sides_.snapshot));
    std::map<std::string, std::uint64_t> file_before;
    for (const auto& [file, names] : before) {
      for (const std::string& name : names) file_before[name] = file;
    }
    std::set<std::string> affected;
    for (const auto& [file, names] : after) {
      std::set<std::string> old;
      for (const std::string& name : names) {
        if (auto path = path_before(name)) old.insert(*std::move(path));
      }
      const auto known = old.empty() ? file_before.end() : file_before.find(*old.begin());
      const auto group = known == file_before.end() ? before.end() : before.find(known->second);
      if (group != before.end() && old.size() == names.size() && group->second == old) {
        before.erase(group);
        tell_once(names);
      } else {
        affected.insert(names.begin(), names.end());
      }
    }
    for (const auto& [file, names] : before) {  // those whose names are others now
      for (const std::string& name : names) {
        const auto path = path_after(name);
        if (!path || is_in(*path, fresh_)) continue;
        LSMFS_ASSIGN(const auto facts, sides_.snapshot(*path));
        if (facts && !S_ISDIR(facts->st_mode)) affected.insert(*path);
      }
    }
    return link_anew(affected);
  }

  // All names still are of one file: what differs of it is told under one of them.
  void tell_once(const std::set<std::string>& names) {
    const auto tells = [&](What what) {
      return std::ranges::any_of(names, [&](const std::string& name) {
        const auto found = items_.find(name);
        return found != items_.end() && std::ranges::any_of(found->second, [&](const Item& item) { return item.what == what; });
      });
    };
    const What wanted = tells(What::contents) ? What::contents : What::attributes;
    bool is_told = false;
    for (const std::string& name : names) {
      const auto found = items_.find(name);
      if (found == items_.end()) continue;
      std::erase_if(found->second, [&](const Item& item) { return (item.what == What::contents || item.what == What::attributes) && (item.what != wanted || std::exchange(is_told, true)); });
    }
  }

  // Each file keeps one inode of the base at most, under the name by which it had that. All others of its names are made again.
  Result<void> link_anew(const std::set<std::string>& affected) {
    Groups files;
    for (const std::string& name : affected) {
      LSMFS_ASSIGN(const auto facts, sides_.snapshot(name));
      if (facts) files[facts->st_ino].insert(name);
    }
    std::set<std::uint64_t> kept;  // inodes of the base
    for (const auto& [file, names] : files) {
      std::string first;
      for (const std::string& name : names) {
        LSMFS_ASSIGN(const auto old, old_file(name));
        if (!old) continue;
        LSMFS_ASSIGN(const auto now, sides_.snapshot(name));
        if (!now || (old->st_mode & S_IFMT) != (now->st_mode & S_IFMT) || !kept.insert(old->st_ino).second) continue;
        first = name;
        break;
      }
      for (const std::string& name : names) {
        if (name == first) {
          const std::vector<Item>& told = items_[name];
          if (told.empty() || told.back().what == What::place) add({.path = name, .what = What::attributes, .number = 0, .old_path = {}});
          continue;
        }
        LSMFS_ASSIGN(const auto old, old_file(name));
        if (old) gone_[*path_before(name)] = std::nullopt;
        items_.erase(name);
        if (!first.empty()) {
          plan_.links[name] = first;
          continue;
        }
        first = name;
        if (!is_in(parent_of(name), fresh_)) add({.path = name, .what = What::fresh, .number = 0, .old_path = {}});
      }
    }
    return {};
  }

  // What was at the name in the base, if that is no directory.
  Result<std::optional<struct stat>> old_file(const std::string& name) {
    const auto path = path_before(name);
    if (!path) return std::optional<struct stat>();
    LSMFS_ASSIGN(auto facts, sides_.base(*path));
    if (facts && S_ISDIR(facts->st_mode)) facts.reset();
    return facts;
  }

  const BothSides& sides_;
  ChangePlan plan_;
  std::map<std::string, std::string> old_of_, new_of_;               // of what was renamed
  std::set<std::string> removed_, fresh_;                            // what only the base has, and what only the snapshot has
  std::map<std::string, std::optional<std::uint64_t>> gone_;
  std::map<std::string, std::vector<Item>> items_;                   // by path; what places comes first
  std::uint64_t taken_ = 0;
};

}  // namespace

Result<ChangePlan> plan_changes(const std::vector<Difference>& differences, const BothSides& sides) { return Planner(sides).plan(differences); }

}  // namespace lsmfs::cli

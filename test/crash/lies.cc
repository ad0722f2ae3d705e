#include "crash/lies.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/model.h"

namespace lsmfs::test {
namespace {

// A line of a dump.
struct Line {
  std::string text, path, attributes, data;
  std::map<std::string, std::string> xattrs;  // by name, in the words of the line
  Ino ino;

  bool same_but_for_path(const Line& other) const { return attributes == other.attributes && data == other.data && xattrs == other.xattrs; }
};
using Lines = std::map<std::string, Line>;  // by path

const std::string kSnapshotsPath = "/" + std::string(kSnapshotsName);  // which no listing shows

std::string path_of(const std::string& line) { return line.substr(0, line.find(" ino=")); }

Line parse(const std::string& text) {
  Line line;
  line.text = text;
  line.path = path_of(text);
  std::istringstream words(text.substr(line.path.size()));
  for (std::string word; words >> word;) {
    if (word.starts_with("ino=")) line.ino.v = std::stoull(word.substr(4));
    if (word.starts_with("data=")) {
      line.data = word;
    } else if (line.data.empty()) {
      line.attributes += word + " ";
    } else {
      line.xattrs[word.substr(0, word.find('='))] = word;
    }
  }
  return line;
}

Lines lines_of(const std::string& dump) {
  Lines lines;
  std::string text;
  for (std::istringstream all(dump); std::getline(all, text);) lines.emplace(path_of(text), parse(text));
  return lines;
}

std::string parent_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }
std::string name_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

// ---- reads that fail

class Reader {
 public:
  Reader(Tree& tree, const std::string& expected) : tree_(tree), expected_(lines_of(expected)) {}

  Reads run() {
    const auto root = both_ways([&](Wait wait) { return tree_.getattr(kRootIno, wait); });
    if (good(root)) visit("", *root);
    const auto snapshots = both_ways([&](Wait wait) { return tree_.getattr(kSnapshotsIno, wait); });
    if (good(snapshots) && expected_.contains(kSnapshotsPath)) visit(kSnapshotsPath, *snapshots);
    return std::move(reads_);
  }

 private:
  template <class T>
  bool good(const Result<T>& result) {
    if (!result) reads_.failed = true;
    return result.has_value();
  }
  void lie(const std::string& what) {
    if (reads_.lie.empty()) reads_.lie = what;
  }

  void visit(const std::string& path, const Attr& attr) {
    const auto known = expected_.find(path);
    if (known == expected_.end()) return lie("a name that never was: " + path);
    const Line& right = known->second;
    const Line found = parse(Model::line(path, attr, {}, {}));
    // Of a wrong size, nothing is read.
    if (found.attributes != right.attributes) return lie("wrong attributes: " + found.text + "for " + right.text);
    if (attr.blocks > div_up(attr.size, kBlockSize) * 8) lie("more blocks than the size allows: " + path);
    const auto contents = parent_of(path) == kSnapshotsPath ? source_of(attr.ino) : contents_of(attr);
    if (contents && parse(Model::line(path, attr, Contents(*contents), {})).data != right.data) lie("wrong data: " + path);
    compare_xattrs(path, attr, right);
    if (S_ISDIR(attr.mode)) list(path, attr.ino);
  }

  // Of a snapshot. nullopt: it cannot be told.
  std::optional<std::string> source_of(Ino ino) {
    auto info = both_ways([&](Wait wait) { return tree_.snapshot_info(ino, wait); });
    return good(info) ? std::optional(std::move(info->of)) : std::nullopt;
  }

  // nullopt: they cannot be read.
  std::optional<std::string> contents_of(const Attr& attr) {
    std::string contents;
    if (S_ISLNK(attr.mode)) {
      auto target = both_ways([&](Wait wait) { return tree_.readlink(attr.ino, wait); });
      if (!good(target)) return std::nullopt;
      contents = std::move(*target);
    } else if (S_ISREG(attr.mode)) {
      contents.assign(attr.size, '?');
      const MutableBytes to{reinterpret_cast<std::byte*>(contents.data()), contents.size()};
      const auto got = both_ways([&](Wait wait) { return tree_.read(attr.ino, ByteOffset{0}, to, wait); });
      if (!good(got)) return std::nullopt;
      contents.resize(*got);
    }
    return contents;
  }

  void compare_xattrs(const std::string& path, const Attr& attr, const Line& right) {
    const auto names = both_ways([&](Wait wait) { return tree_.listxattr(attr.ino, wait); });
    if (!good(names)) return;
    std::map<std::string, std::string> values;
    std::set<std::string> unread;
    for (std::size_t at = 0; at < names->size();) {
      const std::string name = names->c_str() + at;
      at += name.size() + 1;
      auto value = both_ways([&](Wait wait) { return tree_.getxattr(attr.ino, name, wait); });
      const bool is_new = good(value) ? values.emplace(name, std::move(*value)).second : unread.insert(name).second;
      if (!is_new || !right.xattrs.contains(name)) lie("an extended attribute that never was, or listed twice: " + path + " " + name);
    }
    auto found = parse(Model::line(path, attr, {}, values)).xattrs;
    for (const auto& [name, word] : right.xattrs) {
      if (unread.contains(name)) found[name] = word;
    }
    if (found != right.xattrs) lie("wrong extended attributes: " + path);
  }

  void list(const std::string& path, Ino ino) {
    std::map<std::string, Attr> children;
    bool whole = true;
    std::uint64_t cookie = 0;
    for (bool more = true; more;) {
      more = false;
      const auto take = [&](const DirEntry& entry) {
        more = true;
        cookie = entry.next_cookie;
        if (entry.name == "." || entry.name == "..") return true;
        if (!children.emplace(entry.name, entry.attr).second) lie("listed twice: " + path + "/" + std::string(entry.name));
        return true;
      };
      if (!good(both_ways([&](Wait wait) { return tree_.readdir(ino, cookie, AttrsOf::all, take, wait); }))) whole = false;
    }
    for (const auto& [name, attr] : children) {
      visit(path + "/" + name, attr);
      tree_.forget(attr.ino, 1);
    }
    if (!whole) return;
    for (const auto& [known, line] : expected_) {
      if (!known.empty() && known != kSnapshotsPath && parent_of(known) == path && !children.contains(name_of(known))) lie("silently missing: " + known);
    }
  }

  Tree& tree_;
  const Lines expected_;
  Reads reads_;
};

// ---- what a repair has said

class Repaired {
 public:
  Repaired(const Past& past, const Said& said) : past_(past), said_(said), right_(lines_of(past.moments.back())) {
    for (const auto& [path, line] : right_) paths_[line.ino] = path;
    std::set<std::string> texts;
    for (const std::string& moment : past.moments) {
      std::string line;
      for (std::istringstream lines(moment); std::getline(lines, line);) {
        if (texts.insert(line).second) earlier_.emplace(path_of(line), parse(line));
      }
    }
    older_ = was_said("of the metadata log is damaged: ") || was_said("log file MANIFEST-");
  }

  std::string judge(const std::string& found) const {
    if (was_said(".log is damaged: ")) return std::ranges::count(past_.moments, found) > 0 ? "" : "the log is shorter, and this never was:\n" + found;
    const Lines now = lines_of(found);
    for (const auto& [path, line] : now) {
      if (!is_right(line) && !excused(path) && !is_earlier(line) && !is_in_lost_and_found(line)) return "nothing was said of " + line.text;
    }
    for (const auto& [path, line] : right_) {
      if (!now.contains(path) && !excused(path) && !excused_by_parent(path) && !was_missing(path) && !is_saved(now, line)) {
        return "nothing was said of the loss of " + line.text;
      }
    }
    return "";
  }

 private:
  bool was_said(std::string_view words) const {
    return std::ranges::any_of(said_.lines, [&](const std::string& line) { return line.find(words) != line.npos; });
  }

  // Whether a line says something of a path.
  static bool is_about(const std::string& line, const std::string& path) {
    for (std::size_t at = line.find(path); at != line.npos; at = line.find(path, at + 1)) {
      const std::size_t end = at + path.size();
      if ((at == 0 || line[at - 1] == ' ') && (end == line.size() || line[end] == ':' || line[end] == ',')) return true;
    }
    return false;
  }

  // Of a path, as it is or as it was when what is there got its home.
  bool is_named(const std::string& path, std::string_view words = "") const {
    const auto own = home(path);
    return std::ranges::any_of(said_.lines, [&](const std::string& line) {
      if (line.find(words) == line.npos) return false;
      return is_about(line, path.empty() ? "/" : path) || (own && is_about(line, "/" + keys::path_of(*own)));
    });
  }

  // nullopt: there was no such path.
  std::optional<std::string> home(const std::string& path) const {
    if (path.empty()) return "";
    const Line* known = latest(path);
    if (!known) return std::nullopt;
    const auto renamed = past_.renamed.find(path);
    const std::string& was = renamed == past_.renamed.end() ? path : renamed->second;
    const auto parent = home(parent_of(was));
    if (!parent) return std::nullopt;
    return keys::child_home(*parent, name_of(was), known->ino);
  }
  // What is there, or was: where a table was taken away, older rows come to light. Null: nothing ever was.
  const Line* latest(const std::string& path) const {
    if (const auto now = right_.find(path); now != right_.end()) return &now->second;
    const auto before = earlier_.find(path);
    return before == earlier_.end() ? nullptr : &before->second;
  }

  bool is_lost(Family family, const std::string& first, const std::string& last) const {
    return std::ranges::any_of(said_.lost, [&](const StoreRepair::Lost& lost) {
      return lost.family == family && (lost.after.empty() || lost.after <= last) && (lost.before.empty() || lost.before >= first);
    });
  }
  bool is_data_lost(const std::string& path) const {
    const auto own = home(path);
    return own && is_lost(Family::blocks, keys::block(*own, BlockIndex{0}), keys::block(*own, BlockIndex{UINT64_MAX}));
  }
  bool is_record_lost(const std::string& path) const {
    const auto parent = home(parent_of(path)), own = home(path);
    const std::string key = path.empty() ? std::string(keys::kRoot) : parent ? keys::entry(*parent, name_of(path)) : "";
    if (!key.empty() && is_lost(Family::names, key, key)) return true;
    const std::string xattrs = own ? keys::xattr(*own, "") : "";
    return own && is_lost(Family::names, xattrs, keys::prefix_end(xattrs));
  }

  bool excused(const std::string& path) const { return is_named(path) || is_record_lost(path) || is_data_lost(path); }
  bool excused_by_parent(const std::string& path) const { return !path.empty() && is_named(parent_of(path), "entries are lost"); }

  bool is_right(const Line& line) const {
    const auto known = right_.find(line.path);
    return known != right_.end() && line.same_but_for_path(known->second);
  }
  // Of several lists of tables each may end elsewhere, so that a file's data are of another moment than its record.
  bool is_earlier(const Line& line) const {
    const auto any = [&](auto same) {
      const auto [begin, end] = earlier_.equal_range(line.path);
      return std::any_of(begin, end, [&](const auto& one) { return same(one.second); });
    };
    return older_ && any([&](const Line& one) { return one.attributes == line.attributes && one.xattrs == line.xattrs; }) &&
           any([&](const Line& one) { return one.data == line.data; });
  }
  bool was_missing(const std::string& path) const {
    return older_ && std::ranges::any_of(past_.moments, [&](const std::string& moment) { return moment.find("\n" + path + " ino=") == moment.npos; });
  }

  static constexpr std::string_view kLostAndFound = "/lost+found";
  bool is_in_lost_and_found(const Line& line) const {
    if (line.path == kLostAndFound) return was_said("/lost+found/#");
    const auto known = paths_.find(line.ino);
    if (!line.path.starts_with(kLostAndFound) || known == paths_.end()) return false;
    const Line& right = right_.at(known->second);
    if (parent_of(line.path) != kLostAndFound) return line.same_but_for_path(right) || excused(right.path);
    // With a record of its own it is another one, but for what it holds.
    return is_named(line.path) && (line.data == right.data || is_data_lost(right.path));
  }
  static bool is_saved(const Lines& now, const Line& line) {
    return std::ranges::any_of(now, [&](const auto& one) { return one.second.ino == line.ino && one.first.starts_with(kLostAndFound); });
  }

  const Past& past_;
  const Said& said_;
  const Lines right_;
  std::map<Ino, std::string> paths_;
  std::multimap<std::string, Line> earlier_;
  bool older_ = false;
};

}  // namespace

Reads read_everything(Tree& tree, const std::string& expected) { return Reader(tree, expected).run(); }

std::string unsaid(const std::string& found, const Past& past, const Said& said) {
  return found == past.moments.back() ? "" : Repaired(past, said).judge(found);
}

}  // namespace lsmfs::test

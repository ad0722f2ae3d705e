// Targets of the tree: keys, the rows of family names, access control lists.
#include <linux/posix_acl.h>

#include <algorithm>

#include "fuzz/target.h"
#include "lsmfs/changes.h"
#include "tree/acl.h"
#include "tree/change_rows.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::fuzz {
namespace {

constexpr std::uint32_t kNoId = ACL_UNDEFINED_ID;

// ---- keys: a byte that says of which family, then the key

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax && name.find('\0') == name.npos && name.find('/') == name.npos && name != "." && name != "..";
}

void check_names_key(std::string_view key, const keys::NamesKey& parsed) {
  using enum keys::NamesKey::Kind;
  check(parsed.ino.v != 0 && parsed.ino < kCountedMax, "a home without a number");
  check(parsed.home.size() <= (parsed.kind == keys::NamesKey::Kind::entry ? keys::kPathHomeMax : keys::kHomeMax), "a home that is too long");
  check(!parsed.home.empty() || parsed.ino == kRootIno, "the root's home");
  switch (parsed.kind) {
    case root:
      check(key == keys::kRoot, "the root's key");
      break;
    case entry: {
      check(is_name(parsed.name), "a name that cannot be");
      check(keys::entry(parsed.home, parsed.name) == key, "an entry's key does not survive");
      check(keys::entries_begin(parsed.home) <= key && key < keys::entries_end(parsed.home), "an entry outside of its directory");
      check(keys::entry_name(parsed.home, key) == parsed.name, "an entry's name");
      // What is below it.
      const std::string home = keys::child_home(parsed.home, parsed.name, Ino{0x1234});
      const std::string block = keys::block(home, BlockIndex{7});
      const auto below = keys::parse_block(block);
      check(below && below->home == home && below->ino == Ino{0x1234} && below->index == BlockIndex{7}, "a child's home cannot be decoded");
      break;
    }
    case xattr:
      check(!parsed.name.empty() && parsed.name.size() <= kXattrNameMax && parsed.name.find('\0') == parsed.name.npos, "an attribute's name");
      check(keys::xattr(parsed.home, parsed.name) == key, "an attribute's key does not survive");
      check(key < keys::entries_begin(parsed.home), "an attribute among the entries");
      break;
  }
  check(keys::path_of(parsed.home).size() <= parsed.home.size(), "a path that is longer than its home");
}

bool run_keys(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view key = input.substr(1);
  if (input.front() & 1) {
    const auto parsed = keys::parse_names(key);
    if (parsed) check_names_key(key, *parsed);
    return parsed.has_value();
  }
  const auto parsed = keys::parse_block(key);
  if (!parsed) return false;
  check(parsed->ino > kRootIno && parsed->ino < kCountedMax && !parsed->home.empty(), "a file without a home");
  check(parsed->home.size() <= keys::kHomeMax, "a home that is too long");
  check(keys::block(parsed->home, parsed->index) == key, "a block's key does not survive");
  check(keys::block_index(key, parsed->home.size()) == parsed->index.v, "a block's index");
  return true;
}

std::vector<std::string> keys_examples() {
  const std::string dir = keys::child_home("", "dir", Ino{2}), deep = keys::child_home(dir, std::string(255, 'n'), Ino{0x123456789a});
  const std::string far = keys::child_home(keys::far_home(Ino{70000}), "x", Ino{256});
  std::vector<std::string> all{"\x01" + std::string(keys::kRoot), "\x01" + keys::xattr("", "user.of the root")};
  for (const std::string& home : {dir, deep, far}) {
    all.push_back("\x01" + keys::entry(home, "name"));
    all.push_back("\x01" + keys::xattr(home, "user.large"));
    all.push_back(std::string(1, '\0') + keys::block(home, BlockIndex{0x1234}));
  }
  return all;
}

// ---- rows: a byte that says whether it is the tree's state or a base, then the value

void check_record(const Record& r) {
  check(r.ino.v != 0 && r.ino < kInoMax, "an inode number that is never given");
  check(r.number().v != 0 && r.number() < kCountedMax && r.home_number != kRootIno, "the number of a home that is never given");
  if (r.has_base()) {
    const auto number = keys::number_of(*r.base);
    check(number && (*number > kRootIno || r.is_directory()) && *number < kCountedMax, "a base that is no home");
    check(r.shows_something() && !r.is_base, "a base of what has nothing to show");
    check(!r.is_directory() || r.base->size() <= keys::kPathHomeMax, "a base that is too long");
    check(shifts::shifted(r.ino, r.shift) < kInoMax && (r.shift == 0 || shifts::shifted(r.ino, r.shift) >= kCountedMax), "a number that is never seen");
  }
  check(!r.snapshot_of || r.is_directory(), "a snapshot that is no directory");
  check(r.shift == 0 || (r.has_base() && r.is_directory() && r.shift <= shifts::kRange), "a shift of what shows nothing");
  check(S_ISREG(r.mode) || S_ISDIR(r.mode) || S_ISLNK(r.mode) || S_ISCHR(r.mode) || S_ISBLK(r.mode) || S_ISFIFO(r.mode) || S_ISSOCK(r.mode), "an unknown type");
  check((r.mode & ~(S_IFMT | 07777u)) == 0, "a mode of unknown bits");
  for (const Time& t : {r.atime, r.mtime, r.ctime, r.btime}) check(t.nanoseconds < 1'000'000'000, "nanoseconds of a second and more");
  check(!S_ISREG(r.mode) || (r.size <= kFileSizeMax && r.blocks <= block_count(r.size)), "the size of a file");
  check(S_ISREG(r.mode) || r.blocks == 0, "blocks of what is no file");
  check(S_ISLNK(r.mode) ? !r.symlink.empty() && r.symlink.size() <= kSymlinkMax && r.size == r.symlink.size() : r.symlink.empty(), "a target");
  check(S_ISCHR(r.mode) || S_ISBLK(r.mode) || r.rdev == 0, "a device number of what is no device");
  check(r.home.size() <= (S_ISDIR(r.mode) ? keys::kPathHomeMax : keys::kHomeMax), "a home that is too long");
  check((r.flags & ~kInodeFlags) == 0, "unknown inode flags");
  check(r.xattr_names_size() <= kXattrListMax && r.xattr_inline_size() <= kXattrInlineSum, "attributes that take too much");
  for (std::size_t i = 0; i < r.xattrs.size(); ++i) {
    const Xattr& x = r.xattrs[i];
    check(!x.name.empty() && x.name.size() <= kXattrNameMax && x.name.find('\0') == x.name.npos, "an attribute's name");
    check(x.value.size() <= kXattrInlineMax && x.row_size <= kXattrSizeMax && (x.value.empty() || x.row_size == 0), "an attribute's value");
    check(i == 0 || r.xattrs[i - 1].name < x.name, "attributes that are not in order");
    check(r.find_xattr(x.name) == &x, "an attribute that is not found");
  }
  const Attr attr = r.attr();
  check(attr.ino == r.ino && attr.mode == r.mode && attr.blocks / 8 == r.all_blocks(), "what stat tells of it");
}

// The planted fault: an encoder of the time when uids had 16 bits.
std::string encode_row(EntryRow row) {
  if (auto* record = std::get_if<Record>(&row); record && planted == Planted::field_cut_off) record->uid &= 0xffff;
  return std::visit([](const auto& some) { return encode(some); }, row);
}

bool run_record(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view value = input.substr(1);
  if (input.front() & 1) {
    const auto state = decode_state(value);
    if (!state) return false;
    check(state->next_ino.v >= 2 && state->next_ino <= kSnapshotsIno, "a next inode number that cannot be");
    const auto again = decode_state(encode(*state));
    check(again && encode(*again) == encode(*state) && again->next_ino == state->next_ino, "a state does not survive");
    return true;
  }
  if (input.front() & 2) {
    const auto node = decode_node(value);
    if (!node) return false;
    const auto number = keys::number_of(node->home);
    check(number && (*number > kRootIno || node->directory) && *number < kCountedMax, "a base that is no home");
    check(node->size <= kFileSizeMax && node->blocks + node->blob_blocks <= block_count(node->size), "the size of a base");
    check(!node->directory || (node->size == 0 && node->home.size() <= keys::kPathHomeMax), "a base that has data and entries, or none can lie there");
    check(decode_node(encode(*node)) == *node, "a base does not survive");
    return true;
  }
  const auto row = decode_entry(value);
  const auto record = decode_record(value);
  check(record.has_value() == (row && std::holds_alternative<Record>(*row)), "two decoders disagree");
  if (!row) return false;
  check(decode_entry(encode_row(*row)) == row, "what was encoded decodes to something else");
  if (record) {
    check(*record == std::get<Record>(*row), "two decoders disagree");
    check_record(*record);
  } else {
    const Link& link = std::get<Link>(*row);
    check(link.ino > kRootIno && link.ino < kInoMax && (link.type & S_IFMT) != 0 && (link.type & ~S_IFMT) == 0, "a link's type");
  }
  return true;
}

std::vector<std::string> record_examples() {
  std::vector<std::string> all;
  const std::string row(1, '\0'), state(1, '\1'), node(1, '\2');
  Record r;
  r.ino = Ino{300};
  r.nlink = 1;
  r.uid = 1000;
  r.mtime = {1'700'000'000, 5};
  r.ctime = r.atime = r.btime = r.mtime;
  for (const std::uint32_t type : {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFIFO}) {
    Record some = r;
    some.mode = type | 0644;
    some.size = type == S_IFREG ? 10'000 : 2;
    if (type == S_IFREG) some.blocks = 3;
    if (type == S_IFLNK) some.symlink = "to";
    if (type == S_IFCHR) some.rdev = 0x501;
    all.push_back(row + encode(some));
    some.home = keys::child_home("", "old", some.ino);
    some.flags = 0x10 | 0x80;
    some.xattrs = {{"security.capability", std::string("\1\0\0\2", 4), 0}, {"user.large", "", 5000}, {"user.small", "v", 0}};
    all.push_back(row + encode(some));
    if (!some.shows_something()) continue;
    some.ino = Ino{kCountedMax.v + 300};
    some.home_number = Ino{301};
    some.base = keys::child_home("", "base", Ino{299});
    if (type == S_IFDIR) some.shift = shifts::kLeast;
    all.push_back(row + encode(some));
    if (type != S_IFDIR) continue;
    some.snapshot_of = "/dir";
    all.push_back(row + encode(some));
    some.snapshot_of = "/";
    some.base = "";  // the root's home
    all.push_back(row + encode(some));
  }
  all.push_back(node + encode(Node{keys::child_home("", "base", Ino{299}), 10'000, 2, 1}));
  all.push_back(node + encode(Node{keys::child_home("", "base", Ino{299}), 0, 0, 0, true}));
  all.push_back(node + encode(Node{.home = "", .directory = true}));
  all.push_back(row + encode(Link{Ino{77}, S_IFREG}));
  all.push_back(state + encode(State{Ino{301}, {5, 4, 3, 2, 1}}));
  return all;
}

// ---- access control lists

bool run_acl(std::string_view input) {
  const auto list = acl::decode(input);
  if (!list) return false;
  const auto count = [&](std::uint16_t tag) { return std::count_if(list->begin(), list->end(), [&](const acl::Entry& e) { return e.tag == tag; }); };
  check(count(ACL_USER_OBJ) == 1 && count(ACL_GROUP_OBJ) == 1 && count(ACL_OTHER) == 1 && count(ACL_MASK) <= 1, "an entry that there must be once");
  check(count(ACL_MASK) == 1 || count(ACL_USER) + count(ACL_GROUP) == 0, "a list without a mask");
  check(std::all_of(list->begin(), list->end(), [](const acl::Entry& e) { return e.perm <= 7; }), "unknown permissions");
  check(acl::decode(acl::encode(*list)) == list, "what was encoded decodes to something else");
  check(acl::is_minimal(*list) == (list->size() == 3), "what is minimal");

  // The operations on lists leave lists.
  for (const std::uint32_t mode : {0u, 0640u, 0777u}) {
    acl::List changed = *list;
    acl::change_mode(changed, mode);
    check(acl::decode(acl::encode(changed)) == changed, "a list that a change of the mode breaks");
    check(acl::with_permissions(S_IFREG | 07000, changed) == (S_IFREG | 07000 | mode), "a list does not follow the mode");
    acl::List inherited = *list;
    const std::uint32_t left = acl::inherit(inherited, S_IFREG | mode);
    check((left & ~mode & 0777) == 0 && acl::with_permissions(left, inherited) == left, "a mode that is inherited");
    check(acl::decode(acl::encode(inherited)) == inherited, "a list that inheriting breaks");
  }
  return true;
}

std::vector<std::string> acl_examples() {
  const acl::List minimal{{ACL_USER_OBJ, 7, kNoId}, {ACL_GROUP_OBJ, 5, kNoId}, {ACL_OTHER, 0, kNoId}};
  const acl::List full{{ACL_USER_OBJ, 7, kNoId}, {ACL_USER, 6, 1000}, {ACL_USER, 4, 1001}, {ACL_GROUP_OBJ, 5, kNoId},
                       {ACL_GROUP, 2, 50}, {ACL_MASK, 7, kNoId}, {ACL_OTHER, 0, kNoId}};
  return {acl::encode(minimal), acl::encode(full)};
}

// ---- the log of changes: a byte that says what it is, then that

void check_changed(const ChangedPaths& paths) {
  for (const auto& [path, changed] : paths) {
    check(path.size() <= ChangeRow::kPathMost && !path.starts_with('/') && !path.ends_with('/') && path.find('\0') == path.npos, "a path that cannot be");
    check(changed.all == changed.names.empty(), "a directory of which nothing is told");
    for (const std::string& name : changed.names) check(is_name(name), "a name that cannot be");
  }
}

bool run_changes(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view value = input.substr(1);
  switch (static_cast<unsigned char>(input.front()) % 5) {
    case 0: {
      const auto head = decode_change_head(value);
      if (!head) return false;
      check(!head->logs.empty() && head->logs.size() <= ChangeHead::kLogsMost, "a log that has no number, or too many");
      check(decode_change_head(encode(*head)) == *head, "the head of a log does not survive");
      return true;
    }
    case 1: {
      const auto row = decode_change_row(value);
      if (!row) return false;
      check(!row->paths.empty() && row->bytes <= ChangeHead::kPositionMost, "a row that says nothing");
      check_changed(row->paths);
      check(decode_change_row(encode(*row)) == *row, "a row does not survive");
      return true;
    }
    case 2: {
      const auto token = token_of(value);
      if (!token) return false;
      check(text_of(*token) == value, "a token does not survive");
      return true;
    }
    case 3: {
      const auto asked = decode_changes_asked(value);
      if (!asked) return false;
      const auto again = decode_changes_asked(encode(*asked));
      check(again && again->since == asked->since && again->before == asked->before && again->skip == asked->skip, "a question does not survive");
      return true;
    }
    default: break;
  }
  const auto step = decode_changes_step(value);
  if (!step) return false;
  const auto again = decode_changes_step(encode(*step));
  check(again && again->now == step->now && again->paths == step->paths && again->ended == step->ended && again->everything == step->everything, "an answer does not survive");
  return true;
}

std::vector<std::string> changes_examples() {
  const ChangeHead head{.asked = 1'700'000'000, .dropped = 3, .dropped_bytes = 700, .logs = {{0x0123456789abcdef, 1}, {0xfedcba9876543210, 4}}};
  const ChangeRow row{.bytes = 100, .paths = {{"", {.all = false, .names = {"a", "b"}}}, {"d", {.all = true, .names = {}}}, {"d/e", {.all = false, .names = {std::string(255, 'n')}}}}};
  const ChangesToken token{0x0123456789abcdef, 42};
  ChangesStep step;
  step.now = token;
  step.ended = true;
  step.paths = {"", "a", "d/"};
  return {'\0' + encode(head), '\1' + encode(row), '\2' + text_of(token), '\3' + encode(ChangesAsked{.since = token, .before = 7, .skip = 3}), '\4' + encode(step)};
}

}  // namespace

const Target kKeys{"keys", run_keys, keys_examples, 2048, 64, 200'000};
const Target kRecord{"record", run_record, record_examples, 4096, 256, 200'000};
const Target kAcl{"acl", run_acl, acl_examples, 1024, 64, 200'000};
const Target kChanges{"changes", run_changes, changes_examples, 2048, 128, 200'000};

}  // namespace lsmfs::fuzz

#include "tree/check.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kRowsBetweenWords = 4096;  // of progress

// What a row is about. A key that is none of a row lies next to one, or begins as some do.
std::string subject_of(Family family, std::string_view key) {
  for (std::string_view row = key; !row.empty(); row.remove_suffix(1)) {
    if (family == Family::blocks) {
      if (const auto parsed = keys::parse_block(row)) return fmt::format("byte {} of {}", parsed->index.v * kBlockSize, path_in(parsed->home));
    } else if (const auto parsed = keys::parse_names(row)) {
      return parsed->kind == keys::NamesKey::Kind::xattr ? "an attribute of " + path_in(parsed->home) : path_in(parsed->home, parsed->name);
    }
  }
  if (const std::string path = keys::path_of(key); !path.empty()) return "what begins with " + printable("/" + path);
  const std::string_view begin = key.substr(0, key.find('\0'));
  return begin.empty() || begin.front() == '/' ? "row " + hex(key) : "what begins with /" + printable(begin);
}

std::string place_of(Family family, std::string_view key) {
  return key.empty() ? "the beginning" : "somewhere after " + subject_of(family, key);
}

}  // namespace

Result<CheckReport> Checker::run() {
  if (verify_) {
    LSMFS_TRY(verify(Family::names));
    LSMFS_TRY(verify(Family::blocks));
  }
  LSMFS_ASSIGN(const bool names_whole, scan(Family::names, [this](auto key, auto value) { take_name(key, value); }));
  end_directory();
  // What was not read would be missing everywhere.
  if (names_whole) check_agreement();
  LSMFS_ASSIGN(const bool blocks_whole, scan(Family::blocks, [this, names_whole](auto key, auto value) {
    ++report_.block_rows;
    if (names_whole) take_block(key, value);
  }));
  if (names_whole && blocks_whole) {
    end_file();
    check_all_files_have_their_blocks();
    const std::uint64_t rows = report_.block_rows + missing_rows_;
    compare_count(facts_.state ? facts_.state->data_rows : rows, rows, "rows of data");
    read_all_ = true;
  }
  report_.counts = facts_.counts;
  return std::move(report_);
}

Result<void> Checker::verify(Family family) {
  LSMFS_ASSIGN(const auto damaged, store_.verify(family, [this](ByteCount table) {
    bytes_ += table.v;
    if (progress_) progress_(bytes_);
  }));
  for (const auto& line : damaged) problem("{}", line);
  return {};
}

template <class Take>
Result<bool> Checker::scan(Family family, Take take) {
  auto cursor = store_.cursor(family, {.lower = {}, .upper = {}, .readahead = kWholeReadahead, .fill_cache = false});
  std::uint64_t rows = 0;
  std::string last;
  for (cursor->seek(""); cursor->valid(); cursor->next()) {
    last = cursor->key();
    take(cursor->key(), cursor->value());
    bytes_ += last.size() + cursor->value().size();
    if (progress_ && ++rows % kRowsBetweenWords == 0) progress_(bytes_);
  }
  const auto ended = cursor->status();
  if (ended) return true;
  if (ended.error().code != EUCLEAN) return ended.error();
  problem("{} from {} on cannot be read, and nothing there was checked: {}",
          family == Family::names ? "names and attributes" : "file data", place_of(family, last), ended.error().context);
  return false;
}

// ---- what the rows say together

void Checker::check_agreement() {
  if (!facts_.state_seen) miscount("the row of the tree's state is missing");
  if (!facts_.root) problem("inode {}: the root directory's record is missing", kRootIno.v);
  for (auto& [number, found] : facts_.inodes) {
    if (!found.is_directory()) continue;
    find_reach(found);
    if (found.reach == Found::Reach::no) problem("{}: is a directory that cannot be reached from the root", inode_of(number, found));
  }
  join_directories();
  join_links();
  find_circles();
  join_shown();
  for (const auto& [number, found] : facts_.inodes) {
    if (found.is_directory()) check_directory(number, found);
  }
  check_numbers();
  check_twins();
  check_xattrs();
  join_blobs();
  check_bases();
  check_counts();
}

// Those that were counted up.
void Checker::check_numbers() {
  if (!facts_.state) return;
  const Ino next = facts_.state->next_ino;
  for (const auto& [number, found] : facts_.inodes) {
    if (found.ino < kSnapshotsIno && found.ino >= next) miscount("inode {}: its number is not below {}, the next to be given", found.ino.v, next.v);
    if (number != found.ino && number != kSnapshotsIno && number >= next) miscount("inode {}: the number of its home is not below {}, the next to be given", found.ino.v, next.v);
  }
  for (const auto& [number, node] : facts_.nodes) {
    if (number >= next) miscount("base {}: its number is not below {}, the next to be given", number.v, next.v);
  }
}

void Checker::join_directories() {
  for (TreeFacts::Directory& directory : facts_.directories) {
    Found* const found = facts_.directory_at(directory.number, directory.home);
    TreeFacts::Node* const node = found ? nullptr : facts_.directory_node_at(directory.number, directory.home);
    if (!found && !node) {
      problem("{}: {} entries of a directory that does not exist (inode {})", path_in(directory.home), directory.entries,
              directory.number.v);
      facts_.stray_directories.push_back(std::move(directory));
    } else if (found && found->has_base) {
      problem("{} ({}): has {} entries of its own, and shows a base", path_in(directory.home), inode_of(directory.number, *found), directory.entries);
      found->has_own = true;
    } else {
      (found ? found->entries : node->entries) = directory.entries;
      (found ? found->subdirectories : node->subdirectories) = directory.subdirectories;
    }
  }
  facts_.directories.clear();
}

void Checker::check_directory(Ino number, const Found& found) {
  if (found.entries < found.size) {
    problem("{}: is a directory of {} entries that says it has {}", inode_of(number, found), found.entries, found.size);
  } else if (found.entries > found.size) {
    miscount("{}: is a directory of {} entries that says it has {}", inode_of(number, found), found.entries, found.size);
  }
  // One that was removed with what is still in it.
  const std::uint64_t names = found.place == Found::Place::orphan ? 0 : 2 + found.subdirectories;
  if (found.nlink != names) {
    miscount("{}: is a directory with a link count of {} instead of {}", inode_of(number, found), found.nlink, names);
  }
}

// A clone cannot show names of a file that has several: each would be one of that file.
void Checker::join_links() {
  std::map<Ino, std::uint64_t> missing;
  for (const TreeFacts::Name& name : facts_.names) {
    if (facts_.is_frozen_directory(name.directory)) {
      problem("home {}: has a name of inode {}, which is one of several, and clones show what lies there", name.directory.v, name.ino.v);
      continue;
    }
    const auto number = facts_.linked_number(name.ino);
    ++(number ? facts_.of_number(*number)->names : missing[name.ino]);
  }
  for (const auto& [ino, names] : missing) problem("inode {}: has {} names that link to a record that does not exist", ino.v, names);
  for (const auto& [number, found] : facts_.inodes) {
    if (found.place != Found::Place::linked) continue;
    if (found.names > 0 && (found.mode & S_IFMT) != facts_.link_types[found.ino]) problem("inode {}: a name says another type than its record", found.ino.v);
    if (found.nlink == found.names && found.names > 0) continue;
    if (found.names < found.nlink || found.names == 0) {
      problem("inode {}: has {} names, but a link count of {}", found.ino.v, found.names, found.nlink);
    } else {
      miscount("inode {}: has {} names, but a link count of {}", found.ino.v, found.names, found.nlink);
    }
  }
}

void Checker::check_xattrs() {
  for (const auto& [number, wanted] : facts_.xattrs) {
    const auto* rows = facts_.xattr_rows_of(number);
    if (!rows || *rows != wanted) {
      problem("{}: its extended attributes are not those that its record names", inode_of(number, facts_.inodes.at(number)));
    }
  }
  for (const auto& [place, rows] : facts_.xattr_rows) {
    const auto& [number, home] = place;
    const Found* const found = facts_.of_number(number);
    if (found && found->home == home && found->has_xattr_rows) continue;
    problem("inode {}: {} extended attributes belong to no record", number.v, rows.size());
  }
}

// Whether a directory's parents lead to the root, or to a base, and not back to itself. Where one is missing, its entries are reported.
void Checker::find_reach(Found& found) {
  using enum Found::Reach;
  std::vector<Found*> asked_now;
  Found::Reach answer = yes;
  for (Found* at = &found;;) {
    if (at->reach != unknown) {
      answer = at->reach == asked ? no : at->reach;
      break;
    }
    at->reach = asked;
    asked_now.push_back(at);
    if (at->place != Found::Place::named) break;
    Found* const parent = facts_.of_number(at->parent);
    if (!parent) {
      if (facts_.nodes.contains(at->parent)) answer = frozen;
      break;
    }
    at = parent;
  }
  for (Found* one : asked_now) one->reach = answer;
}

void Checker::check_counts() {
  if (!facts_.state) return;
  const TreeCounts &said = facts_.state->counts, &found = facts_.counts;
  compare_count(said.regular, found.regular, "files");
  compare_count(said.directories, found.directories, "directories");
  compare_count(said.symlinks, found.symlinks, "symbolic links");
  compare_count(said.others, found.others, "devices, pipes and sockets");
  compare_count(said.displaced, found.displaced, "files and directories that lie elsewhere than their name says");
  compare_count(said.fixed, found.fixed, "immutable and append-only files and directories");
}

void Checker::compare_count(std::uint64_t said, std::uint64_t found, const char* what) {
  if (said != found) miscount("the tree's state counts {} {}, and there are {}", said, what, found);
}

void Checker::check_all_files_have_their_blocks() {
  for (const auto& [number, found] : facts_.inodes) {
    if (found.blocks > 0 && found.rows == 0 && !found.has_base) lacks_rows(inode_of(number, found), found);
  }
  for (const auto& [number, node] : facts_.nodes) {
    if (node.row.blocks > 0 && node.rows == 0) problem("base {}: has no rows of data and says it has {}", number.v, node.row.blocks);
  }
}

std::string rows_between(Family family, std::string_view after, std::string_view before) {
  return fmt::format("{} between {} and {}", family == Family::names ? "names and attributes" : "file data",
                     after.empty() ? "the beginning" : subject_of(family, after), before.empty() ? "the end" : subject_of(family, before));
}

Result<CheckReport> check_tree(Store& store, const std::function<void(std::uint64_t)>& progress) {
  return Checker(store, progress).run();
}

}  // namespace lsmfs

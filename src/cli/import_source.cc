#include "cli/import_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <clocale>
#include <memory>
#include <string_view>
#include <utility>

#include "cli/clones.h"
#include "cli/exit_codes.h"
#include "cli/owners.h"
#include "cli/posix_acl.h"

namespace lsmfs::cli {
namespace {

constexpr std::size_t kReadAtOnce = MiB, kPassedOnAtOnce = MiB - 200 * KiB;

struct FreeArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};

class Source {
 public:
  Source(const SourceOptions& options, const TakeStream& take, SourceFacts& facts) : options_(options), take_(take), facts_(facts) {}

  std::optional<Problem> read() {
    std::setlocale(LC_CTYPE, "C.UTF-8");  // or names that are no ASCII would not be understood
    if (auto problem = open()) return problem;
    for (;;) {
      archive_entry* entry = nullptr;
      const int got = archive_read_next_header(archive_.get(), &entry);
      if (got == ARCHIVE_EOF) break;
      if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return unreadable();
      if (auto problem = add(entry)) return problem;
      if (is_directory_) archive_read_disk_descend(archive_.get());
    }
    return flush();
  }

 private:
  std::string name() const { return options_.path == "-" ? "standard input" : options_.path; }

  Problem unreadable() const {
    const char* const why = archive_error_string(archive_.get());
    if (why && std::string_view(why).starts_with("Unrecognized")) {
      return {kFailure, name() + ": is no tar archive, neither as it is nor compressed by gzip, bzip2, xz, zstd or lz4"};
    }
    return {kFailure, fmt::format("{}: {}", name(), why ? why : "cannot be read")};
  }

  std::optional<Problem> open() {
    struct stat facts {};
    if (options_.path != "-" && stat(options_.path.c_str(), &facts) != 0) return Problem{kFailure, explain(options_.path, make_error(errno, options_.path))};
    is_directory_ = options_.path != "-" && S_ISDIR(facts.st_mode);
    if (is_directory_) {
      top_ = without_trailing_slashes(options_.path);  // as the library does, which puts it before each path
      return open_directory();
    }
    if (S_ISREG(facts.st_mode)) progress_.total = static_cast<std::uint64_t>(facts.st_size);
    archive_.reset(archive_read_new());
    archive* const a = archive_.get();
    // Only what the library does by itself: it would run other programs for the rest.
    for (const auto support : {archive_read_support_filter_none, archive_read_support_filter_gzip, archive_read_support_filter_bzip2, archive_read_support_filter_xz,
                               archive_read_support_filter_lzma, archive_read_support_filter_zstd, archive_read_support_filter_lz4,
                               archive_read_support_filter_compress, archive_read_support_format_tar, archive_read_support_format_gnutar}) {
      support(a);
    }
    const int opened = options_.path == "-" ? archive_read_open_fd(a, 0, kReadAtOnce) : archive_read_open_filename(a, options_.path.c_str(), kReadAtOnce);
    if (opened != ARCHIVE_OK) return unreadable();
    return std::nullopt;
  }

  std::optional<Problem> open_directory() {
    archive_.reset(archive_read_disk_new());
    archive* const a = archive_.get();
    archive_read_disk_set_symlink_hybrid(a);  // the directory itself may be named by one
    archive_read_disk_set_behavior(a, ARCHIVE_READDISK_NO_FFLAGS);
    links_ = std::unique_ptr<archive_entry_linkresolver, void (*)(archive_entry_linkresolver*)>(archive_entry_linkresolver_new(), archive_entry_linkresolver_free);
    archive_entry_linkresolver_set_strategy(links_.get(), ARCHIVE_FORMAT_TAR);
    if (archive_read_disk_open(a, top_.c_str()) != ARCHIVE_OK) return unreadable();
    return std::nullopt;
  }

  // nullopt: it leads out.
  std::optional<std::string> path_within(std::string_view path) {
    if (is_directory_) path.remove_prefix(std::min(path.size(), top_.size()));
    else facts_.stripped |= path.starts_with('/');
    std::string within;
    while (!path.empty()) {
      const std::string_view component = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(path.size(), component.size() + 1));
      if (component.empty() || component == ".") continue;
      if (component == "..") return std::nullopt;
      if (!within.empty()) within += '/';
      within += component;
    }
    return within;
  }

  Problem leads_out(std::string_view path) const {
    return {kFailure, fmt::format("{}: the path {} leads out of the archive; nothing of it is imported", name(), path)};
  }

  std::optional<Problem> add(archive_entry* entry) {
    ++progress_.entries;
    if (is_directory_) {
      archive_entry* spare = nullptr;
      archive_entry_linkify(links_.get(), &entry, &spare);
    }
    const char* const path = archive_entry_pathname(entry);
    if (!path) return Problem{kFailure, fmt::format("{}: the path of entry {} cannot be understood", name(), progress_.entries)};
    ImportedInode inode;
    const auto within = path_within(path);
    if (!within) return leads_out(path);
    inode.path = *within;
    if (const char* const target = archive_entry_hardlink(entry)) {
      const auto first = path_within(target);
      if (!first) return leads_out(target);
      inode.is_link = true;
      inode.target = *first;
    } else {
      describe(entry, inode);
    }
    if (record_size(inode) > kImportFrameMax) return Problem{kFailure, fmt::format("{}: {} has more attributes than a file can have", name(), path)};
    put_record(stream_, inode);
    if (!inode.is_link && S_ISREG(inode.mode) && inode.size > 0) return add_data(path);
    return pass_on();
  }

  void describe(archive_entry* entry, ImportedInode& inode) {
    inode.mode = archive_entry_mode(entry);
    if ((inode.mode & S_IFMT) == 0) inode.mode |= S_IFREG;
    if (!options_.as_root && !S_ISLNK(inode.mode)) inode.mode &= S_IFMT | (0777 & ~options_.umask);
    const auto text = [](const char* given) { return std::string_view(given ? given : ""); };
    if (options_.as_root) {
      inode.uid = user_id(is_directory_ ? "" : text(archive_entry_uname(entry)), archive_entry_uid(entry));
      inode.gid = group_id(is_directory_ ? "" : text(archive_entry_gname(entry)), archive_entry_gid(entry));
    }
    if (S_ISCHR(inode.mode) || S_ISBLK(inode.mode)) inode.rdev = archive_entry_rdev(entry);
    if (S_ISREG(inode.mode)) inode.size = static_cast<std::uint64_t>(archive_entry_size(entry));
    if (S_ISLNK(inode.mode)) {
      inode.target = text(archive_entry_symlink(entry));
      inode.mode = S_IFLNK | 0777;
    }
    if (archive_entry_mtime_is_set(entry)) inode.mtime = Time{archive_entry_mtime(entry), static_cast<std::uint32_t>(archive_entry_mtime_nsec(entry))};
    if (is_directory_ && archive_entry_atime_is_set(entry)) {
      inode.atime = Time{archive_entry_atime(entry), static_cast<std::uint32_t>(archive_entry_atime_nsec(entry))};
    }
    archive_entry_xattr_reset(entry);
    const char* attribute = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    while (archive_entry_xattr_next(entry, &attribute, &value, &size) == ARCHIVE_OK) {
      const std::string_view named(attribute);
      if (named.starts_with("system.")) continue;  // access control lists come as such
      const bool privileged = named.starts_with("trusted.") || named.starts_with("security.");
      if (!privileged && !named.starts_with("user.")) {
        ++facts_.foreign;
        continue;
      }
      if (privileged && !options_.as_root) {
        ++facts_.left_out;
        continue;
      }
      inode.xattrs.emplace_back(named, std::string(static_cast<const char*>(value), size));
    }
    if (S_ISLNK(inode.mode)) return;
    for (const auto& [type, named] : {std::pair{ARCHIVE_ENTRY_ACL_TYPE_ACCESS, "system.posix_acl_access"}, {ARCHIVE_ENTRY_ACL_TYPE_DEFAULT, "system.posix_acl_default"}}) {
      std::string acl = posix_acl(entry, type, facts_.foreign);
      if (acl.empty()) continue;
      if (options_.as_root) inode.xattrs.emplace_back(named, std::move(acl));
      else ++facts_.left_out;  // it would say more than the umask allows
    }
  }

  std::optional<Problem> add_data(const char* path) {
    for (;;) {
      const void* data = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const int got = archive_read_data_block(archive_.get(), &data, &size, &offset);
      if (got == ARCHIVE_EOF) return std::nullopt;
      if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return Problem{kFailure, fmt::format("{}: {}: {}", name(), path, archive_error_string(archive_.get()))};
      std::string_view bytes(static_cast<const char*>(data), size);
      while (!bytes.empty()) {
        const std::string_view part = bytes.substr(0, kImportDataMax / 2);
        put_record(stream_, static_cast<std::uint64_t>(offset), part);
        offset += static_cast<la_int64_t>(part.size());
        bytes.remove_prefix(part.size());
        if (is_directory_) progress_.done += part.size();
        if (auto problem = pass_on()) return problem;
      }
    }
  }

  std::optional<Problem> pass_on() { return stream_.size() >= kPassedOnAtOnce ? flush() : std::nullopt; }

  std::optional<Problem> flush() {
    if (!is_directory_) progress_.done = static_cast<std::uint64_t>(archive_filter_bytes(archive_.get(), -1));
    auto problem = take_(stream_, progress_);
    stream_.clear();
    return problem;
  }

  const SourceOptions& options_;
  const TakeStream& take_;
  SourceFacts& facts_;
  std::unique_ptr<archive, FreeArchive> archive_;
  std::unique_ptr<archive_entry_linkresolver, void (*)(archive_entry_linkresolver*)> links_{nullptr, archive_entry_linkresolver_free};
  bool is_directory_ = false;
  std::string top_;  // that directory
  std::string stream_;
  SourceProgress progress_;
};

}  // namespace

std::optional<Problem> read_source(const SourceOptions& options, const TakeStream& take, SourceFacts& facts) { return Source(options, take, facts).read(); }

void tell_facts(const std::string& source, const SourceFacts& facts) {
  if (facts.stripped) tell(source + ": paths begin with a slash there, and lie below the directory here");
  if (facts.left_out > 0) tell(fmt::format("{}: left out what only root can set, such as access control lists: {} attributes", source, facts.left_out));
  if (facts.foreign > 0) tell(fmt::format("{}: left out attributes of other systems, and of access control lists whom nobody knows here: {}", source, facts.foreign));
}

}  // namespace lsmfs::cli

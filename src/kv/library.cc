#include "kv/library.h"

#include <fmt/format.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "kv/file_system.h"

namespace lsmfs::kv {
namespace {

constexpr std::string_view kOptions = "OPTIONS-", kVersion = "rocksdb_version=";
constexpr std::uint64_t kBegins = 4 * KiB;  // the version is among the first lines

// "9.10.0"
std::optional<Library> parse(std::string_view text) {
  Library library;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, library.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return {};
  if (std::from_chars(major.ptr + 1, end, library.minor).ec != std::errc()) return {};
  return library;
}

}  // namespace

std::string Library::text() const { return fmt::format("RocksDB {}.{}", major, minor); }

Library Library::ours() { return {ROCKSDB_MAJOR, ROCKSDB_MINOR}; }

std::optional<Library> library_of(Volume& volume) {
  const std::string newest = newest_file(volume, kOptions);
  if (newest.empty()) return {};
  const auto reader = volume.open_reader(newest);
  if (!reader) return {};
  std::string text(std::min((*reader)->size().v, kBegins), '\0');
  if (!(*reader)->read(ByteOffset{0}, {reinterpret_cast<std::byte*>(text.data()), text.size()})) return {};
  const std::size_t at = text.find(kVersion);
  if (at == std::string::npos) return {};
  return parse(std::string_view(text).substr(at + kVersion.size()));
}

}  // namespace lsmfs::kv

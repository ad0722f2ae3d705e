#include "tree/dir_cookies.h"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "lsmfs/tree.h"

namespace lsmfs {
namespace {

// A cookie has 63 bits, since the kernel's loff_t is signed. From the top: 1, the generation, how full the page is
// in units of 8 bytes, the hash. The largest hash is not used, so that kFull and kEnd are no names' cookies.
constexpr int kGenerationBits = 10;
constexpr std::uint64_t kUnit = 8;
constexpr std::uint64_t kDotsSize = 64;  // bytes of "." and ".." in the kernel's listing

constexpr std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }

// Of a name in a list, roughly.
constexpr std::size_t memory_of(std::size_t name_size) { return 64 + name_size; }
static_assert((DirCookies::kRuns * DirCookies::kRecent + DirCookies::kRemoved) * memory_of(kNameMax) <= DirCookies::Memory::kMost / 2);

}  // namespace

DirCookies::DirCookies(std::uint64_t seed, Memory& memory)
    : memory_(memory),
      place_(memory.all_.insert(memory.all_.end(), this)),
      seed_(seed),
      page_size_(static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))),
      hash_bits_(62 - kGenerationBits - std::bit_width(page_size_ / kUnit - 1)) {}

DirCookies::~DirCookies() {
  forget();
  memory_.all_.erase(place_);
}

std::uint64_t DirCookies::hash(std::string_view name, std::uint64_t seed, int bits) {
  return std::min(checksum(name, seed) & mask(bits), mask(bits) - 2);
}

DirCookies::Match DirCookies::match(std::uint64_t cookie) const { return {seed_, cookie & mask(hash_bits_), hash_bits_}; }

bool DirCookies::Match::operator()(std::string_view name) const { return DirCookies::hash(name, seed, hash_bits) == hash; }

DirCookies::Walk DirCookies::walk_at(std::uint64_t cookie) {
  if (cookie >= kLeast) {
    const std::uint64_t units = cookie >> hash_bits_ & (page_size_ / kUnit - 1);
    return {cookie >> (62 - kGenerationBits) & mask(kGenerationBits), units == 0 ? page_size_ : units * kUnit};
  }
  if (changed_) generation_ = (generation_ + 1) & mask(kGenerationBits);
  changed_ = false;
  return {generation_, kDotsSize};
}

std::uint64_t DirCookies::pass(Walk& walk, std::string_view name, bool last) const {
  const std::uint64_t size = round_up(24 + name.size(), kUnit);  // of struct fuse_dirent, which does not span pages
  walk.in_page = walk.in_page + size > page_size_ ? size : walk.in_page + size;
  if (last) return is_full(walk) ? kFull : kEnd;
  const std::uint64_t units = walk.in_page / kUnit & (page_size_ / kUnit - 1);
  return kLeast | walk.generation << (62 - kGenerationBits) | units << hash_bits_ | hash(name);
}

void DirCookies::start() {
  if (!runs_.empty() && runs_.back().empty()) return;  // of a walk that was given nothing
  if (runs_.size() == kRuns) {
    drop(runs_.front());
    runs_.pop_front();
  }
  runs_.emplace_back();
}

void DirCookies::add(Names& names, std::string_view name, std::size_t most) {
  names.emplace_back(hash(name), name);
  memory_.bytes_ += memory_of(name.size());
  if (names.size() > most) drop_first(names);
  while (memory_.bytes_ > Memory::kMost) memory_.all_.front()->forget();
}

void DirCookies::drop_first(Names& names) {
  memory_.bytes_ -= memory_of(names.front().second.size());
  names.pop_front();
}

void DirCookies::drop(Names& names) {
  while (!names.empty()) drop_first(names);
}

void DirCookies::forget() {
  for (Names& run : runs_) drop(run);
  runs_.clear();
  drop(removed_);
  memory_.all_.splice(memory_.all_.end(), memory_.all_, place_);
}

std::optional<std::string> DirCookies::resume(std::uint64_t cookie) {
  memory_.all_.splice(memory_.all_.end(), memory_.all_, place_);
  if (cookie < kLeast) {
    start();
    return "";
  }
  const std::uint64_t wanted = cookie & mask(hash_bits_);
  const auto in = [wanted](const Names& names) {
    return std::find_if(names.rbegin(), names.rend(), [wanted](const auto& entry) { return entry.first == wanted; });
  };
  // Of the walks that have been there, one that has got no further.
  const auto ends = [&](const Names& run) { return !run.empty() && run.back().first == wanted; };
  const auto holds = [&](const Names& run) { return in(run) != run.rend(); };
  auto run = std::find_if(runs_.rbegin(), runs_.rend(), ends);
  if (run == runs_.rend()) run = std::find_if(runs_.rbegin(), runs_.rend(), holds);
  if (run != runs_.rend()) {
    runs_.splice(runs_.end(), runs_, std::prev(run.base()));
    return in(runs_.back())->second;
  }
  const auto gone = in(removed_);
  if (gone == removed_.rend()) return std::nullopt;
  const std::string name = gone->second;
  found(name);
  return name;
}

void DirCookies::given(std::string_view names) {
  if (names.empty()) return;
  if (runs_.empty()) start();
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find('\0'));
    add(runs_.back(), name, kRecent);
    names.remove_prefix(std::min(name.size() + 1, names.size()));
  }
}

void DirCookies::found(std::string_view name) {
  start();
  add(runs_.back(), name, kRecent);
}

void DirCookies::ended() {
  if (runs_.empty()) return;
  drop(runs_.back());
  runs_.pop_back();
}

void DirCookies::changed(std::string_view name, bool gone) {
  changed_ = true;
  if (gone) add(removed_, name, kRemoved);
}

}  // namespace lsmfs

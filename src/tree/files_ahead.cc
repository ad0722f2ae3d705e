#include "tree/files_ahead.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs {
namespace {

constexpr std::size_t kWalks = 4;
constexpr unsigned kThreads = 2;
constexpr std::uint64_t kAheadLeast = 4, kAheadMost = 96;  // files
constexpr std::uint64_t kBehind = 64;                      // files that stay known after they were passed, for who reads in another order
constexpr std::uint64_t kBlocksMost = 32;                  // of one file; who goes on in it reads in the order of keys
constexpr std::size_t kDepthMost = 1024;                   // directories; the homes of a damaged tree may lead back to it
constexpr std::size_t kFoundAtOnce = 32;                   // files
constexpr unsigned kLookedAt = 1024;                       // entries, for these
constexpr unsigned kInVainMost = 16;                       // times in a row that it finds none: then the walk looks no further
// A walk begins when more than one in kMissing files lately was in no memory.
constexpr unsigned kMissing = 8, kMissedEnough = 8 * kMissing, kMissedMost = 2 * kMissedEnough;
// A reader who wants less than one of so many files, of so many, is better off without it.
constexpr std::uint64_t kFewWanted = 8, kFewJudged = 256;
constexpr auto kWaitMost = std::chrono::milliseconds(200);

}  // namespace

// So far it reads. The more its reader has read, the further.
std::uint64_t FilesAhead::Walk::ahead() const { return std::clamp(met, kAheadLeast, kAheadMost); }

// It knows more files than it reads, so that it also meets a reader again who passes over some.
bool FilesAhead::Walk::has_to_look() const { return !looking && !way.empty() && end() < passed + ahead() + kFoundAtOnce; }

FilesAhead::~FilesAhead() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  progress_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

FilesAhead::Walk* FilesAhead::find(std::uint64_t id) {
  const auto found = std::ranges::find_if(walks_, [&](const auto& walk) { return walk->id == id; });
  return found == walks_.end() ? nullptr : found->get();
}

FilesAhead::Walk* FilesAhead::with(Ino number) {
  const auto found = std::ranges::find_if(walks_, [&](const auto& walk) { return walk->places.contains(number); });
  return found == walks_.end() ? nullptr : found->get();
}

FilesAhead::Noted FilesAhead::note(Ino number, Wait wait) {
  const MutexLock lock(mutex_);
  if (Walk* const walk = with(number)) {
    advance(*walk, number);
    return Noted::known;
  }
  if (wait == Wait::no) {
    if (missed_ > 0) --missed_;
    return Noted::unknown;
  }
  missed_ = std::min(missed_ + kMissing, kMissedMost);
  return missed_ >= kMissedEnough ? Noted::missing : Noted::unknown;
}

// Its reader has come to this file.
void FilesAhead::advance(Walk& walk, Ino number) {
  walk.used = ++uses_;
  const std::uint64_t at = walk.places.find(number)->second;
  if (at < walk.passed) return;
  ++walk.met;
  walk.passed = at + 1;
  walk.to_read = std::max(walk.to_read, at + (walk.file(at).state == File::State::to_read ? 1 : 0));
  for (; walk.first + kBehind < walk.passed; ++walk.first) {
    const auto place = walk.places.find(walk.files.front().number);
    if (place != walk.places.end() && place->second == walk.first) walk.places.erase(place);
    walk.files.pop_front();
  }
  if (walk.passed > kFewJudged && walk.met * kFewWanted < walk.passed) {
    std::erase_if(walks_, [&](const auto& some) { return some.get() == &walk; });
    walking_ = !walks_.empty();
    missed_ = 0;
  } else if (walk.to_read < walk.passed + walk.ahead() / 2) {
    work_.notify_one();  // not for each file
  }
}

void FilesAhead::begin(std::vector<Step> way) {
  const MutexLock lock(mutex_);
  if (stop_) return;
  if (walks_.size() == kWalks) walks_.erase(std::ranges::min_element(walks_, {}, [](const auto& walk) { return walk->used; }));
  Walk& walk = *walks_.emplace_back(std::make_unique<Walk>());
  walking_ = true;
  walk.id = ++walks_begun_;
  walk.way = std::move(way);
  walk.used = ++uses_;
  missed_ = 0;
  while (threads_.size() < kThreads) threads_.push_back(named_thread("lsmfs-files", [this] { run(); }));
  work_.notify_one();
}

void FilesAhead::wait_for(Ino number) {
  MutexLock lock(mutex_);
  const auto coming = [&]() LSMFS_REQUIRES(mutex_) {
    Walk* const walk = stop_ ? nullptr : with(number);
    return walk && walk->file(walk->places.find(number)->second).state == File::State::being_read;
  };
  clock_.wait(lock, progress_, clock_.now() + kWaitMost, [&]() LSMFS_REQUIRES(mutex_) { return !coming(); });
}

void FilesAhead::let_go() {
  const MutexLock lock(mutex_);
  walks_.clear();
  walking_ = false;
  progress_.notify_all();
}

void FilesAhead::run() {
  IoFor::all_of_this_thread(IoCause::read_ahead);
  MutexLock lock(mutex_);
  while (!stop_) {
    if (!work()) clock_.wait(lock, work_, Clock::kNever);
  }
}

// A step of some walk; false: there is nothing to do.
bool FilesAhead::work() {
  const auto some = [&](auto wants) LSMFS_REQUIRES(mutex_) {
    const auto found = std::ranges::find_if(walks_, [&](const auto& walk) { return wants(*walk); });
    return found == walks_.end() ? nullptr : found->get();
  };
  if (Walk* const nearly_out = some([](const Walk& walk) { return walk.has_to_look() && walk.to_read + kAheadLeast >= walk.end(); })) {
    look(*nearly_out);
  } else if (Walk* const behind = some([](const Walk& walk) { return walk.has_to_read(); })) {
    read(*behind);
  } else if (Walk* const short_of = some([](const Walk& walk) { return walk.has_to_look(); })) {
    look(*short_of);
  } else {
    return false;
  }
  return true;
}

void FilesAhead::look(Walk& walk) {
  const std::uint64_t id = walk.id;
  std::vector<Step> way = walk.way;
  walk.looking = true;
  std::vector<File> files;
  {
    const Unlocked unlocked(mutex_);
    files = more_files(way);
  }
  Walk* const still = find(id);
  if (!still) return;
  still->looking = false;
  still->way = std::move(way);
  still->in_vain = files.empty() ? still->in_vain + 1 : 0;
  if (still->in_vain == kInVainMost) still->way.clear();
  for (File& file : files) {
    still->places[file.number] = still->end();
    still->files.push_back(std::move(file));
  }
  work_.notify_all();
}

// Reads a file, and with it those of the next that lie beside it: they may share what is read from the device.
void FilesAhead::read(Walk& walk) {
  std::vector<std::pair<std::uint64_t, File>> wanted;
  for (std::uint64_t number = walk.to_read; number < std::min(walk.end(), walk.passed + walk.ahead()); ++number) {
    File& file = walk.file(number);
    if (file.state != File::State::to_read || (!wanted.empty() && !file.lies_beside(wanted.front().second))) continue;
    file.state = File::State::being_read;
    wanted.emplace_back(number, file);
    file.home.clear();
  }
  while (walk.to_read < walk.end() && walk.file(walk.to_read).state != File::State::to_read) ++walk.to_read;
  const std::uint64_t id = walk.id;
  for (const auto& [number, file] : wanted) {
    {
      const Unlocked unlocked(mutex_);
      read_blocks(file.home, file.blocks);
    }
    Walk* const still = find(id);
    if (!still) return;
    if (number >= still->first) still->file(number).state = File::State::read;
    progress_.notify_all();
  }
}

// The next files in the order of names; `way` leads to where there may be more then.
std::vector<FilesAhead::File> FilesAhead::more_files(std::vector<Step>& way) {
  std::vector<File> files;
  for (unsigned looked_at = 0; !way.empty() && files.size() < kFoundAtOnce && looked_at < kLookedAt;) {
    const std::string home = way.back().home;
    const std::string from = way.back().after.empty() ? keys::entries_begin(home) : keys::entry(home, way.back().after) + '\0';
    const auto cursor = rows_.cursor(Family::names, {.lower = from, .upper = keys::entries_end(home), .wait = Wait::yes});
    bool below = false;
    for (cursor->seek(from); cursor->valid() && !below && files.size() < kFoundAtOnce && looked_at < kLookedAt; cursor->next(), ++looked_at) {
      const std::string_view name = keys::entry_name(home, cursor->key());
      way.back().after = name;
      const auto row = decode_entry(cursor->value());
      const Record* const record = row ? std::get_if<Record>(&*row) : nullptr;
      if (!record || !record->shows_something()) continue;
      std::string lies_at = record->has_base() ? *record->base : record->home_in(home, name);
      if (record->is_directory() && way.size() < kDepthMost) {
        if (const auto number = keys::number_of(lies_at)) files.push_back({.number = *number});
        way.push_back({std::move(lies_at), ""});
        below = true;
      } else if (const auto number = keys::number_of(lies_at); number && record->is_regular()) {
        const std::size_t beside = keys::parent_of(lies_at).size();
        files.push_back({.number = *number, .home = std::move(lies_at), .beside = beside, .blocks = std::min(record->blocks, kBlocksMost)});
      }
    }
    if (!below && !cursor->valid()) way.pop_back();
  }
  return files;
}

void FilesAhead::read_blocks(const std::string& home, std::uint64_t blocks) {
  if (blocks == 0) return;
  const std::string from = keys::block(home, BlockIndex{0});
  const auto cursor = rows_.cursor(Family::blocks, {.lower = from, .upper = keys::block(home, BlockIndex{blocks}), .wait = Wait::yes});
  for (cursor->seek(from); cursor->valid(); cursor->next()) {
  }
}

}  // namespace lsmfs

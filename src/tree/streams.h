// Streams: files that are written in order, past their first megabytes. Their whole blocks go into blobs (lsmfs/kv.h) instead of rows:
// once to the device, and not through the log, memtables and merges.
//
//   LargeFile   what an inode of the table knows of its blobs, and the stream that it is, if it is one
//   Streaks     which files are written in order at the moment, and how much of them
//   GiveWay     for how long streams wait for others
//
// What they are not: they write nothing, and read no clock. Not thread-safe: the tree's mutex guards them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/tree.h"
#include "tree/file_blobs.h"

namespace lsmfs {

// A blob that a file's next blocks are appended to. The writer is the committer's while a group of blocks for it is being committed.
struct Stream {
  std::shared_ptr<BlobWriter> writer;
  std::uint64_t blob = 0;  // its number
  std::uint64_t next = 0;  // the block of the file that comes next
  std::uint64_t room = 0;  // blocks for which there is space for certain
  bool named = false;      // it has had blocks
  Clock::Time last{};      // when some came, or were committed
};

struct LargeFile {
  FileBlobs blobs;
  std::optional<Stream> stream;
  std::uint64_t streamed_group = 0;  // the last group that has blocks for one of its blobs
  std::uint64_t patched_group = 0;   // the last one that has patches of its blocks
};

class Streaks {
 public:
  static constexpr std::size_t kFiles = 16;

  // So many bytes of a file were written in order up to `at`.
  std::uint64_t before(Ino ino, std::uint64_t at) const {
    const auto found = std::ranges::find(streaks_, ino, &Streak::ino);
    return found != streaks_.end() && found->end == at ? found->bytes : 0;
  }
  // Bytes [from, to) have been written.
  void note(Ino ino, std::uint64_t from, std::uint64_t to) {
    auto found = std::ranges::find(streaks_, ino, &Streak::ino);
    if (found == streaks_.end()) found = std::ranges::min_element(streaks_, {}, &Streak::used);
    const std::uint64_t bytes = found->ino == ino && found->end == from ? found->bytes : 0;
    *found = {ino, to, bytes + (to - from), ++uses_};
  }
  void end(Ino ino) {
    const auto found = std::ranges::find(streaks_, ino, &Streak::ino);
    if (found != streaks_.end()) *found = {};
  }

 private:
  struct Streak {
    Ino ino;
    std::uint64_t end = 0, bytes = 0, used = 0;
  };
  std::array<Streak, kFiles> streaks_;
  std::uint64_t uses_ = 0;
};

// What streams write takes the processors and the device from others for long at a time. So after each group that has some, they wait while
// others change something or sync, though never for long.
class GiveWay {
 public:
  using Time = Clock::Time;
  using Duration = Clock::Duration;

  // After this long without others, nobody else is at work.
  static constexpr std::chrono::milliseconds kQuiet{5};
  // After so many times what the latest group took, and no longer than this, streams go on all the same.
  static constexpr int kTimes = 8;
  static constexpr std::chrono::milliseconds kMost{20};

  // `of`: the file that was changed, and is no stream; or none.
  void others_changed(Ino of, Time now) {
    others_ = now;
    changed_ = of;
    unsynced_ = true;
  }
  // Whether it is one of others: it is the stream's own where nobody else has changed anything since the last one.
  bool sync_began() {
    const bool others = std::exchange(unsynced_, false);
    if (others) ++syncs_;
    return others;
  }
  void others_sync_ended(Time now) {
    --syncs_;
    others_ = now;
    changed_ = {};
  }
  // A group that has blocks of streams, from when its commit began to when it ended.
  void committed(Time began, Time ended) { until_ = ended + std::min<Duration>(kTimes * (ended - began), kMost); }

  // Until when that stream waits before it looks again; no later than `now`: it goes on. What it did before it was one was no other's.
  Time due(Ino stream, Time now) const {
    const Time others = syncs_ > 0 ? now : changed_ == stream ? Time{} : others_;
    return std::min(until_, others + kQuiet);
  }

 private:
  Time others_{}, until_{};
  Ino changed_;
  bool unsynced_ = false;  // others have changed something since a sync began
  int syncs_ = 0;          // of others, under way
};

}  // namespace lsmfs

// What the kernel keeps of files and would not notice to be old by itself, taken back in time.
//
// Attributes: the kernel forgets none when an ioctl changes an inode's flags, nor a file's mode when a write takes
// set-user-id bits away. Pages under asynchronous direct writes (O_DIRECT with io_submit(2) or io_uring): the kernel
// drops a file's pages before such a write, but not after it, so a buffered read that overtakes the write leaves old bytes
// in the page cache for good. And listings of directories: after each READ the kernel takes a file's access time for
// unknown and asks for its attributes once more, file by file. A listing brings those of a whole directory, so the kernel
// is made to ask for it again: a tree that has been read is walked the next time with two requests for a directory
// instead of one for each file. That makes it ask for the attributes of the directory too, before each file in it that is
// opened, so it is done when files of another directory are read.
//
// Pages of a snapshot's file, too, into which a mapping or the writeback cache has put what the tree then refused.
//
// Inodes, too: the kernel keeps them as long as it has memory itself, and the daemon must have each of them at hand. Asked to
// (since Linux 6.18), it lets go of those that nobody uses, as it would for want of memory.
//
// And what it has of a tree that was removed as a whole: names of which it asked nobody, and inodes of which the daemon must keep the rows
// until the kernel forgets them. The removal itself takes back one name, whatever lies below.
//
// Pages are dropped only for a file that has been read through the page cache since the last time: whoever uses direct
// I/O alone pays nothing. A listing, only when a file of the directory has been read since it was given. What it is not:
// it knows no files, only bits that some inode numbers share; a bit too many costs a reader his pages once.
//
// Threads: all functions from any. It has a thread of its own for pages, since the kernel lets go of a page only when the
// READ that fills it is answered: neither the loop nor the workers may wait for that. And one for inodes, whose pages go with
// them, since many take long and answers to direct writes wait for pages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fuse/serving/workers.h"
#include "fuse/transport/libfuse.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/tree.h"

namespace lsmfs {

class KernelCache {
 public:
  // `ended`: as of Workers.
  explicit KernelCache(Clock& clock, Workers::Ended ended = {}) : pages_thread_(1, "lsmfs-pages", clock, ended), names_thread_(1, "lsmfs-names", clock, std::move(ended)), inodes_thread_(1, "lsmfs-inodes", clock) {}

  // Before the first request. The session must live until drain() has returned and no more is submitted.
  void start(fuse_session* session) { session_ = session; }

  // To be called before the bytes are read that go to the page cache.
  void note_read(Ino ino) { read_.set(ino); }
  // Whether there may be pages of the file from before; false again until the next note_read(). To be called after a
  // write: then a read that it does not hear of gave the new bytes.
  bool take_read(Ino ino) { return read_.take(ino); }

  // A listing of the directory begins.
  void note_listing(Ino dir) { listed_.set(dir); }
  // A file of the directory is read.
  void note_read_in(Ino dir);

  // Makes the kernel forget, then runs `then`.
  void drop_pages(Ino ino, std::function<void()> then);
  // Makes it ask for the entries of the directories again.
  void drop_listings(std::vector<Ino> dirs);
  // Asks it to let go of those of the inodes that no program uses; it forgets them then. Does nothing with a kernel that
  // knows no such request, as can_drop_inodes() says when one has been made.
  void drop_inodes(std::vector<Ino> inodes);
  bool can_drop_inodes() const { return can_drop_inodes_; }
  // Whether a listing that is answered now should be short. When the kernel has let go of an inode since it asked for a
  // listing, it does not take the attributes of new inodes in it for known, and asks for those of each.
  bool doubts_listing();
  // Makes it ask again, at once. To be called before the answer to a request that holds the inode, and after the change.
  void drop_attributes(Ino ino);

  // A directory `name` of `dir` was removed with all that lies below it: makes the kernel ask for that name again, and runs `then`. After
  // that makes it let go of what lies below, which takes as long as that is much. Where there is a directory of that name once more, the
  // kernel has done so by itself: `is_back` says so.
  void drop_tree(Ino dir, std::string name, std::function<bool()> is_back, std::function<void()> then);
  // All that was in the directory `dir` has gone at once, and other things are there. `old`: names of what the kernel had, `now`: those that
  // are there. Makes the kernel ask for all of them again, forget its listing, and runs `then`. After that makes it let go of what lay below the
  // former. Where one has been found again, which `is_back` says, the kernel has done so by itself.
  void drop_contents(Ino dir, std::vector<std::string> old, std::vector<std::string> now, std::function<bool(const std::string&)> is_back,
                     std::function<void()> then);
  // Of entries that were taken away without a request for them.
  void drop_entries(std::vector<SweptEntry> entries);

  // The session ends and nothing is dropped any more. Until it says true, requests must be answered: what is under way
  // may wait for them.
  bool end() {
    ended_ = true;
    return busy_ == 0;
  }
  void drain() {
    pages_thread_.drain();
    names_thread_.drain();
    inodes_thread_.drain();
  }
  std::array<const Workers*, 2> workers() const { return {&pages_thread_, &names_thread_}; }  // those at work for a request

 private:
  void submit(Workers& thread, const char* waits_for, std::function<void()> work);
  // Sends a message of the kernel's own, with its body in two parts.
  int notify(std::int32_t kind, Bytes begin, Bytes rest);
  void expire(Ino dir, const std::string& name);

  class Marks {
   public:
    void set(Ino ino) {
      if (!(word(ino) & bit(ino))) word(ino) |= bit(ino);
    }
    bool take(Ino ino) { return (word(ino) & bit(ino)) && (word(ino).fetch_and(~bit(ino)) & bit(ino)); }

   private:
    static constexpr std::size_t kBits = 1 << 16;

    std::atomic<std::uint64_t>& word(Ino ino) { return words_[ino.v % kBits / 64]; }
    static std::uint64_t bit(Ino ino) { return std::uint64_t{1} << ino.v % 64; }

    std::array<std::atomic<std::uint64_t>, kBits / 64> words_{};
  };

  fuse_session* session_ = nullptr;
  Marks read_, listed_;
  std::atomic<std::uint64_t> read_in_{0};  // the directory of the file that was read last; 0: none was
  std::atomic<bool> ended_{false}, can_drop_inodes_{true};
  std::atomic<std::uint64_t> drops_begun_{0}, drops_done_{0}, drops_heeded_{0};  // of inodes; by a listing that was short
  std::atomic<unsigned> busy_{0};
  // Of names apart, since the kernel holds a directory for each of them. Who has it drop pages may be one whose request holds that directory.
  Workers pages_thread_, names_thread_, inodes_thread_;
};

}  // namespace lsmfs

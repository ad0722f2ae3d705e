// One run of operations on a real stack (volume, store, tree) over a recorded device, side by side with the model; and
// the judgement of all states in which a power cut could have left the device (recovery.h).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "crash/moments.h"
#include "crash/recovery.h"
#include "crash/states.h"
#include "tree/harness.h"
#include "tree/model.h"

namespace lsmfs::test {

// Where a trial begins: a device, and what is on it.
struct Start {
  SparseImage image;
  Model model;
  ByteCount stream_from = TreeOptions().stream_from;  // of the trees that are mounted there
};

// One in so many, drawn by the seed of the states; 0: none.
struct TrialLimits {
  StateLimits states;
  std::size_t every = 1;  // state is judged;
  // of those of the mount with which the trial began, which is the same in most trials, one in so many of these;
  std::size_t while_mounting = 10;
  // of those that are judged, more is demanded of one in so many (recovery.h: Demands).
  std::size_t cut_recovery = 100, unmounted = 30, later_life = 50, written_over = 0;
};

class Trial {
 public:
  // `hook` is asked before each request to the device (lsmfs/device.h). A write that it refuses leaves a part of itself, and
  // after a flush that it refuses no other one counts. `between`: faults of the layers to plant, of which the judgement must
  // find each; no state is judged with them.
  explicit Trial(const Start& start, DeviceHook hook = {}, const Between& between = {});
  ~Trial();

  // Faults of the device can keep it from being mounted: why not. Operations must not follow then.
  const std::optional<Error>& unmountable() const { return unmountable_; }
  // The first error of the device that an operation or a sync gave back; the model is as if it had not been tried.
  const std::optional<Error>& failed() const { return failed_; }
  // What reads give now, beside what they should: empty, when they are equal.
  std::string read_all();
  // The same where reads may fail, but not lie.
  std::string read_what_can_be();

  // Operations by path ("A/foo", "" is the root), on both sides. The result is that of the tree, 0 or an errno, which the model must share:
  // what differs is a problem of its own.
  int make(const std::string& path, std::uint32_t mode, const std::string& target = {});
  int make_unnamed_and_link(const std::string& path);
  // A directory with two others in it and a file of two names, as a stream. `syncs`: in the middle of it.
  int import(const std::string& path, bool syncs);
  int link(const std::string& from, const std::string& to);
  int unlink(const std::string& path);
  int rmdir(const std::string& path);
  // EBUSY, and nothing is done, where a file has names elsewhere: these see of it only later.
  int remove_tree(const std::string& path);
  int rename(const std::string& from, const std::string& to, unsigned flags = 0);
  int roll_back(const std::string& path, const std::string& snapshot);  // EBUSY as above
  int clone(const std::string& from, const std::string& to);
  int write(const std::string& path, std::uint64_t offset, std::size_t size);
  int copy(const std::string& from, const std::string& to);  // as cp does, over a file that is there
  int truncate(const std::string& path, std::uint64_t size);
  int fallocate(const std::string& path, int mode, std::uint64_t offset, std::uint64_t length);
  int setxattr(const std::string& path, const std::string& name, std::size_t size);
  int removexattr(const std::string& path, const std::string& name);
  int setattr(const std::string& path, const AttrChange& change);
  // The inode stays in use, as by an open file, whatever becomes of its name.
  void hold(const std::string& path);

  bool sync();
  void flush();    // what is in memory becomes tables
  void compact();  // and these become others
  bool relocate();  // what renames left behind moves; false: there is none
  bool sweep();     // what lay below removed trees goes; false: there is none
  void note_synced();
  std::string last_table() const;  // the name of the latest one; a later one has a greater name
  ByteCount room() const;          // for what grows
  void settle();                   // returns when nothing goes on in the background, unless it is stopped
  // Discards what is free. False: the device has refused, which changes nothing.
  bool trim();
  // From now on a thread of its own does this now and once more after each so many of the operations and syncs. A flush of the
  // device that comes of it lasts for some of these, if nobody waits for it. It must change nothing that can be seen of the tree.
  using Work = std::function<Result<void>(Tree&, Store&)>;
  void begin_beside(const Work& work, std::size_t each = 1);
  void end_beside();
  // Returns when such a flush is under way, or when there is none to be had.
  void await_flush_beside();
  // Ends the recorded run: no more operations.
  void stop();

  Findings judge(const TrialLimits& limits);
  // The same of one state: all that the device took is there.
  Findings judge_end();
  // What is there now, to begin other trials with: closed properly, or as after a power cut that loses nothing. Ends the run.
  Start close();
  Start cut();

  // Faults that are easier planted here.
  enum class Fault { none, flushes_do_nothing, the_last_flush_does_nothing, renames_are_links_and_unlinks };
  void plant(Fault fault) { fault_ = fault; }

 private:
  struct Place {
    NodePtr dir;
    std::string name;
    NodePtr node;  // null: there is none
  };
  Place find(const std::string& path) const;
  Tree& tree() { return *stack_.tree; }
  // Whether it was the device's.
  bool note(const Error& error);
  template <class Call>
  int both(const std::string& what, int expected, const Call& call, const std::vector<NodePtr>& touched);
  void look_up(const NodePtr& node);
  Result<void> know_clone(const NodePtr& dir, const std::string& name);
  void step();  // one more operation or sync begins
  void hold_flush();
  DeviceHook with_consequences(DeviceHook hook);

  const SparseImage start_;
  const ByteCount stream_from_;
  std::unique_ptr<SparseDevice> device_;
  std::unique_ptr<Device> hooked_;
  Stack stack_;
  std::optional<Error> unmountable_, failed_;
  Model model_, before_;  // the latter: as before the operation under way
  Moments moments_;
  std::size_t mounted_at_ = 0;  // events
  std::vector<TraceEvent> trace_;
  bool stopped_ = false;
  std::string problem_;
  std::uint64_t seed_;  // of the next bytes to write
  Fault fault_ = Fault::none;
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  std::atomic<std::size_t> flush_failed_at_ = kNever;  // events
  std::atomic<bool> asks_itself_ = false;              // what the operations did not ask for: no read of it fails
  const std::thread::id operating_ = std::this_thread::get_id();
  const Waits& waits_ = Waits::of_this_thread();
  Result<void> beside_;  // how what is done beside the operations went
  std::atomic<std::size_t> steps_ = 0;
  std::atomic<std::size_t> beside_saw_ = 0;  // so many steps before it was done for the last time
  std::atomic<bool> beside_flushes_ = false, flushes_last_ = false;
  std::jthread beside_thread_;
};

}  // namespace lsmfs::test

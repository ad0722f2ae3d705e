#include "crash/trial.h"

#include <fmt/format.h>

#include <utility>

#include "crash/lies.h"
#include "kv/store.h"
#include "lsmfs/import.h"
#include "threads.h"
#include "until.h"
#include "volume/support.h"

namespace lsmfs::test {

Trial::Trial(const Start& start, DeviceHook hook, const Between& between)
    : start_(start.image),
      stream_from_(start.stream_from),
      device_(std::make_unique<SparseDevice>(start.image)),
      model_(start.model.copy()),
      before_(model_.copy()),
      seed_(model_.root->entries.empty() ? 0 : 1000) {  // what is there is not written once more
  device_->record();
  device_->on_flush = [this] { hold_flush(); };
  if (hook) hooked_ = hooked_device(*device_, with_consequences(std::move(hook)));
  moments_.add(model_.dump(), 0);
  moments_.synced(0);
  auto stack = Stack::mount(hooked_ ? *hooked_ : *device_, {.sync_interval_ms = 0, .stream_from = start.stream_from}, between);
  if (!stack) {
    unmountable_ = stack.error();
    return;
  }
  stack_ = std::move(*stack);
  // From then on each group has a row more. Where the device fails, the first of these would be what meets that.
  if (!hooked_) (void)stack_.tree->changes(kRootIno, {}, [] { return false; });
  mounted_at_ = device_->events();
  for (const NodePtr& top : {model_.root, model_.snapshots}) look_up(top);
}

Trial::~Trial() { end_beside(); }

DeviceHook Trial::with_consequences(DeviceHook hook) {
  return [this, hook = std::move(hook)](const DeviceEvent& event, Bytes data) -> Result<void> {
    if (asks_itself_ && event.kind == DeviceEvent::Kind::read) return {};
    auto done = hook(event, data);
    if (done) return done;
    if (event.kind == DeviceEvent::Kind::write) device_->tear(event.offset, data);
    std::size_t never = kNever;
    if (event.kind == DeviceEvent::Kind::flush) flush_failed_at_.compare_exchange_strong(never, device_->events());
    return done;
  };
}

void Trial::look_up(const NodePtr& node) {
  for (const auto& [name, child] : node->entries) {
    const auto found = both_ways([&](Wait wait) { return tree().lookup(node->ino, name, wait); });
    if (!found && note(found.error())) return;
    if (!found || !*found) problem_ = name + " is not there at the start";
    if (child->is_directory()) look_up(child);
  }
}

Trial::Place Trial::find(const std::string& path) const {
  Place place{nullptr, "", model_.root};
  if (path.empty()) return place;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t slash = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, slash - at);
    at = slash + 1;
    place.dir = place.node;
    place.name = name;
    if (!place.dir || !place.dir->is_directory()) return {};
    if (place.dir == model_.root && name == kSnapshotsName) {
      place.node = model_.snapshots;
      continue;
    }
    const auto entry = place.dir->entries.find(name);
    place.node = entry == place.dir->entries.end() ? nullptr : entry->second;
  }
  return place;
}

template <class Call>
int Trial::both(const std::string& what, int expected, const Call& call, const std::vector<NodePtr>& touched) {
  step();
  const std::size_t began = device_->events();
  const auto result = both_ways(call);
  const int got = code(result);
  if (got != expected && problem_.empty() && !(got != 0 && note(result.error()))) {
    problem_ = fmt::format("{}: error {}, and {} by the model", what, got, expected);
  }
  if (got != 0) {
    if (hooked_) model_ = before_.copy();
    return got;
  }
  for (const NodePtr& node : touched) {
    if (!node) continue;
    const auto attr = both_ways([&](Wait wait) { return tree().getattr(node->ino, wait); });
    if (attr) node->take_times(*attr);
    if (node->nlink == 0 && !node->held) tree().forget(node->ino, 1000);
  }
  moments_.add(model_.dump(), began);
  if (hooked_) before_ = model_.copy();
  return 0;
}

int Trial::make(const std::string& path, std::uint32_t mode, const std::string& target) {
  const Place at = find(path);
  if (!at.dir) return ENOENT;
  NodePtr made;
  const int expected = model_.make(at.dir, at.name, mode, target, made);
  return both("make " + path, expected, [&](Wait wait) -> Result<void> {
    LSMFS_ASSIGN(const Attr attr, tree().make(at.dir->ino, at.name, {.mode = mode, .symlink = target}, wait));
    if (made) made->ino = attr.ino;
    return {};
  }, {made, at.dir});
}

int Trial::make_unnamed_and_link(const std::string& path) {
  const Place at = find(path);
  if (!at.dir || at.node) return ENOENT;
  const auto attr = both_ways([&](Wait wait) { return tree().make_unnamed(at.dir->ino, {.mode = S_IFREG | 0600}, wait); });
  if (!attr && note(attr.error())) return attr.error().code;
  if (!attr) problem_ = "a file without a name: " + attr.error().message();
  if (!attr) return attr.error().code;
  const auto made = std::make_shared<Node>();
  made->ino = attr->ino;
  made->mode = S_IFREG | 0600;
  made->linkable = true;
  made->inherit_flags(*at.dir);
  made->data = Contents(pattern(6000, ++seed_));
  (void)both_ways([&](Wait wait) { return tree().write(made->ino, ByteOffset{0}, as_bytes(*made->data), wait); });
  return both("link of a new file to " + path, model_.link(made, at.dir, at.name),
              [&](Wait wait) { return tree().link(made->ino, at.dir->ino, at.name, wait); }, {made, at.dir});
}

int Trial::import(const std::string& path, bool syncs) {
  const Place at = find(path);
  if (!at.dir) return ENOENT;
  const std::string data = pattern(6000, ++seed_);
  ImportedInode first{.path = "one", .mode = S_IFDIR | 0755}, file{.path = "one/file", .mode = S_IFREG | 0644, .size = data.size()};
  ImportedInode second{.path = "two", .mode = S_IFDIR | 0755}, name;
  name.path = "two/name";
  name.target = "one/file";
  name.is_link = true;
  std::string begun, rest;
  put_record(begun, first);
  put_record(begun, file);
  put_record(begun, 0, data);
  put_record(rest, second);
  put_record(rest, name);
  asks_itself_ = true;
  const auto staged = both_ways([&](Wait wait) { return tree().stage(at.dir->ino, at.name, {.mode = S_IFDIR | 0755}, wait); });
  const auto made = [&]() -> Result<void> {
    if (!staged) return staged.error();
    Importer importer(tree(), staged->ino, {.as_root = true, .uid = 0, .gid = 0});
    LSMFS_TRY(importer.feed(as_bytes(begun)));
    if (syncs) LSMFS_TRY(tree().sync());
    LSMFS_TRY(importer.feed(as_bytes(rest)));
    LSMFS_TRY(importer.finish());
    return {};
  }();
  asks_itself_ = false;
  const auto give_up = [&] {
    if (staged) tree().forget(staged->ino, 1);
  };
  if (!made) {
    if (!note(made.error())) problem_ = "import: " + made.error().message();
    give_up();
    return made.error().code;
  }
  NodePtr top, one, two, node;
  const int expected = model_.make(at.dir, at.name, S_IFDIR | 0755, "", top);
  if (expected == 0) {
    (void)model_.make(top, "one", S_IFDIR | 0755, "", one);
    (void)model_.make(top, "two", S_IFDIR | 0755, "", two);
    (void)model_.make(one, "file", S_IFREG | 0644, "", node);
    (void)model_.write(node, 0, data);
    (void)model_.link(node, two, "name");
  }
  const int got = both("import " + path, expected, [&](Wait wait) -> Result<void> {
    LSMFS_TRY(tree().link(staged->ino, at.dir->ino, at.name, wait));
    return know_clone(at.dir, at.name);
  }, {at.dir, top, one, two, node});
  give_up();
  return got;
}

int Trial::link(const std::string& from, const std::string& to) {
  const Place source = find(from), target = find(to);
  if (!source.node || !target.dir) return ENOENT;
  return both("link " + from + " " + to, model_.link(source.node, target.dir, target.name),
              [&](Wait wait) { return tree().link(source.node->ino, target.dir->ino, target.name, wait); }, {source.node, target.dir});
}

int Trial::unlink(const std::string& path) {
  const Place at = find(path);
  if (!at.dir) return ENOENT;
  return both("unlink " + path, model_.unlink(at.dir, at.name), [&](Wait wait) { return tree().unlink(at.dir->ino, at.name, wait); }, {at.node, at.dir});
}

int Trial::rmdir(const std::string& path) {
  const Place at = find(path);
  if (!at.dir) return ENOENT;
  return both("rmdir " + path, model_.rmdir(at.dir, at.name), [&](Wait wait) { return tree().rmdir(at.dir->ino, at.name, wait); }, {at.node, at.dir});
}

int Trial::remove_tree(const std::string& path) {
  const Place at = find(path);
  if (!at.dir || !at.node) return ENOENT;
  if (at.node->is_directory() && !Model::has_all_names(at.node)) return EBUSY;
  const auto below = Model::all_below(at.node);
  const int expected = model_.remove_tree(at.dir, at.name);
  const int got = both("remove_tree " + path, expected, [&](Wait wait) -> Result<void> {
    LSMFS_TRY(tree().remove_tree(at.node->ino, at.dir->ino, wait));
    return {};
  }, {at.node, at.dir});
  if (got != 0) return got;
  for (const NodePtr& node : below) {
    if (!node->held) tree().forget(node->ino, 1000);
  }
  return 0;
}

int Trial::rename(const std::string& from, const std::string& to, unsigned flags) {
  const Place source = find(from), target = find(to);
  if (!source.dir || !target.dir) return ENOENT;
  const int expected = model_.rename(source.dir, source.name, target.dir, target.name, flags);
  return both(fmt::format("rename {} {} {}", from, to, flags), expected, [&](Wait wait) -> Result<void> {
    if (fault_ == Fault::renames_are_links_and_unlinks && !target.node && !source.node->is_directory()) {
      LSMFS_TRY(tree().link(source.node->ino, target.dir->ino, target.name, Wait::yes));
      LSMFS_TRY(tree().sync());
      return tree().unlink(source.dir->ino, source.name, Wait::yes);
    }
    LSMFS_TRY(tree().rename(source.dir->ino, source.name, target.dir->ino, target.name, flags, wait));
    // What it left behind has a number that only the tree knows.
    const auto whiteout = source.dir->entries.find(source.name);
    if (whiteout != source.dir->entries.end() && whiteout->second->ino == Ino{}) {
      LSMFS_ASSIGN(const std::optional<Attr> found, tree().lookup(source.dir->ino, source.name, Wait::yes));
      if (!found) return make_error(ENOENT, "the whiteout");
      whiteout->second->ino = found->ino;
      whiteout->second->take_times(*found);
    }
    return {};
  }, {source.node, target.node, source.dir, target.dir});
}

// Its numbers are those that the tree has drawn, and all of it is in use from now on.
Result<void> Trial::know_clone(const NodePtr& dir, const std::string& name) {
  asks_itself_ = true;
  const auto known = [&]() -> Result<void> {
    LSMFS_TRY(take_numbers(tree(), dir, name));
    LSMFS_ASSIGN(const std::optional<Attr> made, both_ways([&](Wait wait) { return tree().lookup(dir->ino, name, wait); }));
    const NodePtr& clone = dir->entries.at(name);
    if (clone->read_only && made) clone->btime = made->btime;
    look_up(clone);
    return {};
  }();
  asks_itself_ = false;
  return known;
}

int Trial::clone(const std::string& from, const std::string& to) {
  const Place source = find(from), target = find(to);
  if (!source.node || !target.dir) return ENOENT;
  NodePtr made;
  const int expected = model_.clone(source.node, target.dir, target.name, made);
  return both("clone " + from + " " + to, expected, [&](Wait wait) -> Result<void> {
    LSMFS_TRY(tree().clone(source.node->ino, target.dir->ino, target.name, wait));
    return made ? know_clone(target.dir, target.name) : Result<void>();
  }, {target.dir});
}

int Trial::roll_back(const std::string& path, const std::string& snapshot) {
  const NodePtr dir = find(path).node, from = find(snapshot).node;
  if (!dir || !from) return ENOENT;
  if (dir->is_directory() && !Model::has_all_names(dir)) return EBUSY;
  const auto below = Model::all_below(dir);
  const int expected = model_.roll_back(dir, from);
  const int got = both("roll_back " + path + " " + snapshot, expected, [&](Wait wait) -> Result<void> {
    LSMFS_TRY(tree().roll_back(dir->ino, from->ino, wait));
    for (const auto& [name, child] : dir->entries) {
      if (expected == 0) LSMFS_TRY(know_clone(dir, name));
    }
    return {};
  }, {dir});
  if (got != 0) return got;
  for (const NodePtr& node : below) {
    if (!node->held) tree().forget(node->ino, 1000);
  }
  return 0;
}

int Trial::write(const std::string& path, std::uint64_t offset, std::size_t size) {
  const Place at = find(path);
  if (!at.node) return ENOENT;
  const std::string data = pattern(size, ++seed_);
  return both(fmt::format("write {} at {}", path, offset), model_.write(at.node, offset, data),
              [&](Wait wait) { return tree().write(at.node->ino, ByteOffset{offset}, as_bytes(data), wait); }, {at.node});
}

int Trial::copy(const std::string& from, const std::string& to) {
  const Place source = find(from), target = find(to);
  if (!source.node || !target.node) return ENOENT;
  if (source.node != target.node && !target.node->data->empty() && S_ISREG(target.node->mode)) {
    if (const int error = truncate(to, 0)) return error;
  }
  const std::uint64_t size = source.node->data->size();
  return both(fmt::format("copy {} {}", from, to), model_.copy_range(source.node, 0, target.node, 0, size), [&](Wait wait) -> Result<void> {
    LSMFS_ASSIGN(const ByteCount copied, tree().copy_range(source.node->ino, ByteOffset{0}, target.node->ino, ByteOffset{0}, ByteCount{size}, wait));
    return copied.v == size ? Result<void>() : make_error(EIO, "copied in part");
  }, {target.node});
}

int Trial::truncate(const std::string& path, std::uint64_t size) { return setattr(path, {.size = size}); }

int Trial::fallocate(const std::string& path, int mode, std::uint64_t offset, std::uint64_t length) {
  const Place at = find(path);
  if (!at.node) return ENOENT;
  return both(fmt::format("fallocate {} mode {}", path, mode), model_.fallocate(at.node, mode, offset, length),
              [&](Wait wait) { return tree().fallocate(at.node->ino, mode, ByteOffset{offset}, ByteCount{length}, wait); }, {at.node});
}

int Trial::setxattr(const std::string& path, const std::string& name, std::size_t size) {
  const Place at = find(path);
  if (!at.node) return ENOENT;
  const std::string value = pattern(size, ++seed_);
  const int expected = at.node->read_only ? EROFS : 0;
  if (expected == 0) at.node->xattrs[name] = value;
  return both("setxattr " + path, expected, [&](Wait wait) { return tree().setxattr(at.node->ino, name, value, 0, wait); }, {at.node});
}

int Trial::removexattr(const std::string& path, const std::string& name) {
  const Place at = find(path);
  if (!at.node) return ENOENT;
  return both("removexattr " + path, at.node->read_only ? EROFS : at.node->xattrs.erase(name) ? 0 : ENODATA,
              [&](Wait wait) { return tree().removexattr(at.node->ino, name, wait); }, {at.node});
}

int Trial::setattr(const std::string& path, const AttrChange& change) {
  const Place at = find(path);
  if (!at.node) return ENOENT;
  const int expected = at.node->read_only ? EROFS : change.size ? model_.truncate(at.node, *change.size) : 0;
  if (expected == 0) {
    Node& node = *at.node;
    if (change.mode) node.mode = (node.mode & S_IFMT) | *change.mode;
    node.uid = change.uid.value_or(node.uid);
    node.gid = change.gid.value_or(node.gid);
    node.flags = change.flags.value_or(node.flags);
  }
  return both("setattr " + path, expected, [&](Wait wait) { return tree().setattr(at.node->ino, change, wait); }, {at.node});
}

void Trial::hold(const std::string& path) {
  if (const Place at = find(path); at.node) at.node->held = true;
  before_ = model_.copy();
}

// A failing device takes nothing but EIO with it, and afterwards nothing is written.
bool Trial::note(const Error& error) {
  if (!hooked_ || (error.code != EIO && error.code != EROFS)) return false;
  if (!failed_) failed_ = error;
  return true;
}

bool Trial::sync() {
  step();
  const auto synced = tree().sync();
  if (synced) {
    moments_.synced(device_->events());
  } else if (!note(synced.error()) && problem_.empty()) {
    problem_ = "sync: " + synced.error().message();
  }
  return synced.has_value();
}

void Trial::flush() {
  sync();  // operations that the tree has not committed yet are in no memtable
  const auto flushed = stack_.store->flush();
  if (!flushed && !note(flushed.error()) && problem_.empty()) problem_ = "flush: " + flushed.error().message();
}

bool Trial::relocate() {
  for (bool any = false;; any = true) {
    const auto done = stack_.tree->relocate();
    if (!done && !note(done.error()) && problem_.empty()) problem_ = "relocation: " + done.error().message();
    if (!done || !*done) return any;
  }
}

bool Trial::sweep() {
  for (bool any = false;; any = true) {
    const auto done = stack_.tree->sweep();
    if (!done && !note(done.error()) && problem_.empty()) problem_ = "sweep: " + done.error().message();
    if (!done || !*done) return any;
  }
}

void Trial::compact() {
  for (const Family family : {Family::names, Family::blocks}) {
    const auto done = stack_.store->compact(family, "", "");
    if (!done && !note(done.error()) && problem_.empty()) problem_ = "compaction: " + done.error().message();
  }
}

void Trial::note_synced() {
  const auto noted = stack_.store->note_synced();
  if (!noted && !note(noted.error()) && problem_.empty()) problem_ = "note of a sync: " + noted.error().message();
}

std::string Trial::last_table() const {
  std::string last;
  for (std::string& name : stack_.volume->list()) {
    if (name.ends_with(".sst")) last = std::max(last, std::move(name));
  }
  return last;
}

ByteCount Trial::room() const { return stack_.store->room(); }

void Trial::settle() {
  const auto* const rocks = dynamic_cast<const RocksStore*>(stack_.store.get());
  if (rocks == nullptr) return;
  EXPECT_TRUE(until([&] { return rocks->idle() || !stack_.store->sync(); }));
}

bool Trial::trim() {
  const auto trimmed = tree().trim({}, [] { return false; });
  if (!trimmed && !note(trimmed.error()) && problem_.empty()) problem_ = "trim: " + trimmed.error().message();
  return trimmed.has_value();
}

std::string Trial::read_all() {
  const std::string found = dump(tree()), expected = model_.dump();
  return found == expected ? "" : "reads give\n" + found + "and not\n" + expected;
}

std::string Trial::read_what_can_be() { return read_everything(tree(), model_.dump()).lie; }

void Trial::step() {
  ++steps_;
  steps_.notify_all();
}

void Trial::begin_beside(const Work& work, std::size_t each) {
  flushes_last_ = true;
  beside_saw_ = 0;
  step();
  beside_thread_ = std::jthread([this, work, each](const std::stop_token& stop) {
    while (beside_ && !stop.stop_requested()) {
      const std::size_t begun = steps_;
      beside_ = work(*stack_.tree, *stack_.store);
      beside_saw_ = begun;
      for (std::size_t now = begun; now < begun + each && !stop.stop_requested(); now = steps_) steps_.wait(now);
    }
    beside_saw_ = kNever;
  });
  await_flush_beside();
}

void Trial::await_flush_beside() {
  EXPECT_TRUE(until([this] { return beside_flushes_ || beside_saw_ >= steps_; })) << "what is done beside the operations hangs";
}

// There is time for some operations meanwhile. But whoever waits for this flush, or for what does, goes on when it ends: what can be
// seen to wait for it ends it at once, and all else when no thread has had anything to do for some looks.
void Trial::hold_flush() {
  if (!flushes_last_ || std::this_thread::get_id() == operating_) return;
  const auto waited_for = [&] {
    const auto wait = [](const std::string& waits, const char* what) { return waits.find(what) != std::string::npos; };
    const std::string all = longest_waits();
    return wait(waits_.text(), "sync") || wait(all, "the flush of another thread") || wait(all, "space, which");
  };
  constexpr int kLooks = 5;
  int looks = 0;
  std::size_t seen = steps_;
  const std::size_t last = seen + 1 + device_->events() % 5;
  beside_flushes_ = true;
  (void)until([&] {
    looks = seen == steps_ && all_other_threads_sleep() ? looks + 1 : 0;
    seen = steps_;
    return seen >= last || looks >= kLooks || !flushes_last_ || waited_for();
  });
  beside_flushes_ = false;
}

void Trial::end_beside() {
  if (!beside_thread_.joinable()) return;
  flushes_last_ = false;
  beside_thread_.request_stop();
  step();
  beside_thread_.join();
  if (!beside_ && !note(beside_.error()) && problem_.empty()) problem_ = "beside the operations: " + beside_.error().message();
}

void Trial::stop() {
  if (std::exchange(stopped_, true)) return;
  end_beside();
  trace_ = device_->trace();
  stack_.crash();
  for (std::size_t i = flush_failed_at_; i < trace_.size(); ++i) trace_[i].flush = false;
  // What is no flush any more is a request that changes nothing.
  bool last = true;
  for (auto event = trace_.rbegin(); event != trace_.rend(); ++event) {
    const bool skipped = fault_ == Fault::flushes_do_nothing || (fault_ == Fault::the_last_flush_does_nothing && last);
    if (event->flush) last = false;
    if (skipped) event->flush = false;
  }
}

Start Trial::close() {
  end_beside();
  if (!stack_.close()) std::abort();
  return {device_->image(), model_.copy(), stream_from_};
}

Start Trial::cut() {
  end_beside();
  Start next{device_->image(), model_.copy(), stream_from_};
  stack_.crash();
  return next;
}

Findings Trial::judge(const TrialLimits& limits) {
  stop();
  std::mt19937_64 random(limits.states.seed);
  draw_discards(trace_, random);
  const auto one_in = [&](std::size_t n) { return n != 0 && random() % n == 0; };
  Findings findings{.problem = problem_};
  each_crash_state(start_, trace_, limits.states, [&](const CrashState& state) {
    if (!findings.problem.empty()) return false;
    ++findings.possible;
    if (state.events < mounted_at_ && !one_in(limits.while_mounting)) return true;
    if (!one_in(limits.every)) return true;
    ++findings.states;
    const Demands demands{.unmounted = one_in(limits.unmounted),
                          .cut_mount = one_in(limits.cut_recovery),
                          .written_over = one_in(limits.written_over),
                          .later_life = one_in(limits.later_life),
                          .seed = random()};
    if (const std::string problem = test::judge(moments_, state, demands, findings); !problem.empty()) {
      findings.problem = fmt::format("power cut after {} of {} events, {}: {}", state.events, trace_.size(), state.what, problem);
    }
    return true;
  });
  return findings;
}

Findings Trial::judge_end() {
  stop();
  Findings findings{.states = 1, .problem = problem_};
  if (findings.problem.empty()) findings.problem = test::judge(moments_, {device_->events(), "", device_->image()}, {}, findings);
  return findings;
}

}  // namespace lsmfs::test

// lsmfs receive: makes a snapshot of a stream that lsmfs send has written.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "cli/sizes.h"
#include "cli/snapshot_names.h"
#include "cli/stop.h"
#include "cli/transfer/builder.h"
#include "cli/transfer/frames.h"
#include "cli/transfer/receiving.h"
#include "cli/transfer/shown_progress.h"
#include "cli/transfer/snapshot_ids.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

// How much may be received before it is kept for good.
constexpr std::uint64_t kKeptBytes = 64 * MiB, kKeptRecords = 100'000;

// Standard input, until a signal comes.
class Input {
 public:
  explicit Input(StopRequest& stop) : stop_(stop) {}

  Result<std::string_view> take(std::size_t most) {
    if (at_ == size_) {
      for (;;) {
        pollfd ready{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        constexpr int kMilliseconds = 200;
        const int found = poll(&ready, 1, kMilliseconds);
        if (stop_.pending()) return make_error(EINTR, "");
        if (found == 0 || (found < 0 && errno == EINTR)) continue;
        const ssize_t got = read(STDIN_FILENO, bytes_.data(), bytes_.size());
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return make_error(errno, "");
        at_ = 0;
        size_ = static_cast<std::size_t>(got);
        break;
      }
    }
    const std::string_view given(bytes_.data() + at_, std::min(most, size_ - at_));
    at_ += given.size();
    return given;
  }

 private:
  StopRequest& stop_;
  std::string bytes_ = std::string(MiB, '\0');
  std::size_t at_ = 0, size_ = 0;
};

Problem problem_of(StreamTrouble trouble, const Error& error) {
  switch (trouble) {
    case StreamTrouble::empty: return {kStreamCut, "stdin: no stream comes; has lsmfs send failed?"};
    case StreamTrouble::foreign: return {kStreamForeign, "stdin: is no stream of lsmfs send"};
    case StreamTrouble::newer: return {kStreamNewer, "stdin: is a stream of a newer version of lsmfs; receive it with that"};
    case StreamTrouble::cut: return {kStreamCut, "stdin: the stream ends too early"};
    case StreamTrouble::damaged: return {kStreamDamaged, "stdin: the stream is damaged"};
    case StreamTrouble::unread: break;
  }
  return {kFailure, error.code == EINTR ? "stopped by a signal" : fmt::format("stdin: {}", std::strerror(error.code))};
}

std::string told(const NamedSnapshot& snapshot) { return fmt::format("{}, made {}", printable(snapshot.name), time_in_utc(snapshot.id.made)); }

// The snapshot of the file system that has what another one was sent as: that itself, or the one that was received as it. Who makes a snapshot may
// give it the looks of one that was received. So of several of those none is taken.
std::variant<std::string, Problem> find_snapshot(const std::string& directory, const NamedSnapshot& wanted) {
  std::vector<std::string> paths, received;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) paths.push_back(at->path());
  std::optional<Problem> unread;
  if (failed) unread = Problem{kFailure, explain(directory, make_error(failed.value(), directory))};
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    const auto known = id_of_snapshot(path);
    if (!known && known.error().code != ENOENT) unread = Problem{kFailure, explain(path, make_error(known.error().code, path))};
    if (!known || known->id != wanted.id) continue;
    if (!known->is_received) return path;
    received.push_back(path);
  }
  if (received.size() == 1) return received.front();
  if (received.empty() && unread) return *std::move(unread);  // it may be that one
  if (received.empty()) return Problem{kStreamBase, fmt::format("{}: the stream goes on from the snapshot {}, which is not here; receive that first, or send all, without -i", directory, told(wanted))};
  return Problem{kStreamBase, fmt::format("{}: is received as the snapshot {}, from which the stream goes on, and so is {}; remove one of them: lsmfs rm -r", printable(received[0]), told(wanted), printable(received[1]))};
}

class Receiver {
 public:
  Receiver(const ReceiveArguments& arguments, std::string directory, std::string snapshots)
      : arguments_(arguments), directory_(std::move(directory)), snapshots_(std::move(snapshots)), input_(stop_),
        source_([this](std::size_t most) { return input_.take(most); }), reader_(source_), progress_(directory_, arguments.quiet) {}

  int run() {
    auto problem = receive();
    progress_.clear();
    const int signal = stop_.signal();
    const int code = problem ? report(*problem) : kOk;
    if (problem && signal != 0) end_by(signal);
    return code;
  }

 private:
  std::optional<Problem> receive() {
    auto begin = reader_.start();
    if (!begin) return problem_of(reader_.trouble(), begin.error());
    of_ = begin->of;
    const std::string name = arguments_.name.value_or(of_.snapshot.name);
    place_ = {.path = fmt::format("{}/{}", snapshots_, name), .parent = snapshots_, .name = name};
    if (auto why = hindered(); !why.empty()) return Problem{kFailure, std::move(why)};
    std::string base;
    if (of_.base) {
      auto found = find_snapshot(snapshots_, *of_.base);
      if (auto* const problem = std::get_if<Problem>(&found)) return std::move(*problem);
      base = std::get<std::string>(std::move(found));
    }
    auto opened = Receiving::open(directory_, of_, [&](const std::string& path) { return make_tree(base, path); });
    if (!opened) return Problem{kFailure, opened.error().context};
    receiving_.emplace(*std::move(opened));
    applied_ = receiving_->state().at;
    bytes_ = receiving_->state().bytes;
    if (begin->from.records > applied_.records) {
      return failed({kFailure, fmt::format("{}: has less than what the stream goes on from", receiving_->path())});
    }
    if (begin->from.records == applied_.records && begin->from != applied_) return of_another();
    return go_on();
  }

  // Why nothing is to be received.
  std::string hindered() {
    if (auto why = wrong_snapshot_name(place_.name); !why.empty()) return why;
    struct stat facts {};
    if (lstat(place_.path.c_str(), &facts) == 0) {
      const auto id = id_of_snapshot(place_.path);
      const bool is_same = id && id->id == of_.snapshot.id;
      if (is_same) remove_left();
      return is_same ? place_.path + ": has been received already" : place_.path + ": exists already; give another name: lsmfs receive DIR NAME";
    }
    if (access(snapshots_.c_str(), W_OK | X_OK) != 0) {
      return errno == EROFS ? directory_ + ": is mounted read-only" : snapshots_ + ": no permission to make a snapshot there; root may give it by chmod or setfacl";
    }
    return "";
  }

  // Of a receive that ended between its snapshot and this.
  void remove_left() {
    struct stat facts {};
    if (lstat(fmt::format("{}/{}", directory_, receiving_name(of_.snapshot.id)).c_str(), &facts) != 0) return;
    if (auto left = Receiving::open(directory_, of_, [](const std::string& path) { return mkdir(path.c_str(), 0700) == 0 ? Result<void>() : make_error(errno, path); })) (void)left->remove();
  }

  Result<void> make_tree(const std::string& base, const std::string& path) {
    if (base.empty()) return mkdir(path.c_str(), 0700) == 0 ? Result<void>() : make_error(errno, explain_receiving(directory_, errno));
    const Place place{.path = path, .parent = path.substr(0, path.rfind('/')), .name = path.substr(path.rfind('/') + 1)};
    const auto cloned = clone_in_mount(base, place.parent, place.name);
    return cloned ? Result<void>() : make_error(cloned.error().code, explain_cloning(base, place, cloned.error()));
  }

  std::optional<Problem> go_on() {
    Builder builder(receiving_->tree(), receiving_->moved());
    if (receiving_->state().has_node) {
      if (auto node = builder.go_on_with(receiving_->state().node); !node) return failed({kFailure, node.error().context});
    }
    builder_ = &builder;
    bool any_gone = false;
    for (;;) {
      auto record = reader_.next();
      if (!record) return failed(problem_of(reader_.trouble(), record.error()));
      const auto* const end = *record ? std::get_if<EndRecord>(&**record) : nullptr;
      if (!*record || end) return end ? complete(*end) : failed({kStreamDamaged, "stdin: the stream is damaged"});
      if (reader_.point().records <= receiving_->state().at.records) {
        if (reader_.point().records == receiving_->state().at.records && reader_.point() != receiving_->state().at) return of_another();
        continue;
      }
      if (auto applied = builder.apply(**record); !applied) return not_applied(applied.error());
      applied_ = reader_.point();
      if (const auto* const data = std::get_if<DataRecord>(&**record)) {
        bytes_ += data->bytes.size();
        progress_.tell(bytes_);
      }
      any_gone = any_gone || std::holds_alternative<TakeRecord>(**record) || std::holds_alternative<RemoveRecord>(**record);
      const bool barrier = std::holds_alternative<RemovedRecord>(**record) && any_gone;
      const bool much = bytes_ - receiving_->state().bytes >= kKeptBytes || applied_.records - receiving_->state().at.records >= kKeptRecords;
      if (!barrier && !much) continue;
      if (auto kept = keep(); !kept) return failed({kFailure, explain_receiving(receiving_->path(), kept.error().code)});
    }
  }

  Problem of_another() const { return {kFailure, receiving_->path() + ": keeps a part of another stream; give it up by lsmfs rm -r, and receive it again"}; }

  Result<void> keep() {
    return receiving_->keep({.of = of_, .at = applied_, .node = builder_ && builder_->has_node() ? builder_->node() : "", .has_node = builder_ && builder_->has_node(), .bytes = bytes_});
  }

  std::optional<Problem> not_applied(const Error& error) {
    // Going on would not help.
    if (error.code == EPERM || error.code == EPROTO || error.code == EOPNOTSUPP) {
      const auto removed = receiving_->remove();
      const std::string kept = removed ? "nothing is kept of the stream" : fmt::format("{} could not be removed ({}); do it by lsmfs rm -r", receiving_->path(), std::strerror(removed.error().code));
      return Problem{error.code == EPROTO ? kStreamDamaged : kFailure, fmt::format("{}; {}", error.context, kept)};
    }
    return failed({kFailure, error.context});
  }

  // What was done so far stays, and that is said.
  std::optional<Problem> failed(Problem problem) {
    if (receiving_->state().at != applied_) (void)keep();  // else what was kept last counts
    problem.text += fmt::format("; what came before, {} of data, is kept in {}: go on with lsmfs send --resume and what lsmfs receive -t tells, or give it up by lsmfs rm -r", format_size(receiving_->state().bytes), receiving_->path());
    return problem;
  }

  // Nothing of the end is kept: what goes on from there must come to it once more, and to all that is asked here.
  std::optional<Problem> complete(const EndRecord& end) {
    progress_.clear();
    if (reader_.point().records != applied_.records + 1) return of_another();
    if (end.bytes != bytes_) return failed({kStreamDamaged, "stdin: the stream has not as much data as it says"});
    if (auto kept = keep(); !kept) return failed({kFailure, explain_receiving(receiving_->path(), kept.error().code)});
    if (auto called = receiving_->call_whole(); !called) return failed({kFailure, explain_receiving(receiving_->path(), called.error().code)});
    if (const auto made = clone_in_mount(receiving_->tree_path(), snapshots_, place_.name); !made) {
      const Error& error = made.error();
      if (error.code == EEXIST) return failed({kFailure, place_.path + ": exists already; give another name"});
      return failed({kFailure, explain_cloning(receiving_->path(), place_, error)});
    }
    const Fd directory(open(snapshots_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory || fsync(directory.get()) != 0) return Problem{kFailure, fmt::format("{}: is received, but whether it is on the device is not known: {}", place_.path, std::strerror(errno))};
    if (auto removed = receiving_->remove(); !removed) {
      return Problem{kFailure, fmt::format("{}: is received, but {} could not be removed: {}", place_.path, receiving_->path(), std::strerror(removed.error().code))};
    }
    print_path(place_.path);
    return std::nullopt;
  }

  const ReceiveArguments& arguments_;
  const std::string directory_, snapshots_;
  StopRequest stop_;
  Input input_;
  const StreamReader::Source source_;
  StreamReader reader_;
  ShownProgress progress_;
  StreamOf of_;
  Place place_;
  std::optional<Receiving> receiving_;
  const Builder* builder_ = nullptr;
  StreamPoint applied_;     // behind what was done last; never behind the end
  std::uint64_t bytes_ = 0; // of data, up to there
};

int print_tokens(const std::string& directory) {
  const auto unfinished = unfinished_in(directory);
  if (!unfinished) return report({kFailure, explain(directory, unfinished.error())});
  if (unfinished->empty()) return report({kFailure, directory + ": nothing is received there in part"});
  for (const BeginRecord& each : *unfinished) fmt::print("{}\n", token_of(each));
  return kOk;
}

}  // namespace

int receive(const ReceiveArguments& arguments) {
  const std::string directory = without_trailing_slashes(arguments.directory);
  if (const auto why = wrong_source(directory, "name a directory", "use tar"); !why.empty()) return report({kFailure, why});
  if (arguments.tokens) return print_tokens(directory);
  if (isatty(STDIN_FILENO) != 0) return report({kFailure, "stdin: is a terminal; give a stream, as in: lsmfs send SNAPSHOT | lsmfs receive DIR"});
  const auto place = snapshots_of(directory);
  if (!place) return report({kFailure, place.error().context});
  (void)umask(0);  // what is made has the mode of what was sent, and lies in a directory that nobody else comes to until then
  return Receiver(arguments, directory, place->directory).run();
}

}  // namespace lsmfs::cli

// lsmfs import: makes a directory of what an archive or another directory has, as a whole or not at all.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/import_errors.h"
#include "cli/import_sender.h"
#include "cli/import_source.h"
#include "cli/messages.h"
#include "cli/progress_line.h"
#include "cli/sizes.h"
#include "lsmfs/clock.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

// How far it is, how fast, and how long it goes on to take.
class ImportProgress {
 public:
  explicit ImportProgress(std::string path) : path_(std::move(path)) {}

  void show(const SourceProgress& progress) {
    const Clock::Time now = system_clock().now();
    if (!line_.can_show() || now < next_) return;
    next_ = now + kBetweenWords;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    const double rate = seconds > 0 ? static_cast<double>(progress.done) / seconds : 0;
    std::string text = fmt::format("{} entries, {}", progress.entries, format_size(progress.done));
    if (progress.total) text += fmt::format(" of {}", format_size(*progress.total));
    text += fmt::format(", {}/s", format_size(static_cast<std::uint64_t>(rate)));
    if (progress.total && rate > 0 && *progress.total > progress.done) {
      text += fmt::format(", {:.0f} s left", static_cast<double>(*progress.total - progress.done) / rate);
    }
    line_.show(path_, text);
  }

 private:
  const std::string path_;
  ProgressLine line_;
  const Clock::Time begun_ = system_clock().now();
  Clock::Time next_ = begun_ + kBetweenWords;
};

std::string explain_sending(const Place& place, const Error& error) {
  const auto about = [&](std::string_view why) { return fmt::format("{}: {}", place.path, why); };
  switch (error.code) {
    case EEXIST: return about("exists already; name what is not there yet");
    case ENOTTY: return place.parent + ": is mounted by a version that does not know imports; unmount it, and mount it again";
    case ENAMETOOLONG: return about("the name is too long");
    case EACCES: return place.parent + ": no permission to make a directory there";
    case EPERM: return place.parent + ": is immutable; see lsattr -d, chattr";
    case EROFS: return place.parent + ": is mounted read-only, or lies in a snapshot";
    case ENOSPC: return about("no space left on the device; nothing was made");
    case EMFILE: return place.parent + ": too many imports of this user are under way";
    case EAGAIN: return about("was not made in time; try again");
    case ESRCH: return place.parent + ": the daemon does not see this process, which is in another process namespace; run it where the mount was made";
    case ENOTCONN: case EIO: return place.parent + ": the daemon of the mount has ended, or has met an error; its log says more";
    default: return explain(place.path, make_error(error.code, ""));
  }
}

}  // namespace

int import_tree(const ImportArguments& arguments) {
  const Place place = place_of(without_trailing_slashes(arguments.target));
  if (const auto why = wrong_place(place); !why.empty()) return report({kFailure, why});
  if (const auto ours = query_mount(place.parent); !ours) {
    return report({kFailure, ours.error().code == ENOTTY ? place.parent + ": is not in an lsmfs that is mounted; use tar xf, or cp -a" : explain(place.parent, ours.error())});
  }
  auto sent = SentImport::begin(place.parent, place.name);
  if (!sent) return report({kFailure, explain_sending(place, sent.error())});

  ImportProgress progress(place.path);
  ImportSender sender(*sent);
  const auto take = [&](std::string& stream, const SourceProgress& so_far) -> std::optional<Problem> {
    progress.show(so_far);
    return sender.put(stream) ? std::nullopt : std::optional(Problem{kFailure, ""});
  };
  SourceFacts facts;
  const bool as_root = geteuid() == 0;
  const auto problem = read_source({.path = arguments.source, .as_root = as_root, .umask = current_umask()}, take, facts);
  if (const auto all_sent = sender.finish(); !all_sent) {
    const auto refused = sent->refusal();
    if (refused && *refused) return report({kFailure, explain_import(arguments.source, **refused)});
    return report({kFailure, explain_sending(place, all_sent.error())});
  }
  if (problem) return report(*problem);
  bool in_tree = false;
  const auto counts = sent->finish(in_tree);
  if (!counts) return report({kFailure, in_tree ? explain_import(arguments.source, counts.error()) : explain_sending(place, counts.error())});
  tell_facts(arguments.source, facts);
  say(place.path, fmt::format("{} files, {} directories, {} others, {}", counts->files, counts->directories, counts->others, format_size(counts->bytes)));
  return kOk;
}

}  // namespace lsmfs::cli

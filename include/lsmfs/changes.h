// changes: which paths below a directory may be others than they were at an earlier moment, as a log tells it.
//
// A token stands for a moment of a tree. Asked with one, the tree tells each path whose type, data or attributes have changed since. It may
// tell a path too much, and never one too little. Where it cannot tell, it says so: everything may have changed. That is so with the first
// question, with a token of another volume or history, and with one that is older than the log.
//
// Not told: access times, times and the link count of a directory in which names came or went, and the link count and time of change of a file
// which got or lost another name.
//
// The tree tells changes in steps, and keeps nothing between them. Who asks puts them together.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs {

// A moment: a position in a log of this number. The numbers are drawn at random, so that no two histories have the same.
struct ChangesToken {
  std::uint64_t log = 0, position = 0;
  friend bool operator==(const ChangesToken&, const ChangesToken&) = default;
};

// For people and scripts: letters, digits and dashes.
std::string text_of(const ChangesToken& token);
std::optional<ChangesToken> token_of(std::string_view text);  // nullopt: it is none

struct ChangesAsked {
  std::optional<ChangesToken> since;  // nullopt: only a token is wanted
  // Where to go on, as the step before said: from the row before `before` on, of which `skip` paths were told. 0: from the newest on.
  std::uint64_t before = 0, skip = 0;
  std::size_t room = 16000;           // bytes that a step takes at most when it is encoded; whoever answers says so
};

struct ChangesStep {
  ChangesToken now;                // all changes before it are told, with the steps that follow
  bool everything = false;         // nothing is told, since everything may have changed
  bool ended = false;              // that was all
  std::uint64_t before = 0, skip = 0;
  std::vector<std::string> paths;  // from the directory on; "": that itself. One that ends in a slash: with all that lies below it
};

std::string encode(const ChangesAsked& asked);
std::string encode(const ChangesStep& step);
// nullopt: damaged.
std::optional<ChangesAsked> decode_changes_asked(std::string_view bytes);
std::optional<ChangesStep> decode_changes_step(std::string_view bytes);

// As people are told.
struct Changes {
  ChangesToken now;
  bool everything = false;
  std::vector<std::string> paths;  // each once, in byte order; none that lies below one that ends in a slash
};

using AskChanges = std::function<Result<ChangesStep>(const ChangesAsked& asked)>;
// All of them. Asks again for what comes in the meantime, until one step tells all of it: the directory may be renamed between two. Errors:
// those of `ask`.
Result<Changes> find_changes(const AskChanges& ask, const std::optional<ChangesToken>& since);

}  // namespace lsmfs

// A receive that goes on: the directory in which it builds, what it keeps there of how far it has come, and who works in it.
//
//   DIR/.receiving-.../    mode 0700: nobody else comes to what is not complete
//     part/tree/           what is built; whole/tree once it is complete (snapshot_ids.h)
//     moved/               what was taken and is not placed yet
//     state                how far it has come, as of a moment before which all of it is on the device
//
// What it is not: it applies no records (builder.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/transfer/records.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {

struct ReceivingState {
  StreamOf of;
  StreamPoint at;
  std::string node;         // the inode that records are about; see NodeRecord
  bool has_node = false;
  std::uint64_t bytes = 0;  // of data
  friend bool operator==(const ReceivingState&, const ReceivingState&) = default;
};
std::string encode_state(const ReceivingState& state);
std::optional<ReceivingState> decode_state(std::string_view bytes);

class Receiving {
 public:
  // In the directory `parent`, which nobody else may work in. Makes it, or goes on with what is there; what has no state is made anew. `make_tree`
  // makes the tree at a path where nothing is. Errors: the context is a whole message.
  static Result<Receiving> open(const std::string& parent, const StreamOf& of, const std::function<Result<void>(const std::string& path)>& make_tree);

  const std::string& path() const { return path_; }
  std::string tree_path() const;  // leads there whatever is renamed above
  // The tree has all that was sent, and gets the path that says so. Errors: of renameat(2).
  Result<void> call_whole();
  const ReceivingState& state() const { return state_; }
  const Fd& tree() const { return tree_; }
  const Fd& moved() const { return moved_; }
  // All that was done is on the device, and so is this. Errors: of fsync(2) and their like. After one nothing is kept any more: the kernel tells once of
  // what it could not write, and forgets it.
  Result<void> keep(ReceivingState state);
  // Takes it away, with all that is in it.
  Result<void> remove();

 private:
  std::string path_;
  Fd parent_, directory_, tree_, moved_;
  Result<void> keep_now(const ReceivingState& state);

  bool is_whole_ = false;
  ReceivingState state_;
  int failed_ = 0;  // to keep something
};

// What an error of making, keeping or removing it is called.
std::string explain_receiving(const std::string& path, int code);

// Of those in a directory that have a state: where they go on. Errors: of reading it.
Result<std::vector<BeginRecord>> unfinished_in(const std::string& parent);

}  // namespace lsmfs::cli

#include "crash/recovery.h"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tree/harness.h"
#include "tree/model.h"

namespace lsmfs::test {
namespace {

constexpr std::string_view kData = "written after the crash";

Error wrong(std::string what) { return make_error(EUCLEAN, std::move(what)); }

Result<void> when(const std::string& circumstances, const Result<void>& result) {
  if (result) return {};
  return make_error(result.error().code, circumstances + ": " + result.error().context);
}

Result<void> sound(Store& store) {
  LSMFS_ASSIGN(const CheckReport report, check_tree(store));
  if (!report.clean()) return wrong("check: " + report.problems.front());
  return {};
}

Result<Attr> make_file(Tree& tree, Ino dir, std::string_view name) {
  LSMFS_ASSIGN(const Attr made, tree.make(dir, name, {.mode = S_IFREG | 0600}, Wait::yes));
  LSMFS_TRY(tree.write(made.ino, ByteOffset{0}, as_bytes(kData), Wait::yes));
  std::string back(kData.size(), '?');
  LSMFS_ASSIGN(const std::size_t got, tree.read(made.ino, ByteOffset{0}, {reinterpret_cast<std::byte*>(back.data()), back.size()}, Wait::yes));
  if (got != kData.size() || back != kData) return wrong("a new file does not give back what was written");
  return made;
}

// What a directory lists is there when it is looked up, and in use during the call.
Result<void> each_child(Tree& tree, Ino dir, const std::function<Result<void>(const Attr&)>& call) {
  std::vector<std::string> names;
  LSMFS_TRY(tree.readdir(dir, 0, AttrsOf::none, [&](const DirEntry& entry) {
    if (entry.name != "." && entry.name != "..") names.emplace_back(entry.name);
    return true;
  }, Wait::yes));
  for (const std::string& name : names) {
    LSMFS_ASSIGN(const std::optional<Attr> child, tree.lookup(dir, name, Wait::yes));
    if (!child) return wrong(name + ", which was listed, is not there");
    LSMFS_TRY(call(*child));
    tree.forget(child->ino, 1);
  }
  return {};
}

// Nothing is left of what lay below removed directories, then.
Result<void> sweep_all(Tree& tree, Store& store) {
  bool any = false;
  for (bool more = true; more; any |= more) {
    LSMFS_ASSIGN(more, tree.sweep());
  }
  if (!any) return {};
  LSMFS_TRY(tree.sync());
  LSMFS_TRY(sound(store));
  LSMFS_ASSIGN(const CheckReport report, check_tree(store));
  return report.removed_trees == 0 ? Result<void>() : wrong("something is left");
}

// Each directory takes a file, gives back what was written, and lets it go.
Result<void> use_directories(Tree& tree, Ino dir) {
  static constexpr std::string_view kName = "made after the crash";
  LSMFS_ASSIGN(const Attr made, make_file(tree, dir, kName));
  LSMFS_TRY(tree.unlink(dir, kName, Wait::yes));
  tree.forget(made.ino, 1);

  return each_child(tree, dir, [&](const Attr& child) { return S_ISDIR(child.mode) ? use_directories(tree, child.ino) : Result<void>(); });
}

// What replaces needs no room.
Result<void> write_over(Tree& tree, Ino dir) {
  return each_child(tree, dir, [&](const Attr& child) -> Result<void> {
    if (S_ISDIR(child.mode)) return write_over(tree, child.ino);
    if (!S_ISREG(child.mode)) return {};
    std::string buffer(child.size, '?');
    LSMFS_ASSIGN(const std::size_t got, tree.read(child.ino, ByteOffset{0}, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}, Wait::yes));
    LSMFS_TRY(tree.write(child.ino, ByteOffset{0}, as_bytes(buffer).first(got), Wait::yes));
    return {};
  });
}

Result<void> same(Tree& tree, const std::string& expected) {
  const std::string found = dump(tree);
  if (found != expected) return wrong("is another tree: " + difference(found, expected));
  return {};
}

// As lsmfs fsck does, which changes nothing: there is nothing to be said, and it is this tree.
Result<void> look_at(const SparseImage& image, const std::string& expected) {
  SparseDevice device(image, /*writable=*/false);
  std::string said;
  Stack stack;
  LSMFS_ASSIGN(stack.volume, Volume::open(device, {.notice = [&](std::string_view line) { said += line; }}));
  LSMFS_ASSIGN(stack.store, Store::open(*stack.volume, {.cache = ByteCount{32 * MiB}, .read_only = true}));
  if (!said.empty()) return wrong("notice: " + said);
  LSMFS_TRY(sound(*stack.store));
  LSMFS_ASSIGN(stack.tree, Tree::open(*stack.store, {.read_only = true}));
  LSMFS_TRY(same(*stack.tree, expected));
  return stack.close();
}

// A mount, at which it must be this tree.
Result<void> mount_again(const SparseImage& image, const std::string& expected) {
  SparseDevice device(image);
  LSMFS_ASSIGN(Stack stack, Stack::mount(device));
  LSMFS_TRY(same(*stack.tree, expected));
  LSMFS_TRY(stack.tree->sync());
  LSMFS_TRY(sound(*stack.store));
  return stack.close();
}

// `mount`: the requests of a mount that led to the tree `found`.
Result<void> cut_mount(const CrashState& state, const std::vector<TraceEvent>& mount, const std::string& found, std::uint64_t seed, Findings& findings) {
  Result<void> outcome;
  each_crash_state(state.image, mount, {.all_subsets_up_to = 3, .random_subsets = 2, .torn = 1, .seed = seed}, [&](const CrashState& again) {
    ++findings.recovery_states;
    outcome = when("after a mount that was cut off, " + again.what, mount_again(again.image, found));
    return outcome.has_value();
  });
  return outcome;
}

// The mounted tree, which is `found`, is used, synced and closed. What was synced is there after a power cut since then, too.
Result<void> live_on(const CrashState& state, Stack& stack, const SparseDevice& device, const std::string& found, std::uint64_t seed, Findings& findings) {
  LSMFS_ASSIGN(const Attr kept, make_file(*stack.tree, kRootIno, "kept after the crash"));
  if (found.find(fmt::format(" ino={} ", kept.ino.v)) != found.npos) return wrong(fmt::format("number {} is given again", kept.ino.v));
  LSMFS_TRY(stack.tree->sync());
  const std::size_t synced = device.events();
  const std::string expected = dump(*stack.tree);
  LSMFS_TRY(when("in use", sound(*stack.store)));
  LSMFS_TRY(stack.close());
  LSMFS_TRY(when("closed", look_at(device.image(), expected)));
  LSMFS_TRY(when("at the next mount", mount_again(device.image(), expected)));

  std::mt19937_64 random(seed);
  Result<void> outcome;
  each_crash_state(state.image, device.trace(), {.all_subsets_up_to = 3, .random_subsets = 2, .torn = 1, .seed = seed}, [&](const CrashState& again) {
    if (again.events < synced || (again.events > synced && random() % 8 != 0)) return true;
    ++findings.later_states;
    outcome = when(fmt::format("after a second power cut, {}", again.what), mount_again(again.image, expected));
    return outcome.has_value();
  });
  return outcome;
}

Result<void> judge_all(const Moments& moments, const CrashState& state, const Demands& demands, Findings& findings) {
  SparseDevice device(state.image);
  if (demands.cut_mount || demands.later_life) device.record();
  auto stack = Stack::mount(device);
  if (!stack) return make_error(stack.error().code, "does not mount: " + stack.error().context);
  const std::string found = dump(*stack->tree);
  if (std::string problem = moments.judge(found, state.events); !problem.empty()) return wrong(std::move(problem));
  if (demands.unmounted) LSMFS_TRY(when("before it was mounted", look_at(state.image, found)));
  LSMFS_TRY(when("sync", stack->tree->sync()));  // of what the mount itself has changed, too
  const std::vector<TraceEvent> mount = device.trace();
  LSMFS_TRY(sound(*stack->store));
  LSMFS_TRY(when("use of what was found", use_directories(*stack->tree, kRootIno)));
  LSMFS_TRY(when("sweep", sweep_all(*stack->tree, *stack->store)));
  if (demands.written_over) {
    // The second time there is something obsolete.
    for (int time = 0; time < 2; ++time) LSMFS_TRY(when("written over", write_over(*stack->tree, kRootIno)));
    LSMFS_TRY(when("sync of what was written over", stack->tree->sync()));
  }
  LSMFS_TRY(demands.later_life ? live_on(state, *stack, device, found, demands.seed, findings) : when("close", stack->close()));
  if (demands.cut_mount) LSMFS_TRY(cut_mount(state, mount, found, demands.seed, findings));
  return {};
}

}  // namespace

std::string judge(const Moments& moments, const CrashState& state, const Demands& demands, Findings& findings) {
  const auto judged = judge_all(moments, state, demands, findings);
  return judged ? "" : judged.error().message();
}

}  // namespace lsmfs::test

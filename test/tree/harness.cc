#include "tree/harness.h"

namespace lsmfs::test {
namespace {

template <class T>
T must(Result<T> result, const char* what) {
  if (!result.has_value()) {
    ADD_FAILURE() << what << ": " << result.error().message();
    std::abort();
  }
  return std::move(*result);
}

void must(const Result<void>& result, const char* what) {
  if (!result.has_value()) {
    ADD_FAILURE() << what << ": " << result.error().message();
    std::abort();
  }
}

}  // namespace

Result<void> Stack::format(Device& device) {
  LSMFS_TRY(Volume::format(device, {.label = "test"}));
  LSMFS_ASSIGN(const auto volume, Volume::open(device));
  LSMFS_ASSIGN(const auto store, Store::open(*volume, {.cache = ByteCount{32 * MiB}}));
  LSMFS_TRY(Tree::format(*store));
  return store->close();
}

Result<Stack> Stack::mount(Device& device, const TreeOptions& options, const Between& between) {
  Stack stack;
  if (between.device) stack.decorated = between.device(device);
  LSMFS_ASSIGN(stack.volume, Volume::open(stack.decorated ? *stack.decorated : device));
  if (between.volume) stack.volume = between.volume(std::move(stack.volume));
  LSMFS_ASSIGN(stack.store, Store::open(*stack.volume, {.cache = ByteCount{32 * MiB}}));
  if (between.store) stack.store = between.store(std::move(stack.store));
  LSMFS_ASSIGN(stack.tree, Tree::open(*stack.store, options));
  return stack;
}

Result<void> Stack::close() {
  LSMFS_TRY(tree->close());
  tree.reset();
  LSMFS_TRY(store->close());
  crash();
  return {};
}

void Stack::crash() {
  tree.reset();
  store.reset();
  volume.reset();
  decorated.reset();
}

Harness::Harness(ByteCount size, TreeOptions tree_options, Between decorators)
    : options(std::move(tree_options)), between(std::move(decorators)), device_(memory_device(size)) {
  must(Stack::format(*device_), "format");
  mount();
}

Harness::~Harness() = default;

void Harness::unmount() { must(stack_.close(), "close"); }

void Harness::mount() { stack_ = must(Stack::mount(*device_, options, between), "mount"); }

void Harness::crash() {
  stack_.crash();
  mount();
}

Ino Harness::make(Ino dir, std::string_view name, std::uint32_t mode, std::string_view symlink) {
  return must(both_ways([&](Wait w) { return tree().make(dir, name, {.mode = mode, .symlink = symlink}, w); }), "make").ino;
}

Ino Harness::create(Ino dir, std::string_view name, std::string_view data) {
  const Ino ino = make(dir, name, S_IFREG | 0644);
  if (!data.empty()) write(ino, 0, data);
  return ino;
}

void Harness::write(Ino ino, std::uint64_t offset, std::string_view data) {
  must(both_ways([&](Wait w) { return tree().write(ino, ByteOffset{offset}, as_bytes(data), w); }), "write");
}

std::string Harness::read(Ino ino, std::uint64_t offset, std::size_t length) {
  std::string out(std::min<std::uint64_t>(length, attr(ino).size), '?');
  MutableBytes to{reinterpret_cast<std::byte*>(out.data()), out.size()};
  out.resize(must(both_ways([&](Wait w) { return tree().read(ino, ByteOffset{offset}, to, w); }), "read"));
  return out;
}

Ino Harness::walk(std::string_view path) {
  Ino at = kRootIno;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const auto name = path.substr(0, slash);
    path = slash == path.npos ? std::string_view() : path.substr(slash + 1);
    if (name.empty()) continue;
    const auto found = must(both_ways([&](Wait w) { return tree().lookup(at, name, w); }), "lookup");
    if (!found) return Ino{};
    at = found->ino;
  }
  return at;
}

std::string Harness::read_path(std::string_view path) {
  const Ino ino = walk(path);
  return ino.v == 0 ? "(no such file)" : read(ino);
}

Attr Harness::attr(Ino ino) {
  return must(both_ways([&](Wait w) { return tree().getattr(ino, w); }), "getattr");
}

std::vector<std::string> Harness::list(Ino dir, std::size_t at_a_time) {
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  for (;;) {
    std::size_t given = 0;
    must(both_ways([&](Wait w) {
           return tree().readdir(dir, cookie, AttrsOf::none,
                                 [&](const DirEntry& e) {
                                   if (given == at_a_time) return false;
                                   ++given;
                                   cookie = e.next_cookie;
                                   if (e.name != "." && e.name != "..") names.emplace_back(e.name);
                                   return true;
                                 },
                                 w);
         }),
         "readdir");
    if (given == 0) return names;
  }
}

std::uint64_t Harness::rows(Family family, std::string_view prefix) {
  must(tree().sync(), "sync");  // operations since the last commit have no rows yet
  auto cursor = store().cursor(family, {.lower = std::string(prefix), .upper = {}});
  std::uint64_t n = 0;
  for (cursor->seek(prefix); cursor->valid() && cursor->key().starts_with(prefix); cursor->next()) ++n;
  return n;
}

std::string Harness::repair() {
  const auto repaired = repair_tree(store());
  EXPECT_TRUE(repaired) << repaired.error().message();
  if (!repaired) return "";
  EXPECT_TRUE(repaired->left.clean()) << testing::PrintToString(repaired->left.problems);
  std::string said;
  for (const auto& line : repaired->lines) said += line + "\n";
  crash();
  return said;
}

std::string Harness::check() {
  must(tree().sync(), "sync");
  const CheckReport report = must(check_tree(store()), "check");
  return report.clean() ? "" : report.problems.front();
}

}  // namespace lsmfs::test

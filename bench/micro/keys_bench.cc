// What the tree makes of names and inodes: keys, homes, records, cookies. Memory only.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lsmfs/tree.h"
#include "tree/dir_cookies.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::bench {
namespace {

// The home of what lies so many directories below the root.
std::string home_at(std::int64_t depth) {
  std::string home;
  for (Ino ino{100'000}; depth > 0; --depth, ++ino.v) home = keys::child_home(home, "directory", ino);
  return home;
}

void ChildHome(benchmark::State& state) {
  const std::string parent = home_at(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(keys::child_home(parent, "file_name.txt", Ino{1'234'567}));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ChildHome)->ArgName("depth")->Arg(1)->Arg(4)->Arg(16);

void EntryKey(benchmark::State& state) {
  const std::string home = home_at(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(keys::entry(home, "file_name.txt"));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(EntryKey)->ArgName("depth")->Arg(1)->Arg(4)->Arg(16);

void BlockKey(benchmark::State& state) {
  const std::string home = home_at(state.range(0));
  std::uint64_t index = 0;
  for (auto _ : state) benchmark::DoNotOptimize(keys::block(home, BlockIndex{index++}));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BlockKey)->ArgName("depth")->Arg(1)->Arg(4)->Arg(16);

// As fsck and messages do.
void ParseNames(benchmark::State& state) {
  const std::string key = keys::entry(home_at(state.range(0)), "file_name.txt");
  for (auto _ : state) benchmark::DoNotOptimize(keys::parse_names(key));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ParseNames)->ArgName("depth")->Arg(1)->Arg(4)->Arg(16);

void ParseBlock(benchmark::State& state) {
  const std::string key = keys::block(home_at(state.range(0)), BlockIndex{77});
  for (auto _ : state) benchmark::DoNotOptimize(keys::parse_block(key));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ParseBlock)->ArgName("depth")->Arg(1)->Arg(4)->Arg(16);

void PathOf(benchmark::State& state) {
  const std::string home = home_at(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(keys::path_of(home));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PathOf)->ArgName("depth")->Arg(1)->Arg(4)->Arg(16);

// A file as most are, or with all that one may have: an explicit home, attributes, flags.
Record record(bool everything) {
  Record r;
  r.ino = Ino{1'234'567};
  r.mode = S_IFREG | 0644;
  r.nlink = 1;
  r.uid = r.gid = 1000;
  r.size = 12'345;
  r.blocks = block_count(r.size);
  r.atime = r.mtime = r.ctime = r.btime = {1'700'000'000, 123'456'789};
  if (!everything) return r;
  r.home = home_at(4);
  r.flags = 0x40;
  r.set_xattr({"security.capability", std::string(20, 'c'), 0});
  r.set_xattr({"user.mime_type", "text/plain", 0});
  return r;
}

void EncodeRecord(benchmark::State& state) {
  const Record r = record(state.range(0) != 0);
  for (auto _ : state) benchmark::DoNotOptimize(encode(r));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(EncodeRecord)->ArgName("everything")->Arg(0)->Arg(1);

void DecodeRecord(benchmark::State& state) {
  const std::string row = encode(record(state.range(0) != 0));
  for (auto _ : state) benchmark::DoNotOptimize(decode_entry(row));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(DecodeRecord)->ArgName("everything")->Arg(0)->Arg(1);

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (int i = 0; i < 1000; ++i) out.push_back("file_name_" + std::to_string(i));
  return out;
}

// One listing of a directory of a thousand names.
void PassCookies(benchmark::State& state) {
  const auto all = names();
  DirCookies::Memory memory;
  DirCookies cookies(1, memory);
  for (auto _ : state) {
    cookies.resume(0);
    auto walk = cookies.walk_at(0);
    for (const auto& name : all) {
      benchmark::DoNotOptimize(cookies.pass(walk, name, false));
      cookies.given(name);
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all.size()));
}
BENCHMARK(PassCookies);

// The next request of such a listing, which begins where the last one ended.
void ResumeCookie(benchmark::State& state) {
  const auto all = names();
  DirCookies::Memory memory;
  DirCookies cookies(1, memory);
  cookies.resume(0);
  auto walk = cookies.walk_at(0);
  std::uint64_t cookie = 0;
  for (const auto& name : all) {
    cookie = cookies.pass(walk, name, false);
    cookies.given(name);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(cookies.walk_at(cookie));
    benchmark::DoNotOptimize(cookies.resume(cookie));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ResumeCookie);

}  // namespace
}  // namespace lsmfs::bench

BENCHMARK_MAIN();

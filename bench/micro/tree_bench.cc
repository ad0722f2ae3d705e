// The tree through its interface, on a device in memory or, with LSMFS_BENCH_DEVICE=path, on a device or image that is
// overwritten.
#include <benchmark/benchmark.h>

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "lsmfs/tree.h"
#include "support.h"

namespace lsmfs::bench {
namespace {

constexpr std::uint64_t kFiles = 1000;        // in a directory
constexpr std::uint64_t kRead = 128 * KiB;    // what the kernel asks for when it reads ahead
constexpr std::uint64_t kData = 8 * MiB;      // of the file that is read
constexpr std::uint64_t kWritten = 64 * MiB;  // of the file that is written over and over
constexpr std::size_t kEntriesAtATime = 100;  // that a listing gives in one request

Ino make(Tree& tree, Ino dir, std::string_view name, std::uint32_t mode) {
  return served([&](Wait wait) { return tree.make(dir, name, {.mode = mode}, wait); }).ino;
}
Ino make_file(Tree& tree, Ino dir, std::string_view name) { return make(tree, dir, name, S_IFREG | 0644); }

void write(Tree& tree, Ino ino, std::uint64_t offset, std::string_view data) {
  served([&](Wait wait) { return tree.write(ino, ByteOffset{offset}, as_bytes(data), wait); });
}

std::size_t read(Tree& tree, Ino ino, std::uint64_t offset, MutableBytes to) {
  return served([&](Wait wait) { return tree.read(ino, ByteOffset{offset}, to, wait); });
}

// How many entries a listing with attributes gives; their inodes go to `listed`.
std::size_t list(Tree& tree, Ino dir, std::vector<Ino>& listed) {
  listed.clear();
  std::uint64_t cookie = 0;
  for (bool more = true; more;) {
    std::size_t given = 0;
    const auto visit = [&](const DirEntry& entry) {
      if (given == kEntriesAtATime) return false;
      ++given;
      cookie = entry.next_cookie;
      if (entry.name != "." && entry.name != "..") listed.push_back(entry.attr.ino);
      return true;
    };
    served([&](Wait wait) { return tree.readdir(dir, cookie, AttrsOf::all, visit, wait); });
    more = given > 0;
  }
  return listed.size();
}

// A directory of files that are in use, in tables and in memory.
struct Directory : NewTree {
  Directory() : dir(make(*tree, kRootIno, "directory", S_IFDIR | 0755)) {
    for (std::uint64_t i = 0; i < kFiles; ++i) {
      names.push_back("file_name_" + std::to_string(i));
      files.push_back(make_file(*tree, dir, names.back()));
    }
    must(tree->sync());
    must(store->flush());
    for (const auto& name : names) served([&](Wait wait) { return tree->lookup(dir, name, wait); });
  }

  const Ino dir;
  std::vector<std::string> names;
  std::vector<Ino> files;
};
std::unique_ptr<Directory> shared_directory;

void LookupHit(benchmark::State& state) {
  const Shared<Directory> shared(shared_directory, state);
  std::uint64_t i = static_cast<std::uint64_t>(state.thread_index()) * 7;
  for (auto _ : state) {
    const Directory& d = *shared_directory;
    if (!served([&](Wait wait) { return d.tree->lookup(d.dir, d.names[i % kFiles], wait); })) give_up(make_error(EUCLEAN, "lookup"));
    ++i;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookupHit)->Threads(1)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();

// Before each create.
void LookupOfNoSuchName(benchmark::State& state) {
  Directory f;
  std::uint64_t i = 0;
  for (auto _ : state) {
    const std::string name = f.names[i % kFiles] + (i % 2 == 0 ? "a" : "b");
    if (served([&](Wait wait) { return f.tree->lookup(f.dir, name, wait); })) give_up(make_error(EUCLEAN, "lookup"));
    ++i;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(LookupOfNoSuchName)->UseRealTime();

void GetattrHit(benchmark::State& state) {
  const Shared<Directory> shared(shared_directory, state);
  std::uint64_t i = static_cast<std::uint64_t>(state.thread_index()) * 7;
  for (auto _ : state) {
    const Directory& d = *shared_directory;
    benchmark::DoNotOptimize(served([&](Wait wait) { return d.tree->getattr(d.files[i % kFiles], wait); }));
    ++i;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(GetattrHit)->Threads(1)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();

// A file in tables, whose blocks are in the cache.
struct Data : NewTree {
  Data() : file(make_file(*tree, kRootIno, "data")) {
    std::mt19937_64 random(1);
    for (std::uint64_t at = 0; at < kData; at += kRead) write(*tree, file, at, half_noise(random, kRead));
    must(tree->sync());
    must(store->flush());
    std::string bytes(kRead, '\0');
    for (std::uint64_t at = 0; at < kData; at += kRead) must(tree->read(file, ByteOffset{at}, bytes_of(bytes), Wait::yes));
  }
  static MutableBytes bytes_of(std::string& text) { return {reinterpret_cast<std::byte*>(text.data()), text.size()}; }

  const Ino file;
};
std::unique_ptr<Data> shared_data;

// From front to back, again and again, each thread from a place of its own.
void ReadHit(benchmark::State& state) {
  const Shared<Data> shared(shared_data, state);
  const auto size = static_cast<std::uint64_t>(state.range(0));
  std::uint64_t at = static_cast<std::uint64_t>(state.thread_index()) * kData / 8;
  std::string bytes(size, '\0');
  for (auto _ : state) {
    if (read(*shared_data->tree, shared_data->file, at % kData, Data::bytes_of(bytes)) != size) give_up(make_error(EUCLEAN, "read"));
    at += size;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ReadHit)->ArgName("bytes")->Arg(kBlockSize)->Arg(kRead)->Threads(1)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();

void ReadHitAnywhere(benchmark::State& state) {
  Data f;
  std::mt19937_64 random(1);
  std::string bytes(kBlockSize, '\0');
  for (auto _ : state) {
    const std::uint64_t at = random() % (kData / kBlockSize) * kBlockSize;
    if (read(*f.tree, f.file, at, Data::bytes_of(bytes)) != kBlockSize) give_up(make_error(EUCLEAN, "read"));
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBlockSize));
}
BENCHMARK(ReadHitAnywhere)->UseRealTime();

// Of inodes that the kernel knows (1), or has forgotten since the last time (0).
void ReaddirWithAttributes(benchmark::State& state) {
  Directory f;
  const bool known = state.range(0) != 0;
  if (!known) {
    for (const Ino file : f.files) f.tree->forget(file, 2);  // one of make, one of lookup
  }
  std::vector<Ino> listed;
  for (auto _ : state) {
    if (list(*f.tree, f.dir, listed) != kFiles) give_up(make_error(EUCLEAN, "readdir"));
    if (known) continue;
    state.PauseTiming();
    for (const Ino file : listed) f.tree->forget(file, 1);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kFiles));
}
BENCHMARK(ReaddirWithAttributes)->ArgName("known")->Arg(1)->Arg(0)->UseRealTime();

// Through directories of a few files in the order of their listings, as find(1) goes; all is forgotten again by the next.
void Walk(benchmark::State& state) {
  constexpr int kDirectories = 200, kFilesEach = 15;
  NewTree f;
  std::vector<Ino> directories;
  for (int i = 0; i < kDirectories; ++i) {
    directories.push_back(make(*f.tree, kRootIno, "directory" + std::to_string(i), S_IFDIR | 0755));
    for (int k = 0; k < kFilesEach; ++k) f.tree->forget(make_file(*f.tree, directories.back(), "file_name_" + std::to_string(k)), 1);
  }
  must(f.tree->sync());
  must(f.store->flush());
  for (const Ino directory : directories) f.tree->forget(directory, 1);
  std::vector<Ino> listed;
  for (auto _ : state) {
    if (list(*f.tree, kRootIno, directories) != kDirectories) give_up(make_error(EUCLEAN, "readdir"));
    for (const Ino directory : directories) {
      if (list(*f.tree, directory, listed) != kFilesEach) give_up(make_error(EUCLEAN, "readdir"));
      for (const Ino file : listed) f.tree->forget(file, 1);
    }
    for (const Ino directory : directories) f.tree->forget(directory, 1);
  }
  state.SetItemsProcessed(state.iterations() * kDirectories * (1 + kFilesEach));
}
BENCHMARK(Walk)->UseRealTime();

// With the wait for the committer when that is behind. The kernel forgets each file.
void Create(benchmark::State& state) {
  NewTree f;
  const Ino dir = make(*f.tree, kRootIno, "directory", S_IFDIR | 0755);
  std::uint64_t i = 0;
  for (auto _ : state) f.tree->forget(make_file(*f.tree, dir, "file_name_" + std::to_string(i++)), 1);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Create)->UseRealTime();

// One file made durable.
void CreateAndSync(benchmark::State& state) {
  NewTree f;
  std::uint64_t i = 0;
  for (auto _ : state) {
    f.tree->forget(make_file(*f.tree, kRootIno, "file_name_" + std::to_string(i++)), 1);
    must(f.tree->sync());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(CreateAndSync)->UseRealTime();

// Requests of so many bytes, one after the other.
void Write(benchmark::State& state) {
  NewTree f;
  const Ino file = make_file(*f.tree, kRootIno, "data");
  std::mt19937_64 random(1);
  const auto size = static_cast<std::uint64_t>(state.range(0));
  const std::string bytes = half_noise(random, size);
  std::uint64_t at = 0;
  for (auto _ : state) {
    write(*f.tree, file, at % kWritten, bytes);
    at += size;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Write)->ArgName("bytes")->Arg(kBlockSize)->Arg(kRead)->UseRealTime();

// There and back in one directory.
void Rename(benchmark::State& state) {
  Directory f;
  bool is_there = false;
  for (auto _ : state) {
    const std::string_view here = f.names[0], there = "another_name";
    served([&](Wait wait) { return f.tree->rename(f.dir, is_there ? there : here, f.dir, is_there ? here : there, 0, wait); });
    is_there = !is_there;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Rename)->UseRealTime();

// Of committed files of one block that nobody has open.
void Unlink(benchmark::State& state) {
  constexpr int kAtATime = 200;
  NewTree f;
  const std::string bytes(kBlockSize, 'u');
  for (auto _ : state) {
    state.PauseTiming();
    for (int i = 0; i < kAtATime; ++i) {
      const Ino file = make_file(*f.tree, kRootIno, "file_name_" + std::to_string(i));
      write(*f.tree, file, 0, bytes);
      f.tree->forget(file, 1);
    }
    must(f.tree->sync());
    state.ResumeTiming();
    for (int i = 0; i < kAtATime; ++i) {
      const std::string name = "file_name_" + std::to_string(i);
      served([&](Wait wait) { return f.tree->unlink(kRootIno, name, wait); });
    }
  }
  state.SetItemsProcessed(state.iterations() * kAtATime);
}
BENCHMARK(Unlink)->UseRealTime();

// What is done in a directory with so many entries of random names, of which the kernel knows none: microseconds each.
void InADirectory(benchmark::State& state) {
  constexpr std::uint64_t kEach = 20'000;
  const auto entries = static_cast<std::uint64_t>(state.range(0));
  NewTree f;
  const Ino dir = make(*f.tree, kRootIno, "directory", S_IFDIR | 0755);
  const auto name = [](std::uint64_t i) {
    const std::uint64_t mixed[] = {i};
    return std::to_string(checksum(std::as_bytes(std::span(mixed))));
  };
  const auto create = [&](std::uint64_t i) { f.tree->forget(make_file(*f.tree, dir, name(i)), 1); };
  std::mt19937_64 random(1);
  std::vector<Ino> listed;
  for (auto _ : state) {
    const auto microseconds_each = [&](const char* what, std::uint64_t times, const auto& each) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::uint64_t i = 0; i < times; ++i) each(i);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      state.counters[what] = took.count() / static_cast<double>(times);
    };
    std::uint64_t made = 0;
    while (made < entries) create(made++);
    must(f.tree->sync());
    microseconds_each("create", kEach, [&](std::uint64_t) { create(made++); });
    must(f.tree->sync());
    microseconds_each("lookup", kEach, [&](std::uint64_t) {
      const auto found = served([&](Wait wait) { return f.tree->lookup(dir, name(random() % made), wait); });
      if (!found) give_up(make_error(EUCLEAN, "lookup"));
      f.tree->forget(found->ino, 1);
    });
    std::uint64_t cookie = 0, given = 0;
    microseconds_each("list", made, [&](std::uint64_t i) {
      if (i < given) return;  // as many as one request gives
      std::size_t now = 0;
      listed.clear();
      served([&](Wait wait) {
        return f.tree->readdir(dir, cookie, AttrsOf::all, [&](const DirEntry& entry) {
          if (now == kEntriesAtATime) return false;
          ++now;
          cookie = entry.next_cookie;
          if (entry.name != "." && entry.name != "..") listed.push_back(entry.attr.ino);
          return true;
        }, wait);
      });
      given += listed.size();
      for (const Ino file : listed) f.tree->forget(file, 1);
    });
    if (given != made) give_up(make_error(EUCLEAN, "readdir"));
    microseconds_each("unlink", kEach, [&](std::uint64_t i) { served([&](Wait wait) { return f.tree->unlink(dir, name(i), wait); }); });
  }
}
BENCHMARK(InADirectory)->ArgName("entries")->Arg(10'000)->Arg(10'000'000)->Iterations(1)->Unit(benchmark::kSecond)->UseRealTime();

}  // namespace
}  // namespace lsmfs::bench

BENCHMARK_MAIN();

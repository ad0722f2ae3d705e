// A random stream of operations on a recorded device; the power is cut after every write, discard
// and flush; what the volume then holds is compared with what its promises 1 and 2 allow.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "base/planted.h"
#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/support.h"
#include "volume/volume_decorator.h"

namespace lsmfs::power_cut_test {
namespace {

using test::contents_of;
using test::ok;
using test::PowerCut;
using test::SparseDevice;
using test::SparseImage;
using test::Survivors;

using Names = std::map<std::string, int>;  // name -> index in Model::files

struct State {  // of a file's contents, after an operation
  std::string contents;
  std::size_t begin = 0;  // events on the device before that operation
};

struct Sync {
  std::size_t state = 0;           // index in ModelFile::states
  std::size_t begin = 0, end = 0;  // events before and after
};

struct ModelFile {
  FileKind kind = FileKind::table;
  std::vector<State> states;
  std::vector<Sync> syncs;
};

struct NamesVersion {
  Names names;
  std::size_t begin = 0;
};

struct Model {
  std::vector<ModelFile> files;
  std::vector<NamesVersion> versions;
  struct Commit {
    std::size_t version = 0, end = 0;
  };
  std::vector<Commit> commits;  // operations that made all names durable
  // A table that logs follow from then on.
  struct Precedence {
    std::size_t version = 0;
    int table = 0;
    std::size_t state = 0;
    std::vector<std::size_t> states;  // of each file, how many there were
    // Whether it comes before something that a log holds.
    bool is_before(const ModelFile& log, std::size_t index, const std::string& found) const {
      const std::size_t known = index < states.size() ? states[index] : 0;
      const auto end = log.states.begin() + static_cast<std::ptrdiff_t>(known);
      return !found.empty() && std::none_of(log.states.begin(), end, [&](const State& then) { return then.contents.starts_with(found); });
    }
  };
  std::vector<Precedence> precedences;
};

const char* kind_name(FileKind kind) {
  return kind == FileKind::table ? "table" : kind == FileKind::log ? "log" : "small";
}

// ---- what is allowed after a power cut when `events` had happened

// `durable`: a state that is known to be.
std::string judge_contents(const ModelFile& file, std::size_t events, std::size_t durable, const std::string& found) {
  std::vector<std::size_t> attempted;  // states whose sync had begun
  for (const Sync& sync : file.syncs) {
    if (sync.end <= events) {
      durable = std::max(durable, sync.state);
    } else if (sync.begin <= events) {
      attempted.push_back(sync.state);
    }
  }
  const std::string& synced = file.states[durable].contents;
  if (file.kind == FileKind::log) {
    // A prefix of what the file held at some moment since its last sync.
    std::size_t least = synced.size();
    for (std::size_t i = durable; i < file.states.size() && (i == durable || file.states[i].begin <= events); ++i) {
      const std::string& then = file.states[i].contents;
      least = std::min(least, then.size());
      if (found.size() >= least && found.size() <= then.size() && then.compare(0, found.size(), found) == 0) return "";
    }
    return "log holds " + std::to_string(found.size()) + " bytes that it never held; synced were " +
           std::to_string(synced.size());
  }
  if (found == synced) return "";
  for (std::size_t state : attempted) {
    if (found.size() == file.states[state].contents.size() && found.compare(0, synced.size(), synced) == 0) return "";
  }
  return std::string(kind_name(file.kind)) + " holds " + std::to_string(found.size()) + " bytes; synced were " +
         std::to_string(synced.size());
}

// What must be durable of tables, and which names, since logs hold what they do.
struct Preceding {
  std::size_t version = 0;
  std::map<int, std::size_t> states;
};

Preceding preceding(const Model& model, const Names& names, const std::map<std::string, std::string>& found) {
  Preceding all;
  for (const auto& precedence : model.precedences) {
    for (const auto& [name, index] : names) {
      const auto at = static_cast<std::size_t>(index);
      const ModelFile& file = model.files[at];
      if (file.kind != FileKind::log || !found.contains(name) || !precedence.is_before(file, at, found.at(name))) continue;
      all.version = std::max(all.version, precedence.version);
      std::size_t& state = all.states[precedence.table];
      state = std::max(state, precedence.state);
    }
  }
  return all;
}

using Kinds = std::map<std::string, FileKind>;

// Gives the names that are there with their kinds, or says what is wrong. Several states of the names may fit, as when
// an empty file replaced another one: no kinds then if these differ.
std::string judge(const Model& model, std::size_t events, const std::map<std::string, std::string>& found,
                  std::optional<Kinds>& kinds) {
  bool fits = false;
  std::size_t first = 0;
  for (const auto& commit : model.commits) {
    if (commit.end <= events) first = std::max(first, commit.version);
  }
  std::string why = "no state of the names since the last commit fits";
  for (std::size_t v = first; v < model.versions.size() && (v == first || model.versions[v].begin <= events); ++v) {
    const Names& then = model.versions[v].names;
    if (then.size() != found.size()) continue;
    const Preceding durable = preceding(model, then, found);
    if (v < durable.version) {
      why = "a log holds what came after a table";
      continue;
    }
    bool same = true;
    for (const auto& [name, index] : then) {
      auto it = found.find(name);
      if (it == found.end()) {
        same = false;
        break;
      }
      const std::size_t least = durable.states.contains(index) ? durable.states.at(index) : 0;
      if (auto bad = judge_contents(model.files[static_cast<std::size_t>(index)], events, least, it->second); !bad.empty()) {
        why = name + ": " + bad;
        same = false;
        break;
      }
    }
    if (!same) continue;
    Kinds these;
    for (const auto& [name, index] : then) these[name] = model.files[static_cast<std::size_t>(index)].kind;
    if (!fits) {
      kinds = std::move(these);
    } else if (kinds != these) {
      kinds.reset();
    }
    fits = true;
  }
  return fits ? "" : why;
}

// ---- the random stream

class Driver {
 public:
  Driver(SparseDevice& device, Volume& volume, Model& model, std::mt19937_64& random)
      : device_(device), volume_(volume), model_(model), random_(random) {}

  void step() {
    switch (random_() % 23) {
      case 0:
      case 1:
        create();
        break;
      case 2:
        reopen();
        break;
      case 3:
        rename();
        break;
      case 4:
        remove();
        break;
      case 5:
        commit();
        break;
      case 6:
        close();
        break;
      case 7:
        truncate();
        break;
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
        sync();
        break;
      case 13:
        trim();
        break;
      case 14:
      case 15:
        precede_logs();
        break;
      default:
        append();
    }
  }

 private:
  std::string any_name() { return std::string(1, static_cast<char>('a' + random_() % 6)); }
  const Names& names() const { return model_.versions.back().names; }
  ModelFile& file(int index) { return model_.files[static_cast<std::size_t>(index)]; }

  void name_change(Names to, std::size_t begin) { model_.versions.push_back({std::move(to), begin}); }

  void create() {
    const std::size_t begin = device_.events();
    const std::string name = any_name();
    const auto kind = static_cast<FileKind>(1 + random_() % 3);
    const int index = static_cast<int>(model_.files.size());
    model_.files.push_back({kind, {{"", begin}}, {}});
    Names next = names();
    next[name] = index;
    name_change(next, begin);
    auto writer = volume_.create(name, kind);
    ASSERT_TRUE(ok(writer));
    if (random_() % 2) (*writer)->set_lifetime(Lifetime::lasting);
    ASSERT_TRUE(ok((*writer)->reserve(ByteCount{random_() % 3 ? 64 * KiB : 3 * MiB})));
    writers_[index] = std::move(*writer);
  }

  void reopen() {
    if (names().empty()) return;
    auto it = std::next(names().begin(), static_cast<long>(random_() % names().size()));
    if (writers_.contains(it->second)) return;
    auto writer = volume_.reopen(it->first);
    ASSERT_TRUE(ok(writer));
    writers_[it->second] = std::move(*writer);
  }

  void rename() {
    const std::size_t begin = device_.events();
    if (names().empty()) return;
    const auto from = *std::next(names().begin(), static_cast<long>(random_() % names().size()));
    const std::string to = any_name();
    Names next = names();
    next.erase(from.first);
    next[to] = from.second;
    name_change(next, begin);
    ASSERT_TRUE(ok(volume_.rename(from.first, to)));
  }

  void remove() {
    const std::size_t begin = device_.events();
    if (names().empty()) return;
    const std::string name = std::next(names().begin(), static_cast<long>(random_() % names().size()))->first;
    Names next = names();
    next.erase(name);
    name_change(next, begin);
    ASSERT_TRUE(ok(volume_.remove(name)));
  }

  void commit() {
    const std::size_t version = model_.versions.size() - 1;
    ASSERT_TRUE(ok(volume_.commit()));
    model_.commits.push_back({version, device_.events()});
  }

  std::map<int, std::unique_ptr<FileWriter>>::iterator any_writer() {
    return writers_.empty() ? writers_.end()
                            : std::next(writers_.begin(), static_cast<long>(random_() % writers_.size()));
  }

  void append() {
    auto it = any_writer();
    if (it == writers_.end()) return create();
    const std::size_t begin = device_.events();
    static constexpr std::size_t kMost[] = {50, 5000, 5000, 70000, 1300000};
    const std::size_t most = kMost[random_() % 5];
    const std::string more = test::pattern(random_() % (most + 1), random_());
    ModelFile& f = file(it->first);
    f.states.push_back({f.states.back().contents + more, begin});
    ASSERT_TRUE(ok(it->second->append(as_bytes(more))));
    ASSERT_EQ(it->second->size().v, f.states.back().contents.size());
  }

  void truncate() {
    auto it = any_writer();
    if (it == writers_.end() || file(it->first).kind != FileKind::log) return;
    const std::size_t begin = device_.events();
    ModelFile& f = file(it->first);
    const std::string& now = f.states.back().contents;
    const std::size_t size = random_() % (now.size() + 1);
    f.states.push_back({now.substr(0, size), begin});
    ASSERT_TRUE(ok(it->second->truncate(ByteCount{size})));
  }

  // Changes nothing that anybody can see. What it makes durable it may.
  void trim() {
    const std::size_t version = model_.versions.size() - 1;
    const std::uint64_t start = random_() % 3 ? 0 : random_() % volume_.info().device_size.v;
    auto trimmed = volume_.trim({ByteOffset{start}, ByteCount{UINT64_MAX}, ByteCount{random_() % (4 * MiB)}}, [] { return false; });
    ASSERT_TRUE(ok(trimmed));
    model_.commits.push_back({version, device_.events()});
  }

  void sync() {
    auto it = any_writer();
    if (it == writers_.end()) return;
    ModelFile& f = file(it->first);
    const std::size_t version = model_.versions.size() - 1;
    f.syncs.push_back({f.states.size() - 1, device_.events(), SIZE_MAX});
    ASSERT_TRUE(ok(it->second->sync()));
    f.syncs.back().end = device_.events();
    model_.commits.push_back({version, device_.events()});
  }

  // The table may be durable from now on.
  void precede_logs() {
    auto it = any_writer();
    if (it == writers_.end() || file(it->first).kind == FileKind::log) return;
    ModelFile& f = file(it->first);
    f.syncs.push_back({f.states.size() - 1, device_.events(), SIZE_MAX});
    Model::Precedence precedence{model_.versions.size() - 1, it->first, f.states.size() - 1, {}};
    for (const ModelFile& any : model_.files) precedence.states.push_back(any.states.size());
    model_.precedences.push_back(std::move(precedence));
    ASSERT_TRUE(ok(it->second->precede_logs()));
  }

  void close() {
    auto it = any_writer();
    if (it == writers_.end()) return;
    ASSERT_TRUE(ok(it->second->close()));
    writers_.erase(it);
  }

  SparseDevice& device_;
  Volume& volume_;
  Model& model_;
  std::mt19937_64& random_;
  std::map<int, std::unique_ptr<FileWriter>> writers_;
};

std::map<std::string, std::string> all_contents(Volume& volume) {
  std::map<std::string, std::string> found;
  for (const std::string& name : volume.list()) found[name] = contents_of(volume, name);
  return found;
}

// A recovered volume must be one like any other.
void work_on(SparseDevice& device, Volume& volume, std::map<std::string, std::string> expected,
             std::mt19937_64& random) {
  std::unique_ptr<Volume> again;
  for (auto& [name, contents] : expected) {
    auto writer = volume.reopen(name);
    ASSERT_TRUE(ok(writer));
    const std::string more = test::pattern(random() % 9000, random());
    ASSERT_TRUE(ok((*writer)->append(as_bytes(more))));
    ASSERT_TRUE(ok((*writer)->sync()));
    contents += more;
  }
  ASSERT_TRUE(ok(test::write_file(volume, "new", FileKind::log, "new contents")));
  expected["new"] = "new contents";
  auto opened = Volume::open(device);  // as after a kill: the first one never closed
  ASSERT_TRUE(ok(opened));
  ASSERT_TRUE(all_contents(**opened) == expected);
}

// Faults that a run must find.
enum class Planted { nothing, flushes_do_nothing, each_third_flush_does_nothing, a_rename_removes_first };

class RemovesBeforeARename : public test::VolumeDecorator {
 public:
  using VolumeDecorator::VolumeDecorator;
  Result<void> rename(std::string_view from, std::string_view to) override {
    if (from != to && exists(to)) {
      LSMFS_TRY(remove(to));
      LSMFS_TRY(commit());
    }
    return inner().rename(from, to);
  }
};

void run(std::uint64_t seed, Planted planted = Planted::nothing) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  SparseDevice formatted{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(formatted, {})));
  {
    // Somewhere in the metadata area, so that its end is often met.
    auto volume = Volume::open(formatted);
    ASSERT_TRUE(ok(volume));
    for (std::uint64_t i = random() % 256; i > 0; --i) {
      ASSERT_TRUE(ok((*volume)->create("x", FileKind::small)));
      ASSERT_TRUE(ok((*volume)->remove("x")));
      ASSERT_TRUE(ok((*volume)->commit()));
    }
  }
  SparseImage image = formatted.image();
  Kinds kinds;  // of the files on `image`

  for (int generation = 0; generation < 4; ++generation) {
    SparseDevice device{image};
    device.record();
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    if (planted == Planted::a_rename_removes_first) *volume = std::make_unique<RemovesBeforeARename>(std::move(*volume));
    Model model;
    Names names;
    for (const auto& [name, contents] : all_contents(**volume)) {
      names[name] = static_cast<int>(model.files.size());
      model.files.push_back({kinds.at(name), {{contents, 0}}, {}});
    }
    model.versions.push_back({names, 0});
    {
      Driver driver(device, **volume, model, random);
      for (int i = 0; i < 60; ++i) {
        driver.step();
        if (test::complained()) return;
      }
      for (const auto& [name, index] : model.versions.back().names) {
        ASSERT_TRUE(contents_of(**volume, name) == model.files[static_cast<std::size_t>(index)].states.back().contents)
            << name;
      }
    }
    volume->reset();

    auto trace = device.trace();
    std::size_t flushes = 0;
    for (auto& event : trace) {
      const bool skipped = planted == Planted::flushes_do_nothing ||
                           (planted == Planted::each_third_flush_does_nothing && event.flush && ++flushes % 3 == 0);
      if (skipped) event.flush = false;
    }
    test::draw_discards(trace, random);
    PowerCut power(image, trace);
    std::optional<SparseImage> chosen;
    const std::size_t choice = random() % (trace.size() + 1);
    while (power.advance()) {
      for (Survivors which :
           {Survivors::all, Survivors::none, Survivors::random_whole, Survivors::random_torn, Survivors::random_torn}) {
        SparseDevice cut{power.image(which, random)};
        auto recovered = Volume::open(cut);
        ASSERT_TRUE(ok(recovered)) << "after event " << power.events();
        const auto found = all_contents(**recovered);
        std::optional<Kinds> found_kinds;
        const std::string wrong = judge(model, power.events(), found, found_kinds);
        ASSERT_EQ(wrong, "") << "generation " << generation << ", after event " << power.events() << " of "
                             << trace.size() << ", survivors " << static_cast<int>(which);
        if (power.events() >= choice && !chosen && which == Survivors::random_torn && found_kinds) {
          chosen = cut.image();
          kinds = *found_kinds;
        }
        if (random() % 8 == 0) {
          work_on(cut, **recovered, found, random);
          if (test::complained()) {
            ADD_FAILURE() << "generation " << generation << ", after event " << power.events() << " of "
                          << trace.size();
            return;
          }
        }
      }
    }
    if (!chosen) return;
    image = std::move(*chosen);
  }
}

TEST(PowerCut, NeverBreaksAPromise) {
  const int rounds = std::getenv("LSMFS_TEST_ROUNDS") ? std::atoi(std::getenv("LSMFS_TEST_ROUNDS")) : 1;
  const std::uint64_t seed = test::drawn_seed();
  for (int i = 0; i < rounds; ++i) {
    run(seed + static_cast<std::uint64_t>(i));
    if (HasFailure()) return;
  }
}

std::string complaints(Planted planted) {
  std::string said;
  for (std::uint64_t seed = 1; seed <= 20 && said.empty(); ++seed) said = test::complaints_of([&] { run(seed, planted); });
  return said;
}

TEST(PowerCutPlanted, FlushesThatDoNothingAreFound) { EXPECT_NE(complaints(Planted::flushes_do_nothing), ""); }
TEST(PowerCutPlanted, ASkippedFlushIsFound) { EXPECT_NE(complaints(Planted::each_third_flush_does_nothing), ""); }
TEST(PowerCutPlanted, ARenameInTwoStepsIsFound) {
  const std::string said = complaints(Planted::a_rename_removes_first);
  EXPECT_NE(said.find("no state of the names"), said.npos) << said;
}

// A table grows, and a log says so each time, of which whole frames (of a MiB) go to the device without a sync.
void write_table_and_log(bool precedes) {
  SparseDevice formatted{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(formatted, {})));
  SparseDevice device{formatted.image()};
  device.record();
  const std::string piece = test::pattern(300 * KiB, 1);
  constexpr std::size_t kPieces = 4;
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    auto table = (*volume)->create("table", FileKind::table);
    auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(table) && ok(log));
    ASSERT_TRUE(ok((*log)->sync()));
    for (std::size_t i = 1; i <= kPieces; ++i) {
      ASSERT_TRUE(ok((*table)->append(as_bytes(piece))));
      if (precedes) {
        ASSERT_TRUE(ok((*table)->precede_logs()));
      }
      ASSERT_TRUE(ok((*log)->append(as_bytes(std::string(MiB, static_cast<char>(i))))));
    }
    ASSERT_TRUE(ok((*log)->sync()));
  }
  std::mt19937_64 random(test::drawn_seed());
  const auto trace = device.trace();
  PowerCut power(formatted.image(), trace);
  std::size_t most = 0;
  while (power.advance()) {
    for (Survivors which : {Survivors::all, Survivors::random_whole, Survivors::random_torn}) {
      SparseDevice cut{power.image(which, random)};
      auto volume = Volume::open(cut);
      ASSERT_TRUE(ok(volume));
      const std::string said = (*volume)->exists("log") ? contents_of(**volume, "log") : "";
      const std::size_t pieces = said.empty() ? 0 : static_cast<std::size_t>(said.back());
      most = std::max(most, pieces);
      std::string expected;
      for (std::size_t i = 0; i < pieces; ++i) expected += piece;
      if (pieces == 0) continue;
      ASSERT_TRUE(contents_of(**volume, "table").starts_with(expected)) << "the log says " << pieces << " pieces";
    }
  }
  EXPECT_EQ(most, kPieces);
}

TEST(PowerCut, LeavesNoLogThatSaysMoreThanTheTableBeforeIt) { write_table_and_log(true); }
TEST(PowerCutPlanted, ATableThatPrecedesNothingIsFound) {
  EXPECT_NE(test::complaints_of([] { write_table_and_log(false); }).find("the log says"), std::string::npos);
}

TEST(PowerCut, LeavesTheOldVolumeOrNoneOrTheNewOneWhileFormatting) {
  std::mt19937_64 random(test::drawn_seed());
  SparseDevice old{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(old, {"old", Uuid::random()})));
  {
    auto volume = Volume::open(old);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE(ok(test::write_file(**volume, "file", FileKind::table, "contents")));
  }
  SparseDevice device{old.image()};
  device.record();
  ASSERT_TRUE(ok(Volume::format(device, {"new", Uuid::random()})));
  const auto trace = device.trace();
  PowerCut power(old.image(), trace);
  std::map<std::string, int> seen;
  while (power.advance()) {
    for (Survivors which :
         {Survivors::all, Survivors::none, Survivors::random_whole, Survivors::random_torn, Survivors::random_torn}) {
      SparseDevice cut{power.image(which, random)};
      auto volume = Volume::open(cut);
      if (!volume) {
        ASSERT_EQ(volume.error().code, EMEDIUMTYPE) << volume.error().message();
        ++seen["none"];
        continue;
      }
      const std::string label = (*volume)->info().label;
      ASSERT_EQ((*volume)->list().size(), label == "old" ? 1u : 0u);
      if (label == "old") {
        ASSERT_EQ(contents_of(**volume, "file"), "contents");
      }
      ++seen[label];
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
}  // namespace lsmfs::power_cut_test

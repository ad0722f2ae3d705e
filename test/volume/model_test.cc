// Random operations on a volume and on a plain map side by side, with reopening in between, on a
// device that is often full.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "base/planted.h"
#include "seed.h"
#include "volume/support.h"
#include "volume/volume_decorator.h"

namespace lsmfs::model_test {
namespace {

using test::contents_of;
using test::ok;
using test::pattern;

struct ModelFile {
  FileKind kind;
  std::string contents;
};

// The space of the first file that is removed stays taken: it only goes out of sight.
class LosesAFree : public test::VolumeDecorator {
 public:
  using VolumeDecorator::VolumeDecorator;
  Result<void> remove(std::string_view name) override {
    const auto size = size_of(name);
    return inner().exists(kLost) || !size || size->v == 0 ? inner().remove(name) : inner().rename(name, kLost);
  }
  std::vector<std::string> list() const override {
    auto names = inner().list();
    std::erase(names, kLost);
    return names;
  }
  VolumeUsage usage() const override {
    VolumeUsage usage = inner().usage();
    usage.files -= inner().exists(kLost);
    return usage;
  }

 private:
  static constexpr std::string_view kLost = "lost";
};

class ModelTest : public ::testing::Test {
 protected:
  void open() {
    auto volume = Volume::open(*device_);
    ASSERT_TRUE(ok(volume));
    volume_ = std::move(*volume);
    if (loses_a_free_) volume_ = std::make_unique<LosesAFree>(std::move(volume_));
  }
  void agree(std::uint64_t seed);

  bool loses_a_free_ = false;
  std::unique_ptr<Device> device_ = memory_device(ByteCount{128 * MiB});
  std::unique_ptr<Volume> volume_;
};

TEST_F(ModelTest, AgreesThroughRandomOperations) {
  agree(test::drawn_seed());
}

TEST_F(ModelTest, AFreeThatIsLostIsFound) {
  loses_a_free_ = true;
  const std::string said = test::complaints_of([this] { agree(1); });
  EXPECT_NE(said.find("empty."), said.npos) << said;
}

void ModelTest::agree(std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  ASSERT_TRUE(ok(Volume::format(*device_, {})));
  open();
  const VolumeUsage empty = volume_->usage();
  std::map<std::string, std::shared_ptr<ModelFile>> files;
  std::map<std::shared_ptr<ModelFile>, std::unique_ptr<FileWriter>> writers;
  struct OpenReader {
    std::unique_ptr<FileReader> reader;
    std::string contents;
    std::shared_ptr<ModelFile> file;
  };
  std::vector<OpenReader> readers;
  int full = 0;
  std::uint64_t trimmed_bytes = 0;

  const auto any_name = [&] { return "f" + std::to_string(random() % 12); };
  const auto any_file = [&] { return std::next(files.begin(), static_cast<long>(random() % files.size())); };
  for (int step = 0; step < 1000; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const unsigned what = static_cast<unsigned>(random() % 25);
    if (what < 3) {
      const auto name = any_name();
      auto file = std::make_shared<ModelFile>(ModelFile{static_cast<FileKind>(1 + random() % 3), ""});
      auto writer = volume_->create(name, file->kind);
      ASSERT_TRUE(ok(writer));
      (*writer)->set_lifetime(random() % 2 ? Lifetime::brief : Lifetime::lasting);
      if (random() % 2) {
        ASSERT_TRUE(ok((*writer)->reserve(ByteCount{random() % (40 * MiB)})));
      }
      files[name] = file;
      writers[file] = std::move(*writer);
    } else if (what == 3 && !files.empty()) {
      auto [name, file] = *any_file();
      auto writer = volume_->reopen(name);
      if (writers.contains(file)) {
        ASSERT_EQ(writer.error().code, EBUSY);
      } else {
        ASSERT_TRUE(ok(writer));
        writers[file] = std::move(*writer);
      }
    } else if (what == 4 && !files.empty()) {
      auto [name, file] = *any_file();
      const auto to = any_name();
      ASSERT_TRUE(ok(volume_->rename(name, to)));
      files.erase(name);
      files[to] = file;
    } else if (what == 5) {
      const auto name = any_name();
      auto r = volume_->remove(name);
      ASSERT_EQ(r.has_value(), files.erase(name) == 1);
      if (!r) {
        ASSERT_EQ(r.error().code, ENOENT);
      }
    } else if (what == 6) {
      ASSERT_TRUE(ok(volume_->commit()));
    } else if (what == 7 && !files.empty()) {
      auto [name, file] = *any_file();
      auto reader = volume_->open_reader(name);
      ASSERT_TRUE(ok(reader));
      if (readers.size() > 5) readers.erase(readers.begin());
      readers.push_back({std::move(*reader), file->contents, file});
    } else if (what == 8 && !readers.empty()) {
      // Any range, aligned or not; also of files that were removed or grew meanwhile.
      const OpenReader& r = readers[random() % readers.size()];
      ASSERT_EQ(r.reader->size().v, r.contents.size());
      AlignedBuffer buffer(3 * MiB);
      std::uint64_t from = random() % (r.contents.size() + 10), length = random() % (2 * MiB), shift = random() % 100;
      if (random() % 2) {
        from = round_down(from, kDeviceBlock);
        length = round_up(length, kDeviceBlock);
        shift = 0;
      }
      auto n = r.reader->read(ByteOffset{from}, buffer.bytes().subspan(shift, length));
      ASSERT_TRUE(ok(n));
      const std::string expected = from < r.contents.size() ? r.contents.substr(from, length) : "";
      ASSERT_TRUE(as_text(Bytes(buffer.bytes()).subspan(shift, *n)) == expected);
    } else if (what == 9 && step % 5 == 0) {
      // What was not synced may be lost by this, so all is synced first.
      for (auto& [file, writer] : writers) ASSERT_TRUE(ok(writer->sync()));
      writers.clear();
      readers.clear();
      for (auto& [name, file] : files) {
        auto writer = volume_->reopen(name);
        ASSERT_TRUE(ok(writer));
        ASSERT_TRUE(ok((*writer)->sync()));
      }
      volume_.reset();
      open();
    } else if (what == 24) {
      // The device makes garbage of it.
      const std::uint64_t start = random() % 2 ? 0 : random() % (128 * MiB);
      auto trimmed = volume_->trim({ByteOffset{start}, ByteCount{UINT64_MAX}, ByteCount{random() % (3 * MiB)}}, [] { return false; });
      ASSERT_TRUE(ok(trimmed));
      ASSERT_LE(trimmed->v, volume_->usage().table_free.v);
      if (start == 0) trimmed_bytes += trimmed->v;
    } else if (!writers.empty()) {
      auto it = std::next(writers.begin(), static_cast<long>(random() % writers.size()));
      auto& [file, writer] = *it;
      if (what < 12) {
        ASSERT_TRUE(ok(writer->sync()));
      } else if (what == 12) {
        ASSERT_TRUE(ok(writer->close()));
        ASSERT_EQ(writer->append(as_bytes("x")).error().code, EBADF);
        writers.erase(it);
      } else if (what == 13) {
        const std::size_t size = random() % (file->contents.size() + 2);
        auto r = writer->truncate(ByteCount{size});
        if (size > file->contents.size()) {
          ASSERT_EQ(r.error().code, EINVAL);
        } else {
          ASSERT_TRUE(ok(r));
          file->contents.resize(size);
          // What was cut off may be written over, also under those who read it.
          std::erase_if(readers, [&](const OpenReader& open) { return open.file == file; });
        }
      } else {
        static constexpr std::size_t kMost[] = {10, 10000, 10000, 300000, 9000000};
        const std::string more = pattern(random() % kMost[random() % 5], random());
        auto r = writer->append(as_bytes(more));
        if (r) {
          file->contents += more;
        } else {
          ASSERT_EQ(r.error().code, ENOSPC);  // and nothing of it was appended
          ++full;
        }
        ASSERT_EQ(writer->size().v, file->contents.size());
      }
    }
    if (step % 20 == 0 && !files.empty()) {
      auto [name, file] = *any_file();
      ASSERT_TRUE(contents_of(*volume_, name) == file->contents) << name;
      ASSERT_EQ(volume_->size_of(name)->v, file->contents.size());
    }
    ASSERT_EQ(volume_->usage().files, files.size());
  }
  std::vector<std::string> names;
  for (auto& [name, file] : files) {
    names.push_back(name);
    ASSERT_TRUE(contents_of(*volume_, name) == file->contents) << name;
  }
  ASSERT_EQ(volume_->list(), names);
  ASSERT_FALSE(volume_->failure());
  RecordProperty("times_full", full);
  EXPECT_GT(trimmed_bytes, 0u);

  // Whatever happened, all space comes back.
  readers.clear();
  writers.clear();
  for (const auto& name : names) ASSERT_TRUE(ok(volume_->remove(name)));
  ASSERT_TRUE(ok(volume_->commit()));
  EXPECT_EQ(volume_->usage().table_free, empty.table_free);
  EXPECT_EQ(volume_->usage().fixed_free, empty.fixed_free);
  EXPECT_EQ(volume_->usage().largest_free, empty.largest_free);
}

TEST_F(ModelTest, ReusesTheSpaceOfRemovedFilesWithoutBeingAsked) {
  ASSERT_TRUE(ok(Volume::format(*device_, {})));
  open();
  const std::string contents = pattern(60 * MiB, 1);
  for (int i = 0; i < 6; ++i) {  // six times what fits, never committed by the caller
    auto writer = volume_->create("big", FileKind::table);
    ASSERT_TRUE(ok(writer));
    ASSERT_TRUE(ok((*writer)->reserve(ByteCount{contents.size()})));
    ASSERT_TRUE(ok((*writer)->append(as_bytes(contents))));
    ASSERT_TRUE(ok((*writer)->close()));
  }
  EXPECT_EQ(volume_->create("other", FileKind::table).value()->append(as_bytes(contents)).error().code, ENOSPC);
  EXPECT_FALSE(volume_->failure());
}

TEST_F(ModelTest, RefusesMoreFilesThanTheMetadataLogCanList) {
  ASSERT_TRUE(ok(Volume::format(*device_, {})));
  open();
  int made = 0;
  for (;; ++made) {
    ASSERT_LT(made, 100000);
    auto writer = volume_->create(std::string(200, 'n') + std::to_string(made), FileKind::table);
    if (!writer) {
      ASSERT_EQ(writer.error().code, ENOSPC);
      break;
    }
    if (made % 100 == 0) {
      ASSERT_TRUE(ok(volume_->commit()));
    }
  }
  EXPECT_GT(made, 1000);
  ASSERT_TRUE(ok(volume_->commit()));
  for (int i = 0; i < 300; ++i) {  // through a switch of the area, which writes them all
    ASSERT_TRUE(ok(volume_->rename(std::string(200, 'n') + "0", "short")));
    ASSERT_TRUE(ok(volume_->commit()));
    ASSERT_TRUE(ok(volume_->rename("short", std::string(200, 'n') + "0")));
    ASSERT_TRUE(ok(volume_->commit()));
  }
  volume_.reset();
  open();
  EXPECT_EQ(volume_->list().size(), static_cast<std::size_t>(made));
  ASSERT_TRUE(ok(volume_->remove(std::string(200, 'n') + "0")));
  EXPECT_TRUE(ok(volume_->create("one more", FileKind::table)));
}

TEST_F(ModelTest, LogsGoOnInTheTableRegionWhenTheFixedOneIsFull) {
  ASSERT_TRUE(ok(Volume::format(*device_, {})));
  open();
  const std::string contents = pattern(30 * MiB, 3);  // the fixed region has 16
  auto log = volume_->create("wal", FileKind::log);
  ASSERT_TRUE(ok(log));
  for (std::size_t at = 0; at < contents.size(); at += MiB)
    ASSERT_TRUE(ok((*log)->append(as_bytes(contents).subspan(at, MiB))));
  ASSERT_TRUE(ok((*log)->close()));
  ASSERT_TRUE(ok((*volume_->reopen("wal"))->sync()));
  EXPECT_LT(volume_->usage().fixed_free.v, 4 * MiB);
  ASSERT_TRUE(ok(test::write_file(*volume_, "CURRENT", FileKind::small, "x")));
  volume_.reset();
  open();
  EXPECT_TRUE(contents_of(*volume_, "wal") == contents);
  EXPECT_EQ(contents_of(*volume_, "CURRENT"), "x");
}

TEST_F(ModelTest, RefusesBadNames) {
  ASSERT_TRUE(ok(Volume::format(*device_, {})));
  open();
  EXPECT_EQ(volume_->create("", FileKind::log).error().code, EINVAL);
  EXPECT_EQ(volume_->create(std::string(256, 'x'), FileKind::log).error().code, EINVAL);
  EXPECT_TRUE(ok(volume_->create(std::string(255, 'x'), FileKind::log)));
  EXPECT_EQ(volume_->rename(std::string(255, 'x'), "").error().code, EINVAL);
  EXPECT_EQ(volume_->open_reader("y").error().code, ENOENT);
  EXPECT_EQ(volume_->reopen("y").error().code, ENOENT);
  EXPECT_EQ(volume_->size_of("y").error().code, ENOENT);
}

}  // namespace
}  // namespace lsmfs::model_test

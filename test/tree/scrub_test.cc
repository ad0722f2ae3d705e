// Tree::scrub() says in paths what damage is about, and tells the log.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "noise.h"
#include "tree/harness.h"
#include "until.h"

namespace lsmfs::test::scrub_test {
namespace {

class ScrubTree : public testing::Test {
 protected:
  ScrubTree()
      : h_(ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .notice = [this](std::string_view line) {
             const std::lock_guard lock(mutex_);
             notices_.emplace_back(line);
           }}) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 40; ++i) {
      std::string data(100'000, '\0');
      fill_with_noise(random(), data);
      h_.create(h_.mkdir(kRootIno, "directory" + std::to_string(100 + i)), "file", data);
    }
    EXPECT_TRUE(h_.tree().drop_caches());
  }

  std::vector<std::string> scrub() {
    std::vector<std::string> damage;
    for (ScrubPosition position; !position.done();) {
      const auto step = h_.tree().scrub(position, [] { return false; });
      EXPECT_TRUE(step) << step.error().message();
      if (!step) break;
      damage.insert(damage.end(), step->damage.begin(), step->damage.end());
    }
    return damage;
  }

  // Where on the device a piece of a file is, which does not compress.
  std::uint64_t place_of(std::string_view bytes) {
    AlignedBuffer piece(MiB);
    for (std::uint64_t at = 0; at < h_.device().size().v; at += piece.size()) {
      EXPECT_TRUE(h_.device().read(ByteOffset{at}, piece.bytes()));
      if (const auto found = as_text(piece.bytes()).find(bytes); found != std::string_view::npos) places_.push_back(at + found);
    }
    EXPECT_FALSE(places_.empty());
    return places_.empty() ? 0 : places_.back();
  }
  bool has_noticed(std::string_view words) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(notices_, [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }
  Ino find(Ino dir, std::string_view name) {
    const auto found = h_.tree().lookup(dir, name, Wait::yes);
    EXPECT_TRUE(found && *found);
    return found && *found ? (*found)->ino : Ino{};
  }
  void flip(std::uint64_t at) {
    AlignedBuffer block(kDeviceBlock);
    const ByteOffset from{round_down(at, kDeviceBlock)};
    EXPECT_TRUE(h_.device().read(from, block.bytes()));
    block.data()[at % kDeviceBlock] ^= std::byte{1};
    EXPECT_TRUE(h_.device().write(from, block.bytes()));
  }

  std::mutex mutex_;
  std::vector<std::string> notices_;
  std::vector<std::uint64_t> places_;
  Harness h_;
};

TEST_F(ScrubTree, ASoundTreeHasNoDamage) {
  EXPECT_EQ(scrub(), std::vector<std::string>{});
  EXPECT_EQ(notices_, std::vector<std::string>{});
}

TEST_F(ScrubTree, DamagedDataIsNamedByThePathsAroundIt) {
  const std::string data = h_.read_path("directory110/file");  // in the middle of a table
  flip(place_of(std::string_view(data).substr(50'100, 60)));   // and not where it lies in the log, which comes before
  const auto damage = scrub();
  ASSERT_EQ(damage.size(), 1u) << testing::PrintToString(damage);
  EXPECT_TRUE(damage[0].starts_with("table ")) << damage[0];
  EXPECT_NE(damage[0].find("file data between byte "), std::string::npos) << damage[0];
  EXPECT_NE(damage[0].find(" of /directory110/file"), std::string::npos) << damage[0];
  EXPECT_TRUE(has_noticed("scrub: " + damage[0]));
}

TEST_F(ScrubTree, DamageIsSetAsideAndGoesWithTheFilesThatItIsIn) {
  const std::string data = h_.read_path("directory110/file"), other = h_.read_path("directory120/file");
  flip(place_of(std::string_view(data).substr(50'100, 60)));
  EXPECT_FALSE(scrub().empty());
  // The table has gone, or will soon; what it held is an error, and all else is as it was.
  EXPECT_TRUE(until([&] { return std::ranges::all_of(scrub(), [](const std::string& line) { return line.starts_with("rows are lost"); }); }));
  EXPECT_FALSE(scrub().empty());
  const Ino directory = find(kRootIno, "directory110"), file = find(directory, "file");
  std::string bytes(4096, '\0');
  const auto read = [&](std::uint64_t at) {
    return h_.tree().read(file, ByteOffset{at}, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, Wait::yes, AccessTime::stays);
  };
  ASSERT_FALSE(read(49'152));
  EXPECT_EQ(read(49'152).error().code, EUCLEAN);
  EXPECT_EQ(h_.read_path("directory120/file"), other);

  // A part of a block cannot be changed, a whole one can.
  const auto write = [&](std::uint64_t at, std::size_t size) {
    return h_.tree().write(file, ByteOffset{at}, as_bytes(std::string(size, 'n')), Wait::yes);
  };
  EXPECT_EQ(write(49'160, 10).error().code, EUCLEAN);
  EXPECT_TRUE(write(49'152, 4096));
  EXPECT_TRUE(write(49'160, 10));
  EXPECT_TRUE(read(49'152));
  EXPECT_EQ(bytes, std::string(4096, 'n'));

  // What is new where something is lost is whole, also with a hole in it.
  const Ino fresh = h_.create(directory, "file2", "begin");
  ASSERT_TRUE(h_.tree().write(fresh, ByteOffset{300'000}, as_bytes(std::string("end")), Wait::yes));
  ASSERT_TRUE(h_.tree().sync());
  std::string whole = h_.read_path("directory110/file2");
  EXPECT_EQ(whole.size(), 300'003u);
  EXPECT_EQ(whole.substr(0, 5) + whole.substr(300'000), "beginend");

  // It goes with its files: what is cut off or removed, and what is written anew.
  AttrChange empty;
  empty.size = 0;
  ASSERT_TRUE(h_.tree().setattr(find(find(kRootIno, "directory109"), "file"), empty, Wait::yes));
  ASSERT_TRUE(h_.tree().unlink(directory, "file", Wait::yes));
  h_.tree().forget(file, UINT64_MAX);  // nobody has it open
  ASSERT_TRUE(h_.tree().unlink(find(kRootIno, "directory111"), "file", Wait::yes));
  ASSERT_TRUE(h_.tree().sync());
  EXPECT_TRUE(until([&] { return scrub().empty(); })) << testing::PrintToString(scrub());
  EXPECT_EQ(h_.read_path("directory120/file"), other);
}

TEST_F(ScrubTree, LostNamesAreErrorsAndAllOthersAreThere) {
  const Ino many = h_.mkdir(kRootIno, "many");
  const auto name_of = [](int number) { return "file" + std::to_string(1000 + number); };
  std::mt19937_64 random(3);
  std::string value;
  for (int i = 0; i < 500; ++i) {
    std::string bytes(200, '\0');
    fill_with_noise(random(), bytes);
    ASSERT_TRUE(h_.tree().setxattr(h_.create(many, name_of(i)), "user.x", bytes, 0, Wait::yes));
    if (i == 250) value = bytes;
  }
  h_.remount();
  ASSERT_TRUE(h_.tree().drop_caches());
  flip(place_of(value));
  EXPECT_FALSE(scrub().empty());
  ASSERT_TRUE(until([&] { return h_.store().losses() > 0; }));

  const Ino dir = find(kRootIno, "many");
  int lost = 0;
  for (int i = 0; i < 500; ++i) {
    const auto found = h_.tree().lookup(dir, name_of(i), Wait::yes);
    lost += !found;
    EXPECT_TRUE(found ? found->has_value() : found.error().code == EUCLEAN) << i;
  }
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 100);
  EXPECT_EQ(code(h_.tree().lookup(dir, name_of(250), Wait::yes)), EUCLEAN);
  EXPECT_EQ(code(h_.tree().make(dir, name_of(250), {.mode = S_IFREG | 0644}, Wait::yes)), EUCLEAN);
  h_.create(dir, "a new one", "data");
  EXPECT_EQ(h_.read_path("many/a new one"), "data");

  // A listing gives what comes before it, and then says so.
  std::vector<std::string> names;
  std::uint64_t cookie = 0;
  Result<void> listed;
  while (listed) {
    const std::size_t before = names.size();
    listed = h_.tree().readdir(dir, cookie, AttrsOf::all, [&](const DirEntry& entry) {
      if (names.size() == before + 50) return false;
      names.emplace_back(entry.name);
      cookie = entry.next_cookie;
      return true;
    }, Wait::yes, AccessTime::stays);
    if (listed && names.size() == before) break;
  }
  EXPECT_EQ(code(listed), EUCLEAN);
  EXPECT_GT(names.size(), 150u);
  EXPECT_EQ(h_.list(find(kRootIno, "directory110")), std::vector<std::string>{"file"});

  // fsck -y gives it up.
  h_.unmount();
  const auto volume = Volume::open(h_.device());
  ASSERT_TRUE(volume);
  ASSERT_TRUE(Store::repair(**volume, {}));
  auto store = Store::open(**volume, {});
  ASSERT_TRUE(store);
  const auto repaired = repair_tree(**store);
  ASSERT_TRUE(repaired);
  EXPECT_TRUE(repaired->left.clean());
  ASSERT_TRUE((*store)->close());
}

// Nobody but the base itself says that they are there.
TEST_F(ScrubTree, LostNamesThatAreShownAreErrors) {
  const Ino many = h_.mkdir(kRootIno, "many");
  std::mt19937_64 random(3);
  std::string value;
  for (int i = 0; i < 500; ++i) {
    std::string bytes(200, '\0');
    fill_with_noise(random(), bytes);
    ASSERT_TRUE(h_.tree().setxattr(h_.create(many, "file" + std::to_string(1000 + i)), "user.x", bytes, 0, Wait::yes));
    if (i == 250) value = bytes;
  }
  ASSERT_TRUE(h_.tree().clone(many, kRootIno, "clone", Wait::yes));
  h_.remount();
  ASSERT_TRUE(h_.tree().drop_caches());
  flip(place_of(value));
  EXPECT_FALSE(scrub().empty());
  ASSERT_TRUE(until([&] { return h_.store().losses() > 0; }));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(scrub().empty());
  for (const char* const side : {"many", "clone"}) EXPECT_EQ(code(h_.tree().lookup(find(kRootIno, side), "file1250", Wait::yes)), EUCLEAN) << side;
}

// Below a root that was left to a snapshot, as anywhere else.
TEST_F(ScrubTree, LostAttributesGoWithTheirFiles) {
  ASSERT_TRUE(h_.tree().clone(kRootIno, kSnapshotsIno, "snapshot", Wait::yes));
  const Ino many = h_.mkdir(kRootIno, "many");
  std::mt19937_64 random(3);
  std::string value;
  for (int i = 0; i < 100; ++i) {
    std::string bytes(3000, '\0');
    fill_with_noise(random(), bytes);
    ASSERT_TRUE(h_.tree().setxattr(h_.create(many, "file" + std::to_string(1000 + i)), "user.x", bytes, 0, Wait::yes));
    if (i == 50) value = bytes;
  }
  h_.remount();
  ASSERT_TRUE(h_.tree().drop_caches());
  flip(place_of(std::string_view(value).substr(0, 60)));
  EXPECT_FALSE(scrub().empty());
  ASSERT_TRUE(until([&] { return h_.store().losses() > 0; }));
  const Ino dir = find(kRootIno, "many");
  for (int i = 0; i < 100; ++i) {
    const std::string name = "file" + std::to_string(1000 + i);
    const auto file = h_.tree().lookup(dir, name, Wait::yes);
    ASSERT_TRUE(file && *file) << name;
    ASSERT_TRUE(h_.tree().unlink(dir, name, Wait::yes));
    h_.tree().forget((*file)->ino, UINT64_MAX);
  }
  ASSERT_TRUE(h_.tree().sync());
  EXPECT_TRUE(until([&] { return scrub().empty(); })) << testing::PrintToString(scrub());
}

// A scrub looks at first whose the lost rows are, and so reads what nobody knows to be damaged.
TEST_F(ScrubTree, NewDamageIsToldWhenSomethingIsLostAlready) {
  const Ino many = h_.mkdir(kRootIno, "many");
  std::mt19937_64 random(3);
  std::vector<std::string> values;
  for (int i = 0; i < 100; ++i) {
    std::string& bytes = values.emplace_back(3000, '\0');
    fill_with_noise(random(), bytes);
    ASSERT_TRUE(h_.tree().setxattr(h_.create(many, "file" + std::to_string(1000 + i)), "user.x", bytes, 0, Wait::yes));
  }
  h_.remount();
  for (const int of : {80, 20}) {
    ASSERT_TRUE(h_.tree().drop_caches());
    places_.clear();
    (void)place_of(std::string_view(values[of]).substr(0, 60));
    for (const std::uint64_t place : places_) flip(place);
    EXPECT_FALSE(scrub().empty()) << of;
    ASSERT_TRUE(until([&] { return h_.store().losses() > 0; }));
  }
}

}  // namespace
}  // namespace lsmfs::test::scrub_test

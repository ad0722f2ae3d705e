// A small tree with something of each kind, whose rows can be changed past all that keeps them sound.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "noise.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs::test {

// Of a directory that is somewhere deep down.
inline std::string longest_home(Ino ino) {
  std::string parent;
  while (parent.size() + 200 < keys::kPathHomeMax) parent = keys::child_home(parent, std::string(100, 'd'), Ino{2});
  const std::size_t left = keys::kPathHomeMax - parent.size() - keys::child_home("", "", ino).size();
  return keys::child_home(parent, std::string(left, 'd'), ino);
}

class DamagedTree : public testing::Test {
 protected:
  DamagedTree() {
    file_ = h_.create(kRootIno, "file", std::string(10'000, 'x'));
    directory_ = h_.mkdir(kRootIno, "directory");
    inner_ = h_.mkdir(directory_, "inner");
    deep_ = h_.create(inner_, "deep", "data");
    sparse_ = h_.create(directory_, "sparse");
    h_.write(sparse_, 100 * kBlockSize, "far");
    linked_ = h_.create(kRootIno, "one", "of several names");
    must(h_.tree().link(linked_, directory_, "two", Wait::yes));
    h_.make(kRootIno, "symlink", S_IFLNK | 0777, "target");
    h_.make(kRootIno, "pipe", S_IFIFO | 0644);
    attributed_ = h_.create(kRootIno, "attributed");
    must(h_.tree().setxattr(attributed_, "user.large", std::string(5000, 'v'), 0, Wait::yes));
    must(h_.tree().setxattr(attributed_, "user.small", "v", 0, Wait::yes));
    must(h_.tree().setxattr(kRootIno, "user.of the root", std::string(300, 'v'), 0, Wait::yes));
    h_.create(h_.mkdir(kRootIno, "before"), "inside", "data");
    must(h_.tree().rename(kRootIno, "before", directory_, "after", 0, Wait::yes));
    must(h_.tree().sync());
  }

  template <class T>
  static void must(const Result<T>& result) { ASSERT_TRUE(result.has_value()) << result.error().message(); }

  // ---- rows
  std::string value(const std::string& key, Family family = Family::names) {
    const auto found = h_.store().get(family, key, Wait::yes);
    EXPECT_TRUE(found && *found) << "no such row";
    return found && *found ? **found : std::string();
  }
  void put(const std::string& key, const std::string& row, Family family = Family::names) {
    Batch batch;
    batch.put(family, key, row);
    must(h_.store().commit(batch));
  }
  void erase(const std::string& key, Family family = Family::names) {
    Batch batch;
    batch.erase(family, key);
    must(h_.store().commit(batch));
  }
  void change(const std::string& key, const std::function<void(Record&)>& how) {
    auto record = decode_record(value(key));
    ASSERT_TRUE(record);
    how(*record);
    put(key, encode(*record));
  }
  void change_state(const std::function<void(State&)>& how) {
    auto state = decode_state(value(std::string(keys::kState)));
    ASSERT_TRUE(state);
    how(*state);
    put(std::string(keys::kState), encode(*state));
  }
  // It counts the rows of data that there are now.
  void count_rows() {
    change_state([this](State& state) { state.data_rows = h_.rows(Family::blocks); });
  }
  Ino next_ino() { return decode_state(value(std::string(keys::kState)))->next_ino; }
  static Record regular(Ino ino) {
    Record record;
    record.ino = ino;
    record.mode = S_IFREG | 0644;
    record.nlink = 1;
    return record;
  }

  // As if it had been removed while it was in use.
  void remove_name_of_directory() {
    Record record = *decode_record(value(keys::entry(root_, "directory")));
    erase(keys::entry(root_, "directory"));
    record.home = directory_home();
    record.nlink = 0;
    put(keys::orphan(directory_), encode(record));
    change(std::string(keys::kRoot), [](Record& root) {
      --root.size;
      --root.nlink;
    });
    change_state([](State& state) { --state.counts.directories; });
  }

  // ---- verdicts
  CheckReport check() {
    auto report = check_tree(h_.store());
    EXPECT_TRUE(report.has_value());
    return report.has_value() ? std::move(*report) : CheckReport{};
  }
  // Exactly these problems, each line with all of its words.
  void expect(const std::vector<std::vector<std::string>>& expected) {
    const CheckReport report = check();
    std::string all;
    for (const auto& line : report.problems) {
      EXPECT_EQ(line.find('\n'), std::string::npos);
      all += line + "\n";
    }
    EXPECT_EQ(report.problems.size(), expected.size()) << all;
    for (const auto& words : expected) {
      EXPECT_TRUE(std::any_of(report.problems.begin(), report.problems.end(), [&](const std::string& line) {
        return std::all_of(words.begin(), words.end(), [&](const auto& word) { return line.find(word) != std::string::npos; });
      })) << testing::PrintToString(words) << " is not in\n" << all;
    }
    EXPECT_FALSE(report.clean());
  }
  static std::string inode(Ino ino) { return "inode " + std::to_string(ino.v); }

  Harness h_;
  Ino file_, directory_, inner_, deep_, sparse_, linked_, attributed_;
  const std::string root_ = "";
  std::string directory_home() { return keys::child_home(root_, "directory", directory_); }
  std::string inner_home() { return keys::child_home(directory_home(), "inner", inner_); }
  std::string file_home() { return keys::child_home(root_, "file", file_); }
  std::string file_row() { return keys::entry(root_, "file"); }
};

// A tree whose tables lie on a device, with a bit flipped where `bytes` are.
class DamagedTable : public testing::Test {
 protected:
  static std::string random_bytes(std::size_t size) {
    std::string bytes(size, 0);
    fill_with_noise(7, bytes);
    return bytes;  // which no compression makes smaller
  }
  void flip(std::string_view bytes) {
    h_.unmount();
    flip_on_device(bytes);
  }
  void flip_on_device(std::string_view bytes) {
    AlignedBuffer whole(MiB);
    int found = 0;
    for (std::uint64_t at = 0; at + MiB <= h_.device().size().v; at += MiB) {
      ASSERT_TRUE(h_.device().read(ByteOffset{at}, whole.bytes()));
      const auto place = as_text(whole.bytes()).find(bytes);
      if (place == std::string_view::npos) continue;
      ++found;
      whole.data()[place] ^= std::byte{1};
      ASSERT_TRUE(h_.device().write(ByteOffset{at}, whole.bytes()));
    }
    ASSERT_GT(found, 0) << "not on the device";
  }
  CheckReport check() {
    const auto volume = Volume::open(h_.device());
    const auto store = Store::open(**volume, {.read_only = true});
    EXPECT_TRUE(store);
    auto report = check_tree(**store);
    EXPECT_TRUE(report);
    return *report;
  }
  Harness h_;
};

}  // namespace lsmfs::test

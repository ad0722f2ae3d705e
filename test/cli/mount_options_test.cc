// The table of mount options, and what follows from it: facts, what a remount may change, and the README.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cli/mount_options.h"

namespace lsmfs::cli::mount_options_test {
namespace {

// "cache=SIZE" -> "cache".
std::string name_of(std::string_view word) { return std::string(word.substr(0, word.find('='))); }

std::set<std::string> names_of(const MountOption& option) {
  std::set<std::string> names;
  std::istringstream words{std::string(option.words)};
  for (std::string word; words >> word;) {
    if (word.ends_with(',')) word.pop_back();
    names.insert(name_of(word));
  }
  return names;
}

// Of the README's table: each option, and what its row says is the default.
std::map<std::string, std::string> documented() {
  std::map<std::string, std::string> options;
  std::ifstream readme(LSMFS_README);
  std::string line;
  while (std::getline(readme, line) && line != "## Mount options") {
  }
  while (std::getline(readme, line) && !line.starts_with("## ")) {
    if (!line.starts_with("| `")) continue;
    const auto first = line.find(" | "), second = line.find(" | ", first + 2);
    const std::string cell = line.substr(0, first);
    for (std::size_t at = cell.find('`'); at != std::string::npos; at = cell.find('`', at)) {
      const auto end = cell.find('`', at + 1);
      options[name_of(std::string_view(cell).substr(at + 1, end - at - 1))] = line.substr(first + 3, second - first - 3);
      at = end + 1;
    }
  }
  return options;
}

std::vector<Setting> used_with(const std::string& words) { return lasting(layer_options(parse_mount_options({words}).value())); }

TEST(MountOptionsTable, IsThatOfTheReadme) {
  auto there = documented();
  for (const MountOption& option : mount_options()) {
    for (const std::string& name : names_of(option)) {
      ASSERT_TRUE(there.contains(name)) << name;
      const std::string fallback(option.fallback.substr(0, option.fallback.find(':')));
      if (!fallback.empty()) {
        EXPECT_EQ(there[name], "`" + fallback + "`") << name;
      }
      there.erase(name);
    }
  }
  for (const auto& [name, fallback] : there) ADD_FAILURE() << "no such option: " << name;
}

TEST(MountOptionsTable, ItsDefaultsAreWhatHoldsIfNothingIsSaid) {
  int checked = 0;
  for (const MountOption& option : mount_options()) {
    const std::string fallback(option.fallback.substr(0, option.fallback.find(':')));
    if (fallback.empty()) continue;
    const bool has_value = option.words.find('=') != std::string_view::npos;
    const auto said = layer_options(parse_mount_options({has_value ? name_of(option.words) + "=" + fallback : fallback}).value());
    const auto none = layer_options(ParsedOptions());
    EXPECT_EQ(lasting(said), lasting(none)) << option.words;
    EXPECT_EQ(said.mount.read_only, none.mount.read_only);
    EXPECT_EQ(said.open.tree.atime, none.open.tree.atime);
    EXPECT_EQ(said.open.tree.sync_interval_ms, none.open.tree.sync_interval_ms);
    ++checked;
  }
  EXPECT_EQ(checked, 10);
}

TEST(MountOptionsTable, SaysWhatNoRemountCanChange) {
  const std::map<std::string, std::string> others{
      {"cache", "cache=64M"}, {"acl", "noacl"}, {"xattr", "noxattr"}, {"latency", "latency=off"}, {"io_uring", "io_uring=on"}, {"writeback", "writeback"},
      {"user_rm", "user_rm"}, {"snapshot", "snapshot=s"}, {"timeout", "timeout=5"}};
  EXPECT_EQ(lasting(LayerOptions()).size(), others.size());
  for (const auto& [name, word] : others) {
    const auto parsed = parse_mount_options({word}).value();
    EXPECT_EQ(first_change(parsed, used_with("")), name);
    EXPECT_EQ(first_change(parsed, used_with(word)), std::nullopt) << word;
    EXPECT_EQ(first_change(parse_mount_options({"ro,sync,noatime,sync_interval=1"}).value(), used_with(word)), std::nullopt) << word;
    EXPECT_EQ(first_change(parsed, {}), name) << "a daemon that does not know it";
  }
}

TEST(MountOptionsTable, SaysWhatARemountChanges) {
  const MountSettings settings = changes(parse_mount_options({"ro,dirsync,noatime,nodiratime,sync_interval=1"}).value());
  EXPECT_EQ(settings.tree.read_only, true);
  EXPECT_EQ(settings.tree.atime, AtimePolicy::noatime);
  EXPECT_EQ(settings.tree.directory_atime, false);
  EXPECT_EQ(settings.tree.sync_interval_ms, 1000u);
  EXPECT_EQ(settings.durable_names, true);
  const MountSettings none = changes(ParsedOptions());
  EXPECT_EQ(none.tree.read_only, false);
  EXPECT_FALSE(none.tree.atime || none.tree.directory_atime || none.tree.sync_interval_ms);
  EXPECT_EQ(none.durable_names, false);
}

// Lists are attributes.
TEST(MountOptionsTable, WithoutAttributesThereAreNoAccessLists) {
  struct Case {
    const char* words;
    bool xattr, acl;
  };
  for (const auto& [words, xattr, acl] : {Case{"noxattr", false, false}, {"acl,noxattr", false, false}, {"noxattr,noacl", false, false},
                                          {"noxattr,acl", true, true}, {"noxattr,xattr", true, true}, {"noacl", true, false},
                                          {"noacl,xattr", true, false}, {"noxattr,context=a:b:c:s0", false, false}}) {
    const auto parsed = parse_mount_options({words}).value();
    const MountOptions mount = layer_options(parsed).mount;
    EXPECT_EQ(mount.xattr, xattr) << words;
    EXPECT_EQ(mount.acl, acl) << words;
    EXPECT_EQ(first_change(parsed, used_with(words)), std::nullopt) << words << ", which a remount may say again";
  }
  EXPECT_EQ(first_change(parse_mount_options({"acl"}).value(), used_with("noxattr")), "acl");
  EXPECT_EQ(first_change(parse_mount_options({"xattr"}).value(), used_with("noxattr")), "xattr");
  EXPECT_TRUE(check_kept_options("noxattr"));
}

TEST(MountOptionsTable, ASnapshotIsReadOnlyWhateverElseIsSaid) {
  for (const char* words : {"snapshot=a b", "snapshot=a b,rw", "rw,ro,rw,snapshot=a b", "snapshot=x,snapshot=a b", "snapshot=\"a b\""}) {
    const auto parsed = parse_mount_options({words}).value();
    EXPECT_EQ(parsed.snapshot, "a b") << words;
    const MountOptions mount = layer_options(parsed).mount;
    EXPECT_TRUE(mount.read_only) << words;
    EXPECT_EQ(mount.shows, ".snapshots/a b") << words;
  }
  EXPECT_EQ(parse_mount_options({"snapshot=\"a,b\",noatime"}).value().snapshot, "a,b");
  EXPECT_EQ(layer_options(ParsedOptions()).mount.shows, "");
  for (const std::string name : {"", "a/b", "/", ".", "..", "\"\""}) {
    const auto wrong = parse_mount_options({"snapshot=" + name});
    ASSERT_FALSE(wrong) << name;
    EXPECT_NE(wrong.error().context.find("lsmfs snapshots lists"), std::string::npos) << wrong.error().context;
  }
  EXPECT_NE(parse_mount_options({"snapshot"}).error().context.find("write snapshot=NAME"), std::string::npos);
  EXPECT_FALSE(check_kept_options("noatime,snapshot=a"));
}

TEST(MountOptionsTable, SaysWhereValuesGo) {
  const LayerOptions layers = layer_options(
      parse_mount_options({"ro,cache=64M,sync_interval=7,strictatime,nodiratime,noacl,latency=on,io_uring=off,writeback,user_rm,dirsync,nosuid"}).value());
  EXPECT_TRUE(layers.mount.read_only && layers.mount.writeback && layers.mount.user_rm && layers.mount.durable_names);
  EXPECT_FALSE(layers.mount.acl || layers.open.tree.directory_atime);
  EXPECT_TRUE(layers.mount.xattr);
  EXPECT_EQ(layers.mount.latency, Choice::on);
  EXPECT_EQ(layers.mount.io_uring, Choice::off);
  EXPECT_EQ(layers.open.store.cache, ByteCount{64 * MiB});
  EXPECT_EQ(layers.open.tree.sync_interval_ms, 7000u);
  EXPECT_EQ(layers.open.tree.atime, AtimePolicy::strictatime);
  EXPECT_EQ(layers.mount.kernel_options, (std::vector<std::string>{"dirsync", "nosuid", "strictatime", "nodiratime"}));
}

}  // namespace
}  // namespace lsmfs::cli::mount_options_test

// The order in which a stream tells changes, and which names of files of several are made again.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cli/transfer/changes.h"

namespace lsmfs::cli::stream_changes_test {
namespace {

using Tree = std::map<std::string, std::pair<std::uint64_t, std::uint32_t>>;  // inode number and type
using Kind = Difference::Kind;

BothSides::Look look(const Tree& tree) {
  return [&tree](const std::string& path) -> Result<std::optional<struct stat>> {
    const auto found = tree.find(path);
    if (found == tree.end()) return std::optional<struct stat>();
    struct stat facts {};
    facts.st_ino = found->second.first;
    facts.st_mode = found->second.second;
    return std::optional(facts);
  };
}

std::vector<LinkedName> linked(const Tree& tree) {
  std::map<std::uint64_t, int> names;
  for (const auto& [path, each] : tree) ++names[each.first];
  std::vector<LinkedName> found;
  for (const auto& [path, each] : tree) {
    if (names[each.first] > 1) found.push_back({.path = path, .file = Ino{each.first}});
  }
  return found;
}

// "- path", "t path" (taken), then what comes, then "l path > existing", then "a directory".
std::vector<std::string> planned(const Tree& a, const Tree& b, const std::vector<Difference>& differences) {
  const auto plan = plan_changes(differences, {.base = look(a), .snapshot = look(b), .base_links = linked(a), .snapshot_links = linked(b)});
  EXPECT_TRUE(plan);
  std::vector<std::string> out;
  if (!plan) return out;
  for (const auto& each : plan->gone) out.push_back((each.number ? "t " : "- ") + each.path);
  for (const auto& each : plan->items) out.push_back(std::string(1, "p+Mm"[static_cast<int>(each.what)]) + " " + each.path);
  for (const auto& [path, existing] : plan->links) out.push_back("l " + path + " > " + existing);
  for (const auto& each : plan->directories) out.push_back("a " + each);
  return out;
}

using Lines = std::vector<std::string>;

TEST(ChangePlans, TakeTheDeepestFirst) {
  const Tree a{{"d", {1, S_IFDIR}}, {"d/x", {2, S_IFREG}}, {"d/y", {3, S_IFREG}}}, b{{"e", {1, S_IFDIR}}, {"z", {2, S_IFREG}}, {"e/new", {9, S_IFREG}}};
  EXPECT_EQ(planned(a, b, {{Kind::renamed, true, "e", "d"}, {Kind::added, false, "e/new", ""}, {Kind::removed, false, "d/y", ""}, {Kind::renamed, false, "z", "d/x"}}),
            (Lines{"- d/y", "t d/x", "t d", "p e", "+ e/new", "p z", "m z", "a ", "a e"}));
}

TEST(ChangePlans, MakeAnewWhatIsOfAnotherType) {
  const Tree a{{"x", {1, S_IFDIR}}, {"x/below", {2, S_IFREG}}, {"s", {3, S_IFLNK}}}, b{{"x", {4, S_IFREG}}, {"s", {5, S_IFLNK}}};
  EXPECT_EQ(planned(a, b, {{Kind::contents, false, "s", ""}, {Kind::contents, false, "x", ""}}), (Lines{"- x", "- s", "+ s", "+ x", "a "}));
}

TEST(ChangePlans, ChangeOnceWhatStillHasTheSameNames) {
  const Tree a{{"d", {9, S_IFDIR}}, {"d/p", {1, S_IFREG}}, {"q", {1, S_IFREG}}}, b{{"e", {9, S_IFDIR}}, {"e/p", {7, S_IFREG}}, {"q", {7, S_IFREG}}};
  EXPECT_EQ(planned(a, b, {{Kind::renamed, true, "e", "d"}, {Kind::contents, false, "e/p", ""}, {Kind::contents, false, "q", ""}}), (Lines{"t d", "p e", "M e/p", "a ", "a e"}));
}

TEST(ChangePlans, TellAttributesOfAllThatIsMoved) {
  const Tree a{{"f", {1, S_IFREG}}, {"g", {2, S_IFREG}}, {"d", {3, S_IFDIR}}}, b{{"f2", {1, S_IFREG}}, {"g2", {2, S_IFREG}}, {"d2", {3, S_IFDIR}}};
  EXPECT_EQ(planned(a, b, {{Kind::renamed, false, "f2", "f"}, {Kind::attributes, false, "f2", ""}, {Kind::renamed, false, "g2", "g"}, {Kind::contents, false, "g2", ""}, {Kind::renamed, true, "d2", "d"}}),
            (Lines{"t g", "t f", "t d", "p d2", "p f2", "m f2", "p g2", "M g2", "a ", "a d2"}));
}

TEST(ChangePlans, ChangeTheDataOnceWhateverNameIsMoved) {
  const Tree a{{"p", {1, S_IFREG}}, {"q", {1, S_IFREG}}}, b{{"o", {7, S_IFREG}}, {"q", {7, S_IFREG}}};
  EXPECT_EQ(planned(a, b, {{Kind::renamed, false, "o", "p"}, {Kind::contents, false, "q", ""}}), (Lines{"t p", "p o", "M q", "a "}));
}

TEST(ChangePlans, LinkAnewWhatHasOtherNames) {
  const Tree a{{"p", {1, S_IFREG}}, {"q", {1, S_IFREG}}, {"r", {2, S_IFREG}}, {"s", {2, S_IFREG}}};
  const Tree b{{"p", {5, S_IFREG}}, {"r", {5, S_IFREG}}, {"q", {6, S_IFREG}}, {"s", {6, S_IFREG}}};
  // p keeps its inode, and s that of r, for q has none to keep.
  EXPECT_EQ(planned(a, b, {}), (Lines{"- r", "- q", "m p", "m s", "l q > s", "l r > p", "a "}));
}

TEST(ChangePlans, SendAsNewWhatIsAFileByItselfNow) {
  const Tree a{{"p", {1, S_IFREG}}, {"q", {1, S_IFREG}}}, b{{"p", {5, S_IFREG}}, {"q", {6, S_IFREG}}};
  EXPECT_EQ(planned(a, b, {{Kind::attributes, false, "p", ""}, {Kind::attributes, false, "q", ""}}), (Lines{"- q", "m p", "+ q", "a "}));
}

TEST(ChangePlans, LinkNamesInNewDirectories) {
  const Tree a{{"p", {1, S_IFREG}}}, b{{"p", {5, S_IFREG}}, {"n", {7, S_IFDIR}}, {"n/p", {5, S_IFREG}}, {"n/x", {8, S_IFREG}}, {"n/y", {8, S_IFREG}}};
  EXPECT_EQ(planned(a, b, {{Kind::added, true, "n", ""}, {Kind::attributes, false, "p", ""}}), (Lines{"+ n", "m p", "l n/p > p", "l n/y > n/x", "a ", "a n"}));
}

}  // namespace
}  // namespace lsmfs::cli::stream_changes_test

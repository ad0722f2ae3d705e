// Names on lines: as they are, or quoted as git does.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/quoted.h"

namespace lsmfs::cli::quoted_test {
namespace {

TEST(Quoted, PlainNamesStay) {
  for (const char* name : {"a", "a b", " a ", "a/b/", "-", "->", "a->b", "'", "$x", "M\xc3\xbcll", "\xe6\x97\xa5\xe6\x9c\xac", ""}) EXPECT_EQ(quoted_name(name), name);
}

TEST(Quoted, OthersAreWrittenAsInC) {
  EXPECT_EQ(quoted_name("a\nb\t\"\\"), R"("a\nb\t\"\\")");
  EXPECT_EQ(quoted_name("\a\b\v\f\r"), R"("\a\b\v\f\r")");
  EXPECT_EQ(quoted_name("\x01\x1b[0m\x7f"), R"("\001\033[0m\177")");
  EXPECT_EQ(quoted_name("M\xfcll"), R"("M\374ll")");
  EXPECT_EQ(quoted_name("\xc3\xbc\xff"), "\"\xc3\xbc\\377\"");
  EXPECT_EQ(quoted_name("\xc2\x9b" "x"), R"("\302\233x")");
  EXPECT_EQ(quoted_name("\xe2\x80\xae" "x"), R"("\342\200\256x")") << "which would turn the rest around";
  for (const char* name : {"old -> new", "old ->", "-> new"}) EXPECT_EQ(quoted_name(name), fmt::format("\"{}\"", name));
}

}  // namespace
}  // namespace lsmfs::cli::quoted_test

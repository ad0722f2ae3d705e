#include <gtest/gtest.h>

#include <string>

#include "lsmfs/base.h"

namespace lsmfs {
namespace {

using std::string_literals::operator""s;

TEST(Text, CharactersAreThoseOfUtf8) {
  const auto code = [](std::string_view text) { return first_character(text)->code; };
  EXPECT_EQ(code("a"), U'a');
  EXPECT_EQ(code("\xc3\xa9t"), U'\u00e9');
  EXPECT_EQ(code("\xe2\x82\xac"), U'\u20ac');
  EXPECT_EQ(code("\xf4\x8f\xbf\xbf"), U'\U0010ffff');
  EXPECT_EQ(first_character("\xe2\x82\xac...")->bytes, 3u);
  EXPECT_EQ(code("\0x"s), U'\0');
  for (const std::string_view bad : {"", "\x80", "\xc0\xaf", "\xc3", "\xc3x", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_FALSE(first_character(bad)) << bad;
  }
}

TEST(Text, WhatATerminalMayBeGivenIsLeftAsItIs) {
  for (const std::string_view text : {"", "name", "caf\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", "\xf0\x9f\x90\xa7"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(visible(text), text);
  }
  EXPECT_EQ(printable("a\\b"), "a\\x5cb");
  EXPECT_EQ(visible("a\\x5cb"), "a\\x5cb") << "that would be said twice";
}

TEST(Text, WhatItMayNotIsWrittenInDigits) {
  EXPECT_EQ(visible("a\nb\x1b[2J\x7f"), "a\\x0ab\\x1b[2J\\x7f");
  EXPECT_EQ(visible("\xc2\x9b"), "\\xc2\\x9b") << "a control character of two bytes";
  EXPECT_EQ(visible("gpj.\xe2\x80\xae"), "gpj.\\xe2\\x80\\xae") << "turns the direction";
  EXPECT_EQ(visible("\xe2\x81\xa6x\xd8\x9c"), "\\xe2\\x81\\xa6x\\xd8\\x9c");
  EXPECT_EQ(visible("\xfft\xe9"), "\\xfft\\xe9") << "Latin 1";
}

}  // namespace
}  // namespace lsmfs

#include "simdisk/control.h"

#include <gtest/gtest.h>

namespace lsmfs::simdisk::control_test {
namespace {

TEST(SimdiskControl, AProfileIsNamedWithOrWithoutANewline) {
  EXPECT_EQ(parse_profile("hdd\n"), Profile::hdd);
  EXPECT_EQ(parse_profile("ssd-sata"), Profile::ssd_sata);
  EXPECT_EQ(parse_profile("none\n"), Profile::none);
}

TEST(SimdiskControl, WhatIsNoProfileIsRefused) {
  using namespace std::string_view_literals;
  for (const auto text : {""sv, "\n"sv, "floppy\n"sv, "hdd \n"sv, " hdd"sv, "HDD\n"sv, "hdd\n\n"sv, "hdd\nnone\n"sv, "hdd\0"sv}) {
    EXPECT_EQ(parse_profile(text), std::nullopt) << text;
  }
}

TEST(SimdiskControl, TheTraceIsSwitchedByOnAndOff) {
  EXPECT_EQ(parse_switch("on\n"), true);
  EXPECT_EQ(parse_switch("off"), false);
  for (const auto* text : {"", "\n", "1\n", "On\n", "on off\n"}) EXPECT_EQ(parse_switch(text), std::nullopt) << text;
}

}  // namespace
}  // namespace lsmfs::simdisk::control_test

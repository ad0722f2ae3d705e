// What a randomised test draws from.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace lsmfs::test {

// LSMFS_SEED, or a number that nobody has chosen. Says in one line how the test under way is repeated with it.
inline std::uint64_t drawn_seed() {
  const char* const given = std::getenv("LSMFS_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::printf("repeat with: LSMFS_SEED=%llu %s --gtest_filter=%s.%s\n", static_cast<unsigned long long>(seed), program_invocation_name,
              test.test_suite_name(), test.name());
  return seed;
}

}  // namespace lsmfs::test

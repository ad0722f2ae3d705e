// Tests of tests: an engine is run with a fault planted in what it judges, and has to complain.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <string>

namespace lsmfs::test {

inline const testing::TestPartResultArray* complaints_now = nullptr;  // of complaints_of(), while it runs

// Whether anything has failed so far: for engines that then end, which HasFailure() does not tell within complaints_of().
inline bool complained() { return complaints_now ? complaints_now->size() > 0 : testing::Test::HasFailure(); }

// What a run complains of, all in one; "": of nothing. None of it is a failure of the test that asks.
template <class Run>
std::string complaints_of(Run&& run) {
  testing::TestPartResultArray parts;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &parts);
    complaints_now = &parts;
    run();
    complaints_now = nullptr;
  }
  std::string all;
  for (int i = 0; i < parts.size(); ++i) {
    if (parts.GetTestPartResult(i).failed()) all += std::string(parts.GetTestPartResult(i).message()) + "\n";
  }
  return all;
}

}  // namespace lsmfs::test

#include <gtest/gtest.h>
#include <pthread.h>

#include <string>

#include "lsmfs/base.h"

namespace lsmfs::threads_test {
namespace {

std::string own_name() {
  char name[16] = {};
  EXPECT_EQ(pthread_getname_np(pthread_self(), name, sizeof name), 0);
  return name;
}

TEST(Threads, HaveTheirNamesFromTheBeginning) {
  const std::string mine = own_name();
  std::string begun, renamed;
  named_thread("fifteen-bytes-1", [&] {
    begun = own_name();
    name_thread("other");
    renamed = own_name();
  }).join();
  EXPECT_EQ(begun, "fifteen-bytes-1");
  EXPECT_EQ(renamed, "other");
  EXPECT_EQ(own_name(), mine);
}

}  // namespace
}  // namespace lsmfs::threads_test

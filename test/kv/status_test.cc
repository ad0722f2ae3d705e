#include "kv/status.h"

#include <gtest/gtest.h>

#include <set>

namespace lsmfs::status_test {
namespace {

using rocksdb::Status;

TEST(StatusTranslation, EveryStatusGivesAPositiveErrno) {
  for (int code = 1; code < Status::kMaxCode; ++code) {
    for (int subcode = 0; subcode < Status::kMaxSubCode; ++subcode) {
      const Status status(static_cast<Status::Code>(code), static_cast<Status::SubCode>(subcode), Status::kNoError,
                          "text");
      const Error error = kv::to_error(status, "doing");
      EXPECT_GT(error.code, 0) << status.ToString();
      EXPECT_NE(error.context.find("doing"), std::string::npos);
      EXPECT_NE(error.context.find("text"), std::string::npos);
      EXPECT_FALSE(kv::to_result(status, "doing").has_value());
    }
  }
  EXPECT_TRUE(kv::to_result(Status::OK(), "doing").has_value());
}

TEST(StatusTranslation, EveryErrnoGivesAStatusThatIsNotOk) {
  for (int code = 1; code < 200; ++code) {
    const auto status = kv::to_io_status(make_error(code, "context"));
    EXPECT_FALSE(status.ok()) << code;
    EXPECT_NE(status.ToString().find("context"), std::string::npos);
    EXPECT_GT(kv::to_error(status, "back").code, 0);
  }
}

TEST(StatusTranslation, WhatBothSidesKnowSurvivesTheRoundTripAndTheRestIsAnIoError) {
  const std::set<int> known = {ENOENT, EUCLEAN, EOPNOTSUPP, EINVAL, ENOSPC, EROFS, ETIMEDOUT, ECANCELED, EBUSY};
  for (int code = 1; code < 200; ++code) {
    const int back = kv::to_error(kv::to_io_status(make_error(code, "context")), "back").code;
    EXPECT_EQ(back, known.contains(code) ? code : EIO) << code;
  }
}

TEST(StatusTranslation, AMissingFileIsNotFound) {
  EXPECT_TRUE(kv::to_io_status(make_error(ENOENT, "x")).IsNotFound());
}

TEST(StatusTranslation, OnlyIncompleteBecomesEagain) {
  for (int code = 1; code < Status::kMaxCode; ++code) {
    const Status status(static_cast<Status::Code>(code), Status::kNone, Status::kNoError, "");
    EXPECT_EQ(kv::to_error(status, "").code == EAGAIN, code == Status::kIncomplete) << status.ToString();
  }
}

}  // namespace
}  // namespace lsmfs::status_test

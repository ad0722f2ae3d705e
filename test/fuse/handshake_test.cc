#include "fuse/transport/handshake.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace lsmfs::handshake_test {
namespace {

constexpr std::uint32_t kKillpriv = 1u << 28, kExt = 1u << 30, kIdmap = 1u << 8, kRings = 1u << 9;

struct Offer {
  fuse_in_header header{};
  fuse_init_in body{};
};
struct Reply {
  fuse_out_header header{};
  fuse_init_out body{};
};

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fuse_ = Fd(ends[0]);
    kernel_ = Fd(ends[1]);
    offer_.body.flags = kKillpriv | kExt;
    offer_.body.flags2 = kIdmap | kRings;
    offered_.body.minor = 40;
  }
  // libfuse sends so many bytes of what it offers.
  Result<void> shake(std::size_t bytes, bool io_uring) {
    return handshake_->run(fuse_.get(), offer_.header, io_uring, [&] {
      EXPECT_EQ(bytes == 0 ? 0 : write(fuse_.get(), &offered_, bytes), static_cast<ssize_t>(bytes));
    });
  }
  // What has come to the kernel; how many bytes that were.
  std::size_t received(Reply& reply) {
    const ssize_t got = recv(kernel_.get(), &reply, sizeof reply, MSG_DONTWAIT);
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }

  Fd fuse_, kernel_;
  Result<Handshake> handshake_ = Handshake::make();
  Offer offer_;
  Reply offered_;
};

TEST_F(HandshakeTest, AcceptsWhatTheKernelOffersAndWhatIsWanted) {
  ASSERT_TRUE(shake(sizeof offered_, true).has_value());
  Reply reply;
  EXPECT_EQ(received(reply), sizeof reply);
  EXPECT_EQ(reply.body.minor, 40u);
  EXPECT_EQ(reply.body.flags, kKillpriv | kExt);
  EXPECT_EQ(reply.body.flags2, kIdmap | kRings);
  EXPECT_TRUE(handshake_->io_uring());
}

TEST_F(HandshakeTest, AcceptsNothingThatIsNotOfferedOrNotWanted) {
  offer_.body.flags = kExt;
  offer_.body.flags2 = kRings;
  ASSERT_TRUE(shake(sizeof offered_, false).has_value());
  Reply reply;
  EXPECT_EQ(received(reply), sizeof reply);
  EXPECT_EQ(reply.body.flags, 0u);
  EXPECT_EQ(reply.body.flags2, 0u);
  EXPECT_FALSE(handshake_->io_uring());
}

TEST_F(HandshakeTest, TakesNoSecondWordOfFlagsThatTheKernelDoesNotSayIsThere) {
  offer_.body.flags = kKillpriv;
  ASSERT_TRUE(shake(sizeof offered_, true).has_value());
  Reply reply;
  EXPECT_EQ(received(reply), sizeof reply);
  EXPECT_EQ(reply.body.flags, kKillpriv);
  EXPECT_EQ(reply.body.flags2, 0u);
  EXPECT_FALSE(handshake_->io_uring());
}

TEST_F(HandshakeTest, LeavesAnErrorAndAnOldKernelsShortReplyAsTheyAre) {
  for (const std::size_t bytes : {sizeof(fuse_out_header), sizeof(fuse_out_header) + std::size_t{FUSE_COMPAT_22_INIT_OUT_SIZE}}) {
    handshake_ = Handshake::make();
    ASSERT_TRUE(shake(bytes, true).has_value());
    Reply reply;
    EXPECT_EQ(received(reply), bytes);
    EXPECT_EQ(std::memcmp(&reply, &offered_, bytes), 0);
    EXPECT_FALSE(handshake_->io_uring());
  }
}

TEST_F(HandshakeTest, SaysWhenLibfuseGivesNoReplyAndLeavesTheDescriptorAsItWas) {
  EXPECT_EQ(shake(0, true).error().code, EPROTO);
  Reply reply;
  EXPECT_EQ(received(reply), 0u);
  EXPECT_EQ(write(fuse_.get(), "later", 5), 5);
  EXPECT_EQ(received(reply), 5u);
}

}  // namespace
}  // namespace lsmfs::handshake_test

// What tests of the log of changes have in common: questions about a tree, and images of a device to go back to.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tree/change_log.h"
#include "tree/clone_fixture.h"
#include "tree/harness.h"
#include "tree/keys.h"

namespace lsmfs::test::changes {

inline const Stop kNever = [] { return false; };
using Paths = std::vector<std::string>;
inline const Paths kEverything{"everything"};

// What is on a device at a moment, by MiB. Its rest is zeros.
using Image = std::map<std::uint64_t, std::string>;

inline Image image_of(Device& device) {
  Image image;
  AlignedBuffer buffer(MiB);
  for (std::uint64_t at = 0; at < device.size().v; at += MiB) {
    EXPECT_TRUE(device.read(ByteOffset{at}, buffer.bytes()));
    const std::string_view bytes = as_text(buffer.bytes());
    if (bytes.find_first_not_of('\0') != bytes.npos) image[at] = bytes;
  }
  return image;
}

inline void put_image(Device& device, const Image& image) {
  for (std::uint64_t at = 0; at < device.size().v; at += MiB) {
    AlignedBuffer buffer(MiB);
    const auto found = image.find(at);
    if (found != image.end()) std::ranges::copy(as_bytes(found->second), buffer.bytes().begin());
    EXPECT_TRUE(device.write(ByteOffset{at}, buffer.bytes()));
  }
  EXPECT_TRUE(device.flush());
}

class LogOfChanges : public CloneFixture {
 protected:
  explicit LogOfChanges(ByteCount size = ByteCount{kDeviceMin}) : CloneFixture(size) {}

  Result<Changes> find_all(const std::string& dir, const std::optional<ChangesToken>& since, std::size_t room = ChangesAsked().room) {
    const Ino in = ino(dir);
    return find_changes([&](const ChangesAsked& asked) -> Result<ChangesStep> {
      auto sent = decode_changes_asked(encode(asked));
      sent->room = room;
      LSMFS_ASSIGN(const ChangesStep step, tree().changes(in, *sent, kNever));
      ++steps_;
      const std::string encoded = encode(step);
      EXPECT_LE(encoded.size(), room);
      return *decode_changes_step(encoded);
    }, since);
  }
  ChangesToken token(const std::string& dir = "") {
    const auto found = find_all(dir, std::nullopt);
    EXPECT_TRUE(found) << found.error().message();
    EXPECT_TRUE(found->everything);
    return found ? found->now : ChangesToken{};
  }
  Paths since(const ChangesToken& token, const std::string& dir = "", std::size_t room = ChangesAsked().room) {
    const auto found = find_all(dir, token, room);
    EXPECT_TRUE(found) << found.error().message();
    if (!found) return {"?"};
    return found->everything ? kEverything : found->paths;
  }
  std::uint64_t rows() { return h_.rows(Family::names, keys::kChanges); }
  // As a power cut, after which it is as it was then.
  void go_back_to(const Image& image) {
    h_.unmount();
    held_.clear();
    put_image(h_.device(), image);
    h_.mount();
  }
  void commit() { must(tree().sync()); }

  int steps_ = 0;
};

}  // namespace lsmfs::test::changes

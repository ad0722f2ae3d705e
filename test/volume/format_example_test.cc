// The worked examples of docs/format.md are decoded here as the program does it, so that document
// and program cannot part.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "volume/catalog.h"
#include "volume/frames.h"
#include "volume/superblock.h"
#include "volume/support.h"

namespace lsmfs::format_example_test {
namespace {

using test::ok;

// The bytes of the block that begins with ```hex <name>: lines of "offset  16 bytes in hex".
std::string example(const std::string& name) {
  std::ifstream in(LSMFS_SOURCE_DIR "/docs/format.md");
  std::string line, bytes;
  bool inside = false;
  while (std::getline(in, line)) {
    if (line == "```hex " + name) {
      inside = true;
    } else if (inside && line == "```") {
      return bytes;
    } else if (inside) {
      std::istringstream words(line);
      std::string offset, word;
      words >> offset;
      EXPECT_EQ(std::stoul(offset, nullptr, 16), bytes.size()) << line;
      while (words >> word) bytes += static_cast<char>(std::stoul(word, nullptr, 16));
    }
  }
  return "";
}

const Uuid kExampleUuid{
    {0x1b, 0x4e, 0x28, 0xba, 0x2f, 0xa1, 0x41, 0xd2, 0x88, 0x3f, 0x00, 0x16, 0xd3, 0xcc, 0xa4, 0x27}};

SuperblockInfo example_volume() {
  SuperblockInfo info;
  info.info.version = kFormatVersion;
  info.info.uuid = kExampleUuid;
  info.info.label = "scratch";
  info.info.mount_options = "noatime";
  info.seed = seed_for(kExampleUuid);
  info.info.made_by = "0.1.0";
  info.info.created_ns = 1'700'000'000'000'000'000;
  info.info.device_size = ByteCount{128 * MiB};
  info.layout = *plan_layout(128 * MiB);
  return info;
}

template <class T>
std::string dump(const T& bytes) {
  std::ostringstream out;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char text[32];
    if (i % 16 == 0) {
      std::snprintf(text, sizeof text, "%s%04zx ", i ? "\n" : "", i);
      out << text;
    }
    std::snprintf(text, sizeof text, " %02x", static_cast<unsigned char>(bytes[i]));
    out << text;
  }
  return out.str();
}

TEST(FormatExample, OfASuperblockIsDecoded) {
  const std::string bytes = example("superblock");
  format::Superblock written;
  encode_superblock(example_volume(), written);
  const std::string_view whole(reinterpret_cast<const char*>(&written), sizeof written);
  ASSERT_GT(bytes.size(), offsetof(format::Superblock, options));
  const std::string_view expected = whole.substr(0, bytes.size());
  EXPECT_EQ(whole.find_first_not_of('\0', bytes.size()), whole.npos);
  ASSERT_TRUE(bytes == expected) << "the example should be\n" << dump(expected);

  format::Superblock block{};
  std::memcpy(&block, bytes.data(), bytes.size());
  auto info = decode_superblock(block);
  ASSERT_TRUE(ok(info));
  EXPECT_EQ(info->info.label, "scratch");
  EXPECT_EQ(info->info.mount_options, "noatime");
  EXPECT_EQ(info->info.uuid.text(), "1b4e28ba-2fa1-41d2-883f-0016d3cca427");
  EXPECT_EQ(info->layout.metadata[1].start, 2 * MiB);
  EXPECT_EQ(info->layout.fixed, (Extent{3 * MiB, 16 * MiB}));
  EXPECT_EQ(info->layout.table, (Extent{20 * MiB, 107 * MiB}));
}

TEST(FormatExample, OfAMetadataPayloadIsDecoded) {
  const std::string bytes = example("payload");
  const Layout layout = *plan_layout(128 * MiB);
  std::string expected;
  put_create(expected, 5, FileKind::table, 0, "a.sst");
  put_extents(expected, 5, 0, {{20 * MiB, 23 * format::kTableGranule}});
  put_size(expected, 5, 1'500'000);
  put_create(expected, 6, FileKind::log, 0x1122334455667788, "a.log");
  put_extents(expected, 6, 0, {{3 * MiB, 4 * MiB}});
  ASSERT_TRUE(bytes == expected) << "the example should be\n" << dump(expected);
  Catalog catalog(layout);
  ASSERT_TRUE(ok(catalog.apply(bytes)));
  EXPECT_EQ(catalog.files().at(5).size, 1'500'000u);
  EXPECT_EQ(catalog.files().at(6).name, "a.log");
  EXPECT_EQ(catalog.next_id(), 7u);
}

TEST(FormatExample, OfAFrameIsDecoded) {
  const std::string bytes = example("frame");
  const std::uint64_t seed = frame_seed(seed_for(kExampleUuid), 6, 0x1122334455667788);
  AlignedBuffer frame(kDeviceBlock);
  format::FrameHeader header{};
  header.magic = format::kFrameMagic;
  header.version = kFormatVersion;
  header.payload_length = 5;
  header.file_id = 6;
  header.sequence = 1;
  header.session = 0x0102030405060709;
  std::memcpy(frame.data(), &header, sizeof header);
  std::memcpy(frame.data() + sizeof header, "hello", 5);
  seal_frame(frame.bytes(), seed);
  const std::string_view expected = as_text(Bytes(frame.bytes()).first(sizeof header + 5));
  ASSERT_TRUE(bytes == expected) << "the example should be\n" << dump(expected);

  FileRecord file;
  file.id = 6;
  file.kind = FileKind::log;
  file.extents = {{0, kDeviceBlock}};
  auto scan = scan_log(file, seed, [&](std::uint64_t, MutableBytes to) -> Result<void> {
    std::fill(to.begin(), to.end(), std::byte{0});
    std::memcpy(to.data(), bytes.data(), bytes.size());
    return {};
  });
  ASSERT_TRUE(ok(scan));
  EXPECT_EQ(scan->size, 5u);
}

}  // namespace
}  // namespace lsmfs::format_example_test

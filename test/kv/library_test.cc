#include "kv/library.h"

#include <gtest/gtest.h>

#include "kv/support.h"

namespace lsmfs::library_test {
namespace {

using kv::Library;
using kv_test::assert_ok;
using kv_test::Machine;

void write_file(Volume& volume, const std::string& name, FileKind kind, std::string_view text) {
  auto writer = volume.create("fresh", kind);
  ASSERT_TRUE(writer);
  ASSERT_NO_FATAL_FAILURE(assert_ok((*writer)->append(as_bytes(text))));
  ASSERT_NO_FATAL_FAILURE(assert_ok((*writer)->sync()));
  ASSERT_NO_FATAL_FAILURE(assert_ok((*writer)->close()));
  ASSERT_NO_FATAL_FAILURE(assert_ok(volume.rename("fresh", name)));
  ASSERT_NO_FATAL_FAILURE(assert_ok(volume.commit()));
}

std::string options_of(std::string_view version) { return "[Version]\n  rocksdb_version=" + std::string(version) + "\n  options_file_version=1.1\n"; }

TEST(StoreLibrary, IsTheOneThatHasLastUsedTheStore) {
  auto m = Machine::fresh();
  m.stop();
  m.volume = std::move(*Volume::open(m.disk->device(), {}));
  EXPECT_EQ(kv::library_of(*m.volume), Library::ours());
  EXPECT_EQ(Library::ours().text().substr(0, 8), "RocksDB ");
  for (const auto& [text, wanted] : std::vector<std::pair<std::string, std::optional<Library>>>{
           {"9.10.0", Library{9, 10}}, {"10.2.1", Library{10, 2}}, {"9", {}}, {"9.", {}}, {"", {}}, {".", {}}, {"99999999999.1", {}}, {"x", {}}}) {
    write_file(*m.volume, "OPTIONS-999999", FileKind::small, options_of(text));
    EXPECT_EQ(kv::library_of(*m.volume), wanted) << text;
  }
  write_file(*m.volume, "OPTIONS-1000000", FileKind::small, options_of("12.0.0"));
  EXPECT_EQ(kv::library_of(*m.volume), (Library{12, 0})) << "the longer number is the greater";
  write_file(*m.volume, "OPTIONS-1000001", FileKind::small, "");
  EXPECT_EQ(kv::library_of(*m.volume), std::nullopt);
  EXPECT_LT((Library{7, 8}), (Library{9, 10}));
  EXPECT_LT((Library{9, 9}), (Library{9, 10}));
}

// What a newer version has written may look damaged to an older one. A repair would then lose what was sound.
TEST(StoreLibrary, WhatANewerOneHasWrittenIsNotTakenForDamageNorRepaired) {
  for (const bool newer : {false, true}) {
    auto m = Machine::fresh();
    Batch batch;
    batch.put(Family::names, "key", "value");
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    m.stop();
    m.volume = std::move(*Volume::open(m.disk->device(), {}));
    write_file(*m.volume, "MANIFEST-999999", FileKind::log, std::string(1000, 'x'));
    write_file(*m.volume, "CURRENT", FileKind::small, "MANIFEST-999999\n");
    if (newer) write_file(*m.volume, "OPTIONS-999999", FileKind::small, options_of("99.1.0"));
    const auto opened = Store::open(*m.volume, kv_test::quiet_options());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, newer ? EPROTONOSUPPORT : EUCLEAN) << opened.error().message();
    EXPECT_EQ(opened.error().context.find("RocksDB 99.1") != std::string::npos, newer) << opened.error().context;
    const auto before = m.volume->list();
    const auto repaired = Store::repair(*m.volume, kv_test::quiet_options());
    if (newer) {
      ASSERT_FALSE(repaired);
      EXPECT_EQ(repaired.error().code, EPROTONOSUPPORT);
      EXPECT_EQ(m.volume->list(), before);
    } else {
      EXPECT_TRUE(repaired) << repaired.error().message();
    }
    m.volume.reset();
  }
}

}  // namespace
}  // namespace lsmfs::library_test

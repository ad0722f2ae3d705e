#include "tree/record.h"

#include <gtest/gtest.h>

#include <random>

#include "tree/keys.h"

namespace lsmfs::record_test {
namespace {

Record sample() {
  Record r;
  r.ino = Ino{300};
  r.mode = S_IFREG | 04755;
  r.nlink = 3;
  r.uid = 1000;
  r.gid = 0xffff'fffe;
  r.size = 5'000'000'000;
  r.blocks = 7;
  r.mtime = {-5, 999'999'999};
  r.ctime = {15'000'000'000, 1};
  r.atime = {std::numeric_limits<std::int64_t>::min(), 0};
  r.btime = {std::numeric_limits<std::int64_t>::max(), 5};
  r.home = "somewhere";
  r.flags = 0x10 | 0x80;
  r.xattrs = {{"security.capability", "", 0}, {"user.large", "", 70}, {"user.small", std::string("\0x", 2), 0}};
  return r;
}

TEST(Record, ReadsBackEveryFieldOfEveryKind) {
  for (std::uint32_t type : {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK}) {
    Record r = sample();
    r.mode = type | 0644;
    if (type != S_IFREG) r.blocks = 0;
    if (type == S_IFCHR || type == S_IFBLK) r.rdev = 0x8'0000'0001;
    if (type == S_IFLNK) {
      r.symlink = "../target";
      r.size = r.symlink.size();
    }
    for (const char* home : {"", "home"}) {
      r.home = home;
      if (*home == 0) r.xattrs.clear();
      if (*home == 0) r.flags = 0;
      const auto back = decode_record(encode(r));
      ASSERT_TRUE(back) << type;
      EXPECT_EQ(*back, r);
    }
  }
  Record shared = sample();
  shared.home_number = Ino{301};
  shared.is_base = true;
  const auto shared_back = decode_record(encode(shared));
  ASSERT_TRUE(shared_back);
  EXPECT_EQ(*shared_back, shared);
  shared.is_base = false;
  shared.base = keys::child_home("", "a", Ino{299});
  EXPECT_EQ(decode_record(encode(shared)), shared);
  shared.mode = S_IFDIR | 0755;
  shared.blocks = 0;
  for (const std::uint64_t shift : {std::uint64_t{0}, shifts::kLeast, shifts::kRange}) {
    shared.shift = shift;
    EXPECT_EQ(decode_record(encode(shared)), shared);
    for (const char* const of : {"/", "/a/b"}) {
      Record snapshot = shared;
      snapshot.snapshot_of = of;
      snapshot.base = "";
      EXPECT_EQ(decode_record(encode(snapshot)), snapshot);
    }
  }
  const Node node{keys::child_home("", "a", Ino{300}), 5000, 1, 1};
  EXPECT_EQ(decode_node(encode(node)), node);
  const Node directory{keys::child_home("", "a", Ino{300}), 0, 0, 0, true};
  EXPECT_EQ(decode_node(encode(directory)), directory);
  const Link link{Ino{77}, S_IFREG};
  const auto row = decode_entry(encode(link));
  ASSERT_TRUE(row && std::holds_alternative<Link>(*row));
  EXPECT_EQ(std::get<Link>(*row), link);
  State state;
  state.next_ino = Ino{1'000'000};
  state.counts = {1, 2, 3, 4, 8};
  state.data_rows = 5;
  state.as_of = {6, 7};
  state.in_use = true;
  const auto state_back = decode_state(encode(state));
  ASSERT_TRUE(state_back);
  EXPECT_EQ(state_back->next_ino, state.next_ino);
  EXPECT_EQ(state_back->counts.others, 4u);
  EXPECT_EQ(state_back->counts.displaced, 8u);
  EXPECT_EQ(state_back->data_rows, 5u);
  EXPECT_EQ(state_back->as_of, (Time{6, 7}));
  EXPECT_TRUE(state_back->in_use);
  std::string odd = encode(state);
  odd.back() = 2;
  EXPECT_FALSE(decode_state(odd));
}

TEST(Record, RefusesEveryTruncationAndEverythingAppended) {
  const std::string whole = encode(sample());
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_FALSE(decode_entry(std::string_view(whole).substr(0, n))) << n;
  EXPECT_FALSE(decode_entry(whole + '\0'));
}

TEST(Record, RefusesImpossibleValues) {
  auto refused = [](auto change) {
    Record r = sample();
    change(r);
    return !decode_record(encode(r)).has_value();
  };
  EXPECT_TRUE(refused([](Record& r) { r.ino = Ino{0}; }));
  EXPECT_TRUE(refused([](Record& r) { r.ino = kInoMax; }));
  EXPECT_FALSE(refused([](Record& r) { r.ino = Ino{kCountedMax.v - 1}; }));
  EXPECT_TRUE(refused([](Record& r) { r.ino = kCountedMax; })) << "a home whose number was not counted";
  const auto number_refused = [&](Ino ino, Ino number) {
    return refused([&](Record& r) {
      r.ino = ino;
      r.home_number = number;
    });
  };
  EXPECT_FALSE(number_refused(Ino{kInoMax.v - 1}, Ino{2}));
  EXPECT_TRUE(number_refused(kInoMax, Ino{2}));
  EXPECT_TRUE(number_refused(Ino{300}, kRootIno));
  EXPECT_TRUE(number_refused(Ino{300}, kCountedMax));
  for (const Ino ino : {Ino{0}, kRootIno, kInoMax, Ino{UINT64_MAX}}) EXPECT_FALSE(decode_entry(encode(Link{ino, S_IFREG}))) << ino.v;
  EXPECT_TRUE(refused([](Record& r) { r.mode = 0644; }));
  EXPECT_TRUE(refused([](Record& r) { r.mode |= 1u << 20; }));
  EXPECT_TRUE(refused([](Record& r) { r.size = kFileSizeMax + 1; }));
  EXPECT_TRUE(refused([](Record& r) { r.blocks = r.size / kBlockSize + 2; }));
  EXPECT_TRUE(refused([](Record& r) { r.mtime.nanoseconds = 1'000'000'000; }));
  EXPECT_TRUE(refused([](Record& r) { r.mode = S_IFLNK | 0777; r.blocks = 0; }));
  EXPECT_TRUE(refused([](Record& r) { r.flags |= 1; }));
  EXPECT_FALSE(refused([](Record&) {}));
  const auto home_refused = [&](std::uint32_t type, std::size_t size) {
    return refused([&](Record& r) {
      r.mode = type | 0644;
      r.home.assign(size, 'h');
    });
  };
  EXPECT_FALSE(home_refused(S_IFDIR, keys::kPathHomeMax));
  EXPECT_TRUE(home_refused(S_IFDIR, keys::kPathHomeMax + 1));
  EXPECT_FALSE(home_refused(S_IFREG, keys::kHomeMax));
  EXPECT_TRUE(home_refused(S_IFREG, keys::kHomeMax + 1));
  const auto base_refused = [&](auto change) {
    return refused([&](Record& r) {
      r.base = keys::child_home("", "a", Ino{299});
      change(r);
    });
  };
  EXPECT_FALSE(base_refused([](Record&) {}));
  EXPECT_TRUE(base_refused([](Record& r) { r.is_base = true; }));
  EXPECT_TRUE(base_refused([](Record& r) { r.blocks = 0; })) << "nothing that a base could have";
  EXPECT_TRUE(base_refused([](Record& r) { r.base = "a"; })) << "no home";
  EXPECT_TRUE(base_refused([](Record& r) { r.base = ""; })) << "of the root, and of a file";
  EXPECT_TRUE(refused([](Record& r) { r.snapshot_of = "/"; })) << "of a file";
  EXPECT_TRUE(base_refused([](Record& r) { r.mode = S_IFIFO | 0644, r.blocks = 0; }));
  const auto shown_refused = [&](std::uint64_t entries, std::uint64_t shift, const std::string& base) {
    return base_refused([&](Record& r) {
      r.mode = S_IFDIR | 0755;
      r.blocks = 0;
      r.size = entries;
      r.shift = shift;
      if (!base.empty()) r.base = base;
    });
  };
  EXPECT_FALSE(shown_refused(1, shifts::kRange, ""));
  EXPECT_TRUE(shown_refused(0, 0, ""));
  EXPECT_TRUE(shown_refused(1, shifts::kRange + 1, ""));
  std::string home;
  while (home.size() <= keys::kPathHomeMax) home = keys::child_home(home, std::string(200, 'd'), Ino{299});
  EXPECT_TRUE(shown_refused(1, 0, home));
  EXPECT_FALSE(base_refused([&](Record& r) { r.base = home; })) << "of a file";
  EXPECT_TRUE(refused([](Record& r) { std::swap(r.xattrs[0], r.xattrs[1]); })) << "names in order";
  EXPECT_TRUE(refused([](Record& r) { r.xattrs[1].name = r.xattrs[0].name; }));
  EXPECT_TRUE(refused([](Record& r) { r.xattrs[0].name = ""; }));
  EXPECT_TRUE(refused([](Record& r) { r.xattrs[2].name = std::string("user.\0", 6); }));
  EXPECT_TRUE(refused([](Record& r) { r.xattrs[2].name = "user." + std::string(251, 'n'); }));
  EXPECT_TRUE(refused([](Record& r) { r.xattrs[1].row_size = kXattrSizeMax + 1; }));
  EXPECT_TRUE(refused([](Record& r) { r.xattrs[2].value.resize(kXattrInlineMax + 1); }));
  EXPECT_TRUE(refused([](Record& r) {
    for (int i = 0; i < 5; ++i) r.xattrs.push_back({"user.x" + std::to_string(i), std::string(250, 'v'), 0});
  })) << "more than a record holds";
}

TEST(Record, RefusesImpossibleBases) {
  const Node file{keys::child_home("", "a", Ino{300}), 5000, 1, 1};
  const auto refused = [](Node node) { return !decode_node(encode(node)).has_value(); };
  EXPECT_FALSE(refused(file));
  EXPECT_TRUE(refused({"", 0, 0, 0}));
  EXPECT_TRUE(refused({file.home, 5000, 2, 1}));
  EXPECT_TRUE(refused({file.home, 5000, 0, 0, true})) << "a directory of that size";
  std::string home;
  while (home.size() <= keys::kPathHomeMax) home = keys::child_home(home, std::string(200, 'd'), Ino{299});
  EXPECT_FALSE(refused({home, 0, 0, 0}));
  EXPECT_TRUE(refused({home, 0, 0, 0, true}));
  std::string odd = encode(Node{file.home, 0, 0, 0, true});
  odd[odd.size() - 4] = 2;
  EXPECT_FALSE(decode_node(odd));
}

TEST(Record, ShiftsOfInodeNumbersAddUp) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::uint64_t> numbers(1, kInoMax.v - 1), shift(0, shifts::kRange);
  for (int i = 0; i < 100'000; ++i) {
    const Ino ino{i % 2 ? numbers(random) : numbers(random) % kCountedMax.v};
    const std::uint64_t a = i % 7 ? shift(random) : 0, b = i % 5 ? shift(random) : 0;
    const Ino once = shifts::shifted(ino, a), twice = shifts::shifted(once, b);
    ASSERT_LT(once, kInoMax);
    ASSERT_TRUE(a == 0 ? once == ino : once >= kCountedMax);
    ASSERT_EQ(shifts::shifted(ino, shifts::sum(a, b)), twice) << ino.v << " by " << a << " and " << b;
  }
}

TEST(Record, SurvivesRandomBytes) {
  std::mt19937_64 random(1);
  std::string whole = encode(sample());
  for (int i = 0; i < 200'000; ++i) {
    std::string bytes = whole;
    for (int n = 0; n < 3; ++n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (auto r = decode_record(bytes)) {
      EXPECT_TRUE(decode_record(encode(*r)));
    }
  }
}

}  // namespace
}  // namespace lsmfs::record_test

// base: errors as values, strong integer types, byte codecs, checksums, descriptors, threads' names and what they wait for.
//
// What it is not: it knows no file system, no device and no RocksDB. Everything here is safe to use from any
// thread, and a value type without hidden state, but for what threads wait for.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace lsmfs {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Text and bytes are the same memory; RocksDB and std::string speak char, devices speak byte.
inline Bytes as_bytes(std::string_view s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}
inline std::string_view as_text(Bytes b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

// ---- errors -------------------------------------------------------------------------------

// An errno value with one line of context for people ("read of 4096 bytes at 8192: ...").
// `code` is always a positive errno constant, never 0.
struct Error {
  int code = EIO;
  std::string context;

  // "context: strerror(code)"
  std::string message() const;
};

inline Error make_error(int code, std::string context) { return {code, std::move(context)}; }

// Either a T or an Error, with the names of C++23's std::expected (which g++ 12 lacks).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  // Must hold: has_value().
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  // Must hold: !has_value().
  Error& error() { return std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool has_value() const { return !error_; }
  explicit operator bool() const { return has_value(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// LSMFS_TRY(expr): returns expr's error from the enclosing function, otherwise goes on.
// LSMFS_ASSIGN(decl, expr): the same, and binds the value: LSMFS_ASSIGN(auto x, f());
#define LSMFS_CONCAT_(a, b) a##b
#define LSMFS_CONCAT(a, b) LSMFS_CONCAT_(a, b)
#define LSMFS_TRY(expr)                                              \
  do {                                                               \
    if (auto lsmfs_try_ = (expr); !lsmfs_try_.has_value()) {         \
      return std::move(lsmfs_try_.error());                          \
    }                                                                \
  } while (false)
#define LSMFS_ASSIGN(decl, expr) LSMFS_ASSIGN_(LSMFS_CONCAT(lsmfs_result_, __LINE__), decl, expr)
#define LSMFS_ASSIGN_(tmp, decl, expr)                  \
  auto tmp = (expr);                                    \
  if (!tmp.has_value()) return std::move(tmp.error());  \
  decl = std::move(*tmp)

// ---- strong integers ----------------------------------------------------------------------

// A 64-bit unsigned number that only mixes with its own kind. `+` and `-` work on amounts of the
// same kind (ByteCount); positions (ByteOffset, BlockIndex) move by explicit functions below.
template <class Tag>
struct Strong {
  std::uint64_t v = 0;
  constexpr Strong() = default;
  constexpr explicit Strong(std::uint64_t value) : v(value) {}
  friend constexpr auto operator<=>(Strong, Strong) = default;
};

using ByteOffset = Strong<struct ByteOffsetTag>;  // position on a device or in a file, bytes
using ByteCount = Strong<struct ByteCountTag>;    // an amount of bytes
using BlockIndex = Strong<struct BlockIndexTag>;  // index of a 4 KiB block within a file's data
using Ino = Strong<struct InoTag>;                // inode number: never 0 once assigned, never reused

constexpr ByteOffset operator+(ByteOffset o, ByteCount n) { return ByteOffset{o.v + n.v}; }
constexpr ByteCount operator-(ByteOffset a, ByteOffset b) { return ByteCount{a.v - b.v}; }
constexpr ByteCount operator+(ByteCount a, ByteCount b) { return ByteCount{a.v + b.v}; }
constexpr ByteCount operator-(ByteCount a, ByteCount b) { return ByteCount{a.v - b.v}; }

inline constexpr std::uint64_t KiB = 1024;
inline constexpr std::uint64_t MiB = 1024 * KiB;
inline constexpr std::uint64_t GiB = 1024 * MiB;

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step * step; }
constexpr std::uint64_t round_down(std::uint64_t n, std::uint64_t step) { return n / step * step; }
constexpr std::uint64_t div_up(std::uint64_t n, std::uint64_t step) { return (n + step - 1) / step; }

// ---- codecs -------------------------------------------------------------------------------

// Appends fixed-width and variable-width numbers to a string.
// Varints are LEB128: 7 bits a byte, least significant first, the high bit says "more".
void put_u8(std::string& out, std::uint8_t v);
void put_le16(std::string& out, std::uint16_t v);
void put_le32(std::string& out, std::uint32_t v);
void put_le64(std::string& out, std::uint64_t v);
void put_be64(std::string& out, std::uint64_t v);
void put_varint(std::string& out, std::uint64_t v);
void put_zigzag(std::string& out, std::int64_t v);  // signed: 0, -1, 1, -2 ... as 0, 1, 2, 3 ...
void put_string(std::string& out, std::string_view s);  // varint length, then the bytes

// Reads what the functions above wrote, from untrusted bytes. After the first value that does not
// fit, `ok()` is false for good and every further read gives 0 or "": check once at the end.
// The bytes must outlive the reader and every view it gave.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint8_t u8();
  std::uint16_t le16();
  std::uint32_t le32();
  std::uint64_t le64();
  std::uint64_t be64();
  std::uint64_t varint();  // refuses more than 10 bytes and values over 64 bits
  std::int64_t zigzag();
  std::string_view string();           // varint length, then the bytes
  std::string_view bytes(std::size_t n);
  void fail() { ok_ = false; rest_ = {}; }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// ---- text ---------------------------------------------------------------------------------

struct Character {
  char32_t code;
  std::size_t bytes;
};
// Of UTF-8, by RFC 3629. nullopt: it begins with none.
std::optional<Character> first_character(std::string_view text);
constexpr bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Names that others chose, as a terminal may be given them: control characters, those that turn the direction of text, bytes that are
// no UTF-8, and backslashes are written as \xNN for each byte.
std::string printable(std::string_view text);
// Of a line with such names in it: backslashes stay.
std::string visible(std::string_view text);

// ---- descriptors --------------------------------------------------------------------------

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }  // somebody else closes it
  void reset(int fd = -1) {
    const int old = std::exchange(fd_, fd);
    if (old >= 0) ::close(old);
  }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// ---- threads ------------------------------------------------------------------------------

// Names the calling thread, as ps -L, top -H and perf show it. A literal of at most 15 bytes: the kernel takes no more.
void name_thread(const char* name);

// A thread of that name.
template <class Work>
std::thread named_thread(const char* name, Work work) {
  return std::thread([name, work = std::move(work)]() mutable {
    name_thread(name);
    work();
  });
}

// ---- what threads wait for ----------------------------------------------------------------

// While one exists, its thread waits for something that may take long, and others can see what. One may exist within
// another. Costs a look at the clock.
class Waiting {
 public:
  explicit Waiting(const char* what);  // a literal: "the tree's lock"
  // A request of a device; with no bytes one that concerns all of it.
  Waiting(const char* request, ByteOffset offset, ByteCount bytes);
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
};

// What one thread waits for. Belongs to the thread and ends with it.
class Waits {
 public:
  static Waits& of_this_thread();
  // From the outermost on, with how long it has waited for the last: "a sync, flush of the device (31 s)"; "": for nothing.
  // From any thread; what is changing meanwhile may be seen in part.
  std::string text() const;

 private:
  friend class Waiting;
  friend std::string longest_waits();
  struct Frame {
    std::atomic<const char*> what = nullptr;
    std::atomic<std::uint64_t> offset = 0, bytes = 0;
    std::atomic<std::int64_t> since_ns = 0;
    std::atomic<bool> device = false;
    std::string text() const;
  };
  static constexpr std::size_t kDepth = 6;  // what lies deeper is not seen

  Waits();
  ~Waits();
  void push(const char* what, bool device, ByteOffset offset, ByteCount bytes);

  std::array<Frame, kDepth> frames_;
  std::atomic<std::size_t> depth_ = 0;
};

// What the threads of this process have waited for longest, each said once and without what lies around it, three of them
// at most: "flush of the device (31 s), a commit (30 s)"; "": nothing.
std::string longest_waits();

// ---- versions -----------------------------------------------------------------------------

// What a library is called, and the version that is in use: as it tells itself, or else the one this was compiled with.
struct Library {
  std::string name, version;
};
std::vector<Library> base_libraries();  // those that only this layer uses; further layers have the like

// ---- checksums and ids --------------------------------------------------------------------

// XXH3, 64 bits, with a seed; the checksum of everything that lsmfs writes itself.
std::uint64_t checksum(Bytes bytes, std::uint64_t seed = 0);
inline std::uint64_t checksum(std::string_view bytes, std::uint64_t seed = 0) {
  return checksum(as_bytes(bytes), seed);
}

// A random (version 4) UUID of RFC 9562.
struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  static Uuid random();
  std::string text() const;  // 36 characters, lower case
  static std::optional<Uuid> parse(std::string_view text);  // in that form, of either case
  friend bool operator==(const Uuid&, const Uuid&) = default;
};

}  // namespace lsmfs

template <class Tag>
struct std::hash<lsmfs::Strong<Tag>> {
  std::size_t operator()(lsmfs::Strong<Tag> s) const noexcept { return std::hash<std::uint64_t>{}(s.v); }
};

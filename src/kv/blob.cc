#include "kv/blob.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>
#include <vector>

#include "kv/blob_index.h"
#include "lsmfs/device.h"

namespace lsmfs::kv {
namespace {

constexpr std::string_view kPrefix = "blob-";
constexpr std::uint64_t kPieceBytes = kBlobPieceBlocks * kBlobBlock;
constexpr std::uint64_t kBetween = 3 * kBlobBlock;  // before data, and before and after a part of the index, at most
constexpr std::uint64_t kIndexMax = 64 * MiB;  // a part of it, of a hostile one
// The cheapest level: the daemon has the time of one processor, and data come as fast as the device takes them.
constexpr int kLevel = 1;
// After pieces that did not become smaller, so many times as many are not tried, up to kUntriedMost.
constexpr unsigned kUntriedMost = 15;

struct FreesContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

Error damaged(std::uint64_t number, std::uint64_t at) { return make_error(EUCLEAN, fmt::format("{} is damaged at {}", blob_name(number), at)); }

class Writer final : public BlobWriter {
 public:
  Writer(std::unique_ptr<FileWriter> file, FailStop& fail_stop, std::uint64_t number, std::uint64_t allocated, std::function<void(std::uint64_t)> closed,
         std::atomic<std::uint64_t>& appended)
      : file_(std::move(file)), fail_stop_(fail_stop), number_(number), allocated_(allocated), closed_(std::move(closed)), appended_(appended), context_(ZSTD_createCCtx()) {}
  ~Writer() override {
    const IoFor stream(IoCause::stream);
    file_.reset();
    closed_(at_);
  }

  Result<void> append(Bytes blocks) override {
    appended_.fetch_add(blocks.size(), std::memory_order_relaxed);
    std::size_t plain = 0;  // bytes before `done` that are not compressed and not yet in the file
    std::size_t done = 0;
    while (done < blocks.size()) {
      const Bytes piece = blocks.subspan(done, std::min<std::size_t>(kPieceBytes, blocks.size() - done));
      const Bytes smaller = compressed(piece);
      if (smaller.empty()) {
        plain += piece.size();
      } else {
        LSMFS_TRY(add_plain(blocks.subspan(done - plain, plain)));
        plain = 0;
        LSMFS_TRY(add({.first = blocks_, .blocks = blocks_of(piece), .stored = static_cast<std::uint32_t>(smaller.size()), .at = at_}, smaller,
                      {blob_checksum(number_, at_, smaller)}));
      }
      done += piece.size();
    }
    return add_plain(blocks.subspan(done - plain, plain));
  }

  std::uint64_t room() const override {
    // The next part of the index may come at any time.
    const std::uint64_t taken = at_ + kBetween + BlobIndex::encoded_size(index_.pieces.size() + 1, index_.sums.size());
    if (taken >= allocated_) return 0;
    const std::uint64_t of_block = kBlobBlock + BlobIndex::encoded_size(1, 1) - BlobIndex::encoded_size(0, 0);
    return (allocated_ - taken) / of_block;
  }

  Result<BlobEnd> precede_commits() override {
    if (!index_.empty()) {
      LSMFS_TRY(align());
      std::string part = index_.encode(number_, at_, last_);
      last_ = {at_, static_cast<std::uint32_t>(part.size())};
      // Whole blocks, so that what comes next touches none that may be durable.
      const std::uint64_t size = round_up(part.size() + kBlobFooter, kBlobBlock);
      part.resize(size - kBlobFooter);
      part += blob_footer(last_, number_, at_ + size);
      LSMFS_TRY(write(as_bytes(part)));
      index_ = {};
    }
    const IoFor stream(IoCause::stream);
    if (auto done = file_->precede_logs(); !done) return stop(done.error());
    return BlobEnd{blocks_, at_};
  }

 private:
  static std::uint32_t blocks_of(Bytes data) { return static_cast<std::uint32_t>(data.size() / kBlobBlock); }

  Error stop(Error error) {
    fail_stop_.set(error);
    return error;
  }

  Result<void> write(Bytes bytes) {
    LSMFS_TRY(fail_stop_.check());
    const IoFor stream(IoCause::stream);
    if (auto done = file_->append(bytes); !done) return stop(done.error());
    at_ += bytes.size();
    return {};
  }

  Result<void> align() {
    static constexpr std::byte kZeros[kBlobBlock] = {};
    return write(Bytes(kZeros).first(round_up(at_, kBlobBlock) - at_));
  }

  Result<void> add(const BlobPiece& piece, Bytes stored, const std::vector<std::uint32_t>& sums) {
    LSMFS_TRY(write(stored));
    index_.add(piece, sums);
    blocks_ = piece.end();
    return {};
  }

  Result<void> add_plain(Bytes data) {
    if (data.empty()) return {};
    LSMFS_TRY(align());
    std::vector<std::uint32_t> sums;
    sums.reserve(blocks_of(data));
    for (std::size_t i = 0; i < data.size(); i += kBlobBlock) sums.push_back(blob_checksum(number_, at_ + i, data.subspan(i, kBlobBlock)));
    return add({.first = blocks_, .blocks = blocks_of(data), .at = at_}, data, sums);
  }

  // Empty: it would save less than an eighth, or what came before says so.
  Bytes compressed(Bytes piece) {
    if (!context_) return {};  // for want of memory
    if (untried_ > 0) {
      --untried_;
      return {};
    }
    buffer_.resize(ZSTD_compressBound(kPieceBytes));
    const std::size_t size = ZSTD_compressCCtx(context_.get(), buffer_.data(), buffer_.size(), piece.data(), piece.size(), kLevel);
    if (!ZSTD_isError(size) && size <= piece.size() - piece.size() / 8) {
      in_vain_ = 0;
      return Bytes(buffer_).first(size);
    }
    untried_ = in_vain_ = std::min(2 * in_vain_ + 1, kUntriedMost);
    return {};
  }

  std::unique_ptr<FileWriter> file_;
  FailStop& fail_stop_;
  const std::uint64_t number_, allocated_;
  const std::function<void(std::uint64_t)> closed_;
  std::atomic<std::uint64_t>& appended_;
  std::uint64_t blocks_ = 0;  // in all
  std::uint64_t at_ = 0;      // bytes of the file
  BlobIndex index_;           // of what has none yet
  BlobIndex::Place last_;
  const std::unique_ptr<ZSTD_CCtx, FreesContext> context_;
  std::vector<std::byte> buffer_;
  unsigned untried_ = 0, in_vain_ = 0;
};

class BlobReaderImpl final : public BlobReader {
 public:
  BlobReaderImpl(std::unique_ptr<FileReader> file, std::uint64_t number, BlobIndex index)
      : file_(std::move(file)), number_(number), index_(std::move(index)) {}

  std::uint64_t blocks() const override { return index_.end(); }
  std::size_t memory() const override {
    return sizeof(*this) + index_.pieces.capacity() * sizeof(BlobPiece) + index_.sums.capacity() * sizeof(std::uint32_t);
  }

  Result<void> read(std::uint64_t block, MutableBytes to) const override {
    const IoFor stream(IoFor::current() == IoCause::miss ? IoCause::stream : IoFor::current());
    if (to.size() % kBlobBlock != 0 || block > blocks() || to.size() / kBlobBlock > blocks() - block) {
      return make_error(EINVAL, fmt::format("{} has {} blocks", blob_name(number_), blocks()));
    }
    while (!to.empty()) {
      const BlobPiece* const piece = &index_.piece_of(block);
      const std::uint64_t skip = block - piece->first;
      const std::uint64_t n = std::min<std::uint64_t>(piece->blocks - skip, to.size() / kBlobBlock);
      const MutableBytes part = to.first(n * kBlobBlock);
      LSMFS_TRY(piece->stored > 0 ? read_compressed(*piece, skip, part) : read_plain(*piece, skip, part));
      block += n;
      to = to.subspan(part.size());
    }
    return {};
  }

 private:
  Result<void> fetch(std::uint64_t at, MutableBytes to) const {
    LSMFS_ASSIGN(const std::size_t n, file_->read(ByteOffset{at}, to));
    if (n < to.size()) return damaged(number_, at);  // it ends before
    return {};
  }

  Result<void> read_plain(const BlobPiece& piece, std::uint64_t skip, MutableBytes to) const {
    const std::uint64_t from = piece.at + skip * kBlobBlock;
    LSMFS_TRY(fetch(from, to));
    for (std::size_t i = 0; i < to.size() / kBlobBlock; ++i) {
      const std::uint64_t at = from + i * kBlobBlock;
      if (blob_checksum(number_, at, to.subspan(i * kBlobBlock, kBlobBlock)) != index_.sums[piece.sums + skip + i]) return damaged(number_, at);
    }
    return {};
  }

  Result<void> read_compressed(const BlobPiece& piece, std::uint64_t skip, MutableBytes to) const {
    thread_local AlignedBuffer stored(kPieceBytes + kBlobBlock), whole(kPieceBytes);
    thread_local std::unique_ptr<ZSTD_DCtx, FreesContext> context;
    if (!context) context.reset(ZSTD_createDCtx());
    if (!context) return make_error(ENOMEM, fmt::format("reading {}", blob_name(number_)));
    const std::uint64_t begin = round_down(piece.at, kBlobBlock);
    // Whole blocks into aligned memory, so that nothing is copied; the file may end within the last.
    LSMFS_ASSIGN(const std::size_t n, file_->read(ByteOffset{begin}, stored.bytes().first(round_up(piece.at + piece.stored, kBlobBlock) - begin)));
    if (n < piece.at - begin + piece.stored) return damaged(number_, piece.at);
    const MutableBytes bytes = stored.bytes().subspan(piece.at - begin, piece.stored);
    if (blob_checksum(number_, piece.at, bytes) != index_.sums[piece.sums]) return damaged(number_, piece.at);
    const std::size_t length = piece.blocks * kBlobBlock;
    const MutableBytes out = to.size() == length ? to : whole.bytes().first(length);
    if (ZSTD_decompressDCtx(context.get(), out.data(), out.size(), bytes.data(), bytes.size()) != length) return damaged(number_, piece.at);
    if (to.size() < length) std::memcpy(to.data(), out.data() + skip * kBlobBlock, to.size());
    return {};
  }

  const std::unique_ptr<FileReader> file_;
  const std::uint64_t number_;
  const BlobIndex index_;
};

Result<std::string> bytes_of(const FileReader& file, std::uint64_t number, const BlobIndex::Place& place) {
  std::string bytes(place.size, '\0');
  LSMFS_ASSIGN(const std::size_t n, file.read(ByteOffset{place.at}, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  if (n < bytes.size()) return damaged(number, place.at);
  return bytes;
}

}  // namespace

std::string blob_name(std::uint64_t number) { return fmt::format("{}{:x}", kPrefix, number); }

std::optional<std::uint64_t> blob_number(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::uint64_t number = 0;
  const char* const begin = name.data() + kPrefix.size();
  const auto [end, error] = std::from_chars(begin, name.data() + name.size(), number, 16);
  if (error != std::errc() || end != name.data() + name.size() || name != blob_name(number)) return std::nullopt;
  return number;
}

std::uint64_t blob_size(ByteCount data) {
  const std::uint64_t blocks = data.v / kBlobBlock;
  return round_up(data.v + BlobIndex::encoded_size(blocks + 1, blocks) + kBetween, kTableGranule);
}

Result<std::unique_ptr<BlobWriter>> create_blob(Volume& volume, FailStop& fail_stop, std::uint64_t number, ByteCount data,
                                                std::function<void(std::uint64_t bytes)> closed, std::atomic<std::uint64_t>& appended) {
  LSMFS_TRY(fail_stop.check());
  const std::uint64_t bytes = blob_size(data);
  // What is nowhere yet can be left out, so that no space is no failure of the store.
  LSMFS_ASSIGN(auto file, volume.create(blob_name(number), FileKind::table));
  file->set_lifetime(Lifetime::lasting);
  if (auto allocated = file->allocate(ByteCount{bytes}); !allocated) {
    LSMFS_TRY(volume.remove(blob_name(number)));
    return std::move(allocated.error());
  }
  return std::unique_ptr<BlobWriter>(std::make_unique<Writer>(std::move(file), fail_stop, number, bytes, std::move(closed), appended));
}

Result<std::unique_ptr<BlobReader>> open_blob(Volume& volume, std::uint64_t number, const BlobEnd& end) {
  LSMFS_ASSIGN(auto file, volume.open_reader(blob_name(number)));
  BlobIndex whole;
  if (end.blocks > 0) {
    if (end.bytes < kBlobFooter) return damaged(number, end.bytes);
    LSMFS_ASSIGN(const std::string footer, bytes_of(*file, number, {end.bytes - kBlobFooter, kBlobFooter}));
    auto part = read_blob_footer(footer, number, end.bytes);
    if (!part) return damaged(number, end.bytes);
    // The parts from the last one on. Each ends before the one after it begins, so there is an end of it.
    for (std::uint64_t left = end.blocks; left > 0; left = whole.first()) {
      if (part->size == 0 || part->size > kIndexMax) return damaged(number, part->at);
      LSMFS_ASSIGN(const std::string bytes, bytes_of(*file, number, *part));
      auto decoded = BlobIndex::decode(bytes, number, part->at);
      if (!decoded || decoded->index.end() != left) return damaged(number, part->at);
      whole.prepend(std::move(decoded->index));
      part = decoded->before;
    }
  }
  return std::unique_ptr<BlobReader>(std::make_unique<BlobReaderImpl>(std::move(file), number, std::move(whole)));
}

}  // namespace lsmfs::kv

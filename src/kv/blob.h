// kv/blob: blobs (lsmfs/kv.h) as files of a volume: "blob-" and their number, in hexadecimal.
//
// What it is not: it keeps none open, and knows nothing of RocksDB, which never hears of them (kv/file_system.h).
//
// Threads: a writer is used by one at a time; a reader by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kv/fail_stop.h"
#include "lsmfs/kv.h"
#include "lsmfs/volume.h"

namespace lsmfs::kv {

std::string blob_name(std::uint64_t number);
std::optional<std::uint64_t> blob_number(std::string_view name);  // nullopt: it is no blob

// What a blob for so many bytes of data takes of the volume.
std::uint64_t blob_size(ByteCount data);
// `closed` hears how many bytes it has in the end, when the writer has gone. To `appended` the bytes of data are added that come to it.
Result<std::unique_ptr<BlobWriter>> create_blob(Volume& volume, FailStop& fail_stop, std::uint64_t number, ByteCount data,
                                                std::function<void(std::uint64_t bytes)> closed, std::atomic<std::uint64_t>& appended);
Result<std::unique_ptr<BlobReader>> open_blob(Volume& volume, std::uint64_t number, const BlobEnd& end);

}  // namespace lsmfs::kv

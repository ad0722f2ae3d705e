// What all files of a volume share. Owned by the volume and by every open reader and writer.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "volume/journal.h"
#include "volume/space.h"
#include "volume/superblocks.h"
#include "volume/write_queue.h"

namespace lsmfs {

struct Shared {
  Shared(Device& device, const SuperblockInfo& superblock, const VolumeOptions& options, Catalog catalog, MetadataLog log)
      : seed(superblock.seed),
        superblocks(superblock),
        salvage(options.salvage),
        space(std::make_shared<Space>(catalog, superblock.layout)),
        journal(device, std::move(catalog), std::move(log)),
        queue(journal) {}

  const std::uint64_t seed;  // of checksums
  Superblocks superblocks;
  const std::function<void(std::string_view)> salvage;  // VolumeOptions::salvage
  const std::shared_ptr<Space> space;
  Journal journal;
  WriteQueue queue;
};

}  // namespace lsmfs

// What all files of a volume share. Owned by the volume and by every open reader and writer.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "volume/journal.h"
#include "volume/space.h"
#include "volume/write_queue.h"

namespace lsmfs {

struct Shared {
  Shared(Device& device, const SuperblockInfo& superblock_info, const VolumeOptions& options, Catalog catalog, MetadataLog log)
      : superblock(superblock_info),
        salvage(options.salvage),
        space(std::make_shared<Space>(catalog, superblock_info.layout)),
        journal(device, std::move(catalog), std::move(log)),
        queue(journal) {}

  const SuperblockInfo superblock;
  const std::function<void(std::string_view)> salvage;  // VolumeOptions::salvage
  const std::shared_ptr<Space> space;
  Journal journal;
  WriteQueue queue;
};

}  // namespace lsmfs

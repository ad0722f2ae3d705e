// Every request that a program makes of a daemon (lsmfs/control.h): its number, and what goes with it.
//
// A request whose meaning or message changes gets a new number, so that a program and a daemon of different versions do not take each
// other for what they are not: the daemon answers ENOTTY. The numbers of what ext4 and others know, too, are those of linux/fs.h: FITRIM,
// FS_IOC_GETFLAGS, FS_IOC_GETFSLABEL and their like.
#pragma once

#include <sys/ioctl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lsmfs/control.h"

namespace lsmfs {

// ---- facts: read-only, JSON text

// The kernel takes a reply of at most the size in the ioctl's number, which has 14 bits for it.
inline constexpr std::size_t kFactsMax = 16380;
inline constexpr unsigned long kFactsIoctl = _IOR('L', 0xf5, char[kFactsMax]);

// ---- reconfigure: root changes the settings of a mount

struct ReconfigureRequest {
  static constexpr std::int32_t kUnchanged = -1;
  std::int32_t read_only = kUnchanged;         // 0, 1
  std::int32_t atime = kUnchanged;             // AtimePolicy
  std::int32_t directory_atime = kUnchanged;   // 0, 1
  std::int32_t sync_interval_ms = kUnchanged;
  std::int32_t durable_names = kUnchanged;     // 0, 1
};
static_assert(sizeof(ReconfigureRequest) == 20);

inline constexpr unsigned long kReconfigureIoctl = _IOW('L', 0xf6, ReconfigureRequest);

ReconfigureRequest to_request(const MountSettings& settings);
std::optional<MountSettings> to_settings(const ReconfigureRequest& request);  // nullopt: a value is not valid

// ---- drop caches: the daemon writes what it has and forgets what it has cached, as /proc/sys/vm/drop_caches does for the kernel

inline constexpr unsigned long kDropCachesIoctl = _IO('L', 0xf7);

// ---- scrub: the daemon verifies the next part of all that is on its device. All that there is of a scrub comes with the request and
// goes with the answer: the daemon keeps nothing of it.

struct ScrubMessage {
  std::uint64_t part = 0, next = 0, end = 0;  // ScrubPosition, of the request and of the answer
  std::uint64_t read = 0, left = 0;           // ScrubStep
  std::uint64_t damage = 0;                   // lines of damage
  char text[12 * KiB] = {};                   // as many of them as find a place, each ended by a newline; a 0 at the end
};
// The size in the ioctl's number has 14 bits.
static_assert(sizeof(ScrubMessage) < 16384);

inline constexpr unsigned long kScrubIoctl = _IOWR('L', 0xf8, ScrubMessage);

ScrubPosition position_of(const ScrubMessage& message);
ScrubMessage to_message(const ScrubPosition& position, const ScrubStep& step);
// Lines that found no place are told of in one.
ScrubStep step_of(const ScrubMessage& message);

// ---- grow: the volume gets more of its device

struct GrowMessage {
  std::uint64_t size = 0;  // asked: bytes, or 0 for all of the device; answered: what it has now
};

inline constexpr unsigned long kGrowIoctl = _IOWR('L', 0xfa, GrowMessage);

// ---- remove: the directory of whose descriptor it is asked goes with all that lies below it

inline constexpr unsigned long kRemoveTreeIoctl = _IO('L', 0xfb);

// ---- clone: the directory that this thread makes next by mkdir(2), of this name in this one, becomes a copy of the directory of whose
// descriptor it is asked, with all that lies below it

struct CloneRequest {
  std::uint64_t parent = 0;      // its inode number
  char name[kNameMax + 1] = {};  // a 0 at the end
};

inline constexpr unsigned long kCloneIoctl = _IOW('L', 0xfc, CloneRequest);

// That has been done, or has failed, and no later directory is meant: what has come of it.
struct ClonedMessage {
  static constexpr std::uint32_t kOrdinary = 0, kCopy = 1, kDenied = 2;
  std::uint32_t outcome = kOrdinary;  // kCopy: if one was made; kDenied: none was, the source is not the caller's
};

inline constexpr unsigned long kClonedIoctl = _IOR('L', 0xfd, ClonedMessage);

// ---- snapshot: what is known of the snapshot of whose directory's descriptor it is asked

struct SnapshotMessage {
  std::int64_t seconds = 0;        // when it was made
  std::uint32_t nanoseconds = 0;
  std::uint32_t size = 0;          // bytes of the path; with a longer one than finds a place here it is not answered
  char of[16 * KiB - 32] = {};     // the path of its source
};
static_assert(sizeof(SnapshotMessage) < 16384);

inline constexpr unsigned long kSnapshotIoctl = _IOR('L', 0xfe, SnapshotMessage);

SnapshotMessage to_message(const SnapshotInfo& info);  // must hold: the path finds a place
// Errors: EPROTO.
Result<SnapshotInfo> snapshot_of(const SnapshotMessage& message);

// ---- sizes: how much the snapshot has of whose directory's descriptor it is asked

struct SnapshotSizesMessage {
  std::uint64_t alone = 0, refers = 0;  // bytes: SnapshotSizes
};

inline constexpr unsigned long kSnapshotSizesIoctl = _IOR('L', 0xf4, SnapshotSizesMessage);

// ---- differences: what two directories have that is not the same, in steps. Each step is two requests: the first, of the descriptor of the
// first directory, names the second one; the second is asked by the same thread of that one. So who asks could open both.

struct DiffWithRequest {
  std::uint64_t directory = 0;  // its inode number
};

inline constexpr unsigned long kDiffWithIoctl = _IOW('L', 0xf1, DiffWithRequest);

struct DiffMessage {
  std::uint32_t size = 0;  // of the bytes, which are DifferencesAsked, and in the answer DifferencesStep
  std::uint32_t reserved = 0;
  char bytes[DifferencesMost().room] = {};
};
static_assert(sizeof(DiffMessage) < 16384);

inline constexpr unsigned long kDiffIoctl = _IOWR('L', 0xf0, DiffMessage);

// nullopt: it does not find a place.
std::optional<DiffMessage> to_diff_message(std::string_view bytes);
std::string_view bytes_of(const DiffMessage& message);  // "" if it says that there are more than it has

// ---- import: what is written from now on to the file without a name of whose descriptor it is asked is a stream of records (lsmfs/import.h), of
// which a tree is made in a directory without a name. At the end, the directory that this thread makes next by mkdir(2), of this name where that
// file was made, becomes that one.

struct ImportRequest {
  std::uint32_t umask = 0;       // of the caller
  char name[kNameMax + 1] = {};  // of the directory; a 0 at the end
};

inline constexpr unsigned long kImportIoctl = _IOW('L', 0xeb, ImportRequest);

struct ImportedMessage {
  std::uint32_t code = 0;  // an error's; then nothing is made
  std::uint32_t size = 0;  // of its context
  std::uint64_t files = 0, directories = 0, others = 0, bytes = 0;  // ImportCounts
  char name[kNameMax + 1] = {};  // asked: of the directory; "": there will be none, and only the error is asked for
  char context[15 * KiB] = {};   // as much of it as there is a place for
};
static_assert(sizeof(ImportedMessage) < 16384);

inline constexpr unsigned long kImportedIoctl = _IOWR('L', 0xea, ImportedMessage);

// ---- roll back: the directory that this thread names next by the second of two requests, of its descriptor, gets what the snapshot has of
// whose descriptor the first one is asked. So who asks could open both.

struct RollBackRequest {
  std::uint64_t directory = 0;  // its inode number
};

inline constexpr unsigned long kRollBackToIoctl = _IOW('L', 0xf3, RollBackRequest);

struct RollBackMessage {
  std::uint32_t only_asks = 0;  // 1: whether the caller may, and nothing is done
};

inline constexpr unsigned long kRollBackIoctl = _IOW('L', 0xf2, RollBackMessage);

// ---- changes: what may have changed below the directory of whose descriptor it is asked, in steps

struct ChangesMessage {
  std::uint32_t size = 0;  // of the bytes, which are ChangesAsked, and in the answer ChangesStep
  std::uint32_t reserved = 0;
  char bytes[ChangesAsked().room] = {};
};
static_assert(sizeof(ChangesMessage) < 16384);

inline constexpr unsigned long kChangesIoctl = _IOWR('L', 0xed, ChangesMessage);

// nullopt: it does not find a place.
std::optional<ChangesMessage> to_changes_message(std::string_view bytes);
std::string_view bytes_of(const ChangesMessage& message);  // as above

// ---- numbers: a part of them at a time, since all would not fit. Nothing of a version that the caller does not know is sent.

struct StatsMessage {
  std::uint32_t version = 0;  // of the request and of the answer
  std::uint32_t part = 0;     // likewise: which part is wanted, and the next one; 0 in an answer: that was the last
  std::uint32_t size = 0;     // of the answer's bytes; see stats_codec.h
  std::uint32_t reserved = 0;
  char bytes[12 * KiB] = {};
};
static_assert(sizeof(StatsMessage) < 16384);

inline constexpr unsigned long kStatsIoctl = _IOWR('L', 0xf9, StatsMessage);

}  // namespace lsmfs

#include "kv/status.h"

#include <string>

namespace lsmfs::kv {

namespace {

using rocksdb::IOStatus;
using rocksdb::Status;

int io_error_code(Status::SubCode subcode) {
  switch (subcode) {
    case Status::kNoSpace:
    case Status::kSpaceLimit:
      return ENOSPC;
    case Status::kPathNotFound:
      return ENOENT;
    case Status::kStaleFile:
      return ESTALE;
    case Status::kIOFenced:
      return EROFS;
    default:
      return EIO;
  }
}

int error_code(const Status& status) {
  switch (status.code()) {
    case Status::kNotFound:
      return ENOENT;
    case Status::kCorruption:
      return EUCLEAN;
    case Status::kNotSupported:
      return EOPNOTSUPP;
    case Status::kInvalidArgument:
      return EINVAL;
    case Status::kIOError:
      return io_error_code(status.subcode());
    case Status::kIncomplete:
      // Without a subcode: what was asked for is not in memory, or the writers are stalled.
      return status.subcode() == Status::kManualCompactionPaused ? ECANCELED : EAGAIN;
    case Status::kShutdownInProgress:
      return ESHUTDOWN;
    case Status::kTimedOut:
      return ETIMEDOUT;
    case Status::kAborted:
      if (status.subcode() == Status::kMemoryLimit) return ENOMEM;
      if (status.subcode() == Status::kLockLimit) return ENOLCK;
      return ECANCELED;
    case Status::kBusy:
    case Status::kTryAgain:  // not EAGAIN: that one promises that waiting was not asked for
      return status.subcode() == Status::kDeadlock ? EDEADLK : EBUSY;
    case Status::kExpired:
      return ETIME;
    case Status::kCompactionTooLarge:
      return E2BIG;
    case Status::kColumnFamilyDropped:
      return EIDRM;
    default:
      // MergeInProgress is internal to RocksDB and never leaves it; what newer versions add is
      // unknown here. An OK that got here by mistake must not look like success either.
      return EIO;
  }
}

}  // namespace

Error to_error(const Status& status, std::string_view what) {
  return make_error(error_code(status), std::string(what) + ": " + status.ToString());
}

Result<void> to_result(const Status& status, std::string_view what) {
  if (status.ok()) return {};
  return to_error(status, what);
}

IOStatus to_io_status(const Error& error) {
  switch (error.code) {
    case ENOENT:
      return IOStatus::NotFound(error.context);
    case EUCLEAN:
      return IOStatus::Corruption(error.context);
    case EOPNOTSUPP:
      return IOStatus::NotSupported(error.context);
    case EINVAL:
      return IOStatus::InvalidArgument(error.context);
    case ENOSPC:
      return IOStatus::NoSpace(error.context);
    case EROFS:
      return IOStatus::IOFenced(error.context);
    case ETIMEDOUT:
      return IOStatus::TimedOut(error.context);
    case ECANCELED:
      return IOStatus::Aborted(error.context);
    case EBUSY:
      return IOStatus::Busy(error.context);
    default:
      return IOStatus::IOError(error.message());
  }
}

}  // namespace lsmfs::kv

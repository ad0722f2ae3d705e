#include "cli/claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>

namespace lsmfs::cli {

Claims Claims::open() {
  std::string folder = "/run/lsmfs";
  if (geteuid() == 0) {
    ::mkdir(folder.c_str(), 0755);  // or it is there, or cannot be
  } else {
    const char* const own = std::getenv("XDG_RUNTIME_DIR");
    folder = own == nullptr ? "" : own;
  }
  Claims claims;
  // Only for its owner: who may open it could hold claims.
  if (!folder.empty()) claims.file_ = Fd(::open((folder + "/lsmfs.claims").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  return claims;
}

Result<void> Claims::claim(const Uuid& uuid, Clock& clock) {
  constexpr auto kEnding = std::chrono::seconds(1);
  constexpr auto kBetweenLooks = std::chrono::milliseconds(10);
  if (!file_) return {};
  // One byte of an empty file stands for each volume, so nothing has to be removed when it is unmounted.
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(checksum({reinterpret_cast<const std::byte*>(uuid.bytes.data()), uuid.bytes.size()}) >> 1);
  range.l_len = 1;
  for (const auto last = clock.now() + kEnding; ::fcntl(file_.get(), F_OFD_SETLK, &range) != 0; clock.sleep(kBetweenLooks)) {
    if (errno != EAGAIN && errno != EACCES) return {};  // a file system without such locks
    if (clock.now() >= last) return make_error(EBUSY, uuid.text());
  }
  return {};
}

}  // namespace lsmfs::cli

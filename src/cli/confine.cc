#include "cli/confine.h"

#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/system_calls.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {
namespace {

Result<void> drop_capabilities() {
  // The bounding set takes a capability to change. Who does not have that gets none by executing anything either.
  for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) {
    (void)prctl(PR_CAPBSET_DROP, capability);
  }
  // The ambient set follows the others.
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  if (syscall(SYS_capset, &header, none) != 0) return make_error(errno, "capset");
  return {};
}

// Opens files with nobody's rights from now on. It still is root's process: any process of nobody's could end one of nobody's.
Result<void> be_nobody_to_files() {
  constexpr int kNobody = 65534, kNoChange = -1;
  if (geteuid() != 0) return {};
  if (setgroups(0, nullptr) != 0) return make_error(errno, "setgroups");
  setfsgid(kNobody);
  setfsuid(kNobody);
  if (setfsgid(static_cast<gid_t>(kNoChange)) != kNobody || setfsuid(static_cast<uid_t>(kNoChange)) != kNobody) {
    return make_error(EPERM, "setfsuid");
  }
  // A core dump is root's as before.
  if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) return make_error(errno, "dumpable");
  return {};
}

void tell_kept_rights(const Result<void>& given_up, const std::function<void(std::string_view)>& notice) {
  if (!given_up) notice(fmt::format("this process keeps more rights than it needs: {}", given_up.error().message()));
}

}  // namespace

void give_up_rights(const std::function<void(std::string_view)>& notice) {
  const auto told = [&](const Result<void>& done) { tell_kept_rights(done, notice); };
  told(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? Result<void>() : make_error(errno, "no_new_privs"));
  told(be_nobody_to_files());
  told(drop_capabilities());
}

void confine(const std::function<void(std::string_view)>& notice) {
  give_up_rights(notice);
  tell_kept_rights(restrict_system_calls(), notice);
}

}  // namespace lsmfs::cli

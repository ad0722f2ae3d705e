#include "fuse/ioctls.h"

#include "fuse/context.h"
#include "fuse/facts_ioctl.h"

namespace lsmfs {
namespace {

// ---- one function for each command; it answers the request, with IoctlOutput or Done as its reply.
// `in` lies in the request and has the size that the command's number says, if the command has input.

void facts(fuse_req_t req, Ino, Bytes) {
  serve_waiting(req, [&context = context_of(req)]() -> Result<IoctlOutput> {
    std::string json = context.administration.info_json();
    if (json.size() > kFactsMax) return make_error(EMSGSIZE, "");
    return IoctlOutput{std::move(json)};
  });
}

struct Command {
  unsigned number;
  void (*answer)(fuse_req_t req, Ino ino, Bytes in);
};

constexpr Command kCommands[] = {
    {kFactsIoctl, facts},
};

std::size_t input_size(unsigned number) { return _IOC_DIR(number) & _IOC_WRITE ? _IOC_SIZE(number) : 0; }

}  // namespace

void ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void*, fuse_file_info*, unsigned, const void* in,
           std::size_t in_size, std::size_t) {
  for (const Command& known : kCommands) {
    if (known.number != command) continue;
    if (in_size < input_size(command)) break;
    return known.answer(req, Ino{ino}, {static_cast<const std::byte*>(in), input_size(command)});
  }
  fuse_reply_err(req, ENOTTY);
}

}  // namespace lsmfs

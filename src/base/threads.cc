#include <pthread.h>

#include <cassert>
#include <cstring>

#include "lsmfs/base.h"

namespace lsmfs {

void name_thread(const char* name) {
  assert(std::strlen(name) < 16);
  (void)pthread_setname_np(pthread_self(), name);  // a thread without its name works as well
}

}  // namespace lsmfs

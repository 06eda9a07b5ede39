#include "base/host_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

#include "base/checked.h"

namespace strata {

void fail_overflow() {
  fail(ErrorKind::Runtime, "an integer argument is too large: a size computed from it does not fit into 64 bits");
}

size_t host_memory() {
  static const size_t bytes = [] {
    struct sysinfo info {};
    size_t most = SIZE_MAX;
    if (sysinfo(&info) == 0) most = (size_t{info.totalram} + info.totalswap) * info.mem_unit;
    for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
      size_t limit = 0;
      if (std::ifstream(file) >> limit && limit > 0) most = std::min(most, limit);  // "max" is not a number
    }
    return most;
  }();
  return bytes;
}

void check_host_memory(int64_t count, size_t bytes, const char* op) {
  size_t total = 0;
  const bool fits =
    count <= 0 || (!__builtin_mul_overflow(static_cast<size_t>(count), bytes, &total) && total <= host_memory());
  STRATA_CHECK(fits, OutOfMemory,
               "{}: not enough memory: {} items of {} bytes are more than the {} MiB this process may have", op, count,
               bytes, host_memory() >> 20);
}

}  // namespace strata

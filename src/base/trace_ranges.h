// Spans as ranges of another tool, such as NVIDIA's profilers: called as they begin and end, while a recording is on.
#pragma once
#include <atomic>

#include "base/api.h"

namespace strata::tracing {

struct Ranges {
  int (*push)(const char* name);
  int (*pop)();
};
// Null: spans are only recorded. Set it before a recording starts, and reset it after it ends.
STRATA_API extern std::atomic<const Ranges*> ranges;

}  // namespace strata::tracing

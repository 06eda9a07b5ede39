// Parallel regions in two steps, for libraries that bring their own loops (cpu/onednn/openmp.cpp).
#pragma once
#include "base/api.h"

namespace strata::detail {

// Starts a region of `members` threads: each other than the caller runs body(context, index, members), and the caller does the
// part of index 0 before it calls finish_region. False, and nothing was started: inside a parallel loop, if the pool is
// busy with another thread's work, or without threads. The body must not throw.
STRATA_API bool start_region(int members, void (*body)(void*, int, int), void* context);
STRATA_API void finish_region();

}  // namespace strata::detail

// Parallel regions in two steps, for libraries that bring their own loops (cpu/onednn/openmp.cpp).
#pragma once
#include "base/api.h"

namespace strata::detail {

// The threads that a region started by this thread can have: num_threads(), which are started now. Fewer if the process may not
// have as many.
STRATA_API int region_threads();
// Starts a region of at most region_threads(): each thread other than the caller runs body(context, index, members), and the caller
// does the part of index 0 before it calls finish_region. Waits while another thread uses the pool. The body must not throw.
STRATA_API void start_region(int members, void (*body)(void*, int, int), void* context);
STRATA_API void finish_region();

}  // namespace strata::detail

// Debugging aids of the CPU allocator: guard pages in any build, a pattern behind each block in debug builds.
#pragma once
#include <cstddef>

#include "tensor/allocator.h"

namespace strata {

// With STRATA_GUARD_PAGES=end (or =front) each block ends (or begins) at a page that may not be touched: an access outside it ends the
// process at the guilty instruction, in release builds too. The variable is read once.
bool guard_pages_wanted();
// Memory between two untouchable pages, or null when the system has no more.
std::byte* map_guarded(size_t bytes);
void unmap_guarded(std::byte* data, size_t bytes);

// Whether somebody wrote behind the bytes that were asked for. Debug builds put a pattern there; others return false.
STRATA_API bool wrote_past_the_end(const Storage& block);

}  // namespace strata

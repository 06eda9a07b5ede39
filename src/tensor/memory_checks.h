// Debugging aids of the CPU allocator: guard pages in any build, a pattern after each block in debug builds.
#pragma once
#include <cstddef>

#include "tensor/allocator.h"

namespace strata {

// With STRATA_GUARD_PAGES=end (or =front) each block ends (or begins) at a protected page: an access outside it crashes
// at the faulty instruction, in release builds too. The variable is read once.
bool guard_pages_wanted();
// Memory between two protected pages, or null if the system has no more.
std::byte* map_guarded(size_t bytes);
void unmap_guarded(std::byte* data, size_t bytes);

// Whether bytes after the requested ones were overwritten. Debug builds write a pattern there; others return false.
STRATA_API bool wrote_past_the_end(const Storage& block);

}  // namespace strata

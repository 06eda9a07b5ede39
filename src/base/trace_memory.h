// Whether recordings have the memory that is given back, too: spans "free" of layer Runtime, with its bytes and address.
#pragma once
#include <atomic>
#include <cstddef>

#include "base/api.h"

namespace strata::tracing {

STRATA_API extern std::atomic<bool> watches_memory;  // off unless a recording asks for it
STRATA_API void note_free(const void* address, size_t bytes) noexcept;

}  // namespace strata::tracing

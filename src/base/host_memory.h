// The memory that this process may use, and a check for work that can never fit.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/api.h"

namespace strata {

// Memory and swap space of the machine, or the limit of the control group if that is lower.
STRATA_API size_t host_memory();

constexpr size_t kObjectBytes = 512;  // the cost of a tensor object in a list, including its Python object

// Throws OutOfMemory if `count` items of `bytes` each cannot fit. Call it before loops over a user-given count: they
// must not run for hours, or be killed, before something else fails.
STRATA_API void check_host_memory(int64_t count, size_t bytes, const char* op);

}  // namespace strata

// How much memory this process may have, and the refusal of work that could never fit into it.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/api.h"

namespace strata {

// Memory and swap space of the machine, or the limit of the control group if that is lower.
STRATA_API size_t host_memory();

constexpr size_t kObjectBytes = 512;  // what a tensor object in a list costs, its Python object included

// Throws OutOfMemory when `count` items of `bytes` each cannot fit. For loops on the host whose length a user gives: they must
// not run for hours, or be killed, before something else fails.
STRATA_API void check_host_memory(int64_t count, size_t bytes, const char* op);

}  // namespace strata

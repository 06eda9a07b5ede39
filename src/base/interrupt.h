// Lets the user interrupt a long loop on the host. The Python binding sets the hook, which throws after Ctrl-C.
#pragma once
#include "base/api.h"

namespace strata {

STRATA_API void set_interrupt_hook(void (*hook)());

// Call it in each step of a loop over a user-given count. Costs an increment; the hook is called once in 1024 times.
STRATA_API void poll_interrupt();

}  // namespace strata

// Lets the user stop a long loop on the host. The Python binding sets the hook, which throws when Ctrl-C was pressed.
#pragma once
#include "base/api.h"

namespace strata {

STRATA_API void set_interrupt_hook(void (*hook)());

// For each step of a loop whose length a user gives. Costs an increment; the hook is called once in 1024 times.
STRATA_API void poll_interrupt();

}  // namespace strata

// Warnings: the call works, but probably does something else than its author meant. Python's hook raises a UserWarning; in
// C++ the text goes to standard error.
#pragma once
#include <string>

#include "base/api.h"

namespace strata {

STRATA_API void set_warning_hook(void (*hook)(const std::string& text));

[[gnu::cold]] STRATA_API void warn(const std::string& text);

}  // namespace strata

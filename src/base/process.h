// Other programs: finding and running them, without a shell.
#pragma once
#include <string>
#include <vector>

#include "base/api.h"

namespace strata {

// A program by its name in PATH, or by its path; "" if there is none.
STRATA_API std::string find_program(const std::string& name);

// Runs words[0], the path of a program, with its output and errors in the file `log`, in `folder` ("": the current one).
// Returns its exit status, or -1 with the reason in `why`.
STRATA_API int run_program(const std::vector<std::string>& words, const std::string& folder, const std::string& log,
                           std::string& why);

}  // namespace strata

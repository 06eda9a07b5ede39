// Commands whose work is done by the Python package.
#pragma once
#include <string>
#include <vector>

namespace strata::cli {

// Runs a module of the package with these arguments, in place of this process: by $STRATA_PYTHON, or python3.
[[noreturn]] void run_in_python(const std::string& command, const std::string& module,
                                const std::vector<std::string>& arguments);

}  // namespace strata::cli

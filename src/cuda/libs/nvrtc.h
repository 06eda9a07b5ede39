// Compiles CUDA C++ at run time, with NVRTC where it is installed.
#pragma once
#include <span>
#include <string>

#include "base/api.h"

namespace strata::cuda {

// PTX of a source. Throws NotImplemented where there is no NVRTC, with the reason, and Value with the compiler's messages where
// the source does not compile.
STRATA_API std::string compile_to_ptx(const std::string& source, const std::string& name,
                                      std::span<const char* const> options = {});

}  // namespace strata::cuda

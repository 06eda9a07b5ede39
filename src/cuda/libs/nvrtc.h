// Compiles CUDA C++ at run time with NVRTC, if it is installed.
#pragma once
#include <span>
#include <string>

#include "base/api.h"

namespace strata::cuda {

// Compiles a source to PTX. Throws NotImplemented with the reason if NVRTC is missing, and Value with the compiler's
// messages if the source does not compile.
STRATA_API std::string compile_to_ptx(const std::string& source, const std::string& name,
                                      std::span<const char* const> options = {});

}  // namespace strata::cuda

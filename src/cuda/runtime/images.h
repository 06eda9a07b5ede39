// The kernels embedded in libstrata: one image per .cu file. cmake/EmbedCuda.cmake generates the table.
#pragma once
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

struct Image {
  const char* name;          // of the file, without .cu
  const char* ptx;           // zero-terminated text
  const char *fatbin, *end;  // machine code; empty if no architecture was selected
};

STRATA_API const std::vector<Image>& images();  // empty: built without CUDA
STRATA_API const char* built_architectures();   // "80 90a": architectures with machine code
// The PTX of one kernel, "Add_f32", or "convolution.forward_f32" if several files have a kernel of that name. Throws
// Value.
STRATA_API std::string ptx_of(const std::string& kernel);

}  // namespace strata::cuda

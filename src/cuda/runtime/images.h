// The kernels inside libstrata: one image per .cu file. The table is written by cmake/EmbedCuda.cmake.
#pragma once
#include <string>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

struct Image {
  const char* name;          // of the file, without .cu
  const char* ptx;           // text with a closing zero
  const char *fatbin, *end;  // machine code; empty where no architecture was asked for
};

STRATA_API const std::vector<Image>& images();  // empty: built without CUDA
STRATA_API const char* built_architectures();   // "80 90a": those with machine code of their own
// The PTX of one kernel, "Add_f32"; "convolution.forward_f32" where several files have one of that name. Throws Value.
STRATA_API std::string ptx_of(const std::string& kernel);

}  // namespace strata::cuda

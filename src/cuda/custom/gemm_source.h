// The text of product kernels with an epilogue: the expression read, CUDA C++ written.
#pragma once
#include "cuda/custom/gemm.h"
#include "cuda/linalg/hopper_launch.h"

namespace strata::gemm {

// The names that an epilogue uses, in the order of their first use. Throws Value if it is not one expression.
STRATA_API std::vector<ExtraUse> read_epilogue(const Config& config);

// How a kernel reads its operands; each combination is a kernel of its own.
struct Variant {
  bool a_along_k = true, b_along_k = true;    // k is the dense dimension
  int a_vector = 16, b_vector = 16;           // bytes of a copy, or 0: any strides
  std::vector<DType> extras;                  // in the order of Kernel::extras()
  std::vector<bool> numbers;                  // passed by value
  const cuda::HopperTiles* hopper = nullptr;  // the tiles of a kernel for Hopper; null: gemm_template.cuh
};

STRATA_API std::string kernel_source(const Config& config, const std::vector<ExtraUse>& extras, const Variant& variant);

}  // namespace strata::gemm

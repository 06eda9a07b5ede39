// The text of product kernels with an epilogue: the expression read, CUDA C++ written.
#pragma once
#include "cuda/custom/gemm.h"
#include "cuda/linalg/hopper_launch.h"

namespace strata::gemm {

// The names that an epilogue uses, in the order of their first use. Throws Value if it is not one expression.
STRATA_API std::vector<ExtraUse> read_epilogue(const Config& config);

// How a kernel for Hopper reads a tensor of the epilogue, see gemm_readers.cuh.
enum class Reading : uint8_t { Elements, Pairs, Staged };

// How a kernel reads its operands; each combination is a kernel of its own.
struct Variant {
  bool a_along_k = true, b_along_k = true;  // k is the dense dimension
  int a_vector = 16, b_vector = 16;         // bytes of a copy, or 0: any strides
  std::vector<DType> extras;                // in the order of Kernel::extras()
  std::vector<bool> numbers;                // passed by value
  std::vector<Reading> reading;             // of Hopper's kernels
  DType a_dtype = DType::BF16, b_dtype = DType::BF16;
  const cuda::HopperTiles* hopper = nullptr;  // the tiles of a kernel for Hopper; null: gemm_template.cuh
};

STRATA_API std::string kernel_source(const Config& config, const std::vector<ExtraUse>& extras, const Variant& variant);

// float16 and bfloat16, and what is multiplied in units of two bytes: TF32, int8 and float8.
inline bool is_on_tensor_cores(const Config& c) { return size_of(c.dtype) <= 2 || c.tf32; }
inline bool is_in_units(const Config& c) { return size_of(c.dtype) == 1 || c.tf32; }
inline int depth_in_units(const Config& c) {
  return is_in_units(c) ? c.tile[2] * static_cast<int>(size_of(c.dtype)) / 2 : c.tile[2];
}

}  // namespace strata::gemm

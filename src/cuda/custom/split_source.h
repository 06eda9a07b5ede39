// CUDA C++ with host functions, split for two compilers: kernels and device functions for NVRTC, host functions for the
// system's C++ compiler.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"

namespace strata::cuda {

// Both parts have the line numbers of the source: what belongs to the other part is blank.
//
// A declaration is split by its annotations, as nvcc does it: __global__ and __device__ functions are in `device`, other
// functions in `host`; types, constants, constexpr and __host__ __device__ functions are in both, unless they use names
// of torch, at, c10 or std. In `host`, the body of a kernel is a call of KernelSource::launch, and `k<<<grid, block>>>(x)`
// is `configure(grid, block), k(x)`.
struct SplitSource {
  std::string host, device;
  std::vector<std::string> kernels;  // those that are no templates, with their namespaces: "mine::add"
};

// `kernel_source` is the C++ name of the KernelSource that the host part uses.
STRATA_API SplitSource split_source(std::string_view source, std::string_view kernel_source);

// Host code alone: only launches and the includes of PyTorch's headers are replaced.
STRATA_API std::string host_source(std::string_view source);

}  // namespace strata::cuda

// -(t log(x) + (1 - t) log(1 - x)) for probabilities x, with each logarithm clamped to at least -100; invalid
// probabilities are reported.
//
// Bound by memory: two arrays are read and one written, once; a thread processes one element of each.
#include "cuda/common/dtypes.cuh"
#include "cuda/common/fault.cuh"
#include "cuda/nn/binary_cross_entropy_params.h"

namespace strata::cuda {
namespace {

template <class T> __device__ __forceinline__ void binary_cross_entropy(const BinaryCrossEntropyParams& p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const T x = load<T>(element(p.x, p.type, i), p.type), t = load<T>(element(p.target, p.type, i), p.type);
  if (!(x >= T(0) && x <= T(1))) report(p.faults, FaultCode::Probability, __double_as_longlong(double(x)), 0);
  store<T>(const_cast<void*>(element(p.out, p.type, i)), p.type,
           (t - T(1)) * max(log1p(-x), T(-100)) - t * max(log(x), T(-100)));
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) binary_cross_entropy_f32(BinaryCrossEntropyParams p) {
  binary_cross_entropy<float>(p);
}
extern "C" __global__ void __launch_bounds__(256) binary_cross_entropy_f64(BinaryCrossEntropyParams p) {
  binary_cross_entropy<double>(p);
}

}  // namespace strata::cuda

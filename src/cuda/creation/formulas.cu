// Ranges of numbers, and splitting numbers into mantissa and exponent.
//
// Bound by memory: each element is written once, by neighbouring threads. Floats are computed in double, without FMA,
// so that arange and linspace have the CPU's bits.
#include "cuda/common/dtypes.cuh"
#include "cuda/creation/formulas_params.h"

namespace strata::cuda {

extern "C" __global__ void __launch_bounds__(256) range_i64(RangeParams p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < p.count)
    store<int64_t>(const_cast<void*>(element(p.out, p.type, i)), p.type, p.start_whole + i * p.step_whole);
}

extern "C" __global__ void __launch_bounds__(256) range_f64(RangeParams p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  double v = p.start;
  if (!p.even || i < p.count / 2) v = __dadd_rn(p.start, __dmul_rn(double(i), p.step));
  // makes the last element exact
  else if (p.count > 1) v = __dadd_rn(p.end, -__dmul_rn(p.step, double(p.count - 1 - i)));
  if (p.base != 0) v = pow(p.base, v);
  store<double>(const_cast<void*>(element(p.out, p.type, i)), p.type, v);
}

extern "C" __global__ void __launch_bounds__(256) split_number(FrexpParams p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  int exponent = 0;
  const double mantissa = frexp(load<double>(element(p.x, p.type, i), p.type), &exponent);
  store<double>(const_cast<void*>(element(p.mantissa, p.type, i)), p.type, mantissa);
  reinterpret_cast<int32_t*>(p.exponent)[i] = exponent;
}

}  // namespace strata::cuda

// OpRecord::pointwise<F>() and other shared parts of pointwise ops.
#pragma once
#include "autograd/autograd.h"
#include "cpu/pointwise/pointwise.h"
#include "cuda/pointwise/pointwise.h"
#include "strata/ops.h"

namespace strata {

using G = const GradContext&;

// The gradient of a step function: zeros, also where g is infinite.
inline Tensor no_slope(const Tensor& g) { return autograd::zeros_for(*g); }

template <template <class> class... F> OpRecord& OpRecord::pointwise(int (*choose)(const Args&)) {
  static const Formula* const list[] = {cpu::formula<F>()...};
  broadcasts = true;
  numbers = true;
  infer_fn = infer_pointwise;
  formulas = list;
  variant = choose;
  STRATA_ASSERT(params.size() >= static_cast<size_t>(list[0]->inputs + list[0]->members));
  if (!list[0]->floats) accepts = kIntegerTypes | kBoolType;
  kernel("flat_simd", cpu::run_flat, cpu::flat_ready);
  kernel("blocked", cpu::run_blocked);
  kernel("reference", cpu::run_reference);
  return cuda("pointwise", cuda::run_pointwise);
}

}  // namespace strata

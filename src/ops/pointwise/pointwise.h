// OpRecord::pointwise<F>() and other shared parts of pointwise ops.
#pragma once
#include <algorithm>

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
  dtypes(list[0]->floats ? kAllTypes : kIntegerTypes | kBoolType);
  kernel("flat_simd", cpu::run_flat, cpu::flat_ready);
  if (std::ranges::any_of(list, [](const Formula* f) { return f->loops.small[0] != nullptr; }))
    kernel("small_ints", cpu::run_small_ints, cpu::small_ints_ready);
  kernel("blocked", cpu::run_blocked);
  kernel("reference", cpu::run_reference);
  return cuda("pointwise", cuda::run_pointwise);
}

template <template <class> class F> OpRecord& OpRecord::complex() {
  STRATA_ASSERT(formulas);
  complex_formula = cpu::complex_formula<F>();
  return add_dtypes(kComplexTypes);
}

template <template <class> class F> OpRecord& OpRecord::complex_from_real() {
  complex_formula = cpu::complex_formula<F>();
  return *this;
}

// The conjugate of a factor in a gradient; a real one is returned unchanged. PyTorch's convention: the gradient of a real
// function f by z = x + iy is df/dx + i df/dy, so a linear map is replaced by its conjugate transpose.
inline Tensor conjugated(const Tensor& t) { return is_complex(t.dtype()) ? conj(t) : t; }
// g times, or over, the conjugate of an operand of the op.
inline Tensor times_conjugate(const Tensor& g, const Operand& o) {
  if (o.value.tag == Tag::Tensor && is_complex(o.value.tensor->dtype))
    return mul(g, conj(Ref<TensorImpl>::share(o.value.tensor)));
  return mul(g, o);
}
inline Tensor over_conjugate(const Tensor& g, const Operand& o) {
  if (o.value.tag == Tag::Tensor && is_complex(o.value.tensor->dtype))
    return div(g, conj(Ref<TensorImpl>::share(o.value.tensor)));
  return div(g, o);
}
inline Tensor times_conjugate(const Tensor& g, const Scalar& factor) {
  if (factor.is_complex()) return mul(g, full({}, Scalar(Complex<double>{factor.z.re, -factor.z.im})));
  return factor.to_double() == 1 ? g : mul(g, factor);
}

}  // namespace strata

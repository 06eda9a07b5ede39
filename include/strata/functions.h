// Functions that are no ops, and the guards of gradient recording under their libtorch names.
#pragma once
#include "autograd/autograd.h"
#include "dispatch/settings.h"
#include "ops/copies_and_slopes.h"
#include "strata/ops.h"
#include "tensor/dlpack.h"
#include "tensor/generator.h"

namespace strata {

// Whether both have the same shape and the same values.
inline bool equal(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.shape(), b.shape()) && all(eq(a, b)).item<bool>();
}
// Whether all |a - b| <= atol + rtol * |b|.
inline bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-05, double atol = 1e-08,
                     bool equal_nan = false) {
  return all(isclose(a, b, rtol, atol, equal_nan)).item<bool>();
}
inline int64_t numel(const Tensor& t) { return t.numel(); }
inline bool is_floating_point(const Tensor& t) { return is_floating(t.dtype()); }
inline bool is_complex(const Tensor& t) { return is_complex(t.dtype()); }
// Whether the only element is not zero.
inline bool is_nonzero(const Tensor& t) { return t.item<double>() != 0; }
// A zero-dimensional tensor, of the default dtype unless the options have another.
inline Tensor scalar_tensor(Scalar value, const TensorOptions& options = {}) {
  return full(IntList(), value, options.dtype(options.dtype().value_or(default_dtype())));
}
inline DType promote_types(DType a, DType b) { return promote(a, b); }
inline DType get_default_dtype() { return default_dtype(); }

inline bool is_grad_enabled() { return thread_state.grad_mode; }
inline bool is_inference_mode_enabled() { return thread_state.inference_mode; }
using NoGradGuard = autograd::NoGrad;
using InferenceMode = autograd::InferenceMode;
// Sets whether gradients are recorded, until the end of the scope.
struct AutoGradMode {
  explicit AutoGradMode(bool enabled) : scope(thread_state.grad_mode, enabled) {}
  Scoped<bool> scope;
};

// The exchange format of array libraries. The tensor shares the memory; the receiver of a DLManagedTensor calls its
// deleter, and from_dlpack takes it over.
inline dlpack::DLManagedTensor* to_dlpack(const Tensor& t) { return dlpack::export_tensor(t); }
inline Tensor from_dlpack(dlpack::DLManagedTensor* managed) { return dlpack::import_tensor(managed); }

inline uint64_t initial_seed() { return default_generator().initial_seed(); }
inline uint64_t seed() { return default_generator().seed(); }  // a new one from the system

}  // namespace strata

// Shared parts of the decompositions: checks, batches, and turning info codes into errors.
#pragma once
#include <functional>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/linalg/lapack.h"
#include "cpu/staging.h"
#include "ops/reduce/common.h"
#include "record/op.h"

namespace strata {

STRATA_API void check_float(const TensorImpl& a, const char* op);   // f32 or f64
STRATA_API void check_matrix(const TensorImpl& a, const char* op);  // at least two dimensions, and the above
STRATA_API void check_square(const TensorImpl& a, const char* op, const char* name = "A");
STRATA_API Tensor broadcast_batch(const Tensor& a, Shape batch);  // the last two dimensions are kept
STRATA_API std::vector<int64_t> common_batch(const Tensor& a, const Tensor& b, const char* op);
// Throws Runtime for the first matrix whose info is not 0: "(Batch element 1): " + what(info).
STRATA_API void check_info(const Tensor& info, const char* op, const std::function<std::string(int64_t)>& what);
STRATA_API std::string singular_text(int64_t info);

struct Batch {
  int64_t count = 1, rows, columns;
  explicit Batch(const TensorImpl& a) : rows(a.shape[a.ndim - 2]), columns(a.shape[a.ndim - 1]) {
    for (int d = 0; d + 2 < a.ndim; ++d) count *= a.shape[d];
  }
  int64_t size() const { return rows * columns; }
  template <class F> void each(const F& f) const {  // f(index) for every matrix
    parallel_for(count, std::max<int64_t>(1, 20000 / std::max<int64_t>(1, size() * std::min(rows, columns))),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) f(i);
                 });
  }
};

// Shape of a result: a's batch dimensions followed by the given ones.
inline void set_batch_shape(TensorImpl& out, const TensorImpl& a, std::initializer_list<int64_t> tail) {
  out.device = a.device;
  out.dtype = a.dtype;
  for (int d = 0; d + 2 < a.ndim; ++d) out.shape[out.ndim++] = a.shape[d];
  for (int64_t n : tail) out.shape[out.ndim++] = n;
}

// Kernels of the three implementations of the factorizations, from a generic lambda run(call, Dense<T>). T is the dtype of
// the first argument, float or double; the reference computes in double.
template <auto run> void by_lapack(const Call& c) {
  cpu::dispatch_float(c.args.tensor(0).dtype, [&]<class T>() { run(c, cpu::dense_lapack<T>()); });
}
template <auto run> void by_blocks(const Call& c) {
  cpu::dispatch_float(c.args.tensor(0).dtype, [&]<class T>() { run(c, cpu::dense_fast<T>()); });
}
template <auto run> void by_reference(const Call& c) { run(c, cpu::dense_reference); }

inline bool needs_gradient(const Tensor& t) { return thread_state.grad_mode && t.requires_grad(); }

// A square matrix and right-hand sides with as many rows, with the same batch dimensions.
void check_system(const TensorImpl& a, const TensorImpl& b, const char* op);

}  // namespace strata

// Shared parts of the decompositions: checks, batches, and turning info codes into errors.
#pragma once
#include <cmath>
#include <functional>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/linalg/lapack.h"
#include "cpu/staging.h"
#include "ops/reduce/common.h"
#include "record/op.h"

namespace strata {

template <> struct DTypeOf<std::complex<float>> { static constexpr DType value = DType::C64; };
template <> struct DTypeOf<std::complex<double>> { static constexpr DType value = DType::C128; };

constexpr DTypeSet kMatrixTypes = DTypeSet{DType::F32, DType::F64} | kComplexTypes;

STRATA_API void check_float(const TensorImpl& a, const char* op);   // f32, f64 or complex
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
  out.reserve_dims(a.ndim + static_cast<int>(tail.size()));
  for (int d = 0; d + 2 < a.ndim; ++d) out.shape[out.ndim++] = a.shape[d];
  for (int64_t n : tail) out.shape[out.ndim++] = n;
}

// Kernels of the implementations of the factorizations, from a generic lambda run(call, Dense<T>). T is the dtype of the first
// argument; the reference, and our own for complex matrices, compute in double.
template <auto run> void by_lapack(const Call& c) {
  const DType dtype = c.args.tensor(0).dtype;
  if (dtype == DType::C64) return run(c, cpu::dense_lapack<std::complex<float>>());
  if (dtype == DType::C128) return run(c, cpu::dense_lapack<std::complex<double>>());
  cpu::dispatch_float(dtype, [&]<class T>() { run(c, cpu::dense_lapack<T>()); });
}
template <auto run> void by_blocks(const Call& c) {
  const DType dtype = c.args.tensor(0).dtype;
  if (is_complex(dtype)) return run(c, cpu::dense_complex);
  cpu::dispatch_float(dtype, [&]<class T>() { run(c, cpu::dense_fast<T>()); });
}
template <auto run> void by_reference(const Call& c) {
  if (is_complex(c.args.tensor(0).dtype)) return run(c, cpu::dense_complex);
  run(c, cpu::dense_reference);
}

// The real dtype of results such as singular values.
inline void set_real(TensorImpl& out) { out.dtype = real_type(out.dtype); }
Tensor conjugate(const Tensor& t);  // t itself if it is real
inline float conjugate(float x) { return x; }
inline double conjugate(double x) { return x; }
template <class T> std::complex<T> conjugate(std::complex<T> z) { return std::conj(z); }

template <class T> bool is_finite(T x) { return std::isfinite(x); }
template <class T> bool is_finite(std::complex<T> z) { return std::isfinite(z.real()) && std::isfinite(z.imag()); }
template <class T> void require_finite(const T* a, int64_t n, const char* op) {
  for (int64_t i = 0; i < n; ++i)
    STRATA_CHECK(is_finite(a[i]), Runtime,
                 "{}: The algorithm failed to converge because the input matrix contained non-finite values.", op);
}
void require_convergence(bool done, const char* op);

// A vector of length 1 is determined up to a factor of size 1: makes its largest component positive. Returns the factor.
template <class T> T orient(T* v, int64_t n) {
  if (n == 0) return T(1);
  const T largest = *std::max_element(v, v + n, [](T a, T b) { return std::abs(a) < std::abs(b); });
  const auto size = std::abs(largest);
  if (!(size > 0)) return T(1);
  const T factor = conjugate(largest) / size;
  if (factor != T(1))
    for (int64_t i = 0; i < n; ++i) v[i] *= factor;
  return factor;
}
// The phase of complex singular vectors and eigenvectors is arbitrary, and so is a gradient that depends on it. `turn` is the
// change of the loss by it, which must be 0.
void require_no_turn(const Tensor& turn, const char* op, const char* vectors);

// A square matrix and right-hand sides with as many rows, with the same batch dimensions.
void check_system(const TensorImpl& a, const TensorImpl& b, const char* op);

}  // namespace strata

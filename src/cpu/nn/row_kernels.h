// SIMD kernels over rows of floats: softmax and the norms. Memory is read once: a row stays in the cache between
// passes.
#pragma once
#include <cstdint>

namespace strata::cpu {

// rows x n, contiguous; or n x columns with the softmax over n (columns > 1), for each of `rows` such blocks, of which
// the first `width` columns are computed.
struct SoftmaxRows {
  int64_t rows, n, columns;
  bool log;
  int64_t width = columns;
};
void softmax_forward(const SoftmaxRows& s, const float* x, float* y);
void softmax_forward(const SoftmaxRows& s, const double* x, double* y);
void softmax_backward(const SoftmaxRows& s, const float* grad, const float* y, float* out);
void softmax_backward(const SoftmaxRows& s, const double* grad, const double* y, double* out);

// The largest element of a row, and log(sum(exp(x - largest))).
template <class T> struct RowExp { T most, log_sum; };
RowExp<float> exp_statistics(const float* x, int64_t n);
RowExp<double> exp_statistics(const double* x, int64_t n);
// y = exp(x - most - log_sum) * scale
void exp_scaled(const float* x, int64_t n, RowExp<float> s, float scale, float* y);
void exp_scaled(const double* x, int64_t n, RowExp<double> s, double scale, double* y);

// y = (x - mean) * rstd * weight + bias over rows of n; weight and bias may be null. `centred` false: the root mean square norm.
template <class T> struct NormRows {
  int64_t n;
  double eps;
  bool centred;
  const T *weight, *bias;
};
void norm_forward(const NormRows<float>& p, const float* x, float* y, float* mean, float* rstd, int64_t rows);
void norm_forward(const NormRows<double>& p, const double* x, double* y, double* mean, double* rstd, int64_t rows);
// The gradient of x.
void norm_backward(const NormRows<float>& p, const float* grad, const float* x, const float* mean, const float* rstd,
                   float* out, int64_t rows);
void norm_backward(const NormRows<double>& p, const double* grad, const double* x, const double* mean,
                   const double* rstd, double* out, int64_t rows);

}  // namespace strata::cpu

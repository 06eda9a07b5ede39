// Evenly spaced numbers.
#pragma once
#include "tensor/tensor.h"

namespace strata::cpu {

// out[i] = start + i * step.
void fill_range(const TensorImpl& out, int64_t start, int64_t step);
void fill_range(const TensorImpl& out, double start, double step);

// n values from start to end. Symmetric: the second half is computed from the end, so that the last value is exact.
struct Steps {
  int64_t n;
  double start, end, step;
  Steps(int64_t count, double first, double last)
      : n(count),
        start(first),
        end(n == 1 ? first : last),
        step((end - start) / static_cast<double>(n - 1 + (n == 1))) {}
  double operator()(int64_t i) const {
    return i < n / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(n - 1 - i);
  }
};
void fill_steps(const TensorImpl& out, const Steps& steps);
void fill_powers(const TensorImpl& out, double base, const Steps& exponents);

}  // namespace strata::cpu

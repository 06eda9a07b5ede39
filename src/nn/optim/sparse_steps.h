// The steps of SGD and Adagrad for sparse gradients.
#pragma once
#include "nn/optim/rules.h"

namespace strata::optim {

// Adds alpha * values at the coordinates in the columns of indices, which may repeat, in place.
STRATA_API void add_sparse_rows(const Tensor& param, const Tensor& indices, const Tensor& values, double alpha);
// Steps for the rows of a sparse gradient; `step` counts from 1.
struct SparseGradient {
  const Tensor &indices, &values;
  bool maximize;
};
STRATA_API void sparse_adagrad(const Tensor& param, const SparseGradient& grad, const Tensor& sum, double step,
                               double lr, double lr_decay, double eps);
STRATA_API void sparse_adam(const Tensor& param, const SparseGradient& grad, const Tensor& exp_avg,
                            const Tensor& exp_avg_sq, double step, double lr, double beta1, double beta2, double eps);

// One step of a parameter whose gradient is sparse; raises for rules that take none.
void sparse_step(const Rule& rule, Group& group, size_t param);

}  // namespace strata::optim

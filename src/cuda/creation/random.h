// Random numbers on a device: the same draws from the same stream as in cpu/creation/random.h. Outputs are contiguous.
#pragma once
#include "record/distributions.h"
#include "record/rows.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"

namespace strata::cuda {

void fill_random(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator);
void fill_integers(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator);
// p: on the device, with one element or contiguous in the shape of out; or a single number in host memory. worst: one
// double on the device, in which the first kind is checked; waits for it.
void fill_bernoulli(const TensorImpl& out, const TensorImpl& p, Generator& generator, const Tensor& worst);
// 1 with probability 1 - p, otherwise 0.
void keep_mask(const TensorImpl& out, double p, Generator& generator);
// Elements whose draw of 32 bits is above `last` are kept; so are all if `all`.
struct DropRule {
  uint32_t last;
  bool all;
};
DropRule drop_rule(double p);
// Reserves blocks of four draws. out, int64 [2]: the seed and the first block. Kernels that run later draw from there.
void reserve_draws(const TensorImpl& out, uint64_t blocks, Generator& generator);
void keep_mask_of(const TensorImpl& state, const TensorImpl& out, double p);
// out = x * scale where kept, otherwise 0; mask gets whether it was kept.
void dropout(const TensorImpl& x, double p, double scale, const TensorImpl& out, const TensorImpl& mask,
             Generator& generator);
// The same in groups of ops, with the default generator; nothing for rows that are no multiple of a thread's elements.
std::optional<RowOp> dropout_in_group(const TensorImpl& x, double p, double scale);

}  // namespace strata::cuda

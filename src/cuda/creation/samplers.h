// Gamma, Poisson and binomial numbers on a device: the bits of cpu/creation/samplers.h.
#pragma once
#include "device/samplers.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"

namespace strata::cuda {

// worst: one double on the device, in which rates of Poisson numbers are checked; waits for it. Otherwise unused.
void draw_samples(Sampler sampler, const TensorImpl& out, const TensorImpl& a, const TensorImpl* b, double least,
                  Generator& generator, const Tensor& worst);

// out: softmax of `logs` along the last dimension, one thread per row. Both are contiguous.
void normalize_logs(const TensorImpl& out, const TensorImpl& logs);

}  // namespace strata::cuda

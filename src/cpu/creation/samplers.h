// Random numbers with parameters per element that need a varying number of draws; see device/samplers.h.
#pragma once
#include "device/samplers.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"

namespace strata::cpu {

// out[i] from the parameters a[i] and, of binomial numbers, b[i]; both are contiguous and have out's shape or one element.
// Smaller numbers than `least` become that.
void draw_samples(Sampler sampler, const TensorImpl& out, const TensorImpl& a, const TensorImpl* b, double least,
                  Generator& generator);
// n numbers from block `first` on, in the code of the best SIMD target.
void draw_row(Sampler sampler, const double* a, const double* b, uint64_t seed, uint64_t first, int64_t n, double* out);

// out: softmax of `logs` along the last dimension, with the same bits on every device. Both are contiguous.
void normalize_logs(const TensorImpl& out, const TensorImpl& logs);
void normalize_row(double* row, int64_t n);  // in place

}  // namespace strata::cpu

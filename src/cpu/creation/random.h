// Random numbers from Philox: element i of a draw depends only on the generator's position and on i.
#pragma once
#include "record/distributions.h"
#include "tensor/generator.h"
#include "tensor/tensor.h"

namespace strata::cpu {

// Fills out with draws from a distribution with parameters a and b.
void fill_random(const TensorImpl& out, Distribution distribution, double a, double b, Generator& generator);
// `range` integers starting at `low`; 0 means 2^64.
void fill_integers(const TensorImpl& out, int64_t low, uint64_t range, Generator& generator);
// out[i] is 1 with probability p[i]; p is contiguous and of out's shape.
void fill_bernoulli(const TensorImpl& out, const TensorImpl& p, Generator& generator);
// Dropout of a contiguous x: x[i] * scale with probability 1 - p, otherwise 0; kept[i] tells which. One word per element.
void drop(const TensorImpl& x, double p, double scale, const TensorImpl& out, const TensorImpl& kept,
          Generator& generator);
void fill_permutation(const TensorImpl& out, Generator& generator);  // of 0 … n-1
// The order of as many random numbers as fill_integers draws with range 0: a permutation too.
void fill_order(const TensorImpl& out, Generator& generator);
// For each row of weights (contiguous, float64), `count` indices drawn by weight.
void draw_by_weight(const TensorImpl& out, const TensorImpl& weights, bool replacement, Generator& generator);

}  // namespace strata::cpu

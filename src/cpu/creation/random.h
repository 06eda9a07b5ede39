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
// Dropout of n elements, whose random words are reserved when it is made: x[i] * scale with probability 1 - p, otherwise 0; kept[i]
// tells which. One word per element, so the elements can be computed in any pieces.
class Dropout {
 public:
  Dropout(int64_t n, double p, double scale, Generator& generator);
  // `count` elements from `first` on; the pointers are theirs.
  void run(int64_t first, int64_t count, const float* x, float* out, bool* kept) const;
  void run(int64_t first, int64_t count, const double* x, double* out, bool* kept) const;

 private:
  template <class Body> void each_batch(int64_t first, int64_t count, Body body) const;
  uint64_t seed_, first_block_;
  uint32_t last_;  // the largest word that drops an element
  bool all_;       // no word does
  double scale_;
};
// Dropout of a contiguous x.
void drop(const TensorImpl& x, double p, double scale, const TensorImpl& out, const TensorImpl& kept,
          Generator& generator);
void fill_permutation(const TensorImpl& out, Generator& generator);  // of 0 … n-1
// The order of as many random numbers as fill_integers draws with range 0: a permutation too.
void fill_order(const TensorImpl& out, Generator& generator);
// For each row of weights (contiguous, float64), `count` indices drawn by weight.
void draw_by_weight(const TensorImpl& out, const TensorImpl& weights, bool replacement, Generator& generator);

}  // namespace strata::cpu

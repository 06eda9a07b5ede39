// The inner loops of random numbers, compiled for each SIMD target.
#pragma once
#include <cstdint>

namespace strata::cpu {

constexpr int kPhiloxBatch = 64;  // blocks of four words
// w[4 * kPhiloxBatch]: the words of the blocks from `first` on, in stream order.
void philox_words(uint64_t seed, uint64_t first, uint32_t* w);
// Dropout of n elements, one word each: x[i] * scale where the word is above `last`, or everywhere with `all`; otherwise 0.
struct Drop {
  uint32_t last;
  bool all;
  float scale;
};
void drop_floats(const uint32_t* w, const Drop& drop, const float* x, float* out, bool* kept, int64_t n);
// Replaces each pair of n uniform numbers by two normal ones: normal_pair of device/normal.h.
void normal_pairs(float* u, int64_t n);

}  // namespace strata::cpu

// Products with weights of 8 or 4 bits on the CPU.
#pragma once
#include "record/weight_only.h"

namespace strata::cpu {

// In float, by rows of weights: each is converted once for all rows of x.
void weight_product(const WeightProduct& w);
void weight_product_reference(const WeightProduct& w);  // in double

// --- from the SIMD file ----------------------------------------------------------------------------------------------

// Part of a row of weights for several rows of x.
struct WeightLine {
  const uint8_t* weight;            // of the row
  const float *x, *scales, *zeros;  // x [rows, k]; scales and zeros of the row, by group; zeros may be null
  const float* sums_of_x;           // [rows, groups]; used with zeros
  int64_t k, group;
  int rows, bits;
};
constexpr int kWeightRows = 16;                        // rows of x in one pass
void weight_line(const WeightLine& line, float* out);  // out[rows]

}  // namespace strata::cpu

// Loops over whole rows of a matrix: distances between pairs of rows, and sums of listed rows.
#pragma once
#include <cstdint>

namespace strata::cpu {

// Euclidean distances of row i of x (n x d) from the rows after it, in order.
void distances_after(const float* x, int64_t n, int64_t d, int64_t i, float* out);
void distances_after(const double* x, int64_t n, int64_t d, int64_t i, double* out);

// y (d elements) becomes the sum of the listed rows of a table with rows of d elements.
void sum_rows(const float* table, int64_t d, const int64_t* rows, int64_t count, float* y);
void sum_rows(const double* table, int64_t d, const int64_t* rows, int64_t count, double* y);

}  // namespace strata::cpu

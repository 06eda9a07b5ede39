// Loops over whole rows of a matrix: products of two rows, and sums of listed rows.
#pragma once
#include <cstdint>

namespace strata::cpu {

// y (d elements) becomes the sum of the listed rows of a table with rows of d elements.
void sum_rows(const float* table, int64_t d, const int64_t* rows, int64_t count, float* y);
void sum_rows(const double* table, int64_t d, const int64_t* rows, int64_t count, double* y);

// The same with a weight for each of the listed rows.
void sum_weighted_rows(const float* table, int64_t d, const int64_t* rows, const float* weights, int64_t count,
                       float* y);
void sum_weighted_rows(const double* table, int64_t d, const int64_t* rows, const double* weights, int64_t count,
                       double* y);

// The sum of the products of d elements.
float row_product(const float* a, const float* b, int64_t d);
double row_product(const double* a, const double* b, int64_t d);

}  // namespace strata::cpu

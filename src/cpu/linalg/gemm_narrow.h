// Matrix products with few columns (or few rows): bound by the memory of the one large factor, which is read once, in place.
#pragma once
#include "cpu/linalg/gemm.h"

namespace strata::cpu {

constexpr int kMostColumns = 12;
constexpr int64_t kLeastRows = 8,
                  kLeastDepth = 64;  // of the large factor; smaller ones are not worth the final additions

bool gemm_is_narrow(const Gemm& g);
// The product of gemm_simd. The order of its sums depends on the sizes only, so any number of threads gives the same bits.
void gemm_narrow(const Gemm& g, const float* a, const float* b, float* c);
void gemm_narrow(const Gemm& g, const double* a, const double* b, double* c);

}  // namespace strata::cpu

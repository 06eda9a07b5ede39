// Shared parts of strata.fft: factors, sizes, and transforms along one dimension.
#pragma once
#include <optional>
#include <string_view>

#include "tensor/tensor.h"

namespace strata::fourier {

using Norm = std::optional<std::string_view>;
constexpr DTypeSet kRealInputs = DTypeSet{DType::F32, DType::F64} | kIntegerTypes | kBoolType;
constexpr DTypeSet kInputs = kRealInputs | kComplexTypes;

// The input in a dtype that is transformed: integers as floats, real numbers as complex ones.
Tensor as_complex(const Tensor& x, const char* op);
Tensor as_real(const Tensor& x, const char* op);
// The first n elements along a dimension, if there are more: a transform of several dimensions converts no others.
Tensor cut(const Tensor& x, int dim, int64_t n);
void check_size(int64_t n, const char* op);
int checked_dim(const Tensor& x, int64_t dim, const char* op);

// Transforms along one dimension, of n elements or as many as there are: complex to complex; real to the first half of the
// spectrum; and from that half to real.
Tensor transformed(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm, bool forward,
                   const char* op);
Tensor from_real(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm, bool forward,
                 const char* op);
Tensor to_real(const Tensor& input, std::optional<int64_t> n, int64_t dim, const Norm& norm, bool forward,
               const char* op);

}  // namespace strata::fourier

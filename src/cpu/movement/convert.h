// Rows of values from one element type to another.
#pragma once
#include "tensor/dtype.h"

namespace strata::cpu {

// dst[i * dst_stride] = src[i * src_stride] for i < n, converted; strides in elements.
using ConvertRow = void (*)(std::byte* dst, int64_t dst_stride, const std::byte* src, int64_t src_stride, int64_t n);
STRATA_API ConvertRow convert_row(DType to, DType from);

}  // namespace strata::cpu

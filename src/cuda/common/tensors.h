// Tensor helpers for launchers, and grid arithmetic.
#pragma once
#include <cstdlib>

#include "tensor/tensor.h"

namespace strata::cuda {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline uint32_t blocks_for(int64_t items, int64_t per_block) {
  return static_cast<uint32_t>(ceil_div(items, per_block));
}

// For kernel parameters; an undefined tensor has address 0.
inline uint64_t address(const TensorImpl& t) { return reinterpret_cast<uint64_t>(t.data); }
inline uint64_t address(const TensorImpl* t) { return t ? address(*t) : 0; }
inline int32_t tag(const TensorImpl& t) { return static_cast<int32_t>(t.dtype); }
inline int32_t tag(const TensorImpl* t) { return t ? tag(*t) : 0; }

// The elements of a tensor without gaps as a vector, in the order of memory.
inline Tensor flattened(const TensorImpl& t) {
  Tensor flat = alias(t);
  flat->set_shape(Shape(&t.numel, 1));
  flat->set_contiguous_strides();
  return flat;
}

// Index of the kernel for this dtype: float, double or int64_t.
inline size_t kernel_index(DType t) {
  const DType compute = compute_type(t);
  return compute == DType::F32 ? 0 : compute == DType::F64 ? 1 : 2;
}

// Whether kernels that compute in double (`wide`) or float can read it in 16-byte pieces (Types::Common of eights.cuh).
inline bool reads_in_pieces(DType t, bool wide) {
  return wide ? t == DType::F64 : t == DType::F32 || t == DType::F16 || t == DType::BF16;
}
inline bool reads_in_pieces(const TensorImpl& t, bool wide) {
  return reads_in_pieces(t.dtype, wide) && address(t) % 16 == 0;
}

// Requirements of the float-only kernels: offsets fit 32 bits, including those of padding around the tensor.
inline bool is_plain(const TensorImpl& t) {
  int64_t reach = 0;
  for (int d = 0; d < t.ndim; ++d) reach += 2 * t.shape[d] * std::abs(t.strides[d]);
  return t.dtype == DType::F32 && reach < INT32_MAX;
}

}  // namespace strata::cuda

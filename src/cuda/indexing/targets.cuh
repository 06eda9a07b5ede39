// The elements of a table that an index names; indices out of range are reported.
#pragma once
#include "cuda/common/dtypes.cuh"
#include "cuda/common/fault.cuh"
#include "cuda/common/index.cuh"
#include "cuda/indexing/indexing_params.h"

namespace strata::cuda {

__device__ __forceinline__ int64_t index_at(uint64_t data, int32_t type, int64_t i) {
  return type == kI64 ? reinterpret_cast<const int64_t*>(data)[i] : reinterpret_cast<const int32_t*>(data)[i];
}
// The index counted from the front. An index out of range is reported, becomes 0 and clears `good`.
__device__ __forceinline__ int64_t in_range(const FaultSink& faults, int64_t i, int64_t size, bool front, bool& good) {
  if (i >= (front ? 0 : -size) && i < size) return i < 0 ? i + size : i;
  report(faults, FaultCode::Index, i, size);
  good = false;
  return 0;
}

// The offset in the table of element e of the index; negative: a bad index.
__device__ __forceinline__ int64_t target_of(const AlongParams& p, int64_t e) {
  bool good = true;
  const int64_t i = in_range(p.faults, index_at(p.index, p.index_type, e), p.size, true, good);
  return good ? offset_of(p.axes, e) + i * p.stride : -1;
}

}  // namespace strata::cuda

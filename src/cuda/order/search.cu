// Binary search in sorted rows, one thread per value.
//
// Bound by memory: values are read and indices written once; the upper levels of the search stay in the cache.
#include "cuda/common/dtypes.cuh"
#include "cuda/order/sort_params.h"

namespace strata::cuda {
namespace {

template <class T> __device__ __forceinline__ void search(const SearchParams& p) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const int64_t base = p.per_row ? i / p.per_row * p.n : 0;
  const T* row = reinterpret_cast<const T*>(p.rows) + base;
  const int64_t* order = p.order ? reinterpret_cast<const int64_t*>(p.order) + base : nullptr;
  const T v = reinterpret_cast<const T*>(p.wanted)[i];
  int64_t low = 0, high = p.n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    const int64_t at = order ? order[mid] : mid;
    const T m = at >= 0 && at < p.n ? row[at] : row[0];  // a sorter may hold invalid indices
    if (p.right ? !(m > v) : !(m >= v)) low = mid + 1;
    else high = mid;
  }
  store<int64_t>(const_cast<void*>(element(p.out, p.out_type, i)), p.out_type, low);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) search_f32(SearchParams p) { search<float>(p); }
extern "C" __global__ void __launch_bounds__(256) search_f64(SearchParams p) { search<double>(p); }
extern "C" __global__ void __launch_bounds__(256) search_i64(SearchParams p) { search<int64_t>(p); }

}  // namespace strata::cuda

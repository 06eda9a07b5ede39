// Groups of equal neighbours: where each begins, and the group of each element.
//
// Bound by memory: elements are read once (compact.cuh). NaN differs from everything, itself too; -0 equals 0.
#include "cuda/common/compact.cuh"
#include "cuda/order/sort_keys.cuh"
#include "cuda/order/sort_params.h"

namespace strata::cuda {
namespace {

__device__ __forceinline__ bool begins(const GroupParams& p, int64_t i) {
  if (i >= p.n) return false;
  if (p.begins) return reinterpret_cast<const uint8_t*>(p.begins)[i] != 0;
  if (i == 0) return true;
  const uint64_t key = key_of<uint64_t>(element(p.x, p.type, i), p.type);
  return key != key_of<uint64_t>(element(p.x, p.type, i - 1), p.type) ||
         (is_float(p.type) && key == key_mask<uint64_t>(p.type));
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) group_neighbours(GroupParams p) {
  const Selection s = select_elements(p.words, p.ticket, [&](int64_t i) { return begins(p, i); });
  s.each([&](int j, int64_t before) {
    const int64_t i = s.first + j * 32, group = before + s.has(j) - 1;
    if (i >= p.n) return;
    if (s.has(j)) reinterpret_cast<int64_t*>(p.first)[group] = i;
    if (p.inverse) {
      const int64_t to = p.order ? reinterpret_cast<const int64_t*>(p.order)[i] : i;
      reinterpret_cast<int64_t*>(p.inverse)[to] = group;
    }
    if (i == p.n - 1) *reinterpret_cast<int64_t*>(p.groups) = group + 1;
  });
}

}  // namespace strata::cuda

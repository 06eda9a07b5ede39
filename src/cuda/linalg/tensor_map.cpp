#include "cuda/linalg/tensor_map.h"

namespace strata::cuda {

driver::CUtensorMap tensor_map(const Gpu& gpu, DType dtype, uint64_t address, std::span<const int64_t> sizes,
                               std::span<const int64_t> strides, int box_x, int box_y) {
  using Wide = unsigned long long;
  constexpr size_t kMost = 5;
  Wide counts[kMost], bytes[kMost - 1];
  unsigned box[kMost], steps[kMost];
  for (size_t d = 0; d < sizes.size(); ++d) {
    const bool moves = d < 2 || strides[d - 1] != 0;
    counts[d] = moves ? static_cast<Wide>(sizes[d]) : 1;
    // The stride of a dimension of size 1 is not used, but it is checked.
    if (d > 0) bytes[d - 1] = 2 * static_cast<Wide>(moves ? strides[d - 1] : strides[0]);
    box[d] = d == 0 ? static_cast<unsigned>(box_x) : d == 1 ? static_cast<unsigned>(box_y) : 1;
    steps[d] = 1;
  }
  driver::CUtensorMap map;
  gpu.check(
    gpu.table().cuTensorMapEncodeTiled(&map, dtype == DType::BF16 ? driver::kTensorMapBf16 : driver::kTensorMapF16,
                                       static_cast<unsigned>(sizes.size()), reinterpret_cast<void*>(address), counts,
                                       bytes, box, steps, driver::kTensorMapNotInterleaved,
                                       box_x == 64 ? driver::kTensorMapSwizzle128 : driver::kTensorMapSwizzle64,
                                       driver::kTensorMapPromote256, driver::kTensorMapFillZeros),
    "describe a matrix for TMA");
  return map;
}

}  // namespace strata::cuda

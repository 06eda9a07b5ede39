// Checks of cuTensorMapEncodeTiled, as its documentation lists them.
#include "cuda/vgpu/tensor_map.h"

#include <fmt/core.h>

namespace strata::cuda::vgpu {

std::string encode(const TensorMapRequest& r, TensorMap& out, bool& supported) {
  // u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, and three 32-bit forms that flush or round.
  constexpr uint8_t kSizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  supported = true;
  if (r.type < 0 || r.type >= static_cast<int>(std::size(kSizes))) return fmt::format("element type {}", r.type);
  if (r.rank < 1 || r.rank > TensorMap::kMostDims) return fmt::format("{} dimensions, 1 to 5 are possible", r.rank);
  if (!r.sizes || !r.box || !r.steps || (r.rank > 1 && !r.strides)) return "sizes, strides, box or steps are missing";
  if (!r.address || r.address % 16) return fmt::format("address 0x{:x} is not a multiple of 16", r.address);
  if (r.swizzle < 0 || r.swizzle > 3) return fmt::format("swizzle mode {}", r.swizzle);
  out = TensorMap{};
  out.address = r.address;
  out.rank = static_cast<uint8_t>(r.rank);
  out.swizzle = static_cast<uint8_t>(r.swizzle);
  out.strides[0] = kSizes[r.type];
  for (unsigned d = 0; d < r.rank; ++d) {
    if (r.sizes[d] == 0 || r.sizes[d] > uint64_t{1} << 32)
      return fmt::format("dimension {} has {} elements, 1 to 2^32 are possible", d, r.sizes[d]);
    if (r.box[d] == 0 || r.box[d] > 256)
      return fmt::format("the box has {} elements along dimension {}, 1 to 256 are possible", r.box[d], d);
    if (r.steps[d] == 0 || r.steps[d] > 8) return fmt::format("step {} along dimension {}", r.steps[d], d);
    out.last[d] = static_cast<uint32_t>(r.sizes[d] - 1);
    out.box[d] = static_cast<uint16_t>(r.box[d]);
    if (d == 0) continue;
    const uint64_t stride = r.strides[d - 1];
    if (stride % 16 || stride >= uint64_t{1} << 40)
      return fmt::format("a stride of {} bytes along dimension {}: it must be a multiple of 16, less than 2^40", stride,
                         d);
    out.strides[d] = stride;
  }
  const uint32_t row = out.row_bytes(), widest = r.swizzle ? 16u << r.swizzle : 0;
  if (row % 16) return fmt::format("rows of the box have {} bytes, not a multiple of 16", row);
  if (r.swizzle && row > widest) return fmt::format("rows of the box have {} bytes, the swizzle {}", row, widest);
  supported = r.interleave == 0 && r.fill == 0 && (!r.swizzle || row == widest);
  for (unsigned d = 0; d < r.rank; ++d) supported = supported && r.steps[d] == 1;
  return supported
           ? ""
           : "the virtual GPU has tensor maps without interleaving and steps, filled with zeros, whose rows are "
             "as wide as their swizzle";
}

}  // namespace strata::cuda::vgpu

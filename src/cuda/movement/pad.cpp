// Launches the kernels of cuda/movement/pad.cu.
#include "cuda/movement/pad.h"

#include <bit>
#include <cstring>
#include <vector>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/movement/pad_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

struct Axis {
  int64_t size, length, before, stride;  // of out; of x
};
// The fastest first. Neighbours without padding that are adjacent in x are one axis.
std::vector<Axis> axes_of(const Padding& padding) {
  std::vector<Axis> axes;
  for (int d = padding.x.ndim; d-- > 0;) {
    const Axis axis{padding.out.shape[d], padding.x.shape[d], padding.before[d], padding.x.strides[d]};
    const auto whole = [](const Axis& a) { return a.before == 0 && a.size == a.length; };
    if (!axes.empty() && whole(axis) && whole(axes.back()) && axis.stride == axes.back().stride * axes.back().size) {
      axes.back().size *= axis.size;
      axes.back().length = axes.back().size;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}
}  // namespace

const char* pad_objection(const Padding& padding) {
  if (!padding.out.contiguous) return "the result is not contiguous";
  if (padding.out.numel > INT32_MAX || padding.x.numel > INT32_MAX) return "it has 2^31 elements or more";
  for (int d = 0; d < padding.x.ndim; ++d)
    if (padding.before[d] < -INT32_MAX || padding.before[d] > INT32_MAX) return "the padding has 2^31 elements or more";
  return axes_of(padding).size() <= kPadAxes ? nullptr : "too many dimensions are padded";
}

void pad(const Padding& padding) {
  static const Function kernels[] = {
    {"pad", "pad_0"}, {"pad", "pad_1"}, {"pad", "pad_2"}, {"pad", "pad_3"}, {"pad", "pad_4"}};
  constexpr int64_t kThreads = 256;
  if (padding.out.numel == 0) return;
  PadParams p{};
  p.x = address(padding.x);
  p.out = address(padding.out);
  std::memcpy(p.value, padding.value, size_of(padding.x.dtype));
  p.total = static_cast<uint32_t>(padding.out.numel);
  for (const Axis& axis : axes_of(padding)) {
    p.size[p.axes] = divisor(static_cast<uint32_t>(axis.size));
    p.before[p.axes] = static_cast<int32_t>(axis.before);
    p.length[p.axes] = static_cast<int32_t>(axis.length);
    p.stride[p.axes++] = axis.stride;
  }
  stream_of(padding.out.device)
    .launch(kernels[std::countr_zero(size_of(padding.x.dtype))], {blocks_for(padding.out.numel, kThreads * kPadItems)},
            {kThreads}, 0, p);
}

}  // namespace strata::cuda

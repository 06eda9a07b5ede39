// Launches the kernels of cuda/nn/max_pool.cu and max_pool_last.cu.
#include "cuda/nn/max_pool.h"

#include <cstdlib>

#include "base/error.h"
#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/nn/max_pool_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

// Whether eight neighbouring channels are one aligned access, at every pixel.
bool in_eights(const TensorImpl& t, int64_t alignment) {
  if (t.ndim != 4 || t.shape[1] % 8 != 0 || t.strides[1] != 1 || address(t) % static_cast<uint64_t>(alignment) != 0)
    return false;
  for (int d : {0, 2, 3})
    if (t.shape[d] > 1 && t.strides[d] % 8 != 0) return false;
  return true;
}
// Whether its offsets fit 32 bits.
bool is_short(const TensorImpl& t) {
  int64_t reach = 0;
  for (int d = 0; d < t.ndim; ++d) reach += t.shape[d] * std::abs(t.strides[d]);
  return reach <= INT32_MAX;
}
}  // namespace

void max_pool(PoolMode mode, const MaxPoolWindow& s, const TensorImpl& big, const TensorImpl& small,
              const TensorImpl* codes) {
  static const Function kernels[4][3] = {
    {{"max_pool", "forward_f32"}, {"max_pool", "forward_f64"}, {"max_pool", "forward_i64"}},
    {{"max_pool", "backward_f32"}, {"max_pool", "backward_f64"}, {"max_pool", "backward_i64"}},
    {{"max_pool", "gather_f32"}, {"max_pool", "gather_f64"}, {"max_pool", "gather_i64"}},
    {{"max_pool", "backward_apart_f32"}, {"max_pool", "backward_apart_f64"}, {"max_pool", "backward_apart_i64"}}};
  constexpr int64_t kThreads = 256;
  constexpr int32_t kLargestCell = 8;  // maximum size that one thread writes
  const TensorImpl& out = mode == PoolMode::Backward ? big : small;
  if (out.numel == 0) return;
  STRATA_CHECK(big.numel <= INT32_MAX && small.numel <= INT32_MAX, NotImplemented,
               "max_pool2d: more than 2^31 elements in one tensor; use a smaller batch");
  MaxPoolParams p{};
  p.big = reinterpret_cast<uint64_t>(big.data);
  p.small = reinterpret_cast<uint64_t>(small.data);
  p.codes = codes ? reinterpret_cast<uint64_t>(codes->data) : 0;
  p.big_type = static_cast<int32_t>(big.dtype);
  p.small_type = static_cast<int32_t>(small.dtype);
  const auto strides = [](const TensorImpl& t, int64_t* to) {
    for (int d = 0; d < 4; ++d) to[d] = d + t.ndim < 4 ? 0 : t.strides[d + t.ndim - 4];
  };
  strides(big, p.big_stride);
  strides(small, p.small_stride);
  if (codes) strides(*codes, p.code_stride);
  p.channels = divisor(static_cast<uint32_t>(big.shape[big.ndim - 3]));
  for (int d = 0; d < 2; ++d) {
    p.in[d] = static_cast<int32_t>(big.shape[big.ndim - 2 + d]);
    p.out[d] = static_cast<int32_t>(small.shape[small.ndim - 2 + d]);
    p.kernel[d] = static_cast<int32_t>(s.kernel[d]);
    p.stride[d] = static_cast<int32_t>(s.stride[d]);
    p.padding[d] = static_cast<int32_t>(s.padding[d]);
    p.dilation[d] = static_cast<int32_t>(s.dilation[d]);
    STRATA_CHECK(s.stride[d] < INT32_MAX / 4 && s.dilation[d] * s.kernel[d] < INT32_MAX / 4, NotImplemented,
                 "max_pool2d: stride {} or dilation {} is larger than the device kernels compute with", s.stride[d],
                 s.dilation[d]);
    p.in_div[d] = divisor(static_cast<uint32_t>(p.in[d]));
    p.out_div[d] = divisor(static_cast<uint32_t>(p.out[d]));
    p.stride_div[d] = divisor(static_cast<uint32_t>(p.stride[d]));
  }
  p.count = out.numel;
  const bool eights = mode != PoolMode::Gather && reads_in_pieces(big, false) && reads_in_pieces(small, false) &&
                      in_eights(big, 16) && in_eights(small, 16) && (!codes || in_eights(*codes, 8));
  if (eights) {
    static const Function forward{"max_pool_last", "forward_last"}, backward{"max_pool_last", "backward_last"};
    p.eights = divisor(static_cast<uint32_t>(big.shape[1] / 8));
    p.count /= 8;
    return stream_of(out.device)
      .launch(mode == PoolMode::Forward ? forward : backward, {blocks_for(p.count, kThreads)}, {kThreads}, 0, p);
  }
  bool apart = mode == PoolMode::Backward;
  for (int d = 0; d < 2; ++d) apart &= p.dilation[d] == 1 && p.stride[d] >= p.kernel[d] && p.stride[d] <= kLargestCell;
  if (apart) {
    p.count = big.numel / (int64_t{p.in[0]} * p.in[1]);
    for (int d = 0; d < 2; ++d) {
      const int32_t cells = (p.in[d] + p.padding[d] + p.stride[d] - 1) / p.stride[d];
      p.cells[d] = divisor(static_cast<uint32_t>(cells));
      p.count *= cells;
    }
  }
  p.pairs = apart && p.stride[1] == 2 && p.padding[0] == 0 && p.padding[1] == 0 && p.in[1] % 2 == 0 && p.big % 8 == 0 &&
            p.big_stride[3] == 1 && p.big_stride[2] % 2 == 0 && p.big_stride[1] % 2 == 0 && p.big_stride[0] % 2 == 0;
  // [is_16_bit]: forward, backward, backward of windows that do not overlap
  static const Function common[2][3] = {
    {{"max_pool", "forward_plain"}, {"max_pool", "backward_plain"}, {"max_pool", "backward_apart_plain"}},
    {{"max_pool", "forward_narrow"}, {"max_pool", "backward_narrow"}, {"max_pool", "backward_apart_narrow"}}};
  const Function* kernel = &kernels[apart ? 3 : static_cast<int>(mode)][kernel_index(out.dtype)];
  const bool narrow = size_of(big.dtype) == 2,
             common_type = big.dtype == small.dtype && reads_in_pieces(big.dtype, false);
  if (mode != PoolMode::Gather && common_type && is_short(big) && is_short(small) && (!codes || is_short(*codes)))
    kernel = &common[narrow][apart ? 2 : static_cast<int>(mode)];
  stream_of(out.device).launch(*kernel, {static_cast<uint32_t>((p.count + kThreads - 1) / kThreads)}, {kThreads}, 0, p);
}

}  // namespace strata::cuda

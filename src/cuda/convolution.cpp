#include "cuda/convolution.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/axes.h"
#include "cuda/kernels/convolution_params.h"
#include "cuda/pointwise.h"
#include "cuda/reduce.h"
#include "cuda/runtime/stream.h"
#include "cuda/tensors.h"

namespace strata::cuda {
namespace {

constexpr int64_t kDepth = kConvDepth;
constexpr int64_t kEnoughThreads = 396 * 256;  // 768 for each multiprocessor of a large card: no need to cut the depth
constexpr int64_t kLeastDepth = 8 * 16;        // of a part

// Strides of n, c and three spatial dimensions; sizes of 1 in front of what there is.
void spread(const TensorImpl& t, int dims, int64_t* to) {
  to[0] = t.strides[0], to[1] = t.strides[1];
  for (int d = 0; d < 3; ++d) to[2 + d] = d < 3 - dims ? 0 : t.strides[2 + d - (3 - dims)];
}

// Planes of small are dense, and whole numbers of 16 bytes.
bool lies_in_quads(const ConvParams& p) {
  bool quads = p.small % 16 == 0 && p.small_stride[0] % 4 == 0 && p.small_stride[1] % 4 == 0;
  int64_t dense = 1;
  for (int d = 2; d >= 0; dense *= p.out[d--]) quads &= p.out[d] == 1 || p.small_stride[2 + d] == dense;
  return quads && dense % 4 == 0;
}

// The gradient of big, for windows side by side: a convolution of small, with the weight from its last place to its first and its
// channels exchanged.
void turn_round(ConvParams& p, size_t weight_bytes) {
  std::swap(p.big, p.small), std::swap(p.big_type, p.small_type), std::swap(p.big_stride, p.small_stride);
  std::swap(p.in, p.out), std::swap(p.c, p.o), std::swap(p.weight_stride[0], p.weight_stride[1]);
  for (int d = 0; d < 3; ++d) {
    p.padding[d] = (p.kernel[d] - 1) * p.dilation[d] - p.padding[d];
    int64_t& step = p.weight_stride[2 + d];
    p.weight += static_cast<uint64_t>(step * (p.kernel[d] - 1)) * weight_bytes;
    step = -step;
  }
}
}  // namespace

void convolution(const ConvSizes& s, ConvTarget target, const TensorImpl& big, const TensorImpl& weight,
                 const TensorImpl& small, const TensorImpl* bias) {
  static const Function kernels[3][3] = {
    {{"convolution", "forward_f32"}, {"convolution", "forward_f64"}, {"convolution", "forward_i64"}},
    {{"convolution", "data_f32"}, {"convolution", "data_f64"}, {"convolution", "data_i64"}},
    {{"convolution", "weight_f32"}, {"convolution", "weight_f64"}, {"convolution", "weight_i64"}}};
  static const Function plain{"convolution", "forward_plain"}, slim{"convolution", "forward_slim"},
    plain_weight{"convolution", "weight_plain"}, small_weight{"convolution", "weight_small"};
  struct Tile {
    const Function* kernel;
    int64_t rows, columns;
  };
  const TensorImpl& out = target == ConvTarget::Small ? small : target == ConvTarget::Big ? big : weight;
  if (out.numel == 0) return;
  STRATA_CHECK(std::max({big.numel, small.numel, weight.numel}) <= INT32_MAX, NotImplemented,
               "convolution: more than 2^31 elements in one tensor; use a smaller batch");
  for (int d = 0; d < s.dims; ++d)
    STRATA_CHECK(std::max({s.stride[d], s.padding[d], s.dilation[d] * s.kernel[d]}) < INT32_MAX / 4, NotImplemented,
                 "convolution: stride {}, padding {} or dilation {} is larger than the device kernels compute with",
                 s.stride[d], s.padding[d], s.dilation[d]);
  if (big.numel == 0 || small.numel == 0 || weight.numel == 0) {  // nothing is summed
    fill(out, 0);
    if (!bias) return;
    Tensor row = alias(*bias);  // [channels] as [channels, 1…]
    for (int d = 1; d <= s.dims; ++d) row->shape[row->ndim] = row->strides[row->ndim] = 1, ++row->ndim;
    return copy(out, *row);
  }
  ConvParams p{};
  p.big = address(big), p.weight = address(weight), p.small = address(small);
  p.big_type = tag(big), p.weight_type = tag(weight), p.small_type = tag(small);
  if (bias) p.bias = address(*bias), p.bias_type = tag(*bias);
  spread(big, s.dims, p.big_stride), spread(weight, s.dims, p.weight_stride), spread(small, s.dims, p.small_stride);
  p.n = static_cast<int32_t>(s.n), p.c = static_cast<int32_t>(s.c / s.groups),
  p.o = static_cast<int32_t>(s.o / s.groups);
  p.weight_group = p.o * p.weight_stride[0];
  for (int d = 0; d < 3; ++d) {
    const int from = d - (3 - s.dims);
    const auto pick = [&](const int64_t* list, int64_t none) {
      return static_cast<int32_t>(from < 0 ? none : list[from]);
    };
    p.in[d] = pick(s.in, 1), p.kernel[d] = pick(s.kernel, 1), p.out[d] = pick(s.out, 1);
    p.stride[d] = pick(s.stride, 1), p.padding[d] = pick(s.padding, 0), p.dilation[d] = pick(s.dilation, 1);
  }
  if (target == ConvTarget::Big && p.stride[0] == 1 && p.stride[1] == 1 && p.stride[2] == 1)
    turn_round(p, size_of(weight.dtype)), target = ConvTarget::Small;
  int64_t places = 1, windows = s.n, elements = s.n;
  for (int d = 0; d < 3; ++d) {
    p.in_div[d] = divisor(static_cast<uint32_t>(p.in[d])), p.out_div[d] = divisor(static_cast<uint32_t>(p.out[d]));
    p.kernel_div[d] = divisor(static_cast<uint32_t>(p.kernel[d])),
    p.stride_div[d] = divisor(static_cast<uint32_t>(p.stride[d]));
    places *= p.kernel[d], windows *= p.out[d], elements *= p.in[d];
  }
  const bool to_weight = target == ConvTarget::Weight, to_small = target == ConvTarget::Small;
  const int64_t m = to_weight  ? p.o
                    : to_small ? windows
                               : elements,
                n = to_weight  ? p.c * places
                    : to_small ? p.o
                               : p.c,
                k = to_weight  ? windows
                    : to_small ? p.c * places
                               : p.o * places;
  const DType compute = compute_type(out.dtype);
  Tile tile{&kernels[static_cast<int>(target)][kernel_index(out.dtype)], 64, 64};
  if (is_plain(big) && is_plain(weight) && is_plain(small)) {
    if (to_small) tile = n <= 32 ? Tile{&slim, 64, 32} : Tile{&plain, 64, 64};
    p.quads = lies_in_quads(p);
    if (to_weight) tile = m <= 32 && n <= 32 ? Tile{&small_weight, 32, 32} : Tile{&plain_weight, 64, 64};
  }
  const int64_t tiles = ceil_div(m, tile.rows) * ceil_div(n, tile.columns), threads = tile.rows * tile.columns / 16;
  int64_t parts = 1;
  if (to_weight)
    parts =
      std::clamp<int64_t>(kEnoughThreads / (threads * tiles * s.groups), 1, std::max<int64_t>(1, k / kLeastDepth));
  p.depth = static_cast<int32_t>(ceil_div(ceil_div(k, parts), kDepth) * kDepth);
  parts = ceil_div(k, p.depth);
  Tensor partial;
  if (parts > 1) {
    partial = make_tensor(Shape(std::array{parts, out.numel}), compute, out.device);
    p.partial = address(*partial), p.partial_size = out.numel;
  }
  stream_of(out.device)
    .launch(*tile.kernel, {static_cast<uint32_t>(tiles), static_cast<uint32_t>(s.groups), static_cast<uint32_t>(parts)},
            {static_cast<uint32_t>(threads)}, 0, p);
  if (parts > 1) reduce(Fold::Sum, *partial, 1, compute, out);
}

}  // namespace strata::cuda

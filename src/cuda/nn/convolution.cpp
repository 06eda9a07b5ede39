#include "cuda/nn/convolution.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/movement/dense.h"
#include "cuda/nn/convolution_order.h"
#include "cuda/nn/convolution_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/reduce/reduce.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kDepth = kConvDepth;
// 768 for each multiprocessor of a large GPU: with so many, the depth is not split
constexpr int64_t kEnoughThreads = 396 * 256;
constexpr int64_t kLeastDepth = 8 * 16;  // minimum depth of a part

// Strides of n, c and three spatial dimensions; missing ones have size 1 and come first.
void spread(const TensorImpl& t, int dims, int64_t* to) {
  to[0] = t.strides[0];
  to[1] = t.strides[1];
  for (int d = 0; d < 3; ++d) to[2 + d] = d < 3 - dims ? 0 : t.strides[2 + d - (3 - dims)];
}

// Planes of small are contiguous, and multiples of 16 bytes.
bool lies_in_quads(const ConvParams& p) {
  bool quads = p.small % 16 == 0 && p.small_stride[0] % 4 == 0 && p.small_stride[1] % 4 == 0;
  int64_t dense = 1;
  for (int d = 2; d >= 0; dense *= p.out[d--]) quads &= p.out[d] == 1 || p.small_stride[2 + d] == dense;
  return quads && dense % 4 == 0;
}

// The gradient of big for stride 1 is a convolution of small, with the weight flipped and its channels exchanged.
// Returns the offset of the weight's last element.
int64_t turn_round(ConvParams& p) {
  std::swap(p.big_stride, p.small_stride);
  std::swap(p.in, p.out);
  std::swap(p.c, p.o);
  std::swap(p.weight_stride[0], p.weight_stride[1]);
  int64_t last = 0;
  for (int d = 0; d < 3; ++d) {
    p.padding[d] = (p.kernel[d] - 1) * p.dilation[d] - p.padding[d];
    int64_t& step = p.weight_stride[2 + d];
    last += step * (p.kernel[d] - 1);
    step = -step;
  }
  return last;
}

enum class Tiles : uint8_t { Any, Slim, Wide, SmallWeight, WideWeight };
struct TileSize {
  const char* name;
  int64_t rows, columns;
};
constexpr TileSize kTiles[] = {
  {"64x64", 64, 64}, {"64x32", 64, 32}, {"64x64", 64, 64}, {"32x32", 32, 32}, {"64x64", 64, 64}};

struct ConvPlan {
  ConvParams params;  // without addresses
  int64_t weight_offset, parts;
  ConvMode mode;  // mode of the kernel: a gradient of big may be a forward pass
  Tiles tiles;
  bool turned;
  Grid grid;
  uint32_t threads;
};

void set_geometry(const ConvCall& v, ConvParams& p) {
  const ConvShape& s = v.shape;
  spread(*v.big, s.dims, p.big_stride);
  spread(*v.weight, s.dims, p.weight_stride);
  spread(*v.small, s.dims, p.small_stride);
  p.n = static_cast<int32_t>(s.n);
  p.c = static_cast<int32_t>(s.c / s.groups);
  p.o = static_cast<int32_t>(s.o / s.groups);
  p.weight_group = p.o * p.weight_stride[0];
  for (int d = 0; d < 3; ++d) {
    const int from = d - (3 - s.dims);
    const auto pick = [&](const int64_t* list, int64_t none) {
      return static_cast<int32_t>(from < 0 ? none : list[from]);
    };
    p.in[d] = pick(s.in, 1);
    p.kernel[d] = pick(s.kernel, 1);
    p.out[d] = pick(s.out, 1);
    p.stride[d] = pick(s.stride, 1);
    p.padding[d] = pick(s.padding, 0);
    p.dilation[d] = pick(s.dilation, 1);
  }
}

// Rows, columns and depth of the matrix product.
struct Extents {
  int64_t m, n, k;
};
Extents set_divisors(ConvParams& p, ConvMode mode, int64_t images) {
  int64_t places = 1, windows = images, elements = images;
  for (int d = 0; d < 3; ++d) {
    p.in_div[d] = divisor(static_cast<uint32_t>(p.in[d]));
    p.out_div[d] = divisor(static_cast<uint32_t>(p.out[d]));
    p.kernel_div[d] = divisor(static_cast<uint32_t>(p.kernel[d]));
    p.stride_div[d] = divisor(static_cast<uint32_t>(p.stride[d]));
    places *= p.kernel[d];
    windows *= p.out[d];
    elements *= p.in[d];
  }
  if (mode == ConvMode::Weight) return {p.o, p.c * places, windows};
  if (mode == ConvMode::Forward) return {windows, p.o, p.c * places};
  return {elements, p.c, p.o * places};
}

// Parts of sums, [parts][elements of out], in the compute type.
Tensor part_memory(int64_t parts, const TensorImpl& out, Workspace& workspace) {
  return workspace.take(Shape(std::array{parts, out.numel}), compute_type(out.dtype));
}
void add_parts(const TensorImpl& partial, const TensorImpl& out, Workspace& workspace) {
  const DenseOut to(out, workspace);  // the parts are contiguous
  reduce(Fold::Sum, partial, 1, partial.dtype, *to, {}, workspace);
  to.finish();
}

const char* plan_convolution(const ConvCall& v, bool floats, Plan& plan) {
  const ConvShape& s = v.shape;
  STRATA_CHECK(std::max({v.big.numel(), v.small.numel(), v.weight.numel()}) <= INT32_MAX, NotImplemented,
               "convolution: more than 2^31 elements in one tensor; use a smaller batch");
  for (int d = 0; d < s.dims; ++d)
    STRATA_CHECK(std::max({s.stride[d], s.padding[d], s.dilation[d] * s.kernel[d]}) < INT32_MAX / 4, NotImplemented,
                 "convolution: stride {}, padding {} or dilation {} is larger than the device kernels compute with",
                 s.stride[d], s.padding[d], s.dilation[d]);
  ConvPlan made{};
  made.mode = v.mode;
  made.parts = 1;
  if (!sums_nothing(v)) {
    ConvParams& p = made.params;
    set_geometry(v, p);
    if (v.mode == ConvMode::Data && p.stride[0] == 1 && p.stride[1] == 1 && p.stride[2] == 1) {
      made.weight_offset = turn_round(p);
      made.mode = ConvMode::Forward;
      made.turned = true;
    }
    const Extents e = set_divisors(p, made.mode, s.n);
    if (floats && made.mode == ConvMode::Forward) made.tiles = e.n <= 32 ? Tiles::Slim : Tiles::Wide;
    if (floats && made.mode == ConvMode::Weight)
      made.tiles = e.m <= 32 && e.n <= 32 ? Tiles::SmallWeight : Tiles::WideWeight;
    const TileSize& tile = kTiles[static_cast<size_t>(made.tiles)];
    const int64_t tiles = ceil_div(e.m, tile.rows) * ceil_div(e.n, tile.columns),
                  threads = tile.rows * tile.columns / 16;
    if (made.mode == ConvMode::Weight)
      made.parts =
        std::clamp<int64_t>(kEnoughThreads / (threads * tiles * s.groups), 1, std::max<int64_t>(1, e.k / kLeastDepth));
    p.depth = static_cast<int32_t>(ceil_div(ceil_div(e.k, made.parts), kDepth) * kDepth);
    made.parts = ceil_div(e.k, p.depth);
    made.grid = {static_cast<uint32_t>(tiles), static_cast<uint32_t>(s.groups), static_cast<uint32_t>(made.parts)};
    made.threads = static_cast<uint32_t>(threads);
    plan.variant = tile.name;
  }
  Workspace workspace(plan);
  if (v.bias) dense(*v.bias, workspace);
  if (made.parts > 1) {
    const TensorImpl& out = written(v);
    add_parts(*part_memory(made.parts, out, workspace), out, workspace);
  }
  plan.keep(made);
  return nullptr;
}

// For an empty sum: the bias, or zeros.
void fill_with_bias(const ConvCall& v) {
  const TensorImpl& out = written(v);
  if (!v.bias) return fill(out, 0);
  copy(out, *broadcast_bias(*v.bias, v.shape.dims));
}
}  // namespace

const char* plan_convolution_floats(const ConvCall& v, Plan& plan) {
  if (!is_plain(*v.big) || !is_plain(*v.weight) || !is_plain(*v.small))
    return "a tensor is not of float32, or its offsets take more than 32 bits";
  return plan_convolution(v, true, plan);
}
const char* plan_convolution_any(const ConvCall& v, Plan& plan) { return plan_convolution(v, false, plan); }

void run_convolution(const ConvCall& v, const Call& c, const Plan& plan) {
  static const Function any[3][3] = {
    {{"convolution", "forward_f32"}, {"convolution", "forward_f64"}, {"convolution", "forward_i64"}},
    {{"convolution", "data_f32"}, {"convolution", "data_f64"}, {"convolution", "data_i64"}},
    {{"convolution", "weight_f32"}, {"convolution", "weight_f64"}, {"convolution", "weight_i64"}}};
  static const Function floats[] = {{"convolution", "forward_slim"},
                                    {"convolution", "forward_plain"},
                                    {"convolution", "weight_small"},
                                    {"convolution", "weight_plain"}};  // in the order of Tiles
  const TensorImpl& out = written(v);
  if (out.numel == 0) return;
  if (sums_nothing(v)) return fill_with_bias(v);
  auto made = plan.get<ConvPlan>();
  ConvParams& p = made.params;
  Workspace workspace(c);
  const TensorImpl &big = made.turned ? *v.small : *v.big, &small = made.turned ? *v.big : *v.small;
  p.big = address(big);
  p.small = address(small);
  p.weight = address(*v.weight) + static_cast<uint64_t>(made.weight_offset) * size_of(v.weight.dtype());
  p.big_type = tag(big);
  p.weight_type = tag(*v.weight);
  p.small_type = tag(small);
  const Tensor bias = v.bias ? dense(*v.bias, workspace) : Tensor();
  p.bias = address(bias.get());
  p.bias_type = tag(bias.get());
  const Tensor partial = made.parts > 1 ? part_memory(made.parts, out, workspace) : Tensor();
  if (partial) {
    p.partial = address(*partial);
    p.partial_size = out.numel;
  }
  if (made.tiles != Tiles::Any) p.quads = lies_in_quads(p);
  const Function& kernel = made.tiles == Tiles::Any ? any[static_cast<int>(made.mode)][kernel_index(out.dtype)]
                                                    : floats[static_cast<size_t>(made.tiles) - 1];
  stream_of(out.device).launch(kernel, made.grid, {made.threads}, 0, p);
  if (partial) add_parts(*partial, out, workspace);
}

}  // namespace strata::cuda

#include "cuda/nn/convolution_mma.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/libs/libraries.h"
#include "cuda/movement/dense.h"
#include "cuda/nn/convolution_mma_params.h"
#include "cuda/nn/convolution_order.h"
#include "cuda/nn/convolution_relu.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/reduce/reduce.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kEnoughBlocks = 264;              // two for each multiprocessor of a large GPU
constexpr int64_t kLeastTileDepth = 8 * kMmaDepth;  // minimum number of positions of a part
constexpr int64_t kMostOffset = INT32_MAX / 4;      // of strides, padding and dilation

struct MmaPlan {
  bool large;
  int64_t parts, depth;  // of the gradient of the weight
};

int32_t narrow(int64_t x) { return static_cast<int32_t>(x); }
int64_t pitch_of(int64_t channels) { return ceil_div(channels, 8) * 8; }

// An operand as the kernels read it: channels are the last dimension, and those of a position start at a multiple of 16
// bytes. The tensor itself, or memory of the workspace.
Tensor aligned_operand(const Tensor& t, Workspace& space) {
  const int64_t pitch = pitch_of(t.size(1));
  if (pitch == t.size(1) && address(*t) % 16 == 0 && is_dense(*t, Order::ChannelsLast)) return t;
  int64_t shape[kMaxDims];
  std::copy_n(t->shape, t->ndim, shape);
  shape[1] = pitch;
  Tensor piece = space.take(Shape(shape, static_cast<size_t>(t->ndim)), t.dtype());
  set_dense_strides(Order::ChannelsLast, piece->ndim, shape, piece->strides);
  piece->set_shape(t.shape());
  piece->update_contiguous();
  return piece;
}
Tensor copied_operand(const Tensor& t, Workspace& space) {
  Tensor used = aligned_operand(t, space);
  if (used.get() != t.get()) copy(*used, *t);
  return used;
}

// A dimension that the window moves over.
ConvMmaDim window_dim(int64_t out, int64_t kernel, int64_t padding, int64_t dilation) {
  return {
    narrow(out), divisor(static_cast<uint32_t>(out)), narrow(kernel), 0, 1, narrow(-padding), narrow(dilation), 0};
}

// Positions i * stride + first of the larger side: the taps that reach them from whole positions of the smaller one.
ConvMmaDim phase_dim(int64_t first, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const int64_t step = stride / std::gcd(stride, dilation), count = ceil_div(size - first, stride);
  int64_t tap = 0;
  while (tap < std::min(kernel, step) && (first + padding - tap * dilation) % stride != 0) ++tap;
  const int64_t taps = tap < std::min(kernel, step) ? (kernel - 1 - tap) / step + 1 : 0;
  return {narrow(count),
          divisor(static_cast<uint32_t>(count)),
          narrow(taps),
          narrow(tap),
          narrow(step),
          narrow((first + padding - tap * dilation) / stride),
          narrow(-step * dilation / stride),
          narrow(first)};
}

// All but addresses and what depends on them.
ConvMmaParams parameters(const ConvCall& v) {
  const ConvShape& s = v.shape;
  const bool data = v.mode == ConvMode::Data;
  ConvMmaParams p{};
  p.images = narrow(s.n);
  p.from_channels = narrow(data ? s.o : s.c);
  p.to_channels = narrow(data ? s.c : s.o);
  p.from_pitch = narrow(pitch_of(p.from_channels));
  int64_t places = 1;
  for (int d = 0; d < 3; ++d) {
    const int at = d - (3 - s.dims);
    const auto pick = [&](const int64_t* list, int64_t none) { return at < 0 ? none : list[at]; };
    const int64_t in = pick(s.in, 1), out = pick(s.out, 1), kernel = pick(s.kernel, 1), stride = pick(s.stride, 1),
                  padding = pick(s.padding, 0), dilation = pick(s.dilation, 1);
    places *= kernel;
    p.kernel[d] = narrow(kernel);
    p.from_size[d] = narrow(data ? out : in);
    p.to_size[d] = narrow(data ? in : out);
    p.stride[d] = narrow(data ? 1 : stride);
    p.out_step[d] = narrow(data ? stride : 1);
    p.phases[d] = data ? narrow(std::min(stride, in)) : 1;
    if (!data) p.dims[d][0] = window_dim(out, kernel, padding, dilation);
    for (int r = 0; data && r < p.phases[d]; ++r) p.dims[d][r] = phase_dim(r, in, kernel, stride, padding, dilation);
  }
  if (v.mode == ConvMode::Weight) {
    p.other_row = pitch_of(s.o);
    p.positions = narrow(v.small.numel() / s.o);
  } else {
    p.other_tap = narrow(pitch_of(s.c));
    p.other_row = places * p.other_tap;
  }
  return p;
}

int64_t tiles_of(int64_t rows, int64_t columns, int tile) { return ceil_div(rows, tile) * ceil_div(columns, tile); }
// Results of the first phase, which is the largest.
int64_t rows_of(const ConvMmaParams& p) {
  return int64_t{p.images} * p.dims[0][0].count * p.dims[1][0].count * p.dims[2][0].count;
}
int64_t weight_columns(const ConvMmaParams& p) {
  return int64_t{p.kernel[0]} * p.kernel[1] * p.kernel[2] * p.from_pitch;
}
int size_of_tile(bool large) { return large ? kMmaLarge : kMmaSmall; }

// Large tiles unless most of them would be empty. The sums are split into parts if there are few tiles. Both depend on
// the shape only, so that all GPUs add in the same order.
MmaPlan plan_weight(const ConvMmaParams& p) {
  const int64_t columns = weight_columns(p);
  MmaPlan made{p.to_channels > kMmaSmall && columns > kMmaSmall, 1, 0};
  const int64_t tiles = tiles_of(p.to_channels, columns, size_of_tile(made.large));
  made.parts =
    std::clamp<int64_t>(kEnoughBlocks / tiles, 1, std::max<int64_t>(1, int64_t{p.positions} / kLeastTileDepth));
  made.depth = ceil_div(ceil_div(p.positions, made.parts), kMmaDepth) * kMmaDepth;
  made.parts = ceil_div(p.positions, made.depth);
  return made;
}

const char* objection(const ConvCall& v) {
  const ConvShape& s = v.shape;
  const TensorImpl& out = written(v);
  if (out.dtype != DType::F16 && out.dtype != DType::BF16) return "for float16 and bfloat16";
  if (Runtime::gpu(out.device).properties.major < 8) return "for GPUs of compute capability 8.0 and newer";
  if (s.groups != 1) return "for one group";
  if (sums_nothing(v)) return "a tensor is empty";
  for (int d = 0; d < s.dims; ++d) {
    if (v.mode == ConvMode::Data && s.stride[d] > kConvPhases) return "the stride has too many phases";
    if (std::max({s.stride[d], s.padding[d], s.dilation[d] * s.kernel[d]}) >= kMostOffset)
      return "a stride, padding or dilation is too large for 32 bits";
  }
  // With channels in whole vectors.
  for (const Tensor* t : {&v.big, &v.weight, &v.small})
    if (t->numel() / t->size(1) > INT32_MAX / pitch_of(t->size(1))) return "a tensor has more than 2^31 elements";
  return nullptr;
}

const Function& kernel_of(DType dtype, ConvMode mode, bool large) {
#define STRATA_MODES(file)                                                                              \
  {                                                                                                     \
    {{file, "forward_small"}, {file, "forward_large"}}, {{file, "data_small"}, {file, "data_large"}}, { \
      {file, "weight_small"}, { file, "weight_large" }                                                  \
    }                                                                                                   \
  }
  static const Function kernels[2][3][2] = {STRATA_MODES("convolution_mma_f16"), STRATA_MODES("convolution_mma_bf16")};
#undef STRATA_MODES
  return kernels[dtype == DType::BF16][static_cast<size_t>(mode)][large];
}
}  // namespace

const char* plan_convolution_mma(const ConvCall& v, Plan& plan) {
  if (const char* reason = objection(v)) return reason;
  const ConvMmaParams p = parameters(v);
  MmaPlan made{};
  if (v.mode == ConvMode::Weight) {
    made = plan_weight(p);
  } else {
    // Small tiles if large ones would leave multiprocessors idle.
    const int64_t phases = int64_t{p.phases[0]} * p.phases[1] * p.phases[2];
    made.large = p.to_channels > kMmaSmall && tiles_of(rows_of(p), p.to_channels, kMmaLarge) * phases >=
                                                Runtime::gpu(written(v).device).properties.multiprocessors;
  }
  Workspace space(plan);
  for (const Tensor* t : {&v.big, &v.weight, &v.small})
    if (t->get() != &written(v)) aligned_operand(*t, space);
  const Tensor out = alias(written(v));
  const Tensor target = in_order(out, Order::ChannelsLast, space);
  if (v.bias) dense(*v.bias, space);
  if (v.mode == ConvMode::Weight) {
    const Tensor partial = space.take(Shape(std::array{made.parts, out.numel()}), DType::F32);
    reduce(Fold::Sum, *partial, 1, DType::F32, *flattened(*target), {}, space);
  }
  plan.keep(made);
  plan.variant = made.large ? "128x128" : "64x64";
  return nullptr;
}

namespace {
// other: added to the result, if it is defined, before ReLU.
void run_mma(const ConvCall& v, const Tensor& other, bool relu, const Call& c, const Plan& plan) {
  const auto made = plan.get<MmaPlan>();
  const bool weight = v.mode == ConvMode::Weight;
  ConvMmaParams p = parameters(v);
  Workspace space(c);
  Tensor used[3];
  const Tensor* given[] = {&v.big, &v.weight, &v.small};
  for (size_t i = 0; i < 3; ++i)
    if (given[i]->get() != &written(v)) used[i] = copied_operand(*given[i], space);
  const Tensor out = alias(written(v));
  const Tensor target = in_order(out, Order::ChannelsLast, space);
  p.from = address(*used[v.mode == ConvMode::Data ? 2 : 0]);
  p.other = address(*used[weight ? 2 : 1]);
  p.to = address(*target);
  p.aligned = p.to % 16 == 0 && p.to_channels % 8 == 0;
  const int tile = size_of_tile(made.large);
  Grid grid{static_cast<uint32_t>(tiles_of(rows_of(p), p.to_channels, tile)),
            static_cast<uint32_t>(p.phases[0] * p.phases[1] * p.phases[2])};
  const Tensor bias = v.bias ? dense(*v.bias, space) : Tensor();
  p.bias = address(bias.get());
  p.relu = relu;
  if (other) {
    const Tensor added = in_order(other, Order::ChannelsLast, space);
    if (added.get() != other.get()) copy(*added, *other);
    p.added = address(*added);
  }
  Tensor partial;
  if (weight) {
    partial = space.take(Shape(std::array{made.parts, out.numel()}), DType::F32);
    p.to = address(*partial);
    p.depth = narrow(made.depth);
    grid = {static_cast<uint32_t>(tiles_of(p.to_channels, weight_columns(p), tile)), static_cast<uint32_t>(made.parts)};
  }
  stream_of(out.device())
    .launch(kernel_of(out.dtype(), v.mode, made.large), grid, {static_cast<uint32_t>(mma_threads(tile))},
            static_cast<uint32_t>(mma_shared_bytes(tile)), p);
  if (weight) reduce(Fold::Sum, *partial, 1, DType::F32, *flattened(*target), {}, space);
  if (target.get() != out.get()) copy(*out, *target);
}
}  // namespace

void run_convolution_mma(const ConvCall& v, const Call& c, const Plan& plan) { run_mma(v, {}, false, c, plan); }

const char* plan_convolution_relu_mma(const ConvReluCall& call, Plan& plan) {
  const ConvCall& v = call.convolution;
  if (v.small.device().type == DeviceType::Cuda && vendor_library(Vendor::Cudnn).library)
    return "cuDNN and a pointwise kernel are faster";
  if (const char* reason = plan_convolution_mma(v, plan)) return reason;
  const auto before = static_cast<int64_t>(plan.workspace);
  Workspace space(plan);
  space.take(before, DType::U8);
  if (call.other) in_order(call.other, Order::ChannelsLast, space);
  return nullptr;
}
void run_convolution_relu_mma(const ConvReluCall& call, const Call& c, const Plan& plan) {
  run_mma(call.convolution, call.other, true, c, plan);
}

}  // namespace strata::cuda

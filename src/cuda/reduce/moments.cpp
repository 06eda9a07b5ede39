// Launches the kernels of cuda/reduce/moments.cu and columns.cu.
#include "cuda/reduce/moments.h"

#include <algorithm>
#include <limits>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/reduce/moments_params.h"
#include "cuda/reduce/reduce.h"
#include "cuda/runtime/stream.h"
#include "tensor/channels_last.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

bool wide(const TensorImpl& x) { return x.dtype == DType::F64; }
constexpr int64_t kVector = 8;
// Whether a tensor next to x, which may be null, can be read with the widest accesses.
bool fits_vectors(const TensorImpl& x, const TensorImpl* t) { return !t || reads_in_pieces(*t, wide(x)); }

DimMask all_but_channels(const TensorImpl& x) { return all_dims(x.ndim) & ~dim_bit(1); }

// Kernels of columns.cu, by the types that they read.
struct ColumnKernels {
  Function narrow, f32, f64;
  explicit ColumnKernels(const std::string& name)
      : narrow("columns", name + "_narrow"), f32("columns", name + "_f32"), f64("columns", name + "_f64") {}
  const Function& of(const TensorImpl& x, const TensorImpl* other) const {
    if (wide(x)) return f64;
    return size_of(x.dtype) == 2 && (!other || size_of(other->dtype) == 2) ? narrow : f32;
  }
};

// Blocks of columns.cu: some for each multiprocessor of a large GPU. Sums take more rows per thread, because each block
// adds up its threads' sums.
struct Spread {
  int64_t blocks, rows_of_thread;
};
constexpr Spread kSums{528, 16}, kMaps{2112, 4};

// How many columns a block of columns.cu has, and how many rows.
struct ColumnShares {
  int64_t columns, rows;
  ColumnShares(int64_t all_columns, int64_t all_rows, Spread spread) {
    columns = std::min<int64_t>(128, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(all_columns))));
    const int64_t groups = kThreads / (columns / kVector), blocks = ceil_div(all_columns, columns);
    rows = std::max(ceil_div(all_rows, std::max<int64_t>(1, spread.blocks / blocks)), groups * spread.rows_of_thread);
  }
};
// Whether results are adjacent columns of rows that columns.cu reads.
bool whole_columns(const ReducePlan& plan, const TensorImpl& x, const TensorImpl* grad) {
  return plan.kept.dims == 1 && plan.kept.stride[0] == 1 && plan.kept.count % kVector == 0 && plan.gone.dims == 1 &&
         plan.gone.stride[0] % kVector == 0 && fits_vectors(x, &x) && fits_vectors(x, grad);
}

// How blocks share the elements of results that each become two numbers. `whole`: columns.cu reads them.
struct Pairs {
  bool columns;
  int64_t per_block, part, parts;
  Pairs(const ReducePlan& plan, bool whole)
      : columns(by_columns(plan)), per_block(results_per_block(columns, plan.kept.count, plan.gone.count)) {
    part = elements_per_part(plan.kept.count, plan.gone.count, per_block, kVector);
    if (whole) {
      const ColumnShares shares(plan.kept.count, plan.gone.count, kSums);
      per_block = shares.columns;
      part = shares.rows;
    }
    parts = ceil_div(plan.gone.count, part);
  }
};

// Reduces each result to two numbers; kernels of columns.cu read adjacent columns. Returns what the second launch needs.
FinishParams fold(const Function& kernel, const ColumnKernels& by_column, const ReducePlan& plan, PairParams p,
                  const TensorImpl& x, const TensorImpl* grad, Workspace& workspace) {
  const bool whole = by_columns(plan) && whole_columns(plan, x, grad);
  const Pairs pairs(plan, whole);
  const Tensor memory = workspace.take(2 * pairs.parts * plan.kept.count, DType::F64);
  if (workspace.planning()) return {};
  p.x = address(&x);
  p.x_type = tag(&x);
  p.grad = address(grad);
  p.grad_type = tag(grad);
  p.kept = axes_params(plan.kept, plan.kept.stride, "moments");
  p.gone = axes_params(plan.gone, plan.gone.stride, "moments");
  p.columns = pairs.columns;
  p.per_block = static_cast<int32_t>(pairs.per_block);
  // The fastest reduced dimension is contiguous and a multiple of the vector size; all other strides are multiples of
  // it.
  bool vectors = !pairs.columns && plan.gone.dims > 0 && plan.gone.stride[plan.gone.dims - 1] == 1 &&
                 plan.gone.size[plan.gone.dims - 1] % kVector == 0 && fits_vectors(x, &x) && fits_vectors(x, grad);
  for (int d = 0; d < plan.kept.dims; ++d) vectors &= plan.kept.stride[d] % kVector == 0;
  for (int d = 0; d + 1 < plan.gone.dims; ++d) vectors &= plan.gone.stride[d] % kVector == 0;
  p.vectors = vectors;
  p.part = pairs.part;
  p.first = address(*memory);
  p.second = p.first + static_cast<uint64_t>(pairs.parts * p.kept.count) * sizeof(double);
  stream_of(x.device).launch(whole ? by_column.of(x, grad) : kernel,
                             {blocks_for(p.kept.count, pairs.per_block), static_cast<uint32_t>(pairs.parts)},
                             {kThreads}, 0, p);
  FinishParams f{};
  f.first = p.first;
  f.second = p.second;
  f.parts = pairs.parts;
  f.part = p.part;
  f.count = p.gone.count;
  f.results = p.kept.count;
  f.kept = p.kept;
  return f;
}

void finish(const Function& kernel, FinishParams& f, Device device) {
  f.threads = 1;
  while (f.threads < 32 && f.threads < f.parts) f.threads *= 2;
  const int64_t per_block = kThreads / f.threads;
  stream_of(device).launch(kernel, {static_cast<uint32_t>(ceil_div(f.results, per_block))}, {kThreads}, 0, f);
}

// Center, scale, slope and shift of each channel: computed by a finishing kernel, used by apply().
struct Affine {
  Tensor memory;
  Affine(const TensorImpl& x, Workspace& workspace)
      : memory(workspace.take(Shape(std::array{int64_t{4}, x.shape[1]}), compute_type(x.dtype))) {}
  void put(FinishParams& f) const {
    const uint64_t step = static_cast<uint64_t>(memory.size(1)) * size_of(memory.dtype());
    f.scale = address(*memory);
    f.slope = f.scale + step;
    f.shift = f.slope + step;
    f.center = f.shift + step;
  }
};
ChannelParams factors_of(const FinishParams& f) {
  ChannelParams p{};
  p.center = f.center;
  p.scale = f.scale;
  p.slope = f.slope;
  p.shift = f.shift;
  return p;
}
void apply(ChannelParams p, const TensorImpl& x, const TensorImpl* grad, const TensorImpl& out) {
  static const Function kernels[] = {{"moments", "channels_f32"}, {"moments", "channels_f64"}};
  p.x = address(&x);
  p.grad = address(grad);
  p.out = address(&out);
  p.x_type = tag(&x);
  p.grad_type = tag(grad);
  p.out_type = tag(&out);
  const int64_t spatial = x.numel / (x.shape[0] * x.shape[1]);
  STRATA_CHECK(spatial <= UINT32_MAX && x.shape[1] <= UINT32_MAX, NotImplemented,
               "batch_norm: an input of shape {} is more than the device kernels count", to_string(x.sizes()));
  p.channels = static_cast<uint32_t>(x.shape[1]);
  p.spatial = static_cast<uint32_t>(spatial);
  p.count = x.numel;
  if (channels_in_rows(x) && fits_vectors(x, grad) && fits_vectors(x, &out)) {
    static const ColumnKernels forward("affine"), backward("affine_backward");
    const ColumnShares shares(x.shape[1], x.numel / x.shape[1], kMaps);
    p.lanes = static_cast<int32_t>(shares.columns / kVector);
    p.part = shares.rows;
    return stream_of(x.device).launch(
      (grad ? backward : forward).of(x, grad),
      {blocks_for(x.shape[1], shares.columns), blocks_for(x.numel / x.shape[1], shares.rows)}, {kThreads}, 0, p);
  }
  p.vectors = spatial % kVector == 0 && fits_vectors(x, &x) && fits_vectors(x, grad) && fits_vectors(x, &out);
  const int64_t threads = x.numel / (p.vectors ? kVector : 1);
  p.fast = threads <= INT32_MAX;
  if (p.fast) {
    p.by_spatial = divisor(static_cast<uint32_t>(p.vectors ? spatial / kVector : spatial));
    p.by_channels = divisor(p.channels);
  }
  stream_of(x.device).launch(kernels[wide(x)], {static_cast<uint32_t>(ceil_div(threads, kThreads))}, {kThreads}, 0, p);
}
const ColumnKernels& column_moments() {
  static const ColumnKernels kernels("moments");
  return kernels;
}
const ColumnKernels& column_gradient() {
  static const ColumnKernels kernels("gradient");
  return kernels;
}
const ColumnKernels& column_row_gradient() {
  static const ColumnKernels kernels("row_gradient");
  return kernels;
}
// The same shape and dtype, contiguous.
Tensor contiguous_geometry(const TensorImpl& x, Shape shape) {
  Tensor t = alias(x);
  t->set_shape(shape);
  t->set_contiguous_strides();
  return t;
}
ReducePlan channel_plan(const TensorImpl& x) {
  if (channels_in_rows(x)) return {x, all_but_channels(x)};
  return {*contiguous_geometry(x, x.sizes()), all_but_channels(x)};
}
}  // namespace

// Other orders of the pixels are not taken: results have the order of a contiguous or channels-last tensor.
bool channels_in_rows(const TensorImpl& x) {
  if (x.numel == 0) return false;
  const bool rows = is_channels_last(x) || (x.contiguous && x.numel == x.shape[0] * x.shape[1]);
  return rows && x.shape[1] % kVector == 0 && fits_vectors(x, &x);
}

void moments(const MomentsCall& m, Workspace& workspace) {
  static const Function kernels[] = {{"moments", "moments_f32"}, {"moments", "moments_f64"}};
  static const Function last("moments", "finish_moments");
  const TensorImpl& x = m.x;
  if ((m.variance ? m.variance : m.mean)->numel == 0) return;
  if (x.numel == 0) {
    for (const TensorImpl* t : {m.variance, m.mean})
      if (t && !workspace.planning()) fill(*t, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const ReducePlan plan(x, m.reduced);
  FinishParams f = fold(kernels[wide(x)], column_moments(), plan, {}, x, nullptr, workspace);
  if (workspace.planning()) return;
  f.variance = address(m.variance);
  f.average = address(m.mean);
  f.root = m.root;
  f.correction = m.correction;
  f.variance_type = tag(m.variance);
  f.average_type = tag(m.mean);
  for (int d = 0; d < plan.kept.dims; ++d) f.out_stride[d] = plan.kept.out_stride[plan.kept.dims - 1 - d];
  finish(last, f, x.device);
}

void batch_norm(const BatchNorm& b, Workspace& workspace) {
  static const Function kernels[] = {{"moments", "moments_f32"}, {"moments", "moments_f64"}};
  static const Function last[] = {{"moments", "batch_norm_f32"}, {"moments", "batch_norm_f64"}};
  const TensorImpl& x = b.x;
  if (x.numel == 0) return;
  const auto apply_to = [&](ChannelParams p) {
    p.adds = b.other != nullptr;
    p.relu = b.relu;
    apply(p, x, b.other, b.y);
  };
  if (!b.mean) {
    if (workspace.planning()) return;
    ChannelParams p{};
    p.given = 1;
    p.mean = address(b.running_mean);
    p.mean_type = tag(b.running_mean);
    p.variance = address(b.running_var);
    p.variance_type = tag(b.running_var);
    p.weight = address(b.weight);
    p.weight_type = tag(b.weight);
    p.bias = address(b.bias);
    p.bias_type = tag(b.bias);
    p.eps = b.eps;
    return apply_to(p);
  }
  FinishParams f = fold(kernels[wide(x)], column_moments(), channel_plan(x), {}, x, nullptr, workspace);
  const Affine affine(x, workspace);
  if (workspace.planning()) return;
  f.weight = address(b.weight);
  f.weight_type = tag(b.weight);
  f.bias = address(b.bias);
  f.bias_type = tag(b.bias);
  f.running_mean = address(b.running_mean);
  f.running_mean_type = tag(b.running_mean);
  f.running_var = address(b.running_var);
  f.running_var_type = tag(b.running_var);
  f.mean = address(b.mean);
  f.rstd = address(b.rstd);
  f.momentum = b.momentum;
  f.eps = b.eps;
  affine.put(f);
  finish(last[wide(x)], f, x.device);
  apply_to(factors_of(f));
}

void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& rstd, const TensorImpl& grad_x, const TensorImpl& grad_weight,
                         const TensorImpl& grad_bias, Workspace& workspace) {
  static const Function kernels[] = {{"moments", "gradient_f32"}, {"moments", "gradient_f64"}};
  static const Function last[] = {{"moments", "batch_norm_backward_f32"}, {"moments", "batch_norm_backward_f64"}};
  if (x.numel == 0) {
    if (workspace.planning()) return;
    fill(grad_weight, 0);
    fill(grad_bias, 0);
    return;
  }
  PairParams p{};
  p.mean = address(&mean);
  FinishParams f = fold(kernels[wide(x)], column_gradient(), channel_plan(x), p, x, &grad, workspace);
  const Affine affine(x, workspace);
  if (workspace.planning()) return;
  f.weight = address(weight);
  f.weight_type = tag(weight);
  f.mean = address(&mean);
  f.rstd = address(&rstd);
  f.grad_weight = address(&grad_weight);
  f.grad_weight_type = tag(&grad_weight);
  f.grad_bias = address(&grad_bias);
  f.grad_bias_type = tag(&grad_bias);
  affine.put(f);
  finish(last[wide(x)], f, x.device);
  apply(factors_of(f), x, &grad, grad_x);
}

void column_grad_sums(int64_t rows, const TensorImpl& grad, const TensorImpl& x, const TensorImpl* mean,
                      const TensorImpl& rstd, const TensorImpl& grad_weight, const TensorImpl* grad_bias,
                      Workspace& workspace) {
  static const Function kernels[] = {{"moments", "gradient_f32"}, {"moments", "gradient_f64"}};
  static const Function last[] = {{"moments", "columns_f32"}, {"moments", "columns_f64"}};
  if (grad_weight.numel == 0) return;
  if (rows == 0) {
    if (workspace.planning()) return;
    fill(grad_weight, 0);
    if (grad_bias) fill(*grad_bias, 0);
    return;
  }
  const Tensor flat = contiguous_geometry(x, Shape(std::array{rows, x.numel / rows}));
  PairParams p{};
  p.mean = address(mean);
  p.rstd = address(&rstd);
  FinishParams f = fold(kernels[wide(x)], column_row_gradient(), ReducePlan(*flat, 1), p, *flat, &grad, workspace);
  if (workspace.planning()) return;
  f.grad_weight = address(&grad_weight);
  f.grad_weight_type = tag(&grad_weight);
  f.grad_bias = address(grad_bias);
  f.grad_bias_type = tag(grad_bias);
  finish(last[wide(x)], f, x.device);
}

}  // namespace strata::cuda

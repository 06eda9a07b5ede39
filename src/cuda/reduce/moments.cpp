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

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;

bool wide(const TensorImpl& x) { return x.dtype == DType::F64; }
constexpr int64_t kVector = 8;
// Whether a tensor next to x, which may be null, can be read with the widest accesses.
bool fits_vectors(const TensorImpl& x, const TensorImpl* t) { return !t || reads_in_pieces(*t, wide(x)); }

uint32_t all_but_channels(const TensorImpl& x) { return ((1u << x.ndim) - 1) & ~2u; }

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

struct Pairs {
  Tensor memory;        // holds the results of the first launch
  FinishParams finish;  // what the second launch needs from the first
};

// Reduces each result to two numbers. `by_column` may be null: columns are then read like any other layout.
Pairs fold(const Function& kernel, const ColumnKernels* by_column, const ReducePlan& plan, PairParams p,
           const TensorImpl& x, const TensorImpl* grad) {
  p.x = address(&x);
  p.x_type = tag(&x);
  p.grad = address(grad);
  p.grad_type = tag(grad);
  p.kept = axes_params(plan.kept, plan.kept.stride, "moments");
  p.gone = axes_params(plan.gone, plan.gone.stride, "moments");
  const bool columns = by_columns(plan), whole = by_column && columns && whole_columns(plan, x, grad);
  int64_t per_block = results_per_block(columns, p.kept.count, p.gone.count);
  p.columns = columns;
  // The fastest reduced dimension is contiguous and a multiple of the vector size; all other strides are multiples of
  // it.
  bool vectors = !columns && plan.gone.dims > 0 && plan.gone.stride[plan.gone.dims - 1] == 1 &&
                 plan.gone.size[plan.gone.dims - 1] % kVector == 0 && fits_vectors(x, &x) && fits_vectors(x, grad);
  for (int d = 0; d < plan.kept.dims; ++d) vectors &= plan.kept.stride[d] % kVector == 0;
  for (int d = 0; d + 1 < plan.gone.dims; ++d) vectors &= plan.gone.stride[d] % kVector == 0;
  p.vectors = vectors;
  p.part = elements_per_part(p.kept.count, p.gone.count, per_block, kVector);
  if (whole) {
    const ColumnShares shares(p.kept.count, p.gone.count, kSums);
    per_block = shares.columns;
    p.part = shares.rows;
  }
  p.per_block = static_cast<int32_t>(per_block);
  const int64_t parts = ceil_div(p.gone.count, p.part);
  Pairs out{.memory = make_tensor(Shape(std::array{2 * parts * p.kept.count}), DType::F64, x.device), .finish = {}};
  p.first = reinterpret_cast<uint64_t>(out.memory.bytes());
  p.second = p.first + static_cast<uint64_t>(parts * p.kept.count) * sizeof(double);
  stream_of(x.device).launch(whole ? by_column->of(x, grad) : kernel,
                             {static_cast<uint32_t>(ceil_div(p.kept.count, per_block)), static_cast<uint32_t>(parts)},
                             {kThreads}, 0, p);
  FinishParams& f = out.finish;
  f.first = p.first;
  f.second = p.second;
  f.parts = parts;
  f.part = p.part;
  f.count = p.gone.count;
  f.results = p.kept.count;
  f.kept = p.kept;
  return out;
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
  explicit Affine(const TensorImpl& x, FinishParams& f)
      : memory(make_tensor(Shape(std::array{int64_t{4}, x.shape[1]}), compute_type(x.dtype), x.device)) {
    const uint64_t step = static_cast<uint64_t>(x.shape[1]) * size_of(memory.dtype());
    f.scale = reinterpret_cast<uint64_t>(memory.bytes());
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
}  // namespace

bool channels_in_rows(const TensorImpl& x) {
  if (x.numel == 0) return false;
  const ReducePlan plan(x, all_but_channels(x));
  return plan.gone.dims == 1 && plan.gone.stride[0] == x.shape[1] && whole_columns(plan, x, nullptr);
}

void moments(const TensorImpl& x, uint32_t reduced, double correction, bool root, const TensorImpl* variance,
             const TensorImpl* mean) {
  static const Function kernels[] = {{"moments", "moments_f32"}, {"moments", "moments_f64"}};
  static const Function last("moments", "finish_moments");
  if ((variance ? variance : mean)->numel == 0) return;
  if (x.numel == 0) {
    for (const TensorImpl* t : {variance, mean})
      if (t) fill(*t, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const ReducePlan plan(x, reduced);
  Pairs pairs = fold(kernels[wide(x)], &column_moments(), plan, {}, x, nullptr);
  FinishParams& f = pairs.finish;
  f.variance = address(variance);
  f.average = address(mean);
  f.root = root;
  f.correction = correction;
  f.variance_type = tag(variance);
  f.average_type = tag(mean);
  for (int d = 0; d < plan.kept.dims; ++d) f.out_stride[d] = plan.kept.out_stride[plan.kept.dims - 1 - d];
  finish(last, f, x.device);
}

void batch_norm(const BatchNorm& b) {
  static const Function kernels[] = {{"moments", "moments_f32"}, {"moments", "moments_f64"}};
  static const Function last[] = {{"moments", "batch_norm_f32"}, {"moments", "batch_norm_f64"}};
  const TensorImpl& x = b.x;
  if (x.numel == 0) return;
  if (!b.mean) {
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
    return apply(p, x, nullptr, b.y);
  }
  Pairs pairs = fold(kernels[wide(x)], &column_moments(), ReducePlan(x, all_but_channels(x)), {}, x, nullptr);
  FinishParams& f = pairs.finish;
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
  const Affine affine(x, f);
  finish(last[wide(x)], f, x.device);
  apply(factors_of(f), x, nullptr, b.y);
}

void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& rstd, const TensorImpl& grad_x, const TensorImpl& grad_weight,
                         const TensorImpl& grad_bias) {
  static const Function kernels[] = {{"moments", "gradient_f32"}, {"moments", "gradient_f64"}};
  static const Function last[] = {{"moments", "batch_norm_backward_f32"}, {"moments", "batch_norm_backward_f64"}};
  if (x.numel == 0) {
    fill(grad_weight, 0);
    fill(grad_bias, 0);
    return;
  }
  PairParams p{};
  p.mean = address(&mean);
  Pairs pairs = fold(kernels[wide(x)], &column_gradient(), ReducePlan(x, all_but_channels(x)), p, x, &grad);
  FinishParams& f = pairs.finish;
  f.weight = address(weight);
  f.weight_type = tag(weight);
  f.mean = address(&mean);
  f.rstd = address(&rstd);
  f.grad_weight = address(&grad_weight);
  f.grad_weight_type = tag(&grad_weight);
  f.grad_bias = address(&grad_bias);
  f.grad_bias_type = tag(&grad_bias);
  const Affine affine(x, f);
  finish(last[wide(x)], f, x.device);
  apply(factors_of(f), x, &grad, grad_x);
}

void column_grad_sums(int64_t rows, const TensorImpl& grad, const TensorImpl& x, const TensorImpl* mean,
                      const TensorImpl& rstd, const TensorImpl& grad_weight, const TensorImpl* grad_bias) {
  static const Function kernels[] = {{"moments", "gradient_f32"}, {"moments", "gradient_f64"}};
  static const Function last[] = {{"moments", "columns_f32"}, {"moments", "columns_f64"}};
  if (grad_weight.numel == 0) return;
  if (rows == 0) {
    fill(grad_weight, 0);
    if (grad_bias) fill(*grad_bias, 0);
    return;
  }
  const Tensor flat = alias(x);  // the same memory as [rows, columns]
  flat->set_shape(Shape(std::array{rows, x.numel / rows}));
  flat->set_contiguous_strides();
  PairParams p{};
  p.mean = address(mean);
  p.rstd = address(&rstd);
  Pairs pairs = fold(kernels[wide(x)], &column_row_gradient(), ReducePlan(*flat, 1), p, *flat, &grad);
  FinishParams& f = pairs.finish;
  f.grad_weight = address(&grad_weight);
  f.grad_weight_type = tag(&grad_weight);
  f.grad_bias = address(grad_bias);
  f.grad_bias_type = tag(grad_bias);
  finish(last[wide(x)], f, x.device);
}

}  // namespace strata::cuda

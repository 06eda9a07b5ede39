// Launches the kernels of cuda/kernels/reduce.cu: how many threads a result gets, and into how many parts it is cut.
#include "cuda/reduce.h"

#include <algorithm>
#include <deque>

#include "cuda/axes.h"
#include "cuda/kernels/reduce_params.h"
#include "cuda/runtime/stream.h"
#include "cuda/tensors.h"

namespace strata::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kPart = 1 << 12;  // elements of a result that one block takes at least
// Four blocks fit on a multiprocessor: these are one and two rounds of a card with 132. With so many there is no need to cut
// results; a second launch folds the parts.
constexpr int64_t kEnoughBlocks = 512, kColumnBlocks = 1024;
constexpr int64_t kColumnPart =
  kColumnGroups * kReduceRun;  // elements of a result that one block takes at most, of columns

constexpr const char* kNames[] = {"Sum", "NanSum", "CountNonzero", "SumAbs", "SumSquares", "Prod",
                                  "Max", "Min",    "MaxAbs",       "MinAbs", "Any",        "All"};
static_assert(std::size(kNames) == kFoldCount);
// How parts of results are put together: they are mapped already.
constexpr Fold kSecond[] = {Fold::Sum, Fold::Sum, Fold::Sum, Fold::Sum, Fold::Sum, Fold::Prod,
                            Fold::Max, Fold::Min, Fold::Max, Fold::Min, Fold::Max, Fold::Min};

enum class Way { Strided, Rows, Columns };

const Function& fold_kernel(Fold fold, DType compute, Way way) {
  static const std::deque<Function>& all = *[] {
    auto* list = new std::deque<Function>;
    for (const char* name : kNames)
      for (const char* type : {"_f32", "_f64", "_i64"})
        for (const char* kind : {"", "Rows", "Columns"}) list->emplace_back("reduce", std::string(name) + kind + type);
    return list;
  }();
  return all[(static_cast<size_t>(fold) * 3 + kernel_index(compute)) * 3 + static_cast<size_t>(way)];
}

}  // namespace

bool by_columns(const ReducePlan& plan) {
  if (plan.kept.dims == 0) return false;
  if (plan.gone.dims == 0) return true;
  const int64_t kept = std::abs(plan.kept.stride[plan.kept.dims - 1]),
                gone = std::abs(plan.gone.stride[plan.gone.dims - 1]);
  return plan.gone.count <= 1 || (kept != 0 && kept < gone) || gone == 0;
}

// Rows: as many threads for a result as have work; columns: a warp's worth of neighbours.
int64_t results_per_block(bool columns, int64_t kept, int64_t gone) {
  if (columns) {
    int64_t n = std::min<int64_t>(kThreads, std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(kept, 1))));
    while (n > 32 && gone >= 8 * (kThreads / n)) n /= 2;
    return n;
  }
  int64_t threads = 1;
  while (threads < kThreads && threads * 4 < gone) threads *= 2;
  return kThreads / threads;
}

int64_t elements_per_part(int64_t kept, int64_t gone, int64_t per_block, int64_t step) {
  const int64_t blocks = ceil_div(kept, per_block), share = std::max<int64_t>(kPart / per_block, 1);
  const int64_t parts = std::clamp<int64_t>(gone / share, 1, std::max<int64_t>(1, kEnoughBlocks / blocks));
  return ceil_div(ceil_div(gone, parts), step) * step;
}

void reduce(Fold fold, const TensorImpl& x, uint32_t reduced, DType cast, const TensorImpl& out, Finish finish) {
  if (out.numel == 0) return;
  const DType compute = compute_type(cast);
  ReducePlan plan(x, reduced);
  if (x.numel == 0) plan.gone = {}, plan.gone.add(0, 1), plan.kept = {}, plan.kept.add(out.numel, 0, 1);
  ReduceParams p{};
  p.x = reinterpret_cast<uint64_t>(x.data), p.out = reinterpret_cast<uint64_t>(out.data);
  p.x_type = static_cast<int32_t>(x.dtype), p.out_type = static_cast<int32_t>(out.dtype);
  p.divide = finish.divide, p.root = finish.root;
  p.kept = axes_params(plan.kept, plan.kept.stride, "reduction");
  p.gone = axes_params(plan.gone, plan.gone.stride, "reduction");
  for (int d = 0; d < plan.kept.dims; ++d) p.out_stride[d] = plan.kept.out_stride[plan.kept.dims - 1 - d];
  const bool columns = by_columns(plan);
  int64_t per_block = results_per_block(columns, p.kept.count, p.gone.count);
  p.columns = columns, p.per_block = static_cast<int32_t>(per_block);
  constexpr int64_t vector = 8;
  const int inner = plan.gone.dims - 1;
  const bool aligned = p.x % 16 == 0 && (compute != DType::F32 || x.dtype == DType::F32 || x.dtype == DType::F16 ||
                                         x.dtype == DType::BF16);
  const auto whole = [&](int64_t n) { return n % vector == 0; };
  bool rows = !columns && aligned && inner >= 0 && plan.gone.stride[inner] == 1 &&
              (inner == 0 || (whole(plan.gone.size[inner]) && plan.gone.count <= INT32_MAX));
  for (int d = 0; d < plan.kept.dims; ++d) rows &= whole(plan.kept.stride[d]);
  for (int d = 0; d < inner; ++d) rows &= whole(plan.gone.stride[d]);
  const bool wide_columns = columns && aligned && plan.kept.dims == 1 && plan.kept.stride[0] == 1 &&
                            whole(p.kept.count) && plan.gone.dims == 1 && whole(plan.gone.stride[0]) &&
                            p.kept.count >= 64 && p.gone.count >= 128;
  if (wide_columns) per_block = kColumnResults;
  const Way way = wide_columns ? Way::Columns : rows ? Way::Rows : Way::Strided;

  const int64_t blocks = ceil_div(p.kept.count, per_block);
  p.part = wide_columns
             ? std::clamp<int64_t>(ceil_div(p.gone.count * blocks, kColumnBlocks), kColumnPart / 4, kColumnPart)
             : elements_per_part(p.kept.count, p.gone.count, per_block, vector);
  const int64_t parts = std::max<int64_t>(1, ceil_div(p.gone.count, std::max<int64_t>(p.part, 1)));
  const Stream stream = stream_of(out.device);
  const Grid grid{static_cast<uint32_t>(blocks), static_cast<uint32_t>(parts)};
  if (parts == 1) return stream.launch(fold_kernel(fold, compute, way), grid, {kThreads}, 0, p);

  const DType wide = compute == DType::I64 ? DType::I64 : DType::F64;
  const Tensor partial = make_tensor(Shape(std::array{parts, out.numel}), wide, out.device);
  p.partial = reinterpret_cast<uint64_t>(partial.bytes());
  stream.launch(fold_kernel(fold, compute, way), grid, {kThreads}, 0, p);
  reduce(kSecond[static_cast<int>(fold)], *partial, 1, wide, out, finish);
}

void arg_reduce(bool largest, const TensorImpl& x, int dim, const TensorImpl* values, const TensorImpl& indices) {
  static const Function kernels[2][3] = {
    {{"reduce", "ArgMin_f32"}, {"reduce", "ArgMin_f64"}, {"reduce", "ArgMin_i64"}},
    {{"reduce", "ArgMax_f32"}, {"reduce", "ArgMax_f64"}, {"reduce", "ArgMax_i64"}}};
  const ReducePlan plan(x, 1u << dim);
  ArgReduceParams p{};
  p.x = reinterpret_cast<uint64_t>(x.data), p.places = reinterpret_cast<uint64_t>(indices.data);
  p.values = values ? reinterpret_cast<uint64_t>(values->data) : 0;
  p.x_type = static_cast<int32_t>(x.dtype), p.count = x.shape[dim], p.stride = x.strides[dim];
  p.kept = axes_params(plan.kept, plan.kept.stride, "arg reduction");
  for (int d = 0; d < plan.kept.dims; ++d) p.out_stride[d] = plan.kept.out_stride[plan.kept.dims - 1 - d];
  const bool columns = by_columns(plan);
  const int64_t per_block = results_per_block(columns, p.kept.count, p.count);
  p.columns = columns, p.per_block = static_cast<int32_t>(per_block);
  const Grid grid{static_cast<uint32_t>(ceil_div(p.kept.count, per_block))};
  stream_of(indices.device).launch(kernels[largest][kernel_index(x.dtype)], grid, {kThreads}, 0, p);
}

}  // namespace strata::cuda

// Launches the kernels of cuda/reduce/reduce.cu and arg.cu; chooses the threads per result and the number of parts.
#include "cuda/reduce/reduce.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/reduce/reduce_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kReduceThreads = 256;
constexpr int64_t kPart = 1 << 12;  // minimum elements of a result per block
// Four blocks fit on a multiprocessor: these are one and two waves of a GPU with 132. With this many blocks, results
// need not be split; otherwise a second launch reduces the parts.
constexpr int64_t kEnoughBlocks = 512, kColumnBlocks = 1024;
constexpr int64_t kColumnPart = kColumnGroups * kReduceRun;  // for columns: maximum elements of a result per block

constexpr const char* kNames[] = {"Sum", "NanSum", "CountNonzero", "SumAbs", "SumSquares", "Prod",
                                  "Max", "Min",    "MaxAbs",       "MinAbs", "Any",        "All"};
static_assert(std::size(kNames) == kFoldCount);
// How parts of results are combined: the map was already applied.
constexpr Fold kSecond[] = {Fold::Sum, Fold::Sum, Fold::Sum, Fold::Sum, Fold::Sum, Fold::Prod,
                            Fold::Max, Fold::Min, Fold::Max, Fold::Min, Fold::Max, Fold::Min};

const Function& fold_kernel(Fold fold, DType compute, ReduceMethod method) {
  if (fold == Fold::NanSum && kernel_index(compute) == 2) fold = Fold::Sum;  // integers have no NaN
  static const std::deque<Function>& all = *[] {
    auto* list = new std::deque<Function>;
    for (const char* name : kNames)
      for (const char* type : {"_f32", "_f64", "_i64"})
        for (const char* kind : {"Columns", "Rows", ""}) list->emplace_back("reduce", std::string(name) + kind + type);
    return list;
  }();
  return all[(static_cast<size_t>(fold) * 3 + kernel_index(compute)) * 3 + static_cast<size_t>(method)];
}

constexpr int kArgParts = 3;  // the kernel that compares parts of results, after those of the methods
const Function& arg_kernel(bool largest, DType compute, int stage) {
  static const std::deque<Function>& all = *[] {
    auto* list = new std::deque<Function>;
    for (const char* name : {"Min", "Max"})
      for (const char* type : {"_f32", "_f64", "_i64"})
        for (const char* kind : {"Columns", "Rows", "", "Parts"})
          list->emplace_back("arg", std::string(name) + kind + type);
    return list;
  }();
  return all[((largest ? 3 : 0) + kernel_index(compute)) * 4 + static_cast<size_t>(stage)];
}
}  // namespace

bool by_columns(const ReducePlan& plan) {
  if (plan.kept.dims == 0) return false;
  if (plan.gone.dims == 0) return true;
  const int64_t kept = std::abs(plan.kept.stride[plan.kept.dims - 1]),
                gone = std::abs(plan.gone.stride[plan.gone.dims - 1]);
  return plan.gone.count <= 1 || (kept != 0 && kept < gone) || gone == 0;
}

// Rows: as many threads per result as have work, and no more than have four vectors each if the results alone keep the GPU
// busy; columns: a warp's worth of neighbours.
int64_t results_per_block(bool columns, int64_t kept, int64_t gone) {
  if (columns) {
    int64_t n = std::min<int64_t>(kReduceThreads, std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(kept, 1))));
    while (n > 32 && gone >= 8 * (kReduceThreads / n)) n /= 2;
    return n;
  }
  constexpr int64_t kEnoughThreads = 1 << 18, kFourVectors = 32;
  int64_t threads = 1;
  while (threads < kReduceThreads && threads * 4 < gone &&
         (threads * kFourVectors < gone || kept * threads < kEnoughThreads))
    threads *= 2;
  return kReduceThreads / threads;
}

int64_t elements_per_part(int64_t kept, int64_t gone, int64_t per_block, int64_t step) {
  const int64_t blocks = ceil_div(kept, per_block), share = std::max<int64_t>(kPart / per_block, 1);
  const int64_t parts = std::clamp<int64_t>(gone / share, 1, std::max<int64_t>(1, kEnoughBlocks / blocks));
  return ceil_div(ceil_div(gone, parts), step) * step;
}

namespace {

// One launch of a reduction, without addresses.
struct Stage {
  ReduceParams params;
  DType compute;
  ReduceMethod method;
  int64_t blocks, parts;
};

Stage stage_of(const Reduction& r) {
  Stage s{};
  s.compute = compute_type(r.cast);
  s.method = ReduceMethod::Strided;
  s.parts = 1;
  if (r.out.numel == 0) return s;  // nothing to launch
  ReducePlan plan(r.x, r.reduced);
  if (r.x.numel == 0) {  // each result is an empty reduction
    plan.gone = {};
    plan.gone.add(0, 1);
    plan.kept = {};
    plan.kept.add(r.out.numel, 0, 1);
  }
  ReduceParams& p = s.params;
  p.divide = r.finish.divide;
  p.root = r.finish.root;
  p.kept = axes_params(plan.kept, plan.kept.stride, "reduction");
  p.gone = axes_params(plan.gone, plan.gone.stride, "reduction");
  for (int d = 0; d < plan.kept.dims; ++d) p.out_stride[d] = plan.kept.out_stride[plan.kept.dims - 1 - d];
  const bool columns = by_columns(plan);
  int64_t per_block = results_per_block(columns, p.kept.count, p.gone.count);
  p.columns = columns;
  p.per_block = static_cast<int32_t>(per_block);
  constexpr int64_t vector = 8;
  const int inner = plan.gone.dims - 1;
  const bool aligned = address(r.x) % 16 == 0 && (s.compute != DType::F32 || reads_in_pieces(r.x.dtype, false));
  const auto whole = [&](int64_t n) { return n % vector == 0; };
  bool rows = !columns && aligned && inner >= 0 && plan.gone.stride[inner] == 1 &&
              (inner == 0 || (whole(plan.gone.size[inner]) && plan.gone.count <= INT32_MAX));
  for (int d = 0; d < plan.kept.dims; ++d) rows &= whole(plan.kept.stride[d]);
  for (int d = 0; d < inner; ++d) rows &= whole(plan.gone.stride[d]);
  const bool wide_columns = columns && aligned && plan.kept.dims == 1 && plan.kept.stride[0] == 1 &&
                            whole(p.kept.count) && plan.gone.dims == 1 && whole(plan.gone.stride[0]) &&
                            p.kept.count >= 64 && p.gone.count >= 128;
  if (wide_columns) per_block = kColumnResults;
  // Products of bytes need 64 bits.
  p.bytes = rows && inner == 0 && s.compute == DType::I64 && size_of(r.x.dtype) == 1 && r.fold != Fold::Prod;
  for (int d = 0; d < plan.kept.dims; ++d) p.bytes &= plan.kept.stride[d] % 16 == 0;
  s.method = wide_columns ? ReduceMethod::Columns : rows ? ReduceMethod::Rows : ReduceMethod::Strided;
  s.blocks = ceil_div(p.kept.count, per_block);
  p.part = wide_columns
             ? std::clamp<int64_t>(ceil_div(p.gone.count * s.blocks, kColumnBlocks), kColumnPart / 4, kColumnPart)
             : elements_per_part(p.kept.count, p.gone.count, per_block, vector);
  s.parts = std::max<int64_t>(1, ceil_div(p.gone.count, std::max<int64_t>(p.part, 1)));
  return s;
}

// Parts of results are wide numbers, [part, result]; the next stage reduces them.
DType wide_type(DType compute) { return compute == DType::I64 ? DType::I64 : DType::F64; }
Reduction next_stage(const Reduction& r, const TensorImpl& partial) {
  return {kSecond[static_cast<int>(r.fold)], partial, 1, partial.dtype, r.out, r.finish};
}

void run_stages(const Reduction& r, Stage s, Workspace& workspace) {
  s.params.x = address(r.x);
  s.params.x_type = tag(r.x);
  s.params.out = address(r.out);
  s.params.out_type = tag(r.out);
  Tensor partial;
  if (s.parts > 1) {
    partial = workspace.take(Shape(std::array{s.parts, r.out.numel}), wide_type(s.compute));
    s.params.partial = address(*partial);
  }
  const Grid grid{static_cast<uint32_t>(s.blocks), static_cast<uint32_t>(s.parts)};
  if (!workspace.planning())
    stream_of(r.out.device).launch(fold_kernel(r.fold, s.compute, s.method), grid, {kReduceThreads}, 0, s.params);
  if (s.parts == 1) return;
  const Reduction next = next_stage(r, *partial);
  run_stages(next, stage_of(next), workspace);
}
}  // namespace

const char* plan_reduce(const Reduction& r, ReduceMethod method, Plan& plan) {
  const Stage first = stage_of(r);
  if (first.method != method)
    return method == ReduceMethod::Columns ? "too few adjacent columns" : "its rows are not in 16-byte pieces";
  Workspace workspace(plan);
  if (r.out.numel > 0) run_stages(r, first, workspace);
  if (first.parts > 1) plan.variant = "in parts";
  plan.keep(first);
  return nullptr;
}

void run_reduce(const Reduction& r, const Call& c, const Plan& plan) {
  if (r.out.numel == 0) return;
  Workspace workspace(c);
  run_stages(r, plan.get<Stage>(), workspace);
}

std::optional<RowOp> reduce_in_group(const Reduction& r) {
  // Functors of cuda/reduce/folds.cuh, for floats.
  static constexpr const char* kFunctors[] = {
    "cuda::Plus, cuda::Same",       "cuda::Plus, cuda::NanToZero", nullptr,
    "cuda::Plus, cuda::Absolute",   "cuda::Plus, cuda::Squared",   "cuda::Times, cuda::Same",
    "cuda::Larger, cuda::Same",     "cuda::Smaller, cuda::Same",   "cuda::Larger, cuda::Absolute",
    "cuda::Smaller, cuda::Absolute"};
  const auto fold = static_cast<size_t>(r.fold);
  if (fold >= std::size(kFunctors) || !kFunctors[fold]) return {};
  if (r.x.numel == 0 || !r.x.contiguous || compute_type(r.cast) != DType::F32 || !reads_in_pieces(r.x.dtype, false) ||
      !reads_in_pieces(r.out.dtype, false))
    return {};
  const Stage s = stage_of(r);
  const AxesParams &kept = s.params.kept, &gone = s.params.gone;
  // The dimensions behind the others; then the rows of x are those of a group.
  if (s.method != ReduceMethod::Rows || s.parts != 1 || gone.dims != 1 || kept.dims != 1 || gone.count % 8 != 0 ||
      kept.stride[0] != gone.count)
    return {};
  const int64_t threads = kReduceThreads / s.params.per_block, flight = r.x.dtype == DType::F32 ? 4 : 8;
  if (gone.count > threads * flight * 8) return {};  // several runs per thread
  const bool any_order = r.fold == Fold::Max || r.fold == Fold::Min || r.fold == Fold::MaxAbs || r.fold == Fold::MinAbs;
  RowOp op{.compute = DType::F32, .shape = r.x.sizes(), .row = gone.count, .in = {{{}, &r.x}}};
  op.out[0] = {RowExtent::Rows};
  op.gpu =
    std::make_shared<GpuRows>(GpuRows{.header = "cuda/reduce/folds.cuh",
                                      .functor = std::string("RowFold<") + kFunctors[fold] + ">",
                                      .threads = any_order ? 0 : threads,
                                      .words = {std::bit_cast<uint64_t>(r.finish.divide), uint64_t{r.finish.root}}});
  return op;
}

void reduce(Fold fold, const TensorImpl& x, DimMask reduced, DType cast, const TensorImpl& out, Finish finish,
            Workspace& workspace) {
  if (out.numel == 0) return;
  const Reduction r{fold, x, reduced, cast, out, finish};
  run_stages(r, stage_of(r), workspace);
}

void arg_reduce(bool largest, const TensorImpl& x, int dim, const TensorImpl* values, const TensorImpl& indices,
                Workspace& workspace) {
  const Stage s = stage_of({largest ? Fold::Max : Fold::Min, x, dim_bit(dim), x.dtype, indices, {}});
  ArgReduceParams p{};
  p.of = s.params;
  p.of.x = address(x);
  p.of.x_type = tag(x);
  p.values = address(values);
  p.places = address(indices);
  p.parts = s.parts;
  Tensor part_values, part_places;
  if (s.parts > 1) {
    const int64_t shape[] = {s.parts, indices.numel};
    part_values = workspace.take(shape, s.compute);
    part_places = workspace.take(shape, DType::I64);
    p.part_values = address(*part_values);
    p.part_places = address(*part_places);
  }
  constexpr int64_t kFewResults = 1024;  // one thread each would leave the device idle
  p.lanes = indices.numel <= kFewResults ? kReduceThreads : 1;
  if (workspace.planning()) return;
  const Stream stream = stream_of(indices.device);
  const Grid grid{static_cast<uint32_t>(s.blocks), static_cast<uint32_t>(s.parts)};
  stream.launch(arg_kernel(largest, s.compute, static_cast<int>(s.method)), grid, {kReduceThreads}, 0, p);
  if (s.parts > 1)
    stream.launch(arg_kernel(largest, s.compute, kArgParts), {blocks_for(indices.numel * p.lanes, kReduceThreads)},
                  {kReduceThreads}, 0, p);
}

}  // namespace strata::cuda

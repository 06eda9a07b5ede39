// Launches the kernels of cuda/order/sort.cu, select.cu and search.cu.
#include "cuda/order/sort.h"

#include <algorithm>
#include <array>
#include <bit>

#include "cuda/common/axes.h"
#include "cuda/movement/dense.h"
#include "cuda/order/radix.h"
#include "cuda/order/sort_params.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kSortThreads = 256;

using Kernels = Function[2];  // for 32-bit and 64-bit keys

SortParams plan(const TensorImpl& x, int dim, bool descending, int64_t keep, const TensorImpl* values,
                const TensorImpl* indices) {
  const Split s(x, dim);
  STRATA_CHECK(x.numel <= INT32_MAX, NotImplemented,
               "sort: {} elements are more than the device kernels sort at once; at most {} are supported", x.numel,
               INT32_MAX);
  SortParams p{};
  p.x = address(x);
  p.type = tag(x);
  p.flip = descending;
  p.lines = s.lines();
  p.n = s.n;
  p.inner = s.inner;
  p.keep = keep;
  p.values = values ? address(*values) : 0;
  p.indices = indices ? address(*indices) : 0;
  p.padded = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(s.n, kSortBlock))));
  p.log_padded = std::countr_zero(static_cast<uint32_t>(p.padded));
  return p;
}

// [outer][n][inner] in memory, as a tensor [outer][inner][n].
Tensor lines_last(const TensorImpl& t, int64_t outer, int64_t n, int64_t inner) {
  Tensor view = alias(t);
  const int64_t shape[] = {outer, inner, n}, strides[] = {n * inner, 1, inner};
  view->ndim = 3;
  std::copy_n(shape, 3, view->shape);
  std::copy_n(strides, 3, view->strides);
  view->update_contiguous();
  return view;
}

// The first `keep` of each line by radix sort, which takes contiguous lines.
void sort_radix(const TensorImpl& x, const Split& s, bool descending, int64_t keep, const TensorImpl* values,
                const TensorImpl* indices, Workspace& workspace) {
  RadixSort sort{s.lines(), s.n, keep};
  sort.descending = descending;
  if (s.inner == 1) return radix_sort(sort, x, values, indices, workspace);
  const auto view = [&](const TensorImpl* t) { return t ? lines_last(*t, s.outer, keep, s.inner) : Tensor(); };
  const Tensor from = dense(*lines_last(x, s.outer, s.n, s.inner), workspace), to = view(values), at = view(indices);
  std::optional<DenseOut> sorted, places;
  if (values) sorted.emplace(*to, workspace);
  if (indices) places.emplace(*at, workspace);
  radix_sort(sort, *from, sorted ? &**sorted : nullptr, places ? &**places : nullptr, workspace);
  if (sorted) sorted->finish();
  if (places) places->finish();
}

// The first `keep` of each line; all tensors are contiguous.
void sort_dense(SortMethod method, const TensorImpl& x, int dim, bool descending, int64_t keep,
                const TensorImpl* values, const TensorImpl* indices, Workspace& workspace) {
  static const Kernels lines = {{"sort", "sort_lines_u32"}, {"sort", "sort_lines_u64"}};
  if (x.numel == 0 || keep == 0) return;
  const SortParams p = plan(x, dim, descending, keep, values, indices);
  if (method != SortMethod::Lines) return sort_radix(x, Split(x, dim), descending, keep, values, indices, workspace);
  if (workspace.planning()) return;
  const int64_t per_block = kSortBlock >> p.log_padded;
  stream_of(x.device).launch(lines[size_of(x.dtype) == 8], {blocks_for(p.lines, per_block)}, {kSortThreads}, 0, p);
}

void select(const TensorImpl& x, const Split& s, SelectParams p, const TensorImpl& values, const TensorImpl& indices,
            const Workspace& workspace) {
  static const Function kernels[] = {
    {"select", "select_u8"}, {"select", "select_u16"}, {"select", "select_u32"}, {"select", "select_u64"}};
  if (s.lines() == 0 || workspace.planning()) return;
  p.x = address(x);
  p.type = tag(x);
  p.values = address(values);
  p.indices = address(indices);
  p.n = s.n;
  p.inner = s.inner;
  p.chunks = std::max<int64_t>(p.chunks, 1);
  p.padded = static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(p.one ? 1 : p.k + 1)));
  stream_of(x.device).launch(kernels[std::countr_zero(size_of(x.dtype))], {static_cast<uint32_t>(s.lines() * p.chunks)},
                             {kSortThreads}, 0, p);
}

// The number of chunks that occupy the device if there are few lines; a chunk keeps a small part of its elements.
int64_t chunks_of(const Split& s, int64_t k) {
  constexpr int64_t kBlocks = 1024, kShortest = 2 * kSortBlock;
  return std::clamp<int64_t>(kBlocks / s.lines(), 1, std::max<int64_t>(s.n / std::max(kShortest, 4 * k), 1));
}

// The first k of each line: of each chunk of a line first, then of those. Equal elements stay in order, since chunks are.
void select_top(const TensorImpl& x, const Split& s, bool largest, int64_t k, const TensorImpl& values,
                const TensorImpl& indices, Workspace& workspace) {
  SelectParams p{};
  p.flip = largest;
  p.k = k - 1;
  const int64_t chunks = s.lines() > 0 ? chunks_of(s, k) : 1;
  if (chunks == 1) return select(x, s, p, values, indices, workspace);
  if (s.inner > 1) {
    const Tensor from = dense(*lines_last(x, s.outer, s.n, s.inner), workspace),
                 to = lines_last(values, s.outer, k, s.inner), at = lines_last(indices, s.outer, k, s.inner);
    const DenseOut sorted(*to, workspace), places(*at, workspace);
    select_top(*from, Split(*from, 2), largest, k, *sorted, *places, workspace);
    sorted.finish();
    return places.finish();
  }
  const Tensor best = workspace.take(s.lines() * chunks * k, x.dtype), at = workspace.take(best.numel(), DType::I64);
  p.chunks = chunks;
  select(x, s, p, *best, *at, workspace);
  p.chunks = 1;
  p.origin = address(*at);
  Split of_chunks = s;
  of_chunks.n = chunks * k;
  select(*best, of_chunks, p, values, indices, workspace);
}
}  // namespace

const char* sort_objection(SortMethod method, int64_t n, int64_t lines, int64_t keep, bool top) {
  constexpr int64_t kLong = 1 << 17, kSomeLines = 16;
  if (method == SortMethod::Radix) return nullptr;
  if (method == SortMethod::Lines) return n <= kSortBlock ? nullptr : "a line is longer than a block sorts";
  if (n <= kSortBlock) return "a block sorts whole lines";
  if (keep > kSortBlock) return "more elements are wanted than a block sorts";
  if (n > INT32_MAX) return "a line is longer than a block counts";
  if (top) return nullptr;
  // A few long lines would leave most of the device idle.
  return n <= kLong || lines >= kSomeLines ? nullptr : "the lines are few and long";
}

void sort(SortMethod method, const TensorImpl& x, int dim, bool descending, const TensorImpl* values,
          const TensorImpl* indices, Workspace& workspace) {
  const Tensor from = dense(x, workspace);
  std::optional<DenseOut> to, at;
  if (values) to.emplace(*values, workspace);
  if (indices) at.emplace(*indices, workspace);
  sort_dense(method, *from, dim, descending, Split(x, dim).n, to ? &**to : nullptr, at ? &**at : nullptr, workspace);
  if (to) to->finish();
  if (at) at->finish();
}

void topk(SortMethod method, const TensorImpl& x, int64_t k, int dim, bool largest, const TensorImpl& values,
          const TensorImpl& indices, Workspace& workspace) {
  const Tensor from = dense(x, workspace);
  const DenseOut to(values, workspace), at(indices, workspace);
  if (k > 0 && method == SortMethod::Select) select_top(*from, Split(x, dim), largest, k, *to, *at, workspace);
  else sort_dense(method, *from, dim, largest, k, &*to, &*at, workspace);
  to.finish();
  at.finish();
}

void pick(SortMethod method, Pick what, const TensorImpl& x, int64_t k, int dim, const TensorImpl& values,
          const TensorImpl& indices, Workspace& workspace) {
  static const Function kernel("sort", "pick");
  // the kernel uses these values
  static_assert(static_cast<int>(Pick::Median) == 1 && static_cast<int>(Pick::Mode) == 3);
  if (x.numel == 0) return;
  const Tensor from = dense(x, workspace);
  const DenseOut to(values, workspace), at(indices, workspace);
  const Split s(x, dim);
  if (method == SortMethod::Select) {
    SelectParams p{};
    p.one = 1;
    p.what = static_cast<int32_t>(what);
    p.k = k;
    select(*from, s, p, *to, *at, workspace);
    to.finish();
    return at.finish();
  }
  const Tensor order = workspace.take(x.sizes(), DType::I64);
  sort_dense(method, *from, dim, false, s.n, nullptr, order.get(), workspace);
  if (workspace.planning()) return;
  PickParams p{};
  p.x = address(*from);
  p.type = tag(x);
  p.order = address(*order);
  p.values = address(*to);
  p.indices = address(*at);
  p.what = static_cast<int32_t>(what);
  p.lines = s.lines();
  p.n = s.n;
  p.inner = s.inner;
  p.k = k;
  stream_of(x.device).launch(kernel, {static_cast<uint32_t>(p.lines)}, {kSortThreads}, 0, p);
  to.finish();
  at.finish();
}

SortedKeys sort_keys(const Tensor& keys, int bits, const TensorImpl* payload, Workspace& workspace) {
  const int64_t n = keys.numel();
  if (n <= kSortBlock && !payload) {
    SortedKeys sorted{workspace.take(n, DType::I32), workspace.take(n, DType::I64)};
    sort_dense(SortMethod::Lines, *keys, 0, false, n, sorted.keys.get(), sorted.places.get(), workspace);
    return sorted;
  }
  SortedKeys sorted{workspace.take(n, DType::I32), workspace.take(n, DType::I32)};
  RadixSort sort{1, n, n};
  sort.bits = std::max(bits, 1);
  sort.payload = payload;
  radix_sort(sort, *keys, sorted.keys.get(), sorted.places.get(), workspace);
  return sorted;
}

SortedKeys sort_lines(const Tensor& keys, int64_t lines, Workspace& workspace) {
  const int64_t n = keys.numel();
  SortedKeys sorted{workspace.take(n, DType::I32), workspace.take(n, DType::I32)};
  radix_sort({lines, n / lines, n / lines}, *keys, sorted.keys.get(), sorted.places.get(), workspace);
  return sorted;
}

void search(const TensorImpl& rows, const TensorImpl* order, const TensorImpl& values, bool right,
            const TensorImpl& out) {
  static const Function kernels[] = {{"search", "search_f32"}, {"search", "search_f64"}, {"search", "search_i64"}};
  if (values.numel == 0) return;
  SearchParams p{};
  p.rows = address(rows);
  p.order = order ? address(*order) : 0;
  p.wanted = address(values);
  p.out = address(out);
  p.out_type = tag(out);
  p.right = right;
  p.count = values.numel;
  p.n = rows.shape[rows.ndim - 1];
  p.per_row = rows.ndim == 1 ? 0 : values.shape[values.ndim - 1];
  stream_of(out.device)
    .launch(kernels[kernel_index(rows.dtype)], {blocks_for(p.count, kSortThreads)}, {kSortThreads}, 0, p);
}

}  // namespace strata::cuda

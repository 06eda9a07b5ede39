#include "cuda/linalg/gemm_layout.h"

#include <algorithm>
#include <utility>

#include "cuda/common/tensors.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {
namespace {

// Whether the rows of a rows x columns matrix are dense. The stride of a dimension of size 1 is ignored.
bool rows_are_dense(int64_t rows, int64_t columns, int64_t row_step, int64_t column_step) {
  return (column_step == 1 || columns == 1) && (row_step >= columns || rows == 1);
}

// The leading dimension of a single row is arbitrary: choose one that counts as 16-byte aligned.
int64_t aligned_ld(int64_t columns) { return ceil_div(columns, 8) * 8; }

bool lay_out_factor(int64_t outer, int64_t k, int64_t outer_step, int64_t k_step, Factor& f) {
  if (rows_are_dense(outer, k, outer_step, k_step)) {
    f.along_k = true;
    f.ld = outer == 1 ? aligned_ld(k) : outer_step;
    return true;
  }
  if (rows_are_dense(k, outer, k_step, outer_step)) {
    f.along_k = false;
    f.ld = k == 1 ? aligned_ld(outer) : k_step;
    return true;
  }
  return false;
}

void transpose(GemmParams& p) {
  std::swap(p.m, p.n);
  std::swap(p.a_m, p.b_n);
  std::swap(p.a_k, p.b_k);
  std::swap(p.a_b, p.b_b);
  std::swap(p.c_m, p.c_n);
  std::swap(p.in_m, p.in_n);
}

Addend addend_of(const GemmParams& p, const GemmLayout& out) {
  if (out.beta == 0) return Addend::None;
  bool in_batch = false;
  for (int d = 0; d < GemmLayout::kBatchDims; ++d) in_batch |= out.in_b[d] != 0;
  if (out.beta == 1 && !in_batch && (p.in_m == 0 || p.m == 1) && (p.in_n == 1 || p.n == 1)) return Addend::Row;
  return rows_are_dense(p.m, p.n, p.in_m, p.in_n) ? Addend::Matrix : Addend::General;
}
}  // namespace

const char* lay_out(const GemmCall& g, GemmLayout& out) {
  GemmParams p = g.params;
  int64_t batches = 1;
  for (int d = 0; d < p.batch_dims; ++d) batches *= p.batch[d];
  if (p.m == 0 || p.n == 0 || batches == 0) return "the result is empty";
  if (p.k == 0) return "the sums are empty";
  const TensorImpl *a = g.a.get(), *b = g.b.get();
  // A single column is treated as a single row: the kernels are faster for few rows.
  const bool by_rows = rows_are_dense(p.m, p.n, p.c_m, p.c_n), by_columns = rows_are_dense(p.n, p.m, p.c_n, p.c_m);
  if (!by_rows && !by_columns) return "neither rows nor columns of the result are dense";
  if (!by_rows || (by_columns && p.n == 1)) {
    transpose(p);
    std::swap(a, b);
  }
  if (!lay_out_factor(p.m, p.k, p.a_m, p.a_k, out.a) || !lay_out_factor(p.n, p.k, p.b_n, p.b_k, out.b))
    return "a factor has neither dense rows nor dense columns";
  if (p.batch_dims > GemmLayout::kBatchDims) return "the batch has more than two dimensions of its own strides";
  out.m = p.m;
  out.n = p.n;
  out.k = p.k;
  out.alpha = p.alpha;
  out.beta = g.in ? p.beta : 0;
  out.c_ld = p.m == 1 ? aligned_ld(p.n) : p.c_m;
  out.in_m = p.m == 1 ? aligned_ld(p.n) : p.in_m;
  out.in_n = p.in_n;
  for (int d = 0; d < GemmLayout::kBatchDims; ++d) {
    const int from = d - (GemmLayout::kBatchDims - p.batch_dims);
    const bool there = from >= 0 && p.batch[from] > 1;
    out.batch[d] = there ? p.batch[from] : 1;
    out.a_b[d] = there ? p.a_b[from] : 0;
    out.b_b[d] = there ? p.b_b[from] : 0;
    out.c_b[d] = there ? p.c_b[from] : 0;
    out.in_b[d] = there ? p.in_b[from] : 0;
  }
  out.a.address = address(a);
  out.b.address = address(b);
  out.c = address(*g.c);
  out.in = out.beta == 0 ? 0 : address(*g.in);
  out.addend = addend_of(p, out);
  return nullptr;
}

bool fits_32_bits(const GemmLayout& l) {
  constexpr int64_t kMost = INT32_MAX / 2;
  return std::max({l.m, l.n, l.k, l.batch[0] * l.batch[1]}) <= kMost &&
         ceil_div(l.k, 8) <= kMost / std::max(l.m, l.n) && ceil_div(std::max(l.m, l.n), 8) <= kMost / l.k;
}

void copy_addend(const GemmCall& g, GemmLayout& l) {
  const GemmParams& p = g.params;
  const Tensor to = alias(*g.c), from = alias(*g.in);
  const auto describe = [&](TensorImpl& t, const int64_t* batch_strides, int64_t m_step, int64_t n_step) {
    t.reserve_dims(p.batch_dims + 2);
    t.ndim = 0;
    const auto add = [&t](int64_t size, int64_t step) {
      t.shape[t.ndim] = size;
      t.strides[t.ndim++] = step;
    };
    for (int d = 0; d < p.batch_dims; ++d) add(p.batch[d], batch_strides[d]);
    add(p.m, m_step);
    add(p.n, n_step);
    t.numel = g.c->numel;
    t.update_contiguous();
  };
  describe(*to, p.c_b, p.c_m, p.c_n);
  describe(*from, p.in_b, p.in_m, p.in_n);
  copy(*to, *from);
  l.addend = Addend::Matrix;
  l.in = l.c;
  l.in_m = l.c_ld;
  std::copy_n(l.c_b, GemmLayout::kBatchDims, l.in_b);
}

}  // namespace strata::cuda

// Weighted sums of rows of a table, and their two gradients. The three are linear in each other's operands, so each is
// the gradient of the others. They are the common part of the ops that sample images at computed places.
#include "cuda/indexing/weighted_rows.h"
#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/staging.h"
#include "strata/args/vision/weighted_rows.h"
#include "strata/ops.h"

namespace strata {
namespace {

// indices [bags, each] into rows of n values.
struct RowBags {
  int64_t bags, each, rows, n;
};

RowBags row_bags(const TensorImpl& indices, int64_t rows, int64_t n) {
  STRATA_CHECK(indices.ndim == 2 && indices.dtype == DType::I64, Runtime,
               "weighted_rows: expected a matrix of int64 indices, got {} of shape {}", name_of(indices.dtype),
               to_string(indices.sizes()));
  return {indices.shape[0], indices.shape[1], rows, n};
}
int64_t bag_grain(const RowBags& s) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, s.each * s.n)); }
int64_t row_in_range(int64_t i, int64_t rows) {
  STRATA_CHECK(i >= 0 && i < rows, Index, "row {} is out of range for a table of {} rows", i, rows);
  return i;
}

template <class T> void sum_rows(const Call& c) {
  const args::weighted_rows a(c);
  const RowBags s = row_bags(a.indices(), a.table().shape[0], a.table().shape[1]);
  const cpu::In<T> table(a.table()), weights(a.weights());
  const cpu::In<int64_t> index(a.indices());
  const cpu::Out<T> out(c.out());
  parallel_for(s.bags, bag_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* to = out + b * s.n;
      std::fill(to, to + s.n, T(0));
      for (int64_t l = b * s.each; l < (b + 1) * s.each; ++l) {
        const T* from = table + row_in_range(index[l], s.rows) * s.n;
        const T w = weights[l];
        if (w == T(0)) continue;
        for (int64_t j = 0; j < s.n; ++j) to[j] += w * from[j];
      }
    }
  });
  out.finish();
}
template <class T> void scatter_rows(const Call& c) {
  const args::weighted_rows_table a(c);
  const RowBags s = row_bags(a.indices(), a.rows(), a.grad().shape[1]);
  const cpu::In<T> grad(a.grad()), weights(a.weights());
  const cpu::In<int64_t> index(a.indices());
  const cpu::Out<T> out(c.out());
  // A thread owns a range of rows of the result and reads all indices: no two threads add to one row.
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, s.n));
  parallel_for(s.rows, grain, [&](int64_t begin, int64_t end) {
    std::fill(out + begin * s.n, out + end * s.n, T(0));
    for (int64_t l = 0; l < s.bags * s.each; ++l) {
      const int64_t row = row_in_range(index[l], s.rows);
      const T w = weights[l];
      if (row < begin || row >= end || w == T(0)) continue;
      const T* from = grad + l / s.each * s.n;
      T* to = out + row * s.n;
      for (int64_t j = 0; j < s.n; ++j) to[j] += w * from[j];
    }
  });
  out.finish();
}
template <class T> void row_products(const Call& c) {
  const args::weighted_rows_weights a(c);
  const RowBags s = row_bags(a.indices(), a.table().shape[0], a.table().shape[1]);
  const cpu::In<T> grad(a.grad()), table(a.table());
  const cpu::In<int64_t> index(a.indices());
  const cpu::Out<T> out(c.out());
  parallel_for(s.bags, bag_grain(s), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t l = b * s.each; l < (b + 1) * s.each; ++l) {
        const T *x = grad + b * s.n, *y = table + row_in_range(index[l], s.rows) * s.n;
        T sum = 0;
        for (int64_t j = 0; j < s.n; ++j) sum += x[j] * y[j];
        out[l] = sum;
      }
  });
  out.finish();
}
// The sums are [bags, n] and the weights [bags, each].
void check_bags(const RowBags& s, const TensorImpl& sums, const TensorImpl* weights) {
  STRATA_CHECK(sums.shape[0] == s.bags && sums.shape[1] == s.n, Runtime,
               "weighted_rows: a gradient of shape {} does not fit {} sums of {} columns", to_string(sums.sizes()),
               s.bags, s.n);
  STRATA_CHECK(!weights || (weights->ndim == 2 && weights->shape[0] == s.bags && weights->shape[1] == s.each), Runtime,
               "weighted_rows: weights of shape {} do not fit indices of shape [{}, {}]",
               weights ? to_string(weights->sizes()) : "", s.bags, s.each);
}
void check_table(const TensorImpl& table) {
  STRATA_CHECK(table.ndim == 2, Runtime, "weighted_rows: expected a matrix, got shape {}", to_string(table.sizes()));
}
}  // namespace

STRATA_OP(weighted_rows, "_weighted_rows(Tensor table, Tensor indices, Tensor weights) -> Tensor")
  .doc("Row b of the result is the sum over l of weights[b, l] * table[indices[b, l]].")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::weighted_rows& c) {
    check_table(c.table());
    const RowBags s = row_bags(c.indices(), c.table().shape[0], c.table().shape[1]);
    STRATA_CHECK(std::ranges::equal(c.weights().sizes(), c.indices().sizes()), Runtime,
                 "weighted_rows: weights of shape {} do not fit indices of shape {}", to_string(c.weights().sizes()),
                 to_string(c.indices().sizes()));
    const int64_t shape[] = {s.bags, s.n};
    c.out()->dtype = c.table().dtype;
    c.out()->set_shape(shape);
  })
  .kernel("rows", [](const Call& c) { cpu::dispatch_float(c.out().dtype(), [&]<class T>() { sum_rows<T>(c); }); })
  .kernel("reference", sum_rows<double>)
  .cuda("rows",
        [](const args::weighted_rows& c, Workspace& workspace) {
          cuda::weighted_rows(*c.out(), c.table(), c.indices(), c.weights(), workspace);
        })
  .saves({"table", "indices", "weights"})
  .grad([](const grads::weighted_rows& c, const Tensor& g) -> Grads {
    const Tensor indices = c.indices();
    return {c.needs_table() ? _weighted_rows_table(g, indices, c.weights(), c.table().size(0)) : Tensor(), Tensor(),
            c.needs_weights() ? _weighted_rows_weights(g, c.table(), indices) : Tensor()};
  })
  .samples({"f(5,3), i5(4,2), f(4,2)"});

STRATA_OP(weighted_rows_table, "_weighted_rows_table(Tensor grad, Tensor indices, Tensor weights, int rows) -> Tensor")
  .doc("The gradient of _weighted_rows for its table.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::weighted_rows_table& c) {
    check_table(c.grad());
    check_bags(row_bags(c.indices(), c.rows(), c.grad().shape[1]), c.grad(), &c.weights());
    const int64_t shape[] = {c.rows(), c.grad().shape[1]};
    c.out()->dtype = c.grad().dtype;
    c.out()->set_shape(shape);
  })
  .kernel("rows", [](const Call& c) { cpu::dispatch_float(c.out().dtype(), [&]<class T>() { scatter_rows<T>(c); }); })
  .kernel("reference", scatter_rows<double>)
  .cuda("sorted_rows",
        [](const args::weighted_rows_table& c, Workspace& workspace) {
          cuda::weighted_rows_table(*c.out(), c.grad(), c.indices(), c.weights(), workspace);
        })
  .saves({"grad", "indices", "weights"})
  .grad([](const grads::weighted_rows_table& c, const Tensor& g) -> Grads {
    const Tensor indices = c.indices();
    return {c.needs_grad() ? _weighted_rows(g, indices, c.weights()) : Tensor(), Tensor(),
            c.needs_weights() ? _weighted_rows_weights(c.grad(), g, indices) : Tensor()};
  })
  .samples({"f(4,3), i5(4,2), f(4,2), 5"})
  .error("f(3,3), i5(4,2), f(4,2), 5", ErrorKind::Runtime, "does not fit 4 sums")
  .error("f(4,3), i5(4,2), f(4,3), 5", ErrorKind::Runtime, "do not fit indices");

STRATA_OP(weighted_rows_weights, "_weighted_rows_weights(Tensor grad, Tensor table, Tensor indices) -> Tensor")
  .doc("The gradient of _weighted_rows for its weights.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::weighted_rows_weights& c) {
    check_table(c.grad());
    check_table(c.table());
    check_bags(row_bags(c.indices(), c.table().shape[0], c.table().shape[1]), c.grad(), nullptr);
    c.out()->dtype = c.grad().dtype;
    c.out()->set_shape(c.indices().sizes());
  })
  .kernel("rows", [](const Call& c) { cpu::dispatch_float(c.out().dtype(), [&]<class T>() { row_products<T>(c); }); })
  .kernel("reference", row_products<double>)
  .cuda("warps",
        [](const args::weighted_rows_weights& c, Workspace& workspace) {
          cuda::weighted_rows_weights(*c.out(), c.grad(), c.table(), c.indices(), workspace);
        })
  .saves({"grad", "table", "indices"})
  .grad([](const grads::weighted_rows_weights& c, const Tensor& g) -> Grads {
    const Tensor indices = c.indices();
    return {c.needs_grad() ? _weighted_rows(c.table(), indices, g) : Tensor(),
            c.needs_table() ? _weighted_rows_table(c.grad(), indices, g, c.table().size(0)) : Tensor()};
  })
  .samples({"f(4,3), f(5,3), i5(4,2)"})
  .error("f(4,2), f(5,3), i5(4,2)", ErrorKind::Runtime, "does not fit 4 sums");

}  // namespace strata

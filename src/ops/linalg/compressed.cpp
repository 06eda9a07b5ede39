// Matrices in compressed rows (CSR): `starts` has the place of the first element of each row and one after the last,
// `columns` the column of each element.
//
// The product with a dense matrix and the products of listed rows are linear in each other's operands: each is made of
// the other's gradients, to any order.
#include <numeric>

#include "autograd/autograd.h"
#include "base/parallel.h"
#include "cpu/nn/rows.h"
#include "cpu/staging.h"
#include "cuda/linalg/sparse.h"
#include "strata/args/linalg/compressed.h"
#include "strata/ops.h"

namespace strata {
namespace {

void check_vector_of_indices(const char* op, const char* name, const TensorImpl& t) {
  STRATA_CHECK(t.ndim == 1 && t.dtype == DType::I64, Runtime,
               "{}: expected {} as a vector of int64, got {} of shape {}", op, name, name_of(t.dtype),
               to_string(t.sizes()));
}
int64_t sparse_row_in_range(int64_t row, int64_t rows) {
  STRATA_CHECK(row >= 0 && row < rows, Index, "index {} is out of range for a dimension of size {}", row, rows);
  return row;
}
struct ElementRange {
  int64_t begin, end;
};
ElementRange elements_of_row(const int64_t* starts, int64_t row, int64_t count) {
  const int64_t begin = starts[row], end = starts[row + 1];
  STRATA_CHECK(begin >= 0 && begin <= end && end <= count, Index,
               "row {} begins at element {} and ends at {}, which does not fit {} elements", row, begin, end, count);
  return {begin, end};
}

template <class T, bool kPlain> void compressed_product_on_host(const args::_compressed_product& c) {
  const int64_t rows = c.out().size(0), n = c.out().size(1), count = c.columns().numel;
  const cpu::In<int64_t> starts(c.starts()), columns(c.columns());
  const cpu::In<T> values(c.values()), table(c.table());
  const cpu::Out<T> out(c.out());
  for (int64_t k = 0; k < count; ++k) sparse_row_in_range(columns[k], c.table().shape[0]);
  const int64_t each = (count / std::max<int64_t>(1, rows) + 1) * std::max<int64_t>(1, n);
  parallel_for(rows, std::max<int64_t>(1, 16384 / each), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const auto [begin, end] = elements_of_row(starts, i, count);
      T* to = out + i * n;
      if constexpr (kPlain) {
        std::fill_n(to, n, T(0));
        for (int64_t k = begin; k < end; ++k)
          for (int64_t j = 0; j < n; ++j) to[j] += values[k] * table[columns[k] * n + j];
      } else {
        cpu::sum_weighted_rows(table.get(), n, columns + begin, values + begin, end - begin, to);
      }
    }
  });
  out.finish();
}
template <class T, bool kPlain> void row_products_on_host(const args::_row_products& c) {
  const int64_t n = c.a().shape[1], a_count = c.a().shape[0], b_count = c.b().shape[0];
  const cpu::In<int64_t> a_rows(c.a_rows()), b_rows(c.b_rows());
  const cpu::In<T> a(c.a()), b(c.b());
  const cpu::Out<T> out(c.out());
  parallel_for(c.out().numel(), std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const T* x = a + sparse_row_in_range(a_rows[k], a_count) * n;
      const T* y = b + sparse_row_in_range(b_rows[k], b_count) * n;
      if constexpr (kPlain) {
        out[k] = std::inner_product(x, x + n, y, T(0));
      } else {
        out[k] = cpu::row_product(x, y, n);
      }
    }
  });
  out.finish();
}

// The product of the matrix that has values[k] in row rows[k] and column columns[k], in any order, with a dense one.
Tensor product_of_coordinates(const Tensor& rows, const Tensor& columns, const Tensor& values, const Tensor& table,
                              int64_t row_count) {
  const Tensor order = argsort(rows, 0, false, true);
  const Tensor starts = _compress_indices(index_select(rows, 0, order), row_count);
  return _compressed_product(starts, index_select(columns, 0, order), index_select(values, 0, order), table);
}
}  // namespace

STRATA_OP(_compressed_product,
          "_compressed_product(Tensor starts, Tensor columns, Tensor values, Tensor table) -> Tensor")
  .doc("Row i of the result is the sum of values[k] * table[columns[k]] for k from starts[i] to starts[i + 1].")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::_compressed_product& c) {
    const TensorImpl &values = c.values(), &table = c.table();
    check_vector_of_indices("sparse product", "the starts of the rows", c.starts());
    check_vector_of_indices("sparse product", "the columns", c.columns());
    STRATA_CHECK(c.starts().numel > 0, Runtime,
                 "sparse product: the starts of the rows must have at least one element");
    STRATA_CHECK(values.ndim == 1 && values.numel == c.columns().numel && table.ndim == 2, Runtime,
                 "sparse product: expected a value for each of {} columns and a matrix, got shapes {} and {}",
                 c.columns().numel, to_string(values.sizes()), to_string(table.sizes()));
    STRATA_CHECK(values.dtype == table.dtype, Runtime, "sparse product: expected equal dtypes, got {} and {}",
                 name_of(values.dtype), name_of(table.dtype));
    const int64_t shape[] = {c.starts().numel - 1, table.shape[1]};
    c.out()->dtype = table.dtype;
    c.out()->set_shape(shape);
  })
  .kernel("rows",
          [](const args::_compressed_product& c) {
            cpu::dispatch_float(c.out().dtype(), [&]<class T>() { compressed_product_on_host<T, false>(c); });
          })
  .kernel("reference", [](const args::_compressed_product& c) { compressed_product_on_host<double, true>(c); })
  .cuda("rows",
        [](const args::_compressed_product& c, Workspace& workspace) {
          cuda::compressed_product(*c.out(), c.starts(), c.columns(), c.values(), c.table(), workspace);
        })
  .saves({"starts", "columns", "values", "table"})
  .grad([](const grads::_compressed_product& c, const Tensor& g) -> Grads {
    const Tensor columns = c.columns(), rows = _expand_indices(c.starts(), columns.size(0));
    Tensor values, table;
    if (c.needs_values()) values = _row_products(g, c.table(), rows, columns);
    if (c.needs_table()) table = product_of_coordinates(columns, rows, c.values(), g, c.table().size(0));
    return {Tensor(), Tensor(), values, table};
  })
  .samples({"t[0,2,2,4], t[0,4,2,2], f(4), f(5,3)", "t[0,5], t[0,4,2,2,1], f(5), f(5,40)", "t[0,0], t[], f(0), f(2,3)",
            "t[0], t[], f(0), f(2,3)", "t[0,1], t[0], f(1), f(1,0)"})
  .error("t[0,2], t[0,4,2], f(2), f(5,3)", ErrorKind::Runtime, "a value for each of 3 columns")
  .error("t[0,2], t[0,5], f(2), f(5,3)", ErrorKind::Index, "out of range")
  .error("t[0,3], t[0,1], f(2), f(5,3)", ErrorKind::Index, "does not fit 2 elements");

STRATA_OP(_row_products, "_row_products(Tensor a, Tensor b, Tensor a_rows, Tensor b_rows) -> Tensor")
  .doc("Element k of the result is the product of the rows a[a_rows[k]] and b[b_rows[k]].")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::_row_products& c) {
    const TensorImpl &a = c.a(), &b = c.b();
    check_vector_of_indices("sparse product", "rows", c.a_rows());
    check_vector_of_indices("sparse product", "rows", c.b_rows());
    STRATA_CHECK(a.ndim == 2 && b.ndim == 2 && a.shape[1] == b.shape[1] && a.dtype == b.dtype &&
                   c.a_rows().numel == c.b_rows().numel,
                 Runtime, "sparse product: expected matrices of equal rows and dtypes, got {} of shape {} and {} of {}",
                 name_of(a.dtype), to_string(a.sizes()), name_of(b.dtype), to_string(b.sizes()));
    c.out()->dtype = a.dtype;
    c.out()->set_shape(c.a_rows().sizes());
  })
  .kernel("rows",
          [](const args::_row_products& c) {
            cpu::dispatch_float(c.out().dtype(), [&]<class T>() { row_products_on_host<T, false>(c); });
          })
  .kernel("reference", [](const args::_row_products& c) { row_products_on_host<double, true>(c); })
  .cuda("warps",
        [](const args::_row_products& c, Workspace& workspace) {
          cuda::row_products(*c.out(), c.a(), c.b(), c.a_rows(), c.b_rows(), workspace);
        })
  .saves({"a", "b", "a_rows", "b_rows"})
  .grad([](const grads::_row_products& c, const Tensor& g) -> Grads {
    const Tensor rows = c.a_rows(), columns = c.b_rows();
    Tensor a, b;
    if (c.needs_a()) a = product_of_coordinates(rows, columns, g, c.b(), c.a().size(0));
    if (c.needs_b()) b = product_of_coordinates(columns, rows, g, c.a(), c.b().size(0));
    return {a, b, Tensor(), Tensor()};
  })
  .samples({"f(4,3), f(5,3), t[0,3,3], t[4,1,1]", "f(4,40), f(5,40), t[2,0], t[0,0]", "f(4,3), f(5,3), t[], t[]",
            "f(1,0), f(1,0), t[0], t[0]"})
  .error("f(4,2), f(5,3), t[0], t[0]", ErrorKind::Runtime, "matrices of equal rows")
  .error("f(4,3), f(5,3), t[4], t[0]", ErrorKind::Index, "out of range");

STRATA_OP(_compress_indices, "_compress_indices(Tensor input, int size) -> Tensor")
  .doc("Of ascending rows: the place of the first element of each of `size` rows, and one after the last.")
  .helper()
  .composite([](const Tensor& input, int64_t size) {
    check_vector_of_indices("compress_indices", "the rows", *input);
    STRATA_CHECK(size >= 0, Value, "compress_indices: the number of rows must not be negative, found {}", size);
    return searchsorted(input, arange(size + 1, DType::I64));
  })
  .samples({"t[0,0,2,3], 5", "t[], 2", "t[], 0"})
  .error("t[0], -1", ErrorKind::Value, "must not be negative")
  .error("f(3), 3", ErrorKind::Runtime, "a vector of int64");

STRATA_OP(_expand_indices, "_expand_indices(Tensor starts, int count) -> Tensor")
  .doc("The row of each of `count` elements, from the place of the first element of each row and one after the last.")
  .helper()
  .composite([](const Tensor& starts, int64_t count) {
    check_vector_of_indices("expand_indices", "the starts of the rows", *starts);
    STRATA_CHECK(count >= 0 && starts.size(0) > 0, Value,
                 "expand_indices: expected a count and starts with at least one element, found {} and shape {}", count,
                 to_string(starts.shape()));
    return searchsorted(narrow(starts, 0, 1, starts.size(0) - 1), arange(count, DType::I64), false, true);
  })
  .samples({"t[0,2,2,4], 4", "t[0,0], 0"})
  .error("t[0,1], -1", ErrorKind::Value, "expected a count")
  .error("t[], 1", ErrorKind::Value, "at least one element");

}  // namespace strata
